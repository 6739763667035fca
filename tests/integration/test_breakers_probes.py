"""Probes of breakers: they go at once, pass all breakers of their signature, and are not wasted."""

from datetime import timedelta

import pytest
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from retry.engine.decide import Mode
from sessions_app.core.cursors import START
from sessions_app.eventlog.places import place_move
from sessions_app.models import (
    Breaker,
    BreakerFailure,
    Project,
    Queue,
    RetryDecision,
    RetrySettings,
    RetrySlots,
)
from sessions_app.services.breakers import sweep
from sessions_app.services.breakers.acts import breaker_open
from sessions_app.services.breakers.sweep import breakers_sweep
from sessions_app.services.chains.breaker_holds import breaker_held_resume
from sessions_app.services.chains.dispatch import retries_dispatch
from sessions_app.services.sessions.cancel import chain_cancel
from tests import factories
from tests.factories import reread
from tests.integration.test_breakers import asked, chains, hold, opened, probing
from tests.integration.test_storm_limits import limits, slots
from tests.invariants import check_all

pytestmark = pytest.mark.django_db(transaction=True)


def probe_named(breaker: Breaker) -> Breaker:
    """Let the sweep name the next probe, if there is one."""
    Breaker.objects.filter(pk=breaker.pk).update(probe_at=F("opened_at"))
    breakers_sweep()
    breaker.refresh_from_db()
    return breaker


def taken() -> list[int]:
    """Return the retries that are counted in each minute of the cluster, in its order."""
    rows = RetrySlots.objects.filter(queue=None).order_by("minute")
    return list(rows.values_list("taken", flat=True))


def test_a_probe_does_not_wait_for_a_slot_under_the_storm_limits(at: Project) -> None:
    breaker, found = opened(at)
    limits(cluster=1)
    others = chains(at, 3, "error: disk is full\n")
    retries_dispatch()
    backlog = taken()
    assert len(backlog) == 3
    probe_named(breaker)
    assert breaker_held_resume() == 1
    with CaptureQueriesContext(connection) as seen:
        retries_dispatch()
    assert [hold(each)[0] for each in found] == ["dispatched", "held", "held"]
    assert taken() == [backlog[0] + 1, *backlog[1:]], seen.captured_queries
    # What it held beside the probe waits for slots, as ever.
    factories.settle(factories.start(factories.tip(found[0])), status="terminated")
    breakers_sweep()
    assert breaker_held_resume() == 2
    retries_dispatch()
    assert [hold(each)[0] for each in found] == ["dispatched", "scheduled", "scheduled"]
    assert min(slots(found[1:])) > max(slots(others))
    assert check_all() == []


def test_a_probe_takes_room_from_others_of_its_batch(at: Project) -> None:
    breaker, found = opened(at)
    limits(cluster=1)
    (other,) = chains(at, 1, "error: disk is full\n")
    RetryDecision.objects.filter(session=other).update(due_at=F("due_at") - timedelta(hours=1))
    probe_named(breaker)
    assert breaker_held_resume() == 1
    retries_dispatch()
    assert (hold(found[0])[0], hold(other)[0]) == ("dispatched", "scheduled")
    assert check_all() == []


def test_under_storm_limits_open_breakers_cost_dispatch_no_statement(at: Project) -> None:
    limits(cluster=1_000)
    chains(at, 1)
    with CaptureQueriesContext(connection) as without:
        retries_dispatch()
    breaker_open(at, None, "0123456789ab", reason="known", by="ann")
    chains(at, 1)
    with CaptureQueriesContext(connection) as beside:
        retries_dispatch()
    assert len(beside) == len(without)


@pytest.mark.parametrize("mode", ["paused", "off"])
@pytest.mark.parametrize("scope", ["project", "domain"])
def test_what_a_switch_holds_is_no_probe(at: Project, scope: str, mode: str) -> None:
    """Its project has the oldest retries of a breaker of the cluster; others probe."""
    (first, *_) = chains(at, 1)
    other = factories.project("other", domain="globex")
    breaker = breaker_open(None, None, first.failure_signature, reason="known", by="ann")
    retries_dispatch()
    chains(at, 2)
    (free,) = chains(other, 1)
    retries_dispatch()
    of = {"project": at} if scope == "project" else {"domain": at.domain}
    RetrySettings.objects.create(**of, mode=mode)
    assert probe_named(breaker).probe == free.pk
    assert breaker.probes == 1
    assert breaker_held_resume() == 1
    retries_dispatch()
    assert hold(free)[0] == "dispatched"
    assert hold(first)[:2] == ("held", "breaker")
    chain_cancel(free.pk, by="ann")
    assert probe_named(breaker).probe is None
    RetrySettings.objects.update(mode=Mode.ON.value)
    assert probe_named(breaker).probe == first.pk


@pytest.mark.parametrize("own", [False, True])
def test_while_all_its_retries_are_paused_a_breaker_names_no_probe(at: Project, own: bool) -> None:
    breaker, found = opened(at)
    scope = at if own else None
    RetrySettings.objects.update_or_create(project=scope, domain=None, defaults={"mode": "paused"})
    assert probe_named(breaker).probe is None
    assert {hold(each)[1] for each in found} == {"breaker"}
    RetrySettings.objects.filter(project=scope).update(mode="on")
    assert probe_named(breaker).probe == found[0].pk


def test_finding_a_probe_is_a_fixed_number_of_statements(at: Project) -> None:
    (first, *_) = chains(at, 1)
    breaker_open(None, None, first.failure_signature, reason="known", by="ann")
    counts = []
    for number in (1, 5):
        for _ in range(number):
            paused = factories.project()
            RetrySettings.objects.create(project=paused, mode="paused")
            chains(paused, 1)
        with CaptureQueriesContext(connection) as seen:
            breakers_sweep()
        counts.append(len(seen))
    assert counts[0] == counts[1]


@pytest.mark.parametrize("holding", ["queue", "project"])
def test_a_probe_passes_all_breakers_of_its_signature(at: Project, holding: str) -> None:
    """One opens beside that which holds the retries; whichever it is, its probe goes."""
    queue = Queue.objects.get(project=at, is_default=True)
    (first, *_) = chains(at, 1)
    places = [(at, queue), (at, None)] if holding == "queue" else [(at, None), (at, queue)]
    breaker = breaker_open(*places[0], first.failure_signature, reason="known", by="ann")
    retries_dispatch()
    assert hold(first) == ("held", "breaker", str(breaker))
    second = breaker_open(*places[1], first.failure_signature, reason="known", by="ann")
    probe = probing(breaker)
    assert probe.root_id == first.pk
    factories.settle(factories.start(probe), status="terminated")
    breakers_sweep()
    for each, state in ((breaker, "closed"), (second, "open")):
        each.refresh_from_db()
        assert each.state == state
    assert check_all() == []


def nothing_waits(at: Project) -> Breaker:
    """An open breaker that opened long ago, though its last chains failed just now."""
    breaker, found = opened(at, window=3_600)
    for each in found:
        chain_cancel(each.pk, by="ann")
    Breaker.objects.update(opened_at=F("opened_at") - timedelta(hours=2))
    return breaker


def test_no_breaker_closes_as_quiet_before_the_log_is_counted(
    at: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaker = nothing_waits(at)
    # As a rebuild begins.
    BreakerFailure.objects.all().delete()
    place_move(3, START)
    monkeypatch.setattr(sweep, "SLICE", 1)
    assert breakers_sweep(0)
    breaker.refresh_from_db()
    assert (breaker.state, BreakerFailure.objects.count()) == ("open", 0)
    monkeypatch.undo()
    breakers_sweep()
    breaker.refresh_from_db()
    assert (breaker.state, BreakerFailure.objects.count()) == ("open", 3)
    BreakerFailure.objects.update(failed_at=F("failed_at") - timedelta(hours=2))
    breakers_sweep()
    breaker.refresh_from_db()
    assert breaker.state == "closed"
    assert breaker.reason.startswith("no retry waits for it")


def test_a_rebuild_that_begins_behind_a_sweep_lets_it_close_nothing(
    at: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the last stretch that a sweep counts and its look at the breakers."""
    breaker = nothing_waits(at)
    count = sweep.stretch_count

    def and_then() -> tuple[int, bool]:
        found = count()
        BreakerFailure.objects.all().delete()
        place_move(3, START)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(sweep, "stretch_count", and_then)
        breakers_sweep()
    breaker.refresh_from_db()
    assert (breaker.state, BreakerFailure.objects.count()) == ("open", 0)
    breakers_sweep()
    breaker.refresh_from_db()
    assert (breaker.state, BreakerFailure.objects.count()) == ("open", 3)


def test_a_reader_that_is_behind_still_closes_what_has_no_rule(
    at: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaker = nothing_waits(at)
    asked(None)
    RetrySettings.objects.filter(project=at).update(breaker=None)
    place_move(3, START)
    monkeypatch.setattr(sweep, "SLICE", 1)
    breakers_sweep(0)
    breaker.refresh_from_db()
    assert breaker.reason == "no breaker is set for this scope any more"


def test_a_retry_that_is_no_probe_any_more_is_held_again(at: Project) -> None:
    breaker, found = opened(at)
    probe_named(breaker)
    Breaker.objects.update(probe=found[1].pk)
    assert breaker_held_resume() == 1
    Breaker.objects.update(probe=found[2].pk)
    retries_dispatch()
    assert [hold(each)[0] for each in found] == ["held"] * 3
    assert reread(found[1]).retry_state == "held"
