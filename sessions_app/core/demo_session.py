"""The session of demonstrations: it fails twice before it succeeds."""

from typing import Any

NAME = "flaky"
FLAKY = """\
echo "attempt $((REPRISE_ATTEMPT + 1)): working on it ..."
sleep 1
if [ "$REPRISE_ATTEMPT" -lt 2 ]; then echo "the network went away" >&2; exit 75; fi
echo "done: 42"
"""
IMAGE = "busybox:1.36"
"""Executors without containers ignore it."""


def demo_body(project: str) -> dict[str, Any]:
    """Return the body that creates it in the project `domain/name`."""
    return {
        "project": project,
        "name": NAME,
        "image": IMAGE,
        "command": ["sh", "-c", FLAKY],
        "retry_policy": {"max_retries": 3, "retry_delay": 2.0, "backoff": "exponential"},
    }
