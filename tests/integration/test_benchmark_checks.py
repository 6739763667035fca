"""A benchmark prints no figure of a run whose records are not whole."""

from collections.abc import Callable

import pytest

from benchmarks.checks import require_whole
from sessions_app.models import AutomaticDispatch, Project, RetryTrace, Session, SessionEvent
from sessions_app.services.chains.dispatch import retries_dispatch
from sessions_app.webhooks.endpoints import webhook_create, webhook_ping
from tests import factories
from tests.agent import agent

pytestmark = pytest.mark.django_db


@pytest.fixture
def place() -> Project:
    """A project with a chain that failed once, as the load of benchmarks does, then succeeded."""
    made = factories.project("bench")
    factories.submit(made, retry_policy=factories.policy())
    player = agent()
    (first,) = player.lease()
    player.send(player.reporting(first, "PREPARING"))
    player.fail(first)
    while not retries_dispatch().dispatched:
        pass
    (second,) = player.lease()
    player.send(player.reporting(second, "PREPARING"))
    player.succeed(second)
    return made


def lose_trace(_place: Project) -> None:
    RetryTrace.objects.all().delete()


def empty_trace(_place: Project) -> None:
    RetryTrace.objects.update(steps=[])


def lose_audit(_place: Project) -> None:
    AutomaticDispatch.objects.all().delete()


def repeat_event(_place: Project) -> None:
    event = SessionEvent.objects.filter(type="session.preparing").latest("pk")
    event.pk, event.seq = None, event.seq + 10
    event.save()


def change_row(_place: Project) -> None:
    Session.objects.filter(status="TERMINATED").update(node="elsewhere")


def leave_delivery(place: Project) -> None:
    hook = webhook_create(
        project=place, url="https://example.com/", event_types=[], description="", by="root"
    )
    webhook_ping(hook)


def add_session(place: Project) -> None:
    factories.submit(place)


WRONG = {
    lose_trace: "decisions with a trace",
    empty_trace: "decisions with a trace",
    lose_audit: "audit rows",
    repeat_event: "events by type",
    change_row: "log_folds_to_row",
    leave_delivery: "webhook deliveries",
    add_session: "attempts: 3, expected 2",
}


def test_a_whole_run_passes(place: Project) -> None:
    require_whole("bench", chains=1, failures=1)
    # What another project holds is not the run's.
    factories.start(factories.submit(factories.project("other")))
    require_whole("bench", chains=1, failures=1)
    assert place.sessions.count() == 2


@pytest.mark.parametrize("spoil", WRONG)
def test_errors_are_reported(place: Project, spoil: Callable[[Project], None]) -> None:
    spoil(place)
    with pytest.raises(SystemExit, match=WRONG[spoil]):
        require_whole("bench", chains=1, failures=1)
