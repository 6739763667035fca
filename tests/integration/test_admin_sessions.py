"""Sessions in the admin: what a page shows, how they are found, cancelled and retried."""

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from interfaces.admin import base, filters, sessions
from scheduler.models import Lease
from sessions_app.core.states import RetryState, Status
from sessions_app.locks import database_now
from sessions_app.models import LogChunk, PreparedAction, Project, Session
from sessions_app.services.chains.dependants import dependants_release
from sessions_app.services.chains.dispatch import retries_dispatch
from sessions_app.services.chains.manual_retry import session_retry
from tests import factories
from tests.audit import audited_acts
from tests.integration.admin import messages_of, operator, text_of, url
from tests.integration.test_storm_limits import limits

SESSIONS = "sessions_app_session"


@pytest.fixture
def client() -> Client:
    return operator()


@pytest.fixture
def project() -> Project:
    return factories.project("work", domain="acme")


def failed(project: Project, **fields: Any) -> Session:
    return factories.settle(factories.start(factories.submit(project, **fields)), exit_code=3)


def retried(project: Project) -> list[Session]:
    """A chain of two: the second one waits."""
    first = failed(project, name="train", retry_policy=factories.policy())
    while not retries_dispatch().dispatched:
        pass
    return [first, Session.objects.get(parent=first)]


def listed(client: Client, query: str = "") -> set[Any]:
    return {row.pk for row in client.get(url(SESSIONS) + query).context["cl"].result_list}


def choose(client: Client, name: str, *chosen: Session) -> Any:
    """Choose sessions in the list, and an action; the question that follows."""
    keys = [session.pk for session in chosen]
    return client.post(url(SESSIONS), {"action": name, "_selected_action": keys}, follow=True)


def confirm(client: Client, question: Any) -> Any:
    return client.post(question.request["PATH_INFO"], {"confirmed": "1"}, follow=True)


def test_a_page_shows_chain_decision_events_and_the_end_of_the_log(
    client: Client, project: Project
) -> None:
    first, second = retried(project)
    lines = b"".join(f"line {number}\n".encode() for number in range(300))
    LogChunk.objects.create(session_id=first.pk, offset=0, data=lines)
    page = client.get(url(SESSIONS, "change", first.pk))
    text, markup = text_of(page), page.content.decode()
    assert "attempt 1; 0 of 3 retries for failures used" in text
    assert "kernel nonzero exit, exit code 3" in text
    assert "The container exited with code 3" in text
    assert "0 of 3 retries for failures were used; this one pays from it." in text
    assert "session.retry_dispatched" in text
    assert "line 299" in text
    assert "line 199" not in text
    assert f'href="{url(SESSIONS, "change", second.pk)}"' in markup
    assert f'href="{url("sessions_app_retrydecision", "change", first.pk)}"' in markup
    child = client.get(url(SESSIONS, "change", second.pk)).content.decode()
    assert f'parent <a href="{url(SESSIONS, "change", first.pk)}"' in child


def test_a_page_shows_what_a_session_depends_on(client: Client, project: Project) -> None:
    first = factories.submit(project, creation_id="prepare")
    other = factories.submit(project, creation_id="load")
    wanted: list[Any] = [{"session": "prepare", "when": "ended"}, "load"]
    later = factories.submit(project, depends_on=wanted)
    factories.settle(factories.start(first), exit_code=3)
    dependants_release([first.pk])
    page = client.get(url(SESSIONS, "change", later.pk))
    assert "prepare (ended): failed; load (succeeded): not over yet" in text_of(page)
    for each in (first, other):
        assert f'href="{url(SESSIONS, "change", each.pk)}"' in page.content.decode()


def test_a_decision_is_explained_in_sentences(client: Client, project: Project) -> None:
    session = failed(project)
    page = text_of(client.get(url("sessions_app_retrydecision", "change", session.pk)))
    assert "The container exited with code 3" in page
    assert "No policy asks for a retry." in page


def test_text_of_users_is_shown_and_never_run(client: Client, project: Project) -> None:
    evil = "<script>alert(1)</script>"
    session = failed(project, name=evil, command=[evil])
    LogChunk.objects.create(
        session_id=session.pk, offset=0, data=evil.encode() + b"\xff\x00\x1b[31m"
    )
    for address in (url(SESSIONS), url(SESSIONS, "change", session.pk)):
        assert evil not in client.get(address).content.decode()


def test_sessions_are_found_by_id_and_by_the_name_of_their_chain(
    client: Client, project: Project
) -> None:
    first, second = retried(project)
    other = factories.submit(project, name="evaluate")
    assert listed(client, f"?q={first.pk}") == {first.pk}
    assert first.pk in listed(client, f"?q={str(first.pk)[:6]}")
    assert listed(client, "?q=train") == {first.pk}
    assert listed(client, "?q=eva") == {other.pk}
    assert listed(client, "?q=nothing") == set()
    assert listed(client) == {first.pk, second.pk, other.pk}


def test_filters(client: Client, project: Project) -> None:
    other = factories.project("other", domain="acme")
    pending, broken = factories.submit(project), failed(project)
    waits = failed(other, retry_policy=factories.policy(retry_delay=3600))
    everything = {pending.pk, broken.pk, waits.pk}
    cases = {
        "?status=PENDING": {pending.pk},
        "?status=ERROR": {broken.pk, waits.pk},
        "?status=TERMINATED": set(),
        "?retry_cause=kernel_nonzero_exit": {broken.pk, waits.pk},
        "?retry_cause=evicted": set(),
        "?retry_state=scheduled": {waits.pk},
        f"?signature=%20{broken.failure_signature.upper()}": {broken.pk, waits.pk},
        f"?signature={broken.failure_signature}&project__id__exact={other.pk}": {waits.pk},
        "?signature=0123456789ab": set(),
        "?signature=": everything,
        f"?project__id__exact={other.pk}": {waits.pk},
        f"?status=ERROR&project__id__exact={project.pk}": {broken.pk},
        f"?queue__id__exact={broken.queue_id}": {pending.pk, broken.pk},
        "?status=": everything,
        f"?owner__id__exact={broken.owner_id}": {broken.pk},
    }
    assert {query: listed(client, query) for query in cases} == cases


def test_without_an_index_only_the_newest_are_looked_at(
    client: Client, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [failed(project) for _ in range(4)]
    monkeypatch.setattr(filters, "NEWEST", 2)
    assert listed(client, "?status=ERROR") == {row.pk for row in rows[-2:]}
    within = listed(client, f"?status=ERROR&project__id__exact={project.pk}")
    assert within == {row.pk for row in rows}


def test_a_long_list_is_counted_and_paged_up_to_a_cap(
    client: Client, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(5):
        factories.submit(project)
    monkeypatch.setattr(base, "COUNTED", 3)
    page = client.get(url(SESSIONS))
    assert "the first of more than 3 sessions" in text_of(page)
    with CaptureQueriesContext(connection) as captured:
        client.get(url(SESSIONS) + "?_facets=True")
    counts = [query["sql"] for query in captured if "COUNT(" in query["sql"].upper()]
    assert counts
    assert all("LIMIT 4" in sql for sql in counts)


def test_the_buttons_of_a_page_retry_and_cancel(client: Client, project: Project) -> None:
    session = failed(project)
    address = f"/admin/sessions_app/session/{session.pk}/act/"
    page = client.post(address, {"do": "retry"}, follow=True)
    child = Session.objects.get(parent=session)
    assert page.request["PATH_INFO"] == url(SESSIONS, "change", child.pk)
    assert messages_of(client.post(address, {"do": "retry"}, follow=True)) == [
        f"Only the newest attempt of a chain can be retried; it is {child.pk}."
    ]
    client.post(address, {"do": "cancel"}, follow=True)
    child.refresh_from_db()
    assert child.status == Status.CANCELLED
    acts = audited_acts().filter(actor="root").order_by("pk").values_list("action", flat=True)
    assert list(acts) == ["retry.dispatch", "session.cancel"]
    for junk in ({}, {"do": "explode"}):
        assert messages_of(client.post(address, junk, follow=True)) == [
            "A session can be cancelled, preempted, retried or given up."
        ]
    unknown = "/admin/sessions_app/session/00000000-0000-0000-0000-000000000000/act/"
    assert client.post(unknown, {"do": "cancel"}).status_code == 302


def test_many_are_cancelled_after_a_dry_run_that_keeps_their_ids(
    client: Client, project: Project
) -> None:
    pending = [factories.submit(project) for _ in range(2)]
    over = failed(project)
    asked = choose(client, "cancel_chains", *pending, over)
    prepared = PreparedAction.objects.get()
    assert set(prepared.ids) == {session.pk for session in pending}
    assert "Cancel 2 sessions" in text_of(asked)
    assert "the chain has ended" in text_of(asked)
    assert f'href="{url(SESSIONS)}"' in asked.content.decode()
    assert not Session.objects.filter(status=Status.CANCELLED).exists()
    assert "2 of 2 cancelled" in text_of(confirm(client, asked))
    assert Session.objects.filter(status=Status.CANCELLED).count() == 2


def test_many_are_retried_and_the_others_are_left_out(client: Client, project: Project) -> None:
    held = failed(project, retry_policy=factories.policy(retry_delay=3600))
    broken, live = failed(project), factories.submit(project)
    asked = choose(client, "retry_sessions", held, broken, live)
    assert "the session is PENDING: it has not ended" in text_of(asked)
    confirm(client, asked)
    assert Session.objects.filter(parent__in=[held, broken]).count() == 2
    held.refresh_from_db()
    assert held.retry_state == RetryState.RETRIED


def test_only_running_ones_can_be_preempted(client: Client, project: Project) -> None:
    running, waiting = factories.start(factories.submit(project)), factories.submit(project)
    asked = choose(client, "preempt_sessions", running, waiting)
    assert "Preempt 1 session" in text_of(asked)
    assert PreparedAction.objects.get().ids == [running.pk]


def test_the_priority_of_what_waits_can_be_changed(client: Client, project: Project) -> None:
    running, waiting = factories.start(factories.submit(project)), factories.submit(project)
    asked = choose(client, "prioritize_sessions", running, waiting)
    assert "Reprioritize 1 session" in text_of(asked)
    client.post(asked.request["PATH_INFO"], {"confirmed": "1", "priority": "5"}, follow=True)
    assert [factories.reread(each).priority for each in (running, waiting)] == [0, 5]


def test_parked_chains_are_retried_or_given_up(client: Client, project: Project) -> None:
    first, second = (factories.parked(project) for _ in range(2))
    running = factories.start(factories.submit(project))
    confirm(client, choose(client, "retry_sessions", first))
    asked = choose(client, "give_up_chains", first, second, running)
    assert "Give up 1 session" in text_of(asked)
    assert "the session is not the newest attempt of a parked chain" in text_of(asked)
    assert "1 of 1 given up" in text_of(confirm(client, asked))
    assert [factories.reread(each).retry_state for each in (first, second)] == [
        "retried",
        "exhausted",
    ]
    assert audited_acts().filter(action="retry.give_up", actor="root").count() == 1


def test_a_parked_chain_is_given_up_on_its_page(client: Client, project: Project) -> None:
    session, broken = factories.parked(project), failed(project)
    button = 'value="give_up"'
    pages = {each.pk: url(SESSIONS, "change", each.pk) for each in (session, broken)}
    assert button in client.get(pages[session.pk]).content.decode()
    assert button not in client.get(pages[broken.pk]).content.decode()
    act = "/admin/sessions_app/session/{}/act/"
    refused = client.post(act.format(broken.pk), {"do": "give_up"}, follow=True)
    assert messages_of(refused) == ["The session is not the newest attempt of a parked chain."]
    page = client.post(act.format(session.pk), {"do": "give_up"}, follow=True)
    assert messages_of(page) == ["The chain has ended; it is no longer parked."]
    assert button not in page.content.decode()
    assert factories.reread(session).retry_state == RetryState.EXHAUSTED
    (entry,) = audited_acts().filter(action="retry.give_up")
    assert (entry.actor, entry.object_id) == ("root", str(session.pk))


def test_a_page_shows_how_far_a_run_is_and_where_it_goes_on(
    client: Client, project: Project
) -> None:
    session = factories.start(factories.submit(project))
    told = {"step": 30, "of": 120, "note": "epoch 2", "best": 30, "rate": 0.5}
    told |= {"at": "2026-01-02T03:04:05+00:00", "checkpoint": "s3://a/<b>", "checkpoint_step": 25}
    Lease.objects.create(
        session=session,
        executor=factories.executor("e"),
        fencing_token=session.fencing_token or 0,
        granted_at=database_now(),
        queue_id=session.queue_id,
        scheduling_key=1,
        progress=told,
    )
    page = client.get(url(SESSIONS, "change", session.pk))
    text = text_of(page)
    assert "step 30 of 120 (25 %) 30/min, 3 min left, epoch 2" in text
    assert "Checkpoint of step 25: s3://a/&lt;b&gt;" in text
    assert '<progress class="bar" value="25" max="100"' in page.content.decode()
    assert text.count("step 30 of 120 (25 %)") == 2, "also in the row of its chain"


def test_the_chain_shows_what_a_retry_changed(client: Client, project: Project) -> None:
    session = failed(project, image="train:1")
    changes = {"image": "train:2", "environ": {"MODE": "safe"}, "reason": "fixed"}
    child = session_retry(session.pk, session.root_id, by="ann", changes=changes).child_id
    text = text_of(client.get(url(SESSIONS, "change", child)))
    assert "changed: image train:2, environ MODE; fixed" in text


@pytest.mark.parametrize("name", ["cancel_chains", "retry_sessions"])
def test_choosing_many_costs_no_statement_for_each(
    client: Client, project: Project, name: str
) -> None:
    def cost(count: int) -> int:
        chosen = [failed(project) for _ in range(count)]
        chosen += [factories.submit(project) for _ in range(count)]
        with CaptureQueriesContext(connection) as captured:
            choose(client, name, *chosen)
        assert len(PreparedAction.objects.latest("created_at").ids) == count
        return len(captured)

    cost(1)
    assert cost(20) == cost(2)


def test_more_than_one_action_takes_is_refused_as_a_whole(
    client: Client, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "MOST", 2)
    chosen = [factories.submit(project) for _ in range(3)]
    page = choose(client, "cancel_chains", *chosen)
    assert not PreparedAction.objects.exists()
    assert messages_of(page) == [
        "More than 2 sessions were chosen. Nothing was done: choose fewer."
    ]
    assert not Session.objects.filter(status=Status.CANCELLED).exists()


def test_the_audit_log_is_narrowed_to_people_and_to_one_object(
    client: Client, project: Project
) -> None:
    first, _ = retried(project)
    client.post(f"/admin/sessions_app/session/{first.pk}/act/", {"do": "cancel"})
    address = url("sessions_app_auditentry")

    def actions(query: str) -> list[str]:
        return [row.action for row in client.get(address + query).context["cl"].result_list]

    newest, second, *made = actions("")
    assert [newest, second] == ["session.cancel", "retry.dispatch"]
    assert {"queue.create", "project.create"} <= set(made)
    assert not {"session.cancel", "retry.dispatch"} & set(made)
    assert actions("?author=people") == ["session.cancel", *made]
    assert actions("?author=engine") == ["retry.dispatch"]
    assert actions("?object_type=session") == ["session.cancel", "retry.dispatch"]
    assert actions("?object_type=queue") == ["queue.create"]
    assert actions("?object_type=nonsense") == []
    assert actions(f"?q={first.pk}") == ["session.cancel", "retry.dispatch"]
    assert actions("?q=somebody") == []


def test_many_retries_keep_to_the_storm_limits(client: Client, project: Project) -> None:
    limits(cluster=1)
    asked = choose(client, "retry_sessions", *(failed(project) for _ in range(3)))
    assert "of these, waiting for their turn 2" in text_of(confirm(client, asked))
    assert Session.objects.filter(retry_state=RetryState.SCHEDULED).count() == 2
