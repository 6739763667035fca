"""Breakers by hand: every door refuses the same, and mutes and takes that back."""

from typing import Any

import pytest

from sessions_app.core.errors import Conflict
from sessions_app.models import AuditEntry, Breaker, FailureSignature, Project, Queue
from sessions_app.models.tenants import Role
from sessions_app.services.breakers.acts import breaker_open
from sessions_app.services.breakers.sweep import breakers_sweep
from tests import factories
from tests.agent import Api, admin
from tests.graphs import Graph
from tests.integration.test_breakers import asked, chains
from tests.told_log import failures_count

pytestmark = pytest.mark.django_db(transaction=True)
MUTED = "the project has muted it"
LOST = "its cause is agent_transient, and only failures of the work itself have one"


@pytest.fixture
def failing(at: Project) -> str:
    """Return the signature of a failure that was counted."""
    (session,) = chains(at, 1)
    failures_count()
    return session.failure_signature


def refused(at: Project | None, queue: Queue | None, signature: str) -> str:
    with pytest.raises(Conflict) as refusal:
        breaker_open(at, queue, signature, reason="known", by="ann")
    (why,) = refusal.value.extra["errors"]["signature"]  # type: ignore[index]
    assert str(refusal.value) == f"this failure can have no breaker: {why}"
    assert not Breaker.objects.exists()
    return str(why)


def test_a_muted_failure_has_no_breaker_in_its_project(at: Project, failing: str) -> None:
    FailureSignature.objects.update(muted=True)
    queue = Queue.objects.get(project=at, is_default=True)
    assert {refused(at, each, failing) for each in (None, queue)} == {MUTED}
    # Others did not mute it, and the cluster's holds nothing of those that did.
    for place in (factories.project(), None):
        assert breaker_open(place, None, failing, reason="known", by="ann").state == "open"


@pytest.mark.parametrize("cause", ["agent_transient", "quota_exceeded", ""])
def test_only_failures_of_the_work_have_a_breaker(at: Project, failing: str, cause: str) -> None:
    FailureSignature.objects.update(cause=cause)
    for place in (at, None):
        assert f"its cause is {cause or 'not known'}, " in refused(place, None, failing)


def test_every_door_names_the_signature(at: Project, failing: str, graph: Graph) -> None:
    FailureSignature.objects.update(muted=True)
    body = {"signature": failing, "project": at.address}
    answer = admin().post("breakers/", body)
    assert (answer.status_code, answer.json()["errors"]) == (409, {"signature": [MUTED]})
    assert answer.json()["detail"] == f"this failure can have no breaker: {MUTED}"
    asked = "mutation($i: OpenBreakerInput!) { openBreaker(input: $i) { errors { %s } } }"
    told = graph.ask(asked % "field message code", i=body)["openBreaker"]["errors"]
    assert told == [{"field": "signature", "message": MUTED, "code": "CONFLICT"}]
    FailureSignature.objects.update(muted=False, cause="agent_transient")
    assert admin().post("breakers/", body).json()["errors"] == {"signature": [LOST]}
    assert admin().post("breakers/", {"signature": failing}).status_code == 409
    assert not Breaker.objects.exists()


def acts() -> list[tuple[str, str, str]]:
    rows = AuditEntry.objects.filter(object_type="breaker").order_by("pk")
    return list(rows.values_list("action", "actor", "object_id"))


def test_it_is_muted_and_unmuted_over_rest(at: Project) -> None:
    breaker = factories.breaker(at)
    api = Api(factories.token(factories.user("ann", project=at, role=Role.MAINTAINER)))
    path = f"breakers/{breaker.pk}/"
    for _ in range(2):  # the same again changes nothing
        shown = api.post(f"{path}mute/").json()
        assert (shown["id"], shown["state"], shown["muted"]) == (str(breaker.pk), "open", True)
    assert api.post(f"{path}close/").json()["muted"] is True
    for _ in range(2):
        shown = api.post(f"{path}unmute/").json()
        assert (shown["state"], shown["muted"]) == ("closed", False)
    verbs = ("breaker.mute", "breaker.close", "breaker.unmute")
    assert acts() == [(verb, "ann", str(breaker.pk)) for verb in verbs]
    for verb in ("mute", "unmute"):
        bad = api.post(f"{path}{verb}/", {"reason": "x"})
        assert (bad.status_code, list(bad.json()["errors"])) == (400, ["reason"])
        gone = api.post(f"breakers/00000000-0000-4000-8000-000000000000/{verb}/")
        assert gone.status_code == 404


def test_only_cluster_admins_mute_the_clusters(at: Project) -> None:
    breaker = breaker_open(None, None, "0123456789ab", reason="known", by="ann")
    api = Api(factories.token(factories.user("ann", project=at, role=Role.MAINTAINER)))
    for verb in ("mute", "unmute"):
        assert api.post(f"breakers/{breaker.pk}/{verb}/").status_code == 403
        assert admin().post(f"breakers/{breaker.pk}/{verb}/").status_code == 200


@pytest.mark.parametrize("field", ["muteBreaker", "unmuteBreaker"])
def test_it_is_muted_and_unmuted_over_graphql(at: Project, graph: Graph, field: str) -> None:
    breaker = factories.breaker(at)
    Breaker.objects.update(muted=field == "unmuteBreaker")
    kind = f"{field[0].upper()}{field[1:]}Input"
    text = f"mutation($i: {kind}!) {{ {field}(input: $i) {{ %s }} }}"
    selected = "breaker { state muted } errors { message code }"
    found = graph.ask(text % selected, i={"id": str(breaker.pk)})[field]
    expected: Any = {"state": "open", "muted": field == "muteBreaker"}
    assert found == {"breaker": expected, "errors": []}
    assert [verb for verb, *_ in acts()] == [f"breaker.{field.removesuffix('Breaker')}"]
    gone = graph.ask(text % selected, i={"id": "00000000-0000-4000-8000-000000000000"})[field]
    assert [each["code"] for each in gone["errors"]] == ["NOT_FOUND"]


def test_one_that_is_heard_again_opens_by_itself(at: Project) -> None:
    asked(at)
    (session,) = chains(at, 1)
    breaker = breaker_open(at, None, session.failure_signature, reason="known", by="ann")
    path = f"breakers/{breaker.pk}/"
    assert admin().post(f"{path}close/", {"mute": True}).json()["muted"] is True
    for verb, state in (("mute", "closed"), ("unmute", "open")):
        assert admin().post(f"{path}{verb}/").status_code == 200
        chains(at, 3)
        breakers_sweep()
        breaker.refresh_from_db()
        assert breaker.state == state
