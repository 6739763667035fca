"""Chains whose policy has `emit_retry_events: false`: who is told of what becomes of a failure."""

from typing import Any

import pytest

from sessions_app.eventlog.event_json import event_json
from sessions_app.models import Project, Session, SessionEvent
from sessions_app.services.chains.dispatch import retries_dispatch
from sessions_app.services.sessions.cancel import chain_cancel
from sessions_app.tasks import deliver_webhooks
from sessions_app.webhooks import endpoints
from sessions_app.webhooks.url_guard import Guard
from tests.agent import Api
from tests.factories import policy, project, reread, retry, settle, start, submit, tip, token, user
from tests.invariants import check_all
from tests.receiver import receiving
from tests.streaming import EventReader, served

pytestmark = pytest.mark.django_db(transaction=True)

SET = "sweep"
QUIET = policy(max_retries=1, emit_retry_events=False)
LOUD = policy(max_retries=1)


@pytest.fixture
def work() -> Project:
    return project("work", domain="acme")


def chains(work: Project) -> list[Session]:
    """One quiet chain and one that is not, each with every kind of retry event but a postponed
    one."""
    roots = []
    for asked in (QUIET, LOUD):
        root = submit(work, job_set=SET, retry_policy=asked)
        settle(start(root))
        chain_cancel(root.pk, by="ann")
        settle(start(retry(root, by="bob")))
        retries_dispatch()  # unless a hint has done it
        retries_dispatch()  # unless a hint has done it
        settle(start(tip(root)))
        roots.append(reread(root))
    return roots


def retries(events: list[dict[str, Any]]) -> dict[str, set[str]]:
    """The types of retry events by their chain."""
    found: dict[str, set[str]] = {}
    for event in events:
        kinds = found.setdefault(str(event["root_session_id"]), set())
        if event["type"].startswith("session.retry_"):
            kinds.add(event["type"].removeprefix("session.retry_"))
    return found


KINDS = {"scheduled", "cancelled", "dispatched", "exhausted"}


def test_the_log_has_all_and_nobody_is_told_of_it(
    work: Project, settings: Any, client: Any
) -> None:
    settings.WEBHOOK_GUARD = Guard.of(["127.0.0.0/8"], [], http=True)
    with receiving() as receiver:
        endpoints.webhook_create(
            project=work, url=receiver.url, event_types=(), description="", by="root"
        )
        quiet, loud = chains(work)
        deliver_webhooks()
        got = [each.event for each in receiver.got]
    expected = {str(quiet.pk): set(), str(loud.pk): KINDS}
    stored = [event_json(each) for each in SessionEvent.objects.select_related("project__domain")]
    assert retries(stored) == dict.fromkeys(expected, KINDS)
    untold = sum(
        str(each["root_session_id"]) == str(quiet.pk) and each["type"].startswith("session.retry_")
        for each in stored
    )
    assert retries(got) == expected
    assert len(got) == len(stored) - untold

    secret = token(user(project=work))
    pages = Api(secret).pages(f"job-sets/{SET}/events/?project=acme/work&page_size=3")
    listed = [event for page in pages for event in page]
    assert retries(listed) == expected
    assert [len(page) for page in pages[:-1]] == [3] * (len(pages) - 1)
    assert {event["id"] for event in listed} == {int(event["id"]) for event in got}
    query = (
        '{ jobSet(name: "sweep", project: "acme/work")'
        " { events(first: 500) { edges { node { type rootSessionId } } } } }"
    )
    answer = client.post(
        "/graphql/",
        {"query": query},
        content_type="application/json",
        headers={"Authorization": f"Bearer {secret}"},
    ).json()
    edges = answer["data"]["jobSet"]["events"]["edges"]
    recorded = [
        {"type": each["node"]["type"], "root_session_id": each["node"]["rootSessionId"]}
        for each in edges
    ]
    assert retries(recorded) == expected
    assert check_all() == []


def test_a_stream_of_a_job_set_leaves_them_out_and_goes_on(work: Project) -> None:
    secret = token(user(project=work))
    with served() as api:
        url = f"{api}job-sets/{SET}/events/?project=acme/work"
        first = submit(work, job_set=SET, retry_policy=QUIET)
        settle(start(first))  # from the table
        reader = EventReader(url, secret).wait(lambda r: len(r.events) == 4)
        chains(work)  # from the tail
        last = submit(work, job_set=SET)
        reader.wait(lambda r: any(e.data["session_id"] == str(last.pk) for e in r.events))
        found = retries([each.data for each in reader.events])
        reader.leave()
    assert sorted(map(len, found.values())) == [0, 0, 0, len(KINDS)]
