"""Tests of how people drain executors: over REST and in the admin."""

from typing import Any

import pytest

from scheduler.models import Executor
from sessions_app.models import Project, Session
from tests.agent import Agent, Api, admin, running
from tests.audit import audited_acts
from tests.factories import policy, reread, submit
from tests.integration.admin import operator, text_of, url
from tests.invariants import check_all

ONE = "executors/one/"


@pytest.fixture
def api() -> Api:
    return admin()


@pytest.fixture
def run(at: Project, played: Agent) -> Session:
    return running(played, submit(at, retry_policy=policy()))


def test_draining_over_rest(api: Api, at: Project, played: Agent, run: Session) -> None:
    running(played, submit(at, session_type="interactive"))
    waiting = submit(at)
    played.lease()
    response = api.post(f"{ONE}drain/", {"reason": "new kernel"})
    assert response.status_code == 200
    assert response.json() == {"name": "one", "asked": 1, "returned": 1, "left": 2, "kept": 1}
    shown = api.read(ONE)
    assert (shown["cordoned"], shown["cordon_reason"]) == (True, "new kernel")
    assert shown["draining_since"] is not None
    assert (reread(run).status, reread(waiting).status) == ("TERMINATING", "PENDING")
    forced = api.post(f"{ONE}drain/", {"force": True}).json()
    assert (forced["asked"], forced["kept"]) == (1, 0)
    assert check_all() == []


def test_uncordon_ends_the_drain(api: Api, at: Project, played: Agent, run: Session) -> None:
    assert api.post(f"{ONE}drain/", {"force": True}).status_code == 200
    opened = api.post(f"{ONE}uncordon/").json()
    assert (opened["cordoned"], opened["draining_since"]) == (False, None)
    played.fail(run.pk, exit_code=143, reason="Preempted")
    again = running(played, submit(at))
    api.post(f"{ONE}cordon/", {"reason": "only that"})
    executor = Executor.objects.get(name="one")
    assert (executor.draining_since, executor.drained_by, executor.drain_force) == (None, "", False)
    assert reread(again).status == "RUNNING"
    actions = audited_acts().filter(object_type="executor").order_by("pk")
    assert [each.action for each in actions] == [
        "executor.drain", "executor.uncordon", "executor.cordon",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "body", [{"reason": 7}, {"reason": "x" * 257}, {"force": "yes"}, {"hard": True}]
)
def test_bad_input_is_refused(api: Api, run: Session, body: dict[str, Any]) -> None:
    response = api.post(f"{ONE}drain/", body)
    assert response.status_code == 400
    assert set(response.json()["errors"]) == set(body)
    assert not Executor.objects.get(name="one").cordoned
    assert reread(run).status == "RUNNING"


def test_an_executor_that_is_not_there(api: Api) -> None:
    assert api.post("executors/ghost/drain/").status_code == 404


def test_the_admin_asks_first(at: Project, played: Agent, run: Session) -> None:
    running(played, submit(at, session_type="inference"))
    browser, address = operator("eve"), url("scheduler_executor")
    chosen = {"action": "drain", "_selected_action": [str(played.executor.pk)]}
    asked = browser.post(address, chosen)
    assert "one 2 1" in text_of(asked)
    assert reread(run).status == "RUNNING"
    confirmed = {**chosen, "confirmed": "yes", "reason": "new kernel"}
    done = text_of(browser.post(address, confirmed, follow=True))
    assert "one: 1 runs asked to stop, 0 leases taken back, 1 left running (never retried)" in done
    assert "draining" in done
    assert reread(run).status_message == "preempted by eve: executor one: new kernel"
