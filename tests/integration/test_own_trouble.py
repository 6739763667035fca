"""An executor that may do nothing at present: its leases cost the sessions nothing."""

from scheduler.models import Executor, Lease
from sessions_app.core.states import Status
from sessions_app.models import Session, SessionEvent
from tests import agent, factories


def _trouble(player: agent.Agent, session: Session) -> str:
    returned = {
        "session_id": str(session.pk),
        "fencing_token": player.tokens[session.pk],
        "reason": "pods is forbidden",
        "own_trouble": True,
    }
    (outcome,) = player.ask("return", {"returns": [returned]})["outcomes"]
    return str(outcome["outcome"])


def test_an_accepted_lease_goes_back_uncounted() -> None:
    player, session = agent.agent(), factories.submit(factories.project())
    assert player.lease() == [session.pk]
    player.report(session.pk, "PREPARING")
    assert _trouble(player, session) == "applied"

    session.refresh_from_db()
    assert session.status == Status.PENDING
    assert session.accepted_at is None
    assert session.lease_returns == 0
    assert session.avoid_executors == [player.executor.name]
    assert not Lease.objects.filter(session=session).exists()


def test_started_sessions_cannot_go_back() -> None:
    player, session = agent.agent(), factories.submit(factories.project())
    player.lease()
    player.report(session.pk, "PREPARING")
    player.report(session.pk, "PULLING")
    assert _trouble(player, session) == "invalid"


def test_the_executors_words_are_kept() -> None:
    player = agent.agent()
    player.lease(trouble="no rights " * 1000, limits={"max_sessions": 0})
    stored = Executor.objects.get(pk=player.executor.pk)
    assert stored.trouble.startswith("no rights")
    assert len(stored.trouble) == 1024
    player.lease()
    assert Executor.objects.get(pk=player.executor.pk).trouble == ""


def test_progress_without_a_step_is_told() -> None:
    player, session = agent.agent(), factories.submit(factories.project())
    player.lease()
    player.report(session.pk, "PREPARING")
    assert player.report(session.pk, "PREPARING", message="0/3 nodes are available") == "applied"
    session.refresh_from_db()
    assert session.status_message == "0/3 nodes are available"
    event = SessionEvent.objects.filter(session_id=session.pk).latest("seq")
    assert event.type == "session.progress"
    assert event.data["status_message"] == "0/3 nodes are available"
