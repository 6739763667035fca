"""Secrets belong to whoever gave them: a retry with changes by somebody else runs without them."""

from typing import Any
from uuid import UUID

import pytest
from django.core.management import call_command

from sessions_app.core.encryption import EncryptionKeys
from sessions_app.locks import database_now
from sessions_app.models import AuditEntry, Project, RetryDecision, RetrySettings, Session
from sessions_app.models.tenants import Role
from sessions_app.services.chains.dependants import dependants_sweep
from sessions_app.services.chains.dispatch import retries_dispatch
from sessions_app.services.secrets import encrypt as encrypt_secrets
from tests import factories
from tests.agent import Agent, Api, failed
from tests.dumped import everything_stored
from tests.graphs import Graph
from tests.invariants import check_all
from tests.mutations import done
from tests.pages import signed_in

pytestmark = pytest.mark.django_db(transaction=True)

VALUE = "hunter2-and-more"
SECRET = {"PASSWORD": VALUE, "KEY": "zebra"}
NAMES = ["KEY", "PASSWORD"]
OWN = {"TOKEN": "of-the-lead"}
RUNS: list[dict[str, Any]] = [
    {"command": ["env"]},
    {"image": "mine:1"},
    {"environ": {"LD_PRELOAD": "/x.so"}},
    {"environ": {"MODE": None}},
    {"environ": {"PASSWORD": None}},
    {"environ": {"PASSWORD": "mine"}},
    {"pod_spec": {"containers": [{"name": "main", "command": ["env"]}]}},
    {"secret_environ": OWN},
]


@pytest.fixture
def lead(at: Project) -> Api:
    return Api(factories.token(factories.user("lea", project=at, role=Role.MAINTAINER)))


def body(**fields: Any) -> dict[str, Any]:
    return {"project": "acme/work", "command": ["true"], "secret_environ": SECRET, **fields}


def a_failed(api: Api, played: Agent, **fields: Any) -> Session:
    """A failed session of the owner, with secrets and no retries of its own."""
    asked = body(**{"retry_policy": {"max_retries": 0}, "environ": {"MODE": "x"}, **fields})
    made = api.post("sessions/", asked).json()
    return failed(played, Session.objects.get(pk=made["id"]))


def retried(api: Api, session: Session | str, status: int = 201, **sent: Any) -> dict[str, Any]:
    answer = api.post(f"sessions/{getattr(session, 'pk', session)}/retry/", sent)
    assert answer.status_code == status, answer.content
    found: dict[str, Any] = answer.json()
    return found


def given(played: Agent, session_id: str) -> dict[str, str]:
    """The secrets with which an attempt runs."""
    played.lease()
    runs = {each["session_id"]: each for each in played.answer["leases"]}
    secrets: dict[str, str] = runs[session_id].get("secret_environ", {})
    return secrets


@pytest.mark.parametrize("changes", RUNS, ids=lambda changes: str(sorted(changes)))
def test_whoever_changes_what_runs_does_not_get_them(
    api: Api, lead: Api, played: Agent, changes: dict[str, Any]
) -> None:
    own = changes.get("secret_environ", {})
    session = a_failed(api, played)
    dry = retried(lead, session, 200, changes=changes, dry_run=True)
    assert dry["secrets_dropped"] == NAMES
    assert Session.objects.count() == 1
    child = retried(lead, session, changes=changes)
    assert child["secrets_dropped"] == NAMES
    assert child["secret_environ"] == sorted(own)
    assert given(played, child["id"]) == own
    shown = lead.read(f"sessions/{child['id']}/attempts/")[-1]["changes"]
    assert shown["secrets_dropped"] == NAMES
    entry = AuditEntry.objects.get(action="retry.dispatch")
    assert (entry.actor, entry.data["changes"]["secrets_dropped"]) == ("lea", NAMES)
    # They do not come back with a later attempt.
    played.start(UUID(child["id"]))
    played.fail(UUID(child["id"]))
    third = retried(api, child["id"])
    assert given(played, third["id"]) == own
    assert check_all() == []


@pytest.mark.parametrize(
    "changes",
    [{}, {"resources": {"memory": "1Gi"}}, {"priority": 3}, {"environ": {}}, {"batch_timeout": 9}],
)
def test_a_retry_of_the_same_program_keeps_them(
    api: Api, lead: Api, played: Agent, changes: dict[str, Any]
) -> None:
    free = {"cpu": "4", "memory": "8Gi"}
    played.nodes = [{"name": "n", "free": free, "allocatable": free}]
    child = retried(lead, a_failed(api, played), changes=changes)
    assert "secrets_dropped" not in child
    assert given(played, child["id"]) == SECRET


def test_the_owner_may_change_what_runs_and_the_secrets(api: Api, played: Agent) -> None:
    session = a_failed(api, played)
    more = {"environ": {"PASSWORD": None}, "secret_environ": {"KEY": "new", "MODE": "now secret"}}
    child = retried(api, session, changes={"command": ["env"], **more})
    assert "secrets_dropped" not in child
    assert (child["secret_environ"], child["environ"]) == (["KEY", "MODE"], {})
    assert given(played, child["id"]) == {"KEY": "new", "MODE": "now secret"}
    shown = api.read(f"sessions/{child['id']}/attempts/")[-1]["changes"]
    assert shown == {
        "command": ["env"], "environ": ["PASSWORD"], "secret_environ": ["KEY", "MODE"],
    }  # fmt: skip
    assert "now secret" not in everything_stored()


def test_an_automatic_retry_after_the_changed_one_has_none(
    api: Api, lead: Api, played: Agent
) -> None:
    policy = {"retry_policy": {"max_retries": 2, "retry_delay": 1e-6}}
    child = retried(lead, a_failed(api, played), changes={"command": ["env"], **policy})
    assert given(played, child["id"]) == {}
    played.start(UUID(child["id"]))
    played.fail(UUID(child["id"]))
    assert retries_dispatch().dispatched == 1
    third = lead.read(f"sessions/{child['id']}/")["retry_state"]["next_session_id"]
    assert given(played, third) == {}


def test_the_secrets_of_a_maintainer_are_not_the_owners_either(
    api: Api, lead: Api, played: Agent, at: Project
) -> None:
    child = retried(lead, a_failed(api, played), changes={"secret_environ": OWN})
    failed(played, Session.objects.get(pk=child["id"]))
    again = retried(api, child["id"], changes={"command": ["env"]})
    assert again["secrets_dropped"] == ["TOKEN"]
    assert given(played, again["id"]) == {}
    # Nor are they of another maintainer, but still of the one who gave them.
    child = retried(lead, a_failed(api, played), changes={"secret_environ": OWN})
    failed(played, Session.objects.get(pk=child["id"]))
    other = Api(factories.token(factories.user("max", project=at, role=Role.MAINTAINER)))
    dry = retried(other, child["id"], 200, changes={"image": "a:1"}, dry_run=True)
    assert dry["secrets_dropped"] == ["TOKEN"]
    mine = retried(lead, child["id"], changes={"image": "a:1"})
    assert given(played, mine["id"]) == OWN


def test_nobody_owns_the_secrets_of_a_user_who_is_gone(
    api: Api, played: Agent, at: Project
) -> None:
    session = a_failed(api, played)
    Session.objects.update(owner=None)
    admin = Api(factories.token(factories.user(superuser=True)))
    child = retried(admin, session, changes={"command": ["env"]})
    assert child["secrets_dropped"] == NAMES
    assert given(played, child["id"]) == {}


@pytest.fixture
def one_a_minute() -> None:
    RetrySettings.objects.create(retries_per_minute=1)


def test_in_bulk_each_session_keeps_or_loses_its_own(api: Api, lead: Api, played: Agent) -> None:
    of_owner, of_lead = a_failed(api, played), a_failed(lead, played)
    plain = a_failed(api, played, secret_environ={})
    asked = {"filter": {"status": "ERROR"}, "changes": {"command": ["env"]}}
    for dry in (True, False):
        answer = lead.post("sessions/bulk-retry/", {**asked, "dry_run": dry}).json()
        found = {each["session_id"]: each.get("secrets_dropped") for each in answer["results"]}
        assert found == {str(of_owner.pk): NAMES, str(of_lead.pk): None, str(plain.pk): None}
    played.lease()
    runs = [each.get("secret_environ", {}) for each in played.answer["leases"]]
    assert sorted(runs, key=str) == sorted([{}, SECRET, {}], key=str)


@pytest.mark.usefixtures("one_a_minute")
@pytest.mark.parametrize("who", ["nobody", "owner", "lead"])
def test_a_retry_that_waits_for_its_slot_loses_them_whoever_brings_it_forward(
    api: Api, lead: Api, played: Agent, who: str
) -> None:
    for _ in range(2):
        a_failed(api, played)
    asked = {"filter": {"status": "ERROR"}, "changes": {"command": ["env"], "secret_environ": OWN}}
    answer = lead.post("sessions/bulk-retry/", asked).json()
    (waits,) = (each for each in answer["results"] if each["outcome"] == "scheduled")
    assert waits["secrets_dropped"] == NAMES
    entry = AuditEntry.objects.get(action="retry.request")
    assert entry.data["changes"]["secrets_dropped"] == NAMES
    played.lease()
    if who == "nobody":
        RetrySettings.objects.update(retries_per_minute=None)
        RetryDecision.objects.filter(state="scheduled").update(due_at=database_now())
        assert retries_dispatch().dispatched == 1
        child = api.read(f"sessions/{waits['session_id']}/")["retry_state"]["next_session_id"]
    else:
        child = retried({"owner": api, "lead": lead}[who], waits["session_id"])["id"]
    assert given(played, child) == OWN
    # What waited for the dispatch is not kept beside the specification.
    assert not RetryDecision.objects.filter(changes__has_key="secrets").exists()
    assert "of-the-lead" not in everything_stored()


@pytest.mark.usefixtures("one_a_minute")
def test_changes_of_two_persons_before_the_slot(api: Api, lead: Api, played: Agent) -> None:
    for _ in range(2):
        a_failed(api, played)
    asked = {"filter": {"status": "ERROR"}, "changes": {"secret_environ": {"NEW": "of-owner"}}}
    answer = api.post("sessions/bulk-retry/", asked).json()
    (waits,) = (each for each in answer["results"] if each["outcome"] == "scheduled")
    child = retried(lead, waits["session_id"], changes={"command": ["env"]})
    assert child["secrets_dropped"] == ["KEY", "NEW", "PASSWORD"]
    assert given(played, child["id"]) == {}


@pytest.mark.usefixtures("one_a_minute")
def test_keys_are_changed_while_a_retry_waits(
    api: Api, lead: Api, played: Agent, settings: Any
) -> None:
    first, second = "1" * 40, "2" * 40
    settings.ENCRYPTION_KEYS = old = EncryptionKeys([first])
    for _ in range(2):
        a_failed(api, played)
    asked = {"filter": {"status": "ERROR"}, "changes": {"secret_environ": OWN}}
    answer = lead.post("sessions/bulk-retry/", asked).json()
    (waits,) = (each for each in answer["results"] if each["outcome"] == "scheduled")
    settings.ENCRYPTION_KEYS = EncryptionKeys([second, first])
    assert old.newest in encrypt_secrets.keys_in_use()
    call_command("encrypt_secrets", verbosity=0)
    settings.ENCRYPTION_KEYS = keys = EncryptionKeys([second])
    assert encrypt_secrets.keys_in_use() == {keys.newest}
    encrypt_secrets.secrets_check()
    child = retried(lead, waits["session_id"])
    assert given(played, child["id"]) == OWN


def test_downstream_of_it_keeps_them(api: Api, lead: Api, played: Agent) -> None:
    first = a_failed(api, played, creation_id="first")
    api.post("sessions/", body(depends_on=["first"], retry_policy={"max_retries": 0}))
    down = Session.objects.get(retry_cause="dependency_failed")
    dry = {"filter": {"status": "ERROR"}, "changes": {"command": ["env"]}, "downstream": True}
    answer = lead.post("sessions/bulk-retry/", {**dry, "dry_run": True}).json()
    assert [each["secrets_dropped"] for each in answer["results"]] == [NAMES]
    child = retried(lead, first, changes={"command": ["env"]}, downstream=True)
    assert given(played, child["id"]) == {}
    played.start(UUID(child["id"]))
    played.succeed(UUID(child["id"]))
    # Its command is the owner's.
    dependants_sweep()
    assert given(played, str(factories.tip(down).pk)) == SECRET


def test_dependants_that_match_a_bulk_retry_lose_them(api: Api, lead: Api, played: Agent) -> None:
    a_failed(api, played, creation_id="first")
    api.post("sessions/", body(depends_on=["first"], retry_policy={"max_retries": 0}))
    asked = {"filter": {"project": "acme/work"}, "downstream": True, "changes": {"image": "a:1"}}
    for dry in (True, False):
        answer = lead.post("sessions/bulk-retry/", {**asked, "dry_run": dry}).json()
        assert [each["secrets_dropped"] for each in answer["results"]] == [NAMES, NAMES]
    assert not Session.objects.filter(tip=True, spec__secret_names__isnull=False).exists()


def test_graphql_says_it_too(api: Api, at: Project, played: Agent) -> None:
    lead = Graph(factories.token(factories.user("lea", project=at, role=Role.MAINTAINER)))
    session = a_failed(api, played)
    asked = {"id": str(session.pk), "changes": {"command": ["env"]}, "dryRun": True}
    assert done(lead, "retrySession", "secretsDropped", **asked)["secretsDropped"] == NAMES
    some = {"filter": {"status": "ERROR"}, "changes": {"secretEnviron": OWN}}
    (outcome,) = done(
        lead, "retrySessions", "results { secretsDropped nextSession { secretEnviron } }", **some
    )["results"]
    assert outcome == {"secretsDropped": NAMES, "nextSession": {"secretEnviron": ["TOKEN"]}}


def many(value: str) -> dict[str, str]:
    return {f"A{number}": value for number in range(5)}


@pytest.mark.parametrize(
    ("changes", "field", "text"),
    [
        ({"secret_environ": {"A": 5}}, "changes.secret_environ.A", "valid string"),
        ({"secret_environ": VALUE}, "changes.secret_environ", "must be an object"),
        ({"secret_environ": {"A": VALUE + "\0"}}, "changes.secret_environ.A", "NUL"),
        (
            {"secret_environ": {"A": VALUE}, "environ": {"A": "1"}},
            "changes.secret_environ",
            "has A, which environ also has",
        ),
        ({"secret_environ": many("x" * 110_000)}, "changes.secret_environ", "more than 524288"),
        (
            {"secret_environ": many("x" * 104_855)},
            "changes.secret_environ",
            "with those that it has, holds more than 524288",
        ),
    ],
)
def test_bad_secrets_are_refused_without_their_values(
    api: Api, played: Agent, changes: dict[str, Any], field: str, text: str
) -> None:
    session = a_failed(api, played)
    refused = retried(api, session, 400, changes=changes)
    ((name, texts),) = refused["errors"].items()
    assert name == field
    assert text in texts[0]
    assert VALUE not in str(refused)


def test_the_page_says_it_before_and_after(api: Api, at: Project, played: Agent) -> None:
    session = a_failed(api, played, image="train:1")
    lead = signed_in(factories.user("lea", project=at, role=Role.MAINTAINER))
    address = f"/sessions/{session.pk}/retry/"
    assert "gets no secret that somebody else gave: KEY, PASSWORD" in read(lead.get(address))
    assert session.owner
    owner = signed_in(session.owner)
    assert "somebody else" not in read(owner.get(address))
    shown = {"image": "train:1", "command": "true", "priority": "0", "batch_timeout": ""}
    wrong = lead.post(address, {**shown, "priority": "x", "secret_environ": "TOKEN=of-the-lead"})
    assert wrong.status_code == 400
    assert "of-the-lead" not in read(wrong)
    done = lead.post(
        address, {**shown, "command": "env", "secret_environ": "TOKEN=of-the-lead"}, follow=True
    )
    page = read(done)
    assert "It does not get the secrets KEY, PASSWORD: somebody else gave them." in page
    assert "without the secrets KEY PASSWORD" in page
    assert given(played, str(factories.tip(session).pk)) == OWN


def read(response: Any) -> str:
    text: str = response.content.decode()
    return text
