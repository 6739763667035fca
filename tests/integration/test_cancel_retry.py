"""Cancel and manual retry, over chains in every state."""

from uuid import UUID

import pytest

from interfaces.render.session_render import decision_json, decision_line, session_json
from retry.engine.decide import Mode
from retry.policies.inline import Bounds, InlinePolicy
from sessions_app.authorization import Actor
from sessions_app.core.errors import Conflict
from sessions_app.in_force.config_scope import ConfigScope
from sessions_app.models import Project, Session
from sessions_app.services.chains.dispatch import retries_dispatch
from sessions_app.services.chains.switch_holds import held_resume
from sessions_app.services.resources.retry_config import retry_defaults_put, retry_settings_put
from sessions_app.services.sessions.cancel import chain_cancel
from tests import factories
from tests.agent import agent, failed, running
from tests.audit import audited_acts
from tests.factories import decision, policy, project, reread, settle, submit, tip
from tests.invariants import check_all


def retry(session: Session) -> Session:
    return factories.retry(session, by="bob")


def switch(mode: Mode) -> None:
    retry_settings_put(ConfigScope(), mode=mode, global_max_retries=None, by="root")


def test_a_waiting_session_is_cancelled_at_once(at: Project) -> None:
    session = submit(at, retry_policy=policy())
    chain_cancel(session.pk, by="ann")
    ended = reread(session)
    assert (ended.status, ended.status_message) == ("CANCELLED", "cancelled by ann")
    assert (ended.retry_cause, decision(session).reason) == ("user_cancelled", "never_retried")
    assert check_all() == []


def test_a_lease_that_was_not_accepted_is_cancelled_at_once(at: Project) -> None:
    session, played = submit(at), agent()
    played.lease()
    chain_cancel(session.pk, by="ann")
    assert reread(session).status == "CANCELLED"
    assert played.report(session.pk, "PREPARING") == "stale"
    assert check_all() == []


def test_a_waiting_retry_is_cancelled_and_never_comes(at: Project) -> None:
    session = settle(submit(at, retry_policy=policy()))
    chain_cancel(session.pk, by="ann")
    assert (reread(session).status, reread(session).retry_state) == ("ERROR", "cancelled")
    assert retries_dispatch().claimed == 0
    assert decision(session).state == "cancelled"
    assert check_all() == []


def test_any_member_cancels_the_chain(at: Project) -> None:
    root, played = submit(at, retry_policy=policy()), agent()
    failed(played, root)
    retries_dispatch()
    child = running(played, tip(root))
    chain_cancel(child.root_id, by="ann")
    assert reread(child).status == "TERMINATING"
    assert reread(root).cancel_requested_at is not None
    played.fail(child.pk)
    assert reread(child).status == "CANCELLED"
    assert check_all() == []


def test_a_cancel_of_a_dispatched_retry_cancels_the_child(at: Project) -> None:
    root = settle(submit(at, retry_policy=policy()))
    retries_dispatch()
    chain_cancel(root.pk, by="ann")
    assert (tip(root).retry_count, tip(root).status) == (1, "CANCELLED")
    assert reread(root).retry_state == "retried"


@pytest.mark.parametrize("state", ["succeeded", "exhausted"])
def test_a_chain_that_ended_otherwise_cannot_be_cancelled(at: Project, state: str) -> None:
    session, played = submit(at), agent()
    running(played, session)
    played.succeed(session.pk) if state == "succeeded" else played.fail(session.pk)
    before = reread(session).event_seq
    with pytest.raises(Conflict, match="the chain has ended"):
        chain_cancel(session.pk, by="ann")
    assert reread(session).event_seq == before


def test_a_manual_retry_needs_no_budget(at: Project) -> None:
    session = settle(submit(at))
    child = retry(session)
    assert child.retry_counters == {"manual": 1}
    assert (child.status, child.retry_count, child.tip) == ("PENDING", 1, True)
    assert decision(session).state == "dispatched"
    assert decision(session).dispatched_by == "bob"
    entry = audited_acts().get(action="retry.dispatch")
    assert (entry.actor, entry.data["paid_by"]) == ("bob", "manual")
    assert (entry.data["attempt"], entry.data["max_attempts"]) == (2, 2)
    assert check_all() == []


def test_the_audit_log_counts_attempts_within_the_bounds(at: Project) -> None:
    session = settle(submit(at, retry_policy=policy(max_retries=5)))
    inherited = InlinePolicy()
    retry_defaults_put(ConfigScope(), policy=inherited, bounds=Bounds(max_retries=2), by="ann")
    while not retries_dispatch().dispatched:
        pass
    assert audited_acts().get(action="retry.dispatch").data["max_attempts"] == 3
    body = session_json(Session.objects.get(parent=session), Actor(user=None))
    assert body["retry_state"]["max_attempts"] == 3


def test_a_waiting_retry_that_is_brought_forward_pays_its_own_budget(at: Project) -> None:
    session = settle(submit(at, retry_policy=policy(retry_delay=3600)))
    assert retry(session).retry_counters == {"inline/failure": 1}
    assert retries_dispatch().claimed == 0
    assert check_all() == []


def test_a_manual_retry_clears_a_cancellation(at: Project) -> None:
    session = submit(at, retry_policy=policy())
    chain_cancel(session.pk, by="ann")
    child = retry(reread(session))
    assert reread(session).cancel_requested_at is None
    settle(child)
    assert retries_dispatch().dispatched == 1
    assert tip(session).retry_counters == {"manual": 1, "inline/failure": 1}
    assert check_all() == []


def test_a_manual_retry_after_a_cancelled_waiting_retry_is_manual(at: Project) -> None:
    session = settle(submit(at, retry_policy=policy()))
    assert decision(session).paid_by == "inline/failure"
    chain_cancel(session.pk, by="ann")
    child = retry(reread(session))
    assert child.retry_counters == {"manual": 1}
    stored = decision(session)
    assert (stored.paid_by, stored.used, stored.limit) == ("manual", 0, None)
    body = session_json(reread(session), Actor(user=None))
    assert body["retry_state"]["summary"] == "attempt 1"
    assert decision_line(stored) == (
        "retry after less than 1 ms: kernel_nonzero_exit (cancelled); retried by hand"
    )
    explanation = decision_json(session, stored)["explanation"]
    assert explanation[-2:] == [
        "The retry was cancelled before it came due.",
        "It was retried at once by hand, by bob, on no budget.",
    ]
    assert check_all() == []


def test_a_refusal_keeps_its_words_when_a_person_retries_it(at: Project) -> None:
    session = settle(submit(at, retry_policy=policy(max_retries=1)))
    assert retries_dispatch().dispatched == 1
    last = settle(tip(session))
    words = "attempt 2; 1 of 1 retries for failures used"
    assert session_json(reread(last), Actor(user=None))["retry_state"]["summary"] == words
    child = retry(last)
    assert child.retry_counters == {"inline/failure": 1, "manual": 1}
    stored = decision(last)
    assert (stored.reason, stored.paid_by, stored.used) == ("max_retries", "manual", 0)
    assert session_json(reread(last), Actor(user=None))["retry_state"]["summary"] == words
    assert check_all() == []


def test_the_global_limit_does_not_bind_a_manual_retry(at: Project) -> None:
    retry_settings_put(ConfigScope(), mode=Mode.ON, global_max_retries=0, by="root")
    session = settle(submit(at, retry_policy=policy()))
    assert decision(session).reason == "global_limit"
    assert retry(session).retry_count == 1


def test_only_the_newest_attempt_can_be_retried(at: Project) -> None:
    root = settle(submit(at))
    child = settle(retry(root))
    with pytest.raises(Conflict, match=str(child.pk)):
        retry(root)
    assert isinstance(retry(child).pk, UUID)


@pytest.mark.parametrize("state", ["PENDING", "RUNNING", "TERMINATED"])
def test_a_live_or_successful_attempt_cannot_be_retried(at: Project, state: str) -> None:
    session, played = submit(at), agent()
    if state != "PENDING":
        running(played, session)
    if state == "TERMINATED":
        played.succeed(session.pk)
    with pytest.raises(Conflict):
        retry(session)
    assert Session.objects.count() == 1


def test_under_paused_a_manual_retry_is_allowed_under_off_refused(at: Project) -> None:
    session = settle(submit(at))
    switch(Mode.OFF)
    with pytest.raises(Conflict, match="switched off"):
        retry(session)
    switch(Mode.PAUSED)
    assert retry(session).retry_count == 1


def test_paused_holds_at_the_decision_and_on_resumes(at: Project) -> None:
    switch(Mode.PAUSED)
    session = settle(submit(at, retry_policy=policy()))
    assert (session.retry_state, decision(session).state) == ("held", "held")
    assert (retries_dispatch().claimed, held_resume()) == (0, 0)
    switch(Mode.ON)
    assert held_resume() == 1
    assert reread(session).retry_state == "scheduled"
    assert retries_dispatch().dispatched == 1
    assert check_all() == []


@pytest.mark.parametrize("mode", [Mode.PAUSED, Mode.OFF])
def test_a_waiting_retry_is_held_at_dispatch(at: Project, mode: Mode) -> None:
    session = settle(submit(at, retry_policy=policy()))
    switch(mode)
    result = retries_dispatch()
    assert (result.claimed, result.dispatched, result.held) == (1, 0, 1)
    assert reread(session).retry_state == "held"
    assert retries_dispatch().claimed == 0
    switch(Mode.ON)
    assert held_resume() == 1
    assert retries_dispatch().dispatched == 1
    assert check_all() == []


def test_off_makes_new_failures_final(at: Project) -> None:
    switch(Mode.OFF)
    session = settle(submit(at, retry_policy=policy()))
    assert (session.retry_state, decision(session).reason) == ("not_retried", "retries_disabled")
    switch(Mode.ON)
    assert held_resume() == 0
    assert retries_dispatch().claimed == 0


def test_a_held_retry_can_be_cancelled(at: Project) -> None:
    switch(Mode.PAUSED)
    session = settle(submit(at, retry_policy=policy()))
    chain_cancel(session.pk, by="ann")
    switch(Mode.ON)
    assert held_resume() == 0
    assert reread(session).retry_state == "cancelled"
    assert check_all() == []


@pytest.mark.parametrize("level", ["cluster", "domain", "project"])
def test_the_strictest_switch_holds(at: Project, level: str) -> None:
    scopes = {
        "cluster": ConfigScope(),
        "domain": ConfigScope(domain=at.domain),
        "project": ConfigScope(project=at),
    }
    for name, scope in scopes.items():
        mode = Mode.OFF if name == level else Mode.PAUSED
        retry_settings_put(scope, mode=mode, global_max_retries=None, by="root")
    assert decision(settle(submit(at, retry_policy=policy()))).reason == "retries_disabled"
    other = project(domain="elsewhere")
    elsewhere = settle(submit(other, retry_policy=policy()))
    assert elsewhere.retry_state == ("not_retried" if level == "cluster" else "held")


def test_one_switched_off_project_does_not_stand_in_the_way(at: Project) -> None:
    off = project()
    for _ in range(5):
        settle(submit(off, retry_policy=policy()))
    other = settle(submit(at, retry_policy=policy()))
    scope = ConfigScope(project=off)
    retry_settings_put(scope, mode=Mode.OFF, global_max_retries=None, by="root")
    assert [retries_dispatch(2).claimed for _ in range(4)] == [2, 2, 2, 0]
    assert tip(other).retry_count == 1
    assert held_resume(3) == 0
