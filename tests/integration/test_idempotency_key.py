"""`Idempotency-Key`: the creation id where a session is made, refused everywhere else."""

import pytest

from sessions_app.models import Project, Session
from sessions_app.services.chains.dispatch import retries_dispatch
from tests import factories
from tests.agent import Api

BODY = {"project": "acme/work", "command": ["true"]}
LONGEST = "k" * 200


def create(api: Api, key: str, **more: object) -> tuple[int, dict[str, object]]:
    response = api.post("sessions/", {**BODY, **more}, HTTP_IDEMPOTENCY_KEY=key)
    return response.status_code, response.json()


def test_it_is_the_creation_id(api: Api) -> None:
    status, made = create(api, "job-1")
    assert (status, made["creation_id"]) == (201, "job-1")
    again = api.post("sessions/", {**BODY, "creation_id": "job-1"})
    assert (again.status_code, again.json()["id"]) == (200, made["id"])
    assert create(api, "job-1", creation_id="job-1")[0] == 200
    assert create(api, "job-1", command=["false"])[0] == 409
    assert Session.objects.count() == 1


@pytest.mark.parametrize(
    ("key", "more"),
    [
        ("job-1", {"creation_id": "job-2"}),
        ("job-1", {"creation_id": ["job-1"]}),
        (LONGEST + "k", {}),
        ("", {}),
        ("a:retry:1", {}),
    ],
)
def test_wrong_keys(api: Api, key: str, more: dict[str, object]) -> None:
    status, problem = create(api, key, **more)
    assert (status, list(problem["errors"])) == (400, ["Idempotency-Key"])  # type: ignore[call-overload]
    assert Session.objects.count() == 0


def test_the_longest_key_has_room_for_retries(api: Api) -> None:
    status, made = create(api, LONGEST, retry_policy=factories.policy())
    assert (status, made["creation_id"]) == (201, LONGEST)
    root = Session.objects.get()
    factories.settle(factories.start(root))
    assert retries_dispatch().dispatched == 1
    assert factories.tip(root).creation_id == f"{LONGEST}:retry:1"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "sessions/bulk/"),
        ("POST", "sessions/bulk-retry/"),
        ("POST", "sessions/bulk-give-up/"),
        ("POST", "sessions/bulk-preempt/"),
        ("POST", "sessions/{id}/cancel/"),
        ("POST", "sessions/{id}/retry/"),
        ("POST", "retry-policies/"),
        ("PUT", "retry-policies/any/"),
        ("PATCH", "retry-defaults/projects/acme/work/"),
        ("DELETE", "retry-defaults/projects/acme/work/"),
        ("POST", "tokens/"),
        ("POST", "/graphql/"),
    ],
)
def test_elsewhere_it_is_refused(api: Api, at: Project, method: str, path: str) -> None:
    session = factories.submit(at)
    address = path.format(id=session.pk)
    response = api.call(method, address, b"{}", HTTP_IDEMPOTENCY_KEY="x")
    text = response.content.decode()
    assert (response.status_code, "POST /api/v2/sessions/ only" in text) == (400, True), text
    session.refresh_from_db()
    assert session.status == "PENDING"
    assert api.get(f"sessions/{session.pk}/", HTTP_IDEMPOTENCY_KEY="x").status_code == 200
