"""Sessions over REST: creation ids, filters, paging, and what a list costs."""

from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from sessions_app.models import Project, Session
from sessions_app.services.chains.dispatch import retries_dispatch
from tests import factories
from tests.agent import Agent, Api, agent, failed, running
from tests.audit import audited_acts
from tests.factories import body


def ids(api: Api, query: str = "") -> list[str]:
    return [each["id"] for each in api.read(f"sessions/{query}")["results"]]


def test_a_session_is_created_with_all_it_was_given(api: Api) -> None:
    asked = body(
        name="train", job_set="night", image="i:1", environ={"A": "b=c"}, priority=-3,
        resources={"requests": {"cpu": "500m"}, "limits": {"memory": "1Gi"}}, cluster_size=2,
        batch_timeout=60, scheduling_timeout=5.5, queue_timeout=90,
        termination_grace_period=0, ports=["web"],
        labels={"team": "x"}, mounts=[{"path": "/m", "claim": "m"}], pod_spec={"a": {"b": [1]}},
        session_type="Batch", queue="default",
    )  # fmt: skip
    response = api.post("sessions/", asked)
    assert response.status_code == 201
    made = response.json()
    assert response["Location"].endswith(f"/api/v2/sessions/{made['id']}/")
    expected = asked | {"session_type": "batch", "owner": "ann", "status": "PENDING"}
    assert {name: made[name] for name in expected} == expected
    assert made["retry_chain"] == [made["root_session_id"]] == [made["id"]]
    assert made["parent_session_id"] is None
    assert made["creation_id"] == made["id"]
    assert made["retry_state"] == {
        "state": "none", "attempt": 0, "max_attempts": 1, "summary": "attempt 1", "due_at": None,
        "held_for": None, "next_session_id": None, "reason": None, "rule": None, "budgets": [],
    }  # fmt: skip
    assert made.pop("warnings") == ["no executor serves its project: it waits until one does"]
    assert api.read(f"sessions/{made['id']}/") == made


@pytest.mark.parametrize(
    "asked", [{"retry_policy": {"max_retries": 5}}, {"retry_policies": ["infra"]}]
)
@pytest.mark.parametrize("kind", ["interactive", "inference", "batch"])
def test_a_retry_policy_that_has_no_effect_is_a_warning(
    api: Api, kind: str, asked: dict[str, Any], played: Agent
) -> None:
    played.lease()
    factories.named_policy("infra", rules=[{"action": "Retry", "onConditions": ["Preempted"]}])
    sent = body(session_type=kind, creation_id="job-1", **asked)
    first, again = api.post("sessions/", sent), api.post("sessions/", sent)
    (item,) = api.post("sessions/bulk/", {"sessions": [sent]}).json()["results"]
    assert (first.status_code, again.status_code, item["outcome"]) == (201, 200, "exists")
    expected = [
        "the retry policy has no effect: only batch sessions are retried, and this one is " + kind
    ]
    for shown in (first.json(), again.json(), item):
        assert shown.get("warnings", []) == ([] if kind == "batch" else expected)
    state = first.json()["retry_state"]
    assert (state["max_attempts"] == 1, state["summary"] == "attempt 1") == (kind != "batch",) * 2
    plain = api.post("sessions/", body(session_type=kind)).json()
    assert "warnings" not in plain


def test_names_that_shells_drop_are_a_warning(api: Api, played: Agent) -> None:
    played.lease()
    sent = body(environ={"A.b": "1", "OK_1": "2"}, secret_environ={"c-d": "3"})
    why = "sh drops variables whose names have other characters than letters, digits and '_'"
    assert api.post("sessions/", sent).json()["warnings"] == [f"{why}: A.b, c-d"]
    many = body(environ={f"a.{n}": "" for n in range(8)})
    (item,) = api.post("sessions/bulk/", {"sessions": [many]}).json()["results"]
    assert item["warnings"] == [f"{why}: a.0, a.1, a.2, a.3, a.4 and 3 more"]


def test_delays_that_cannot_be_meant_are_a_warning(api: Api, played: Agent) -> None:
    played.lease()
    sent = body(retry_policy={"max_retries": 1, "retry_delay": 7200})
    expected = "retry_policy.retry_delay is 2 h, above max_retry_delay: every retry waits 1 h"
    assert api.post("sessions/", sent).json()["warnings"] == [expected]


def test_the_same_creation_id_finds_the_same_session(api: Api) -> None:
    asked = body(creation_id="job-1", environ={"A": "1", "B": "2"})
    first = api.post("sessions/", asked)
    # Neither the order of keys nor a default that is spelled out makes it another request.
    again = api.post(
        "sessions/", body(creation_id="job-1", priority=0, environ={"B": "2", "A": "1"})
    )
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json()["id"] == first.json()["id"]
    assert Session.objects.count() == 1


@pytest.mark.parametrize(
    "change", [{"command": ["false"]}, {"priority": 1}, {"retry_policy": {"max_retries": 1}}]
)
def test_a_creation_id_with_another_body_is_a_conflict(api: Api, change: dict[str, Any]) -> None:
    first = api.post("sessions/", body(creation_id="job-1")).json()
    response = api.post("sessions/", body(creation_id="job-1", **change))
    assert response.status_code == 409
    problem = response.json()
    assert list(problem["errors"]) == ["creation_id"]
    assert problem["session_id"] == first["id"]
    assert Session.objects.count() == 1


def test_a_creation_id_is_known_in_its_project_only(api: Api, at: Project) -> None:
    other = factories.project("other", domain="acme")
    admin = Api(factories.token(factories.user(superuser=True)))
    made = [
        admin.post("sessions/", body(creation_id="j", project=f"acme/{name}"))
        for name in ("work", other.name)
    ]
    assert [each.status_code for each in made] == [201, 201]


def test_a_creation_id_still_finds_a_chain_that_was_retried(api: Api) -> None:
    asked = body(creation_id="job-1", retry_policy=factories.policy())
    root = UUID(api.post("sessions/", asked).json()["id"])
    factories.settle(Session.objects.get(pk=root))
    retries_dispatch()
    assert Session.objects.get(parent=root).creation_id == "job-1:retry:1"
    again = api.post("sessions/", asked)
    assert (again.status_code, again.json()["id"]) == (200, str(root))


def test_the_project_is_that_of_the_token_or_the_default(
    api: Api, at: Project, settings: Any
) -> None:
    without = {"command": ["true"]}
    missing = api.post("sessions/", without)
    assert (missing.status_code, list(missing.json()["errors"])) == (400, ["project"])
    settings.REPRISE_DEFAULT_PROJECT = "acme/work"
    assert api.post("sessions/", without).json()["project"] == "acme/work"
    other = factories.project("other", domain="acme")
    scoped = Api(factories.token(factories.user(project=other), project=other))
    assert scoped.post("sessions/", without).json()["project"] == "acme/other"


def test_a_project_without_a_default_queue_wants_one_named(api: Api, at: Project) -> None:
    at.queues.update(is_default=False)
    response = api.post("sessions/", body())
    assert (response.status_code, list(response.json()["errors"])) == (400, ["queue"])
    assert api.post("sessions/", body(queue="default")).status_code == 201


@pytest.fixture
def chain(at: Project) -> list[Session]:
    """A failure on node n1, retried, and the retry running."""
    root = factories.submit(
        at, owner=factories.user("bob", project=at), name="train-1", job_set="night",
        retry_policy=factories.policy(),
    )  # fmt: skip
    played = agent("one")
    failed(played, root, exit_code=3, node="n1")
    retries_dispatch()
    child = running(played, Session.objects.get(parent=root))
    return [root, child]


FILTERS = {
    "project=acme/work": [1, 0], "queue=default": [1, 0],
    "queue=other": [], "job_set=night": [1, 0], "job_set=day": [], "status=error": [0],
    "status=RUNNING": [1], "session_type=BATCH": [1, 0], "session_type=inference": [],
    "retry_cause=kernel_nonzero_exit": [0], "retry_cause=Unknown": [], "retry_state=retried": [0],
    "retry_state=NONE": [1], "exit_code=3": [0], "exit_code=0": [], "root={root}": [1, 0],
    "parent={root}": [1], "parent={child}": [], "tip=true": [1], "tip=false": [0],
    "owner=bob": [1, 0], "owner=ann": [], "executor=one": [1, 0], "node=n1": [0], "node=n": [],
    "failure_category=x": [], "signature=0123456789ab": [],
    "search=train": [1, 0], "search=rain": [], "search={root}": [0],
    "search=%25": [], "created_after=2020-01-01T00:00:00Z": [1, 0],
    "created_before=2020-01-01T00:00:00Z": [], "ordering=created_at": [0, 1],
    "status=ERROR&tip=true": [], "status=ERROR&node=n1&exit_code=3": [0], "page_size=1": [1],
    "created_after=0001-01-01T00:00:00%2B14:00": [1, 0],
    "executor=one&page_size=1": [1], "executor=one&ordering=created_at": [0, 1],
    "executor=one&status=RUNNING": [1], "executor=one&status=ERROR": [0], "executor=two": [],
    "executor=one&status=PENDING": [], "executor=one&retry_state=none": [1],
    "executor=one&retry_state=retried": [0], "executor=one&queue=default": [1, 0],
}  # fmt: skip


@pytest.mark.parametrize("query", FILTERS)
def test_a_filter_finds_what_it_names(api: Api, chain: list[Session], query: str) -> None:
    asked = query.format(root=chain[0].pk, child=chain[1].pk)
    assert ids(api, f"?{asked}") == [str(chain[n].pk) for n in FILTERS[query]]


@pytest.mark.parametrize("path", ["sessions/", "sessions/{root}/attempts/"])
def test_a_list_does_not_read_whole_explanations(api: Api, chain: list[Session], path: str) -> None:
    with CaptureQueriesContext(connection) as queries:
        api.read(path.format(root=chain[0].pk))
    *_, listed = [q["sql"] for q in queries if 'r."next_session_id"' in q["sql"]]
    assert 'r."trace"' not in listed
    assert "retrytrace" not in listed
    assert 'r."termination"' not in listed


@pytest.mark.parametrize("ordering", ["-created_at", "created_at"])
def test_paging_is_stable_while_sessions_arrive(api: Api, at: Project, ordering: str) -> None:
    owner = factories.user(project=at)
    known = [str(factories.submit(at, owner=owner).pk) for _ in range(25)]
    found: list[str] = []
    path: str | None = f"sessions/?page_size=10&ordering={ordering}"
    while path:
        page = api.read(path)
        found += [each["id"] for each in page["results"]]
        path = page["next"]
        if len(found) < 25:
            factories.submit(at, owner=owner)
    expected = known if ordering == "created_at" else known[::-1]
    assert found[:25] == expected
    assert len(set(found)) == len(found)
    # Newer ones are seen when the list goes towards them, and only then.
    assert len(found) == (27 if ordering == "created_at" else 25)


def test_a_page_leads_back(api: Api, at: Project) -> None:
    for _ in range(5):
        factories.submit(at)
    first = api.read("sessions/?page_size=2")
    second = api.read(first["next"])
    assert api.read(second["previous"])["results"] == first["results"]
    assert first["previous"] is None


def test_the_attempts_of_any_member_are_the_chain(api: Api, chain: list[Session]) -> None:
    root, child = chain
    attempts = api.read(f"sessions/{root.pk}/attempts/")
    assert attempts == api.read(f"sessions/{child.pk}/attempts/")
    assert [(each["id"], each["attempt"], each["status"]) for each in attempts] == [
        (str(root.pk), 0, "ERROR"),
        (str(child.pk), 1, "RUNNING"),
    ]
    assert attempts[0]["cause"] == "kernel_nonzero_exit"
    assert attempts[0]["exit_code"] == 3
    signature = factories.reread(root).failure_signature
    assert signature
    assert [each["failure_signature"] for each in attempts] == [signature, None]
    assert "inline/failure 1 of 3" in attempts[0]["decision"]


def test_the_attempts_come_in_pages_when_asked(api: Api, at: Project) -> None:
    root = factories.submit(at, retry_policy=factories.policy(max_retries=4))
    for _ in range(4):
        factories.settle(factories.tip(root))
        retries_dispatch()
    path = f"sessions/{root.pk}/attempts/"
    whole = api.read(path)
    assert [each["attempt"] for each in whole] == [0, 1, 2, 3, 4]
    pages = api.pages(f"{path}?page_size=2")
    assert [len(page) for page in pages] == [2, 2, 1]
    assert [attempt for page in pages for attempt in page] == whole
    for query in ("page_size=0", "page_size=501", "pagesize=2", "page_size="):
        assert api.get(f"{path}?{query}").status_code == 400, query
    assert api.get(f"{path}?cursor=x").status_code == 404
    assert api.get(f"{path}?page_size=2", headers={}).status_code == 401


def test_lists_count_the_chain_and_lead_to_it(api: Api, chain: list[Session]) -> None:
    root, child = (str(each.pk) for each in chain)
    rows = {each["id"]: each for each in api.read("sessions/")["results"]}
    assert [rows[each]["chain_count"] for each in (root, child)] == [2, 2]
    assert "retry_chain" not in rows[root]
    assert [each["id"] for each in api.read(rows[child]["chain_url"])] == [root, child]
    expanded = api.read("sessions/?expand=chain&page_size=1")
    (row,) = expanded["results"]
    assert row["retry_chain"] == [root, child]
    (row,) = api.read(expanded["next"])["results"]
    assert row["retry_chain"] == [root, child]
    whole = api.read(f"sessions/{root}/")
    assert (whole["chain_count"], whole["chain_url"]) == (2, rows[root]["chain_url"])
    assert list(api.get("sessions/?expand=chains").json()["errors"]) == ["expand"]


def test_a_session_shows_its_place_in_the_chain(api: Api, chain: list[Session]) -> None:
    root, child = (api.read(f"sessions/{each.pk}/") for each in chain)
    assert root["retry_chain"] == child["retry_chain"] == [root["id"], child["id"]]
    assert child["parent_session_id"] == child["root_session_id"] == root["id"]
    assert child["retry_counters"] == {"inline/failure": 1}
    assert root["retry_state"]["state"] == "retried"
    assert root["retry_state"]["next_session_id"] == child["id"]
    assert child["retry_state"]["budgets"] == [{"name": "inline/failure", "used": 1, "limit": 3}]
    assert child["retry_state"]["max_attempts"] == 4
    assert child["retry_state"]["summary"] == "attempt 2; 1 of 3 retries for failures used"


def test_the_decision_explains_itself(api: Api, chain: list[Session]) -> None:
    root, child = chain
    decision = api.read(f"sessions/{root.pk}/retry-decision/")
    assert decision["action"] == "retry"
    assert decision["next_session_id"] == str(child.pk)
    assert decision["termination"] == {"exit_code": 3, "node": "n1"}
    assert [step["step"] for step in decision["trace"]][-1] == "decision"
    assert any("retries for failures" in sentence for sentence in decision["explanation"])
    assert api.get(f"sessions/{child.pk}/retry-decision/").status_code == 404


def test_events_are_paged_in_order(api: Api, chain: list[Session]) -> None:
    whole = api.read(f"sessions/{chain[0].pk}/events/")
    assert [event["type"] for event in whole["results"]] == [
        "session.submitted", "session.scheduled", "session.preparing", "session.running",
        "session.error", "session.retry_scheduled", "session.retry_dispatched",
    ]  # fmt: skip
    assert [event["seq"] for event in whole["results"]] == list(range(1, 8))
    scheduled = whole["results"][5]["data"]
    decision = api.read(f"sessions/{chain[0].pk}/retry-decision/")
    assert scheduled["delay"] == decision["delay"]
    assert datetime.fromisoformat(scheduled["due_at"]) == datetime.fromisoformat(decision["due_at"])
    pages = api.pages(f"sessions/{chain[0].pk}/events/?page_size=3")
    assert [len(page) for page in pages] == [3, 3, 1]
    assert [event for page in pages for event in page] == whole["results"]
    after = whole["results"][4]["id"]
    rest = api.read(f"sessions/{chain[0].pk}/events/?after={after}")
    assert rest["results"] == whole["results"][5:]
    path = f"sessions/{chain[0].pk}/events/"
    resumed = api.get(path, HTTP_LAST_EVENT_ID=str(after)).json()
    assert resumed["results"] == whole["results"][5:]
    resumed = api.get(f"{path}?after={whole['results'][5]['id']}", HTTP_LAST_EVENT_ID=str(after))
    assert resumed.json()["results"] == whole["results"][6:]
    assert list(api.get(path, HTTP_LAST_EVENT_ID="x").json()["errors"]) == ["after"]


def test_retry_events_can_be_switched_off(api: Api, at: Project) -> None:
    quiet = factories.policy(emit_retry_events=False)
    session = factories.settle(factories.submit(at, retry_policy=quiet))
    types = [each["type"] for each in api.read(f"sessions/{session.pk}/events/")["results"]]
    assert types == ["session.submitted", "session.error"]


def statements(call: Callable[[], Any]) -> int:
    with CaptureQueriesContext(connection) as captured:
        call()
    return len(captured)


PATHS = ("sessions/?page_size=500", "sessions/?expand=chain&page_size=500",
         "sessions/{id}/attempts/?page_size=500", "sessions/{id}/", "sessions/{id}/attempts/",
         "sessions/{id}/events/", "sessions/{id}/retry-decision/")  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_a_read_costs_the_same_with_one_chain_and_with_twenty(
    api: Api, at: Project, path: str
) -> None:
    owner = factories.user(project=at)

    def chains(count: int) -> Session:
        for _ in range(count):
            root = factories.submit(at, owner=owner, retry_policy=factories.policy())
            factories.settle(root)
            retries_dispatch()
        return root

    first = path.format(id=chains(1).pk)
    api.read(first)  # the first use of a token is written down
    few = statements(lambda: api.read(first))
    last = path.format(id=chains(19).pk)
    assert statements(lambda: api.read(last)) == few <= 9


def test_cancel_is_repeatable_and_told_once(api: Api, at: Project) -> None:
    made = api.post("sessions/", body()).json()
    path = f"sessions/{made['id']}/"
    first = api.post(f"{path}cancel/")
    assert (first.status_code, first.json()["status"]) == (200, "CANCELLED")
    events = api.read(f"{path}events/")
    again = api.post(f"{path}cancel/")
    assert (again.status_code, again.json()) == (200, first.json())
    assert api.read(f"{path}events/") == events
    assert audited_acts().filter(action="session.cancel").count() == 1


def test_a_retry_by_hand_says_where_it_is_and_who_asked(api: Api) -> None:
    made = api.post("sessions/", body()).json()
    session = factories.settle(Session.objects.get(pk=made["id"]))
    response = api.post(f"sessions/{session.pk}/retry/")
    child = response.json()
    assert (response.status_code, child["retry_count"]) == (201, 1)
    assert response["Location"].endswith(f"/api/v2/sessions/{child['id']}/")
    sentences = api.read(f"sessions/{session.pk}/retry-decision/")["explanation"]
    assert sentences[-1] == "It was retried at once by hand, by ann, on no budget."


def test_a_chain_that_ended_cannot_be_cancelled(api: Api, at: Project) -> None:
    session = factories.settle(factories.submit(at, owner=User.objects.get(username="ann")))
    response = api.post(f"sessions/{session.pk}/cancel/")
    assert response.status_code == 409
    assert "ERROR" in response.json()["detail"]
