"""Breakers across chains: many chains that fail alike stop retrying, and one probes for all."""

import json
import re
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from reprise.monitoring.metrics import _Database
from reprise.operations.work import breakers as night_lines
from retry.evidence.termination import Termination
from sessions_app.db import steps
from sessions_app.eventlog.event_json import event_json
from sessions_app.models import (
    AuditEntry,
    Breaker,
    BreakerFailure,
    FailureReader,
    FailureSignature,
    Project,
    Queue,
    RetryDecision,
    RetrySettings,
    Session,
    SessionEvent,
    WebhookDelivery,
)
from sessions_app.models.tenants import Role
from sessions_app.selectors.breakers import breakers_open
from sessions_app.selectors.counts import Count
from sessions_app.services.breakers.acts import breaker_close, breaker_open
from sessions_app.services.breakers.sweep import breakers_sweep, stretch_count
from sessions_app.services.chains.breaker_holds import breaker_held_resume
from sessions_app.services.chains.dispatch import retries_dispatch
from sessions_app.services.chains.manual_retry import session_retry
from sessions_app.services.chains.settle import End, sessions_settle
from sessions_app.services.chains.switch_holds import held_resume
from sessions_app.services.sessions.cancel import chain_cancel
from sessions_app.tasks import sweep_retries
from sessions_app.webhooks.endpoints import webhook_create
from sessions_app.webhooks.reader import log_read, log_read_behind
from tests import factories
from tests.agent import Api, admin
from tests.factories import decision, policy, reread, tip
from tests.graphs import Graph
from tests.invariants import check_all
from tests.racing import race
from tests.told_log import failures_count

pytestmark = pytest.mark.django_db(transaction=True)
RETRIED = policy(max_retries=5)
TEXT = "error: the license server does not answer\n"
RULE = {"chains": 3, "window": 600, "probe_after": 60}


def asked(at: Project | None = None, **rule: Any) -> None:
    """Set the breaker of a project, or of the cluster, and let the sweep see it."""
    RetrySettings.objects.update_or_create(
        project=at, domain=None, defaults={"breaker": {**RULE, **rule}}
    )
    breakers_sweep()


def failed(session: Session, text: str = TEXT, **facts: Any) -> Session:
    """Run a session until it fails with a text."""
    factories.start(session)
    sessions_settle({session.pk: End(Termination(**({"exit_code": 1} | facts)), log_tail=text)})
    return reread(session)


def chains(at: Project, count: int, text: str = TEXT, **fields: Any) -> list[Session]:
    """New chains whose first attempt failed with a text."""
    fields = {"retry_policy": RETRIED, **fields}
    return [failed(factories.submit(at, **fields), text) for _ in range(count)]


def opened(at: Project, **rule: Any) -> tuple[Breaker, list[Session]]:
    """An open breaker, and the chains that opened it, whose retries are held by it now."""
    asked(at, **rule)
    found = chains(at, 3)
    breakers_sweep()
    retries_dispatch()
    (breaker,) = Breaker.objects.all()
    assert breaker.state == "open"
    return breaker, found


def hold(session: Session) -> tuple[str, str, str]:
    found = decision(session)
    return found.state, found.held_for, found.held_key


def probing(breaker: Breaker) -> Session:
    """Let the next probe begin. Return the attempt that probes."""
    Breaker.objects.filter(pk=breaker.pk).update(probe_at=F("opened_at"))
    breakers_sweep()
    assert breaker_held_resume() == 1
    retries_dispatch()
    breaker.refresh_from_db()
    assert breaker.probe is not None
    made = RetryDecision.objects.get(pk=breaker.probe).next_session_id
    assert made is not None
    return Session.objects.get(pk=made)


def test_a_breaker_opens_and_holds_retries_but_no_first_attempts(at: Project) -> None:
    breaker, found = opened(at)
    key = f"project:{at.pk}/{found[0].failure_signature}"
    assert (breaker.chains, breaker.reason) == (3, "3 chains failed so within 600 s")
    for each in found:
        assert hold(each) == ("held", "breaker", key)
        assert reread(each).retry_state == "held"
    shown = Api(factories.token(factories.user(superuser=True))).read(f"sessions/{found[0].pk}/")
    assert shown["retry_state"]["held_for"] == "breaker"
    (late,) = chains(at, 1)
    assert hold(late) == ("held", "breaker", key)
    (other,) = chains(at, 1, "error: disk is full\n")
    assert hold(other)[0] == "scheduled"
    assert tip(factories.submit(at)).status == "PENDING"
    retries_dispatch()
    assert hold(other)[0] == "dispatched"
    assert check_all() == []


def test_less_than_its_rule_asks_does_not_open_one(at: Project) -> None:
    asked(at)
    for each in chains(at, 2):
        retries_dispatch()
        failed(tip(each))
    breakers_sweep()
    assert BreakerFailure.objects.count() == 2
    assert not Breaker.objects.exists()


def test_generic_signatures_and_platform_causes_open_none(at: Project) -> None:
    asked(at, chains=2)
    chains(at, 3, "Killed\n")
    for _ in range(3):
        failed(factories.submit(at, retry_policy=RETRIED), "", conditions=("Evicted",))
    breakers_sweep()
    assert not Breaker.objects.exists()


def test_runs_that_are_killed_alike_open_one_whatever_they_printed_last(at: Project) -> None:
    asked(at)
    for step in range(3):
        session = factories.submit(at, retry_policy=RETRIED)
        failed(session, f"{'ab' * step} step {step}\n", exit_code=137)
    breakers_sweep()
    assert Breaker.objects.get().state == "open"


def test_a_muted_signature_opens_none_and_closes_what_is_open(at: Project) -> None:
    asked(at)
    first, *_ = chains(at, 1)
    failures_count()
    FailureSignature.objects.filter(project=at).update(muted=True)
    chains(at, 3)
    breakers_sweep()
    assert not Breaker.objects.exists()
    FailureSignature.objects.filter(project=at).update(muted=False)
    chains(at, 3)
    breakers_sweep()
    assert Breaker.objects.get().state == "open"
    FailureSignature.objects.filter(project=at).update(muted=True)
    breakers_sweep()
    assert Breaker.objects.get().reason == "the signature was muted"
    assert first.failure_signature == Breaker.objects.get().signature


def test_muting_lets_go_what_the_clusters_breaker_holds(at: Project) -> None:
    (first,) = chains(at, 1)
    other = factories.project()
    breaker = breaker_open(None, None, first.failure_signature, reason="known", by="ann")
    held, others = chains(at, 1), chains(other, 1)
    failures_count()
    retries_dispatch()
    assert {hold(each)[2] for each in (*held, *others)} == {str(breaker)}
    FailureSignature.objects.filter(project=at).update(muted=True)
    sweep_retries()
    assert hold(held[0])[0] == "dispatched"
    assert hold(others[0]) == ("held", "breaker", str(breaker))
    assert breaker_held_resume() == 0


def test_the_cluster_needs_three_projects(at: Project) -> None:
    asked(None, chains=4)
    projects = [at, factories.project(), factories.project()]
    chains(projects[0], 4)
    chains(projects[1], 1)
    breakers_sweep()
    assert not Breaker.objects.exists()
    chains(projects[1], 2)
    chains(projects[2], 1)
    breakers_sweep()
    breaker = Breaker.objects.get()
    assert (breaker.scope, breaker.chains) == ("cluster", 8)
    retries_dispatch()
    assert RetryDecision.objects.filter(held_for="breaker").count() == 8
    events = SessionEvent.objects.filter(type="breaker.opened")
    assert sorted(events.values_list("project_id", flat=True)) == sorted(p.pk for p in projects)


def test_a_queue_has_its_own(at: Project) -> None:
    Queue.objects.filter(project=at, is_default=True).update(breaker=RULE)
    breakers_sweep()
    other = factories.queue(at, name="other")
    chains(at, 2)
    chains(at, 3, queue=other.name)
    breakers_sweep()
    assert not Breaker.objects.exists()
    chains(at, 1)
    breakers_sweep()
    (breaker,) = Breaker.objects.all()
    retries_dispatch()
    assert breaker.queue is not None
    assert RetryDecision.objects.filter(held_for="breaker").count() == 3


def test_a_probe_that_succeeds_closes_it_and_all_go_on(at: Project) -> None:
    breaker, found = opened(at)
    breakers_sweep()
    assert Breaker.objects.get().probe is None
    probe = probing(breaker)
    assert probe.root_id == found[0].pk
    assert [hold(each)[0] for each in found] == ["dispatched", "held", "held"]
    breakers_sweep()
    assert Breaker.objects.get().state == "open"
    factories.settle(factories.start(probe), status="terminated")
    breakers_sweep()
    breaker.refresh_from_db()
    assert (breaker.state, breaker.reason) == ("closed", "the probe succeeded")
    assert breaker_held_resume() == 2
    retries_dispatch()
    assert [hold(each)[0] for each in found] == ["dispatched"] * 3
    breakers_sweep()
    assert Breaker.objects.get().state == "closed"
    types = SessionEvent.objects.filter(session_id=breaker.pk).order_by("seq")
    assert list(types.values_list("type", "seq")) == [("breaker.opened", 1), ("breaker.closed", 2)]
    assert check_all() == []


def test_a_probe_that_fails_alike_doubles_the_delay(at: Project) -> None:
    breaker, found = opened(at)
    probe = probing(breaker)
    assert hold(failed(probe))[:2] == ("held", "breaker")
    breakers_sweep()
    breaker.refresh_from_db()
    assert (breaker.state, breaker.probe, breaker.probe_delay) == ("open", None, 120)
    assert breaker.probe_at is not None
    second = probing(breaker)
    assert second.root_id == found[1].pk
    assert breaker.probes == 2


def test_a_probe_that_fails_otherwise_closes_it(at: Project) -> None:
    breaker, _ = opened(at)
    failed(probing(breaker), "error: disk is full\n")
    breakers_sweep()
    breaker.refresh_from_db()
    assert breaker.reason == "the probe failed with another signature"


@pytest.mark.parametrize("end", ["platform", "cancelled", "never", "cancelled before"])
def test_a_probe_that_says_nothing_is_handed_on(at: Project, end: str) -> None:
    breaker, found = opened(at)
    if end == "cancelled before":
        Breaker.objects.update(probe_at=F("opened_at"))
        breakers_sweep()
        chain_cancel(found[0].pk, by="ann")
    else:
        probe = probing(breaker)
        if end == "platform":
            failed(probe, "", conditions=("Evicted",))
        elif end == "cancelled":
            chain_cancel(found[0].pk, by="ann")
        else:
            Breaker.objects.update(probe_since=F("probe_since") - timedelta(minutes=31))
    breakers_sweep()
    breaker.refresh_from_db()
    assert (breaker.state, breaker.probe, breaker.probe_delay) == ("open", found[1].pk, 60)
    assert check_all() == []


def test_retries_by_hand_are_not_held(at: Project) -> None:
    _, found = opened(at)
    assert session_retry(found[0].pk, found[0].pk, by="ann").child_id
    assert hold(found[0])[0] == "dispatched"


def test_a_switch_goes_on_holding_what_a_breaker_lets_go(at: Project) -> None:
    breaker, found = opened(at)
    RetrySettings.objects.filter(project=at).update(mode="paused")
    breaker_close(breaker.pk, reason="fixed", mute=False, by="ann")
    assert breaker_held_resume() == 3
    assert {hold(each)[:2] for each in found} == {("held", "switch")}
    assert breaker_held_resume() == 0
    RetrySettings.objects.filter(project=at).update(mode="on")
    assert held_resume() == 3
    retries_dispatch()
    assert {hold(each)[0] for each in found} == {"dispatched"}
    assert check_all() == []


def test_a_breaker_goes_on_holding_what_a_switch_lets_go(at: Project) -> None:
    asked(at)
    RetrySettings.objects.filter(project=at).update(mode="paused")
    found = chains(at, 3)
    breakers_sweep()
    RetrySettings.objects.filter(project=at).update(mode="on")
    assert held_resume() == 3
    retries_dispatch()
    assert {hold(each)[:2] for each in found} == {("held", "breaker")}


def test_what_is_held_twice_waits_for_both(at: Project) -> None:
    breaker, found = opened(at)
    queue = Queue.objects.get(project=at, is_default=True)
    own = breaker_open(at, queue, breaker.signature, reason="known", by="ann")
    breaker_close(breaker.pk, reason="", mute=False, by="ann")
    assert breaker_held_resume() == 3
    assert {hold(each) for each in found} == {("held", "breaker", str(own))}


def test_people_open_close_and_mute(at: Project) -> None:
    signature = "0123456789ab"
    breaker = breaker_open(at, None, signature, reason="maintenance", by="ann")
    breakers_sweep()
    assert reread_breaker(breaker).state == "open"
    breaker_close(breaker.pk, reason="done", mute=True, by="ann")
    again = reread_breaker(breaker)
    assert (again.state, again.closed_by, again.muted) == ("closed", "ann", True)
    acts = AuditEntry.objects.filter(object_type="breaker").order_by("pk")
    assert list(acts.values_list("action", flat=True)) == ["breaker.open", "breaker.close"]


@pytest.mark.parametrize("scope", ["cluster", "project", "queue"])
def test_one_that_people_open_probes_as_the_rule_of_its_scope_says(at: Project, scope: str) -> None:
    queue = factories.queue(at, name="other") if scope == "queue" else None
    project = None if scope == "cluster" else at

    def delay(signature: str) -> tuple[float, timedelta]:
        made = breaker_open(project, queue, signature, reason="known", by="ann")
        assert made.probe_at is not None
        assert made.opened_at is not None
        return made.probe_delay, made.probe_at - made.opened_at

    for other in {None, at} - {project}:
        asked(other, probe_after=900)
    assert delay("0123456789ab") == (60, timedelta(seconds=60))
    if queue is None:
        asked(project, probe_after=7)
    else:
        queue.breaker = {**RULE, "probe_after": 7}
        queue.save()
    assert delay("ba9876543210") == (7, timedelta(seconds=7))


def reread_breaker(breaker: Breaker) -> Breaker:
    return Breaker.objects.get(pk=breaker.pk)


def test_a_muted_breaker_does_not_open_by_itself(at: Project) -> None:
    breaker, _ = opened(at)
    breaker_close(breaker.pk, reason="", mute=True, by="ann")
    chains(at, 3)
    breakers_sweep()
    assert reread_breaker(breaker).state == "closed"


def test_what_failed_before_it_closed_does_not_open_it_again(at: Project) -> None:
    breaker, _ = opened(at)
    breaker_close(breaker.pk, reason="", mute=False, by="ann")
    chains(at, 2)
    breakers_sweep()
    assert reread_breaker(breaker).state == "closed"
    chains(at, 1)
    breakers_sweep()
    assert reread_breaker(breaker).state == "open"


def test_it_closes_when_nothing_waits_and_nothing_fails(at: Project) -> None:
    breaker, found = opened(at)
    for each in found:
        chain_cancel(each.pk, by="ann")
    breakers_sweep()
    assert reread_breaker(breaker).state == "open"
    Breaker.objects.update(opened_at=F("opened_at") - timedelta(hours=1))
    BreakerFailure.objects.update(failed_at=F("failed_at") - timedelta(hours=1))
    breakers_sweep()
    assert reread_breaker(breaker).state == "closed"


def test_without_a_rule_it_closes_and_forgets(at: Project) -> None:
    breaker, _ = opened(at)
    RetrySettings.objects.update(breaker=None)
    breakers_sweep()
    assert reread_breaker(breaker).state == "closed"
    assert not BreakerFailure.objects.exists()
    assert not FailureReader.objects.filter(pk=3).exists()
    with CaptureQueriesContext(connection) as seen:
        breakers_sweep()
    assert len(seen) == 1


def test_two_sweeps_at_once_open_one_breaker_with_one_probe(at: Project) -> None:
    asked(at)
    found = chains(at, 3)
    race(breakers_sweep, breakers_sweep)
    retries_dispatch()
    assert SessionEvent.objects.filter(type="breaker.opened").count() == 1
    Breaker.objects.update(probe_at=F("opened_at"))
    race(breakers_sweep, breakers_sweep)
    assert Breaker.objects.get().probes == 1
    race(breaker_held_resume, breaker_held_resume)
    race(retries_dispatch, retries_dispatch)
    assert sorted(hold(each)[0] for each in found) == ["dispatched", "held", "held"]
    assert check_all() == []


def test_stretches_count_each_chain_once(at: Project) -> None:
    asked(at)
    chains(at, 3)
    more = True
    while more:
        _, more = stretch_count(2)
    assert BreakerFailure.objects.count() == 3
    assert Breaker.objects.count() == 1


def test_open_breakers_cost_dispatch_no_statement(at: Project) -> None:
    chains(at, 1)
    with CaptureQueriesContext(connection) as without:
        retries_dispatch()
    breaker_open(at, None, "0123456789ab", reason="known", by="ann")
    chains(at, 1)
    with CaptureQueriesContext(connection) as beside:
        retries_dispatch()
    assert len(beside) == len(without)


DOCS = (Path(__file__).parents[2] / "docs" / "breakers.md").read_text()


def test_the_example_of_the_docs_works_over_rest(at: Project) -> None:
    """Its settings open a breaker, which people see, close and open."""
    api = Api(factories.token(factories.user("ann", project=at, role=Role.MAINTAINER)))
    (rule, own) = [json.loads(text) for text in re.findall(r"-d '(.*?)'", DOCS)]
    settings = f"retry-settings/projects/{at.address}/"
    answer = api.call("PATCH", settings, rule)
    assert answer.json()["breaker"] == rule["breaker"], answer.content
    queue = api.call("PATCH", f"queues/{at.address}/default/", own)
    assert queue.json()["breaker"] == {"chains": 5, "window": 600, "probe_after": 60}
    breakers_sweep()
    session, *_ = chains(at, 3)
    failures_count()
    breakers_sweep()
    retries_dispatch()
    (found,) = api.read("breakers/?state=open")["results"]
    assert (found["project"], found["queue"], found["chains"]) == (at.address, None, 3)
    assert (found["signature"], found["held"]) == (session.failure_signature, 3)
    assert found["title"] == "error: the license server does not answer"
    data = api.read(f"sessions/{session.pk}/retry-decision/")
    assert (data["held_for"], data["state"]) == ("breaker", "held")
    assert "The retry is held until the breaker of its signature closes." in data["explanation"]
    path = f"breakers/{found['id']}/"
    closed = api.post(f"{path}close/", {"reason": "it is up again"})
    assert (closed.json()["state"], closed.json()["closed_by"]) == ("closed", "ann")
    assert api.read(path)["held"] == 0
    body = {"signature": found["signature"], "project": at.address, "queue": "default"}
    assert api.post("breakers/", body).status_code == 201
    assert api.post("breakers/", body).status_code == 409
    assert check_all() == []


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"signature": "x"}, "signature"),
        ({"signature": "0123456789ab", "queue": "default"}, "queue"),
        ({"signature": "0123456789ab", "project": "acme/work", "queue": "gone"}, "queue"),
        ({"signature": "0123456789ab", "project": "acme/gone"}, "project"),
        ({}, "signature"),
    ],
)
def test_bad_input_names_its_field(at: Project, body: dict[str, Any], field: str) -> None:
    assert at.address == "acme/work"
    root = Api(factories.token(factories.user("root", superuser=True)))
    answer = root.post("breakers/", body)
    assert (answer.status_code, list(answer.json()["errors"])) == (400, [field])


@pytest.mark.parametrize("rule", [{"chains": 1}, {"window": 1}, {"more": 1}, [], "on"])
def test_a_bad_rule_is_refused(at: Project, rule: Any) -> None:
    root = Api(factories.token(factories.user("root", superuser=True)))
    for path in (f"retry-settings/projects/{at.address}/", f"queues/{at.address}/default/"):
        answer = root.call("PATCH", path, {"breaker": rule})
        assert answer.status_code == 400, answer.content
        assert all(name.startswith("breaker") for name in answer.json()["errors"])
    refused = root.call("PATCH", "retry-settings/domains/acme/", {"breaker": {}})
    assert list(refused.json()["errors"]) == ["breaker"]


def test_a_list_is_a_fixed_number_of_statements(at: Project) -> None:
    root = Api(factories.token(factories.user("root", superuser=True)))
    root.read("breakers/")  # the first call with a token writes that it was used
    counts = []
    for number in (1, 20):
        for place in range(number):
            factories.breaker(at, signature=f"{number:06d}{place:06d}")
        with CaptureQueriesContext(connection) as seen:
            root.read("breakers/")
        counts.append(len(seen))
    assert counts[0] == counts[1]


def test_its_events_are_listed_newest_first(at: Project, graph: Graph) -> None:
    root = admin()
    breaker, _ = opened(at)
    path = f"breakers/{breaker.pk}/events/"
    breaker_close(breaker.pk, reason="it is up again", mute=False, by="ann")
    found = root.read(path)["results"]
    told = [(each["type"], each["reason"], each["by"], each["chains"]) for each in found]
    assert told == [
        ("closed", "it is up again", "ann", 3),
        ("opened", "3 chains failed so within 600 s", "", 3),
    ]
    assert root.pages(f"{path}?page_size=1") == [[each] for each in found]
    fields = "edges { node { at type reason by chains } }"
    asked = f'{{ breakerEvents(id: "{breaker.pk}") {{ {fields} }} }}'
    edges = graph.ask(asked)["breakerEvents"]["edges"]
    assert [each["node"]["type"] for each in edges] == ["closed", "opened"]
    for field in ("breaker", "breakerEvents"):
        selected = "{ state }" if field == "breaker" else "{ pageInfo { hasNextPage } }"
        refusal = graph.refused(f'{{ {field}(id: "nonsense") {selected} }}')
        assert refusal["message"] == "no breaker nonsense"
    gone = "breakers/00000000-0000-4000-8000-000000000000/events/"
    assert root.call("GET", gone).status_code == 404


def test_its_events_are_a_fixed_number_of_statements(at: Project) -> None:
    root = admin()
    counts = []
    for number in (1, 20):
        for _ in range(number):
            breaker = breaker_open(at, None, "0123456789ab", reason="known", by="ann")
            breaker_close(breaker.pk, reason="", mute=False, by="ann")
        path = f"breakers/{breaker.pk}/events/"
        root.read(path)  # the first call with a token writes that it was used
        with CaptureQueriesContext(connection) as seen:
            assert len(root.read(path)["results"]) == 2 * number + (2 if number > 1 else 0)
        counts.append(len(seen))
    assert counts[0] == counts[1]


def test_the_clusters_events_are_told_once_and_name_nobody_to_others(at: Project) -> None:
    breaker = breaker_open(None, None, "0123456789ab", reason="known", by="ann")
    breaker.projects = [at.pk, factories.project("other").pk]
    breaker.save()
    breaker_close(breaker.pk, reason="fine", mute=False, by="ann")
    path = f"breakers/{breaker.pk}/events/"
    viewer = Api(factories.token(factories.user("vera", project=at, role=Role.VIEWER)))
    root = admin()
    for api, reason, by in ((root, "fine", "ann"), (viewer, "", "")):
        (closed,) = api.read(path)["results"]
        assert (closed["type"], closed["reason"], closed["by"]) == ("closed", reason, by)


def test_the_clusters_breaker_by_hand_is_told_in_the_projects_that_failed_so(at: Project) -> None:
    """As one that opened by itself: in their webhooks, too, and without who did it."""
    second, muted, other, long_ago = (factories.project() for _ in range(4))
    (failing, *_) = (chains(each, 1)[0] for each in (at, second, muted, long_ago))
    chains(other, 1, "error: disk is full\n")
    failures_count()
    FailureSignature.objects.filter(project=muted).update(muted=True)
    before = F("last_seen") - timedelta(days=2)
    FailureSignature.objects.filter(project=long_ago).update(last_seen=before)
    for each in (at, other):
        url = "https://example.com/"
        webhook_create(project=each, url=url, event_types=[], description="", by="root")
    signature = failing.failure_signature
    breaker = breaker_open(None, None, signature, reason="ask bob", by="ann")
    breaker_close(breaker.pk, reason="bob is back", mute=False, by="ann")
    breaker_open(None, None, signature, reason="again", by="ann")

    told = SessionEvent.objects.filter(session_id=breaker.pk).order_by("seq")
    of = list(told.values_list("type", "project_id"))
    types = ("breaker.opened", "breaker.closed", "breaker.opened")
    assert of == [(name, each.pk) for name in types for each in (at, second)]
    while log_read().more or log_read_behind():
        pass
    sent = WebhookDelivery.objects.filter(type__startswith="breaker.").order_by("pk")
    assert list(sent.values_list("type", "endpoint__project_id")) == [
        (name, at.pk) for name in types
    ]
    shown = event_json(told[0])["data"]
    assert (shown["scope"], shown["signature"]) == ("cluster", signature)
    assert (shown["by"], shown["reason"]) == ("", "")
    (newest, *_) = admin().read(f"breakers/{breaker.pk}/events/")["results"]
    assert (newest["by"], newest["reason"]) == ("ann", "again")
    assert check_all() == []


def test_a_projects_breaker_by_hand_says_who_did_it(at: Project) -> None:
    breaker = breaker_open(at, None, "0123456789ab", reason="known", by="ann")
    (told,) = SessionEvent.objects.filter(session_id=breaker.pk)
    shown = event_json(told)["data"]
    assert (told.project_id, shown["by"], shown["reason"]) == (at.pk, "ann", "known")


def test_opening_by_hand_costs_the_same_for_many_projects(at: Project) -> None:
    def cost(count: int, signature: str) -> int:
        for _ in range(count):
            session = chains(factories.project(), 1)[0]
            factories.failure(session, key=signature)
        with CaptureQueriesContext(connection) as seen:
            breaker_open(None, None, signature, reason="known", by="ann")
        return len(seen)

    assert at
    assert cost(2, "0123456789ab") == cost(5, "ba9876543210")


def test_it_is_measured_and_swept_by_the_task(at: Project) -> None:
    breaker, found = opened(at)
    (metric,) = (each for each in _Database().collect() if each.name == "reprise_breakers_open")
    assert [each.value for each in metric.samples] == [1]
    breaker_close(breaker.pk, reason="", mute=False, by="ann")
    sweep_retries()
    assert {hold(each)[0] for each in found} == {"dispatched"}


@pytest.mark.parametrize("place", ["breakers.before_commit", "breakers.after_commit"])
def test_a_death_around_the_commit_loses_nothing(
    at: Project, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever dies there has opened all or nothing; the next sweep ends with the same."""
    asked(at)
    found = chains(at, 3)

    def dies(name: str) -> None:
        if name == place:
            raise RuntimeError(name)

    with monkeypatch.context() as patch:
        patch.setattr(steps, "failpoint", dies)
        with pytest.raises(RuntimeError):
            breakers_sweep()
    breakers_sweep()
    retries_dispatch()
    assert SessionEvent.objects.filter(type="breaker.opened").count() == 1
    assert {hold(each)[1] for each in found} == {"breaker"}
    assert check_all() == []


def test_the_night_page_names_open_breakers(at: Project) -> None:
    made = factories.breaker(at, reason="the licence server is down")
    (problem,) = night_lines(breakers_open(5), {str(made): 3})
    assert (problem.kind, problem.subject) == ("breaker_open", str(made.pk))
    assert "acme/work" in problem.sentence
    assert problem.affected == Count(3)
    assert "the licence server is down" in problem.sentence


def rebuilt() -> str:
    """What the command says that counts everything anew."""
    told = StringIO()
    call_command("rebuild_failures", stdout=told)
    return told.getvalue()


def counted() -> list[tuple[Any, ...]]:
    rows = BreakerFailure.objects.order_by("root_id")
    return list(rows.values_list("root_id", "signature", "project_id", "queue_id", "failed_at"))


def states() -> dict[str, tuple[Any, ...]]:
    rows = Breaker.objects.values_list("signature", "state", "muted", "opened_by", "chains")
    return {signature: tuple(rest) for signature, *rest in rows}


def test_a_rebuild_makes_breakers_as_the_log_tells_them(at: Project) -> None:
    breaker, _ = opened(at)
    by_hand = breaker_open(at, None, "0123456789ab", reason="known", by="ann")
    muted = breaker_open(at, None, "ba9876543210", reason="known", by="ann")
    breaker_close(muted.pk, reason="harmless", mute=True, by="ann")
    before = counted(), states()
    closed = {"state": "closed", "closed_at": F("opened_at")}
    Breaker.objects.filter(pk__in=[breaker.pk, by_hand.pk]).update(**closed)
    BreakerFailure.objects.all().delete()
    FailureReader.objects.filter(pk=3).delete()
    # Nothing speaks for this one: no chain failed so, and no retry waits for it.
    forgotten = factories.breaker(at, signature="000000000000")
    Breaker.objects.filter(pk=forgotten.pk).update(opened_at=F("opened_at") - timedelta(days=1))
    assert "open breakers: 2\n" in rebuilt()
    assert states().pop("000000000000")[0] == "closed"
    forgotten.delete()
    assert (counted(), states()) == before
    assert SessionEvent.objects.filter(type="breaker.opened").count() == 3
    assert check_all() == []


def test_a_rebuild_opens_what_the_last_failures_open_but_not_what_people_closed(
    at: Project,
) -> None:
    breaker, found = opened(at)
    breaker.delete()
    assert "open breakers: 1\n" in rebuilt()
    again = Breaker.objects.get()
    assert (again.state, again.chains, again.opened_by) == ("open", 3, "")
    assert hold(found[0])[2] == str(again)
    breaker_close(again.pk, reason="it is up again", mute=False, by="ann")
    assert "open breakers: 0\n" in rebuilt()
    assert check_all() == []


def test_without_a_rule_a_rebuild_counts_nothing(at: Project) -> None:
    chains(at, 3)
    assert "open breakers: 0\n" in rebuilt()
    assert not BreakerFailure.objects.exists()
    assert not FailureReader.objects.filter(pk=3).exists()
