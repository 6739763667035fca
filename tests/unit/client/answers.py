"""Realistic answers with defaults: a chain of four attempts at most."""

from datetime import UTC, datetime, timedelta
from typing import Any

from tests.unit.client.server import Reply

IDS = [f"0197a3b0-1c00-7000-8000-00000000000{number}" for number in range(4)]
START = datetime(2026, 3, 2, 14, 0, tzinfo=UTC)


def retry_state(attempt: int, **more: Any) -> dict[str, Any]:
    return {
        "state": "none",
        "attempt": attempt,
        "max_attempts": 4,
        "summary": f"attempt {attempt + 1}; {attempt} of 3 retries for failures used",
        "due_at": None,
        "next_session_id": None,
        "reason": None,
        "rule": None,
        "budgets": [{"name": "inline/failure", "used": attempt, "limit": 3}],
        **more,
    }


def session(status: str = "RUNNING", *, attempt: int = 0, **more: Any) -> dict[str, Any]:
    """A session as the server shows it; `more` replaces fields, `retry_state` merges."""
    state = retry_state(attempt, **more.pop("retry_state", {}))
    return {
        "id": IDS[attempt],
        "name": "train",
        "project": "default/default",
        "queue": "batch",
        "status": status,
        "image": "busybox:1.36",
        "command": ["sh", "-c", "exit 3"],
        "resources": {"cpu": "1", "memory": "1Gi"},
        "owner": "ada",
        "created_at": START.isoformat(),
        "started_at": (START + timedelta(seconds=5)).isoformat(),
        "finished_at": (START + timedelta(seconds=65)).isoformat() if status == "ERROR" else None,
        "exit_code": None,
        "node": "node-a",
        "executor": "local",
        "retry_cause": None,
        "failure_category": None,
        "failure_signature": None,
        "status_message": None,
        "parent_session_id": IDS[attempt - 1] if attempt else None,
        "root_session_id": IDS[0],
        "retry_count": attempt,
        "max_retries": 3,
        "retry_policy": {"max_retries": 3},
        "retry_policies": [],
        "retry_chain": IDS[: attempt + 1],
        "retry_state": state,
        **more,
    }


def failed(attempt: int = 0, *, exit_code: int | None = 3, **state: Any) -> dict[str, Any]:
    return session(
        "ERROR",
        attempt=attempt,
        exit_code=exit_code,
        retry_cause="kernel_nonzero_exit",
        retry_state={"state": "scheduled", **state},
    )


def retried(attempt: int = 0) -> dict[str, Any]:
    return failed(attempt, state="retried", next_session_id=IDS[attempt + 1])


def succeeded(attempt: int = 0) -> dict[str, Any]:
    return session("TERMINATED", attempt=attempt, exit_code=0, retry_state={"state": "succeeded"})


def decision(**more: Any) -> dict[str, Any]:
    return {
        "session_id": IDS[1],
        "action": "retry",
        "reason": None,
        "cause": "kernel_nonzero_exit",
        "failure_category": None,
        "rule": None,
        "paid_by": "inline/failure",
        "used": 1,
        "limit": 3,
        "delay": 42.0,
        "due_at": "2026-03-02T14:01:47Z",
        "state": "scheduled",
        "avoid_node": "node-a",
        "trace": [{"step": "budget", "name": "inline/failure", "used": 1, "result": "retry"}],
        "explanation": ["The session exited with code 3.", "The inline policy retries that."],
        **more,
    }


def page(*items: dict[str, Any], following: str | None = None) -> dict[str, Any]:
    return {"next": following, "previous": None, "results": list(items)}


def log(content: bytes, *, offset: int = 0, cut: bool = False) -> Reply:
    headers = {"X-Reprise-Log-Offset": str(offset)}
    return Reply(content, kind="text/plain; charset=utf-8", headers=headers, cut=cut)


def policy(name: str = "ml", *, revision: int = 1, **more: Any) -> dict[str, Any]:
    """A named policy; `more` replaces parts, `status` and `metadata` merge."""
    status = {
        "revision": revision,
        "created_at": START.isoformat(),
        "created_by": "ada",
        "archived_at": None,
        "warnings": [],
        "used_by": {"queues": [], "default": False},
        **more.pop("status", {}),
    }
    return {
        "apiVersion": "reprise/v1",
        "kind": "RetryPolicy",
        "metadata": {"name": name, **more.pop("metadata", {})},
        "spec": {"rules": [{"name": "lost", "action": "Retry", "onConditions": ["Preempted"]}]},
        **more,
        "status": status,
    }


def queue(name: str = "batch", **more: Any) -> dict[str, Any]:
    return {
        "project": "research/vision",
        "name": name,
        "is_default": False,
        "priority_factor": 1.0,
        "resource_limits": {},
        "time_limits": {},
        "retry_policies": [],
        "cordoned": False,
        "cordon_reason": "",
        "created_at": START.isoformat(),
        **more,
    }


def category(name: str = "cuda_error", **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "position": 10,
        "matchers": [{"onTerminationMessage": {"pattern": "CUDA error"}}],
        "created_at": START.isoformat(),
        "updated_at": START.isoformat(),
        **more,
    }
