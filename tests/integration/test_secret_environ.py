"""Secret variables of sessions: from the door to the run, and nowhere else."""

import json
import logging
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from sessions_app.core.encryption import EncryptionKeys
from sessions_app.locks import database_now
from sessions_app.models import Project, RetrySettings, Session, SessionSpec
from sessions_app.models.tenants import Role
from sessions_app.services.chains.dispatch import retries_dispatch
from sessions_app.services.secrets import encrypt as encrypt_secrets
from sessions_app.services.sessions.retention import chains_archive, chains_ended
from tests import factories
from tests.agent import Agent, Api, failed
from tests.dumped import everything_stored
from tests.graphs import Graph
from tests.mutations import done, refusal

pytestmark = pytest.mark.django_db(transaction=True)

VALUE = "hunter2-and-more"
SECRET = {"PASSWORD": VALUE, "KEY": "zebra\nstripes $(HOME) ü"}
NAMES = ["KEY", "PASSWORD"]
FIRST, SECOND = "1" * 40, "2" * 40


@pytest.fixture(autouse=True)
def _first_key(settings: Any) -> None:
    settings.ENCRYPTION_KEYS = EncryptionKeys([FIRST])


def fail(played: Agent, session_id: str) -> None:
    played.start(UUID(session_id))
    played.fail(UUID(session_id))


def body(**fields: Any) -> dict[str, Any]:
    return {"project": "acme/work", "command": ["true"], "secret_environ": SECRET, **fields}


def leased(played: Agent, **fields: Any) -> dict[UUID, dict[str, Any]]:
    played.lease(**fields)
    return {UUID(each["session_id"]): each for each in played.answer["leases"]}


def test_a_secret_comes_to_the_run_and_is_nowhere_else(
    api: Api, played: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    answers = [api.post("sessions/", body(creation_id="job-1"))]
    made = answers[0].json()
    assert made["secret_environ"] == NAMES
    assert made["environ"] == {}
    (lease,) = leased(played).values()
    assert lease["secret_environ"] == SECRET
    assert "secret_environ" not in lease["spec"]
    fail(played, made["id"])
    answers.append(api.post(f"sessions/{made['id']}/retry/"))
    (lease,) = leased(played).values()
    assert lease["secret_environ"] == SECRET
    assert lease["attempt"] == 1
    paths = ["", "attempts/", "events/", "retry-decision/"]
    answers += [api.get(f"sessions/{made['id']}/{path}") for path in paths]
    answers += [api.get("sessions/"), api.post("sessions/", body(creation_id="job-1", name="x"))]
    assert [each.status_code for each in answers] == [201, 201, *[200] * 5, 409]
    whole = " ".join([*(each.content.decode() for each in answers), everything_stored()])
    for text in (VALUE, "zebra", "stripes"):
        assert text not in whole
        assert text not in caplog.text


def test_all_doors_take_them_and_tell_names_only(api: Api, played: Agent) -> None:
    graph = Graph(api.token)
    item = {"command": ["true"], "secret_environ": SECRET}
    (outcome,) = api.post(
        "sessions/bulk/", {"sessions": [{"project": "acme/work", **item}]}
    ).json()["results"]
    answer = done(
        graph,
        "createSession",
        "session { sessionId secretEnviron environ }",
        project="acme/work",
        command=["true"],
        secretEnviron=SECRET,
    )["session"]
    assert answer["secretEnviron"] == NAMES
    assert {each["secret_environ"]["PASSWORD"] for each in leased(played).values()} == {VALUE}
    assert played.tokens.keys() == {UUID(outcome["session_id"]), UUID(answer["sessionId"])}
    assert api.read(f"sessions/{outcome['session_id']}/")["secret_environ"] == NAMES


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"secret_environ": {"A": 5}}, "valid string"),
        ({"secret_environ": {"A=": VALUE}}, "name of a variable"),
        ({"secret_environ": {"A" * 257: VALUE}}, "at most 256"),
        ({"secret_environ": VALUE}, "must be an object"),
        ({"secret_environ": [VALUE]}, "must be an object"),
        ({"secret_environ": {"A": VALUE}, "environ": {"A": "1"}}, "has A, which environ also has"),
        ({"secret_environ": {"A": "x" * 530_000}}, "A has 530,002 bytes with its name"),
        (
            {"secret_environ": {f"A{n}": "x" * 100_000 for n in range(6)}},
            "holds more than 524288 bytes",
        ),
        ({"secret_environ": {"A": VALUE + "\x00"}}, "NUL"),
    ],
)
def test_errors_do_not_show_the_value(api: Api, given: dict[str, Any], message: str) -> None:
    response = api.post("sessions/", {"project": "acme/work", "command": ["true"], **given})
    assert response.status_code == 400
    (field, texts), *_ = response.json()["errors"].items()
    assert field.startswith("secret_environ")
    assert message in texts[0]
    assert VALUE not in response.content.decode()
    assert Session.objects.count() == 0


def test_graphql_does_not_repeat_a_value_either(api: Api) -> None:
    graph = Graph(api.token)
    code, field = refusal(
        graph, "createSession", command=["true"], project="acme/work", secretEnviron=[VALUE]
    )
    assert (code, field) == ("INVALID", "secretEnviron")
    query = 'mutation { createSession(input: {command: ["true"], secretEnviron: %s}) { nothing } }'
    for text in (f'"{VALUE}"', f'{{A: "{VALUE}"}}'):
        assert VALUE not in graph.send(query % text).content.decode()


def test_the_same_creation_id_needs_the_same_secrets(api: Api, at: Project, settings: Any) -> None:
    asked = body(creation_id="job-1")
    first = api.post("sessions/", asked).json()
    for keys in ([FIRST], [SECOND, FIRST]):
        settings.ENCRYPTION_KEYS = EncryptionKeys(keys)
        again = api.post("sessions/", asked)
        assert (again.status_code, again.json()["id"]) == (200, first["id"])
        other = {**SECRET, "PASSWORD": "another"}
        for changed in ({"secret_environ": other}, {"secret_environ": {"PASSWORD": VALUE}}):
            assert api.post("sessions/", {**asked, **changed}).status_code == 409
    call_command("encrypt_secrets", verbosity=0)
    settings.ENCRYPTION_KEYS = EncryptionKeys([SECOND])
    assert api.post("sessions/", asked).status_code == 200
    # Whoever may try many could find out what a secret is.
    colleague = Api(factories.token(factories.user("bob", project=at)))
    assert colleague.post("sessions/", asked).status_code == 409
    settings.ENCRYPTION_KEYS = EncryptionKeys([FIRST])
    assert api.post("sessions/", asked).status_code == 503
    assert Session.objects.count() == 1


def test_the_stored_digest_says_nothing_of_the_values(api: Api) -> None:
    for value in ("a", "b"):
        api.post("sessions/", body(secret_environ={"A": value}))
    assert len(set(SessionSpec.objects.values_list("request_digest", flat=True))) == 1


def test_a_retry_with_other_resources_has_them_too(api: Api, played: Agent) -> None:
    made = api.post("sessions/", body()).json()
    amounts = {"cpu": "4"}
    played.nodes = [{"name": "n", "free": amounts, "allocatable": amounts}]
    failed(played, Session.objects.get())
    child = api.post(f"sessions/{made['id']}/retry/", {"resources": {"cpu": "1"}}).json()
    assert child["secret_environ"] == NAMES
    assert leased(played)[UUID(child["id"])]["secret_environ"] == SECRET
    assert SessionSpec.objects.count() == 2


def retry_without(
    api: Api, session_id: str, *names: str, status: int = 201, **changes: Any
) -> dict[str, Any]:
    asked = {"environ": dict.fromkeys(names), **changes}
    answer = api.post(f"sessions/{session_id}/retry/", {"changes": asked})
    assert answer.status_code == status, answer.content
    found: dict[str, Any] = answer.json()
    return found


def test_a_retry_can_remove_one_and_later_attempts_keep_that(api: Api, played: Agent) -> None:
    made = api.post("sessions/", body(environ={"MODE": "fast"})).json()
    failed(played, Session.objects.get())
    policy = {"max_retries": 5, "retry_delay": 1e-6}
    child = retry_without(api, made["id"], "PASSWORD", "MODE", retry_policy=policy)
    assert (child["secret_environ"], child["environ"]) == (["KEY"], {})
    assert leased(played)[UUID(child["id"])]["secret_environ"] == {"KEY": SECRET["KEY"]}
    fail(played, child["id"])
    assert retries_dispatch().dispatched == 1
    third = api.read(f"sessions/{child['id']}/")["retry_state"]["next_session_id"]
    assert leased(played)[UUID(third)]["secret_environ"] == {"KEY": SECRET["KEY"]}
    shown = api.read(f"sessions/{third}/attempts/")
    assert [each["changes"] and each["changes"]["environ"] for each in shown] == [
        *(None, ["MODE", "PASSWORD"], None),
    ]
    assert VALUE not in json.dumps([child, shown]) + everything_stored()
    # What the first attempt ran with stays with it.
    assert api.read(f"sessions/{made['id']}/")["secret_environ"] == NAMES


def test_a_retry_can_remove_all_of_them_also_without_their_key(
    api: Api, played: Agent, settings: Any
) -> None:
    made = api.post("sessions/", body()).json()
    failed(played, Session.objects.get())
    old = settings.ENCRYPTION_KEYS.newest
    settings.ENCRYPTION_KEYS = EncryptionKeys([SECOND])
    refused = retry_without(api, made["id"], "KEY", status=400)
    (text,) = refused["errors"]["changes.environ.KEY"]
    assert text.startswith(f"cannot be removed: its secrets need the key {old}, which is not")
    child = retry_without(api, made["id"], *NAMES)
    assert child["secret_environ"] == []
    assert leased(played)[UUID(child["id"])]["secret_environ"] == {}
    spec = Session.objects.select_related("spec").get(pk=child["id"]).spec
    assert (spec.secret_names, spec.secret_environ) == (None, None)


def test_many_retries_can_remove_one_and_those_that_wait_do_so_later(
    api: Api, played: Agent
) -> None:
    RetrySettings.objects.create(retries_per_minute=1)
    for given in (SECRET, {"KEY": "of another"}, {}):
        api.post("sessions/", body(secret_environ=given, retry_policy={"max_retries": 0}))
    for lease in leased(played):
        fail(played, str(lease))
    asked = {"filter": {"status": "ERROR"}, "changes": {"environ": {"PASSWORD": None}}}
    done = api.post("sessions/bulk-retry/", asked).json()
    waiting = [each for each in done["results"] if each["outcome"] == "scheduled"]
    assert len(waiting) == 2
    RetrySettings.objects.update(retries_per_minute=None)
    for each in waiting:
        assert api.post(f"sessions/{each['session_id']}/retry/").status_code == 201
    found = [each["secret_environ"] for each in leased(played).values()]
    assert sorted(found, key=str) == [{"KEY": "of another"}, {"KEY": SECRET["KEY"]}, {}]


def test_only_retries_that_change_what_runs_cost_a_statement(api: Api, played: Agent) -> None:
    counted = []
    for changes in ({}, {"batch_timeout": 5}, {"image": "a:2"}, {"environ": {"KEY": None}}):
        made = api.post("sessions/", body(retry_policy={"max_retries": 0})).json()
        failed(played, Session.objects.get(pk=made["id"]))
        with CaptureQueriesContext(connection) as queries:
            api.post(f"sessions/{made['id']}/retry/", {"changes": changes})
        counted.append(sum("secret_environ" in each["sql"] for each in queries))
        played.lease()
    # The new specification, and a look at the secrets of the one before.
    assert counted == [0, 1, 2, 2]


def test_the_archive_knows_the_names_only(api: Api, played: Agent) -> None:
    made = api.post("sessions/", body()).json()
    failed(played, Session.objects.get())
    later = database_now() + timedelta(days=1)
    assert chains_archive(chains_ended(later), later) == 1
    assert api.read(f"sessions/{made['id']}/")["secret_environ"] == NAMES
    assert encrypt_secrets.keys_in_use() == set()
    keys = EncryptionKeys([FIRST])
    assert keys.newest not in everything_stored()


def test_keys_are_changed_while_sessions_wait(api: Api, played: Agent, settings: Any) -> None:
    for _ in range(3):
        api.post("sessions/", body())
    settings.ENCRYPTION_KEYS = keys = EncryptionKeys([SECOND, FIRST])
    api.post("sessions/", body())
    assert encrypt_secrets.keys_in_use() == set(keys.ids)
    assert encrypt_secrets.secrets_encrypt() == (0, 3)
    assert encrypt_secrets.keys_in_use() == {keys.newest}
    settings.ENCRYPTION_KEYS = EncryptionKeys([SECOND])
    found = leased(played).values()
    assert [each["secret_environ"] for each in found] == [SECRET] * 4


def test_a_missing_key_ends_the_session_that_needs_it_and_no_other(
    api: Api, played: Agent, settings: Any
) -> None:
    lost = api.post("sessions/", body(retry_policy={"max_retries": 0})).json()
    old = settings.ENCRYPTION_KEYS.newest
    settings.ENCRYPTION_KEYS = EncryptionKeys([SECOND])
    good = api.post("sessions/", body()).json()
    plain = api.post("sessions/", body(secret_environ={})).json()
    assert {str(key) for key in leased(played)} == {good["id"], plain["id"]}
    answer = api.read(f"sessions/{lost['id']}/")
    assert answer["status"] == "ERROR"
    assert answer["retry_cause"] == "agent_transient"
    assert answer["status_message"] == (
        f"not started: its secrets need the key {old}, which is not among the "
        "REPRISE_ENCRYPTION_KEYS of this server"
    )
    # What is there can still be looked at, and its lease holds no room.
    assert answer["secret_environ"] == NAMES
    assert leased(played) == {}
    assert {str(key) for key in played.tokens} == {good["id"], plain["id"]}


def test_an_agent_of_the_version_before_gets_none_of_them(api: Api, played: Agent) -> None:
    first = api.post("sessions/", body(retry_policy={"max_retries": 0})).json()
    plain = api.post("sessions/", body(secret_environ={})).json()
    assert [str(key) for key in leased(played, secrets=False)] == [plain["id"]]
    answer = api.read(f"sessions/{first['id']}/")
    assert answer["status"] == "ERROR"
    assert "too old to give it its secret_environ: update the agent" in answer["status_message"]


def test_they_cost_no_statement(api: Api, played: Agent) -> None:
    counted = []
    for given in ({}, {}, SECRET):
        with CaptureQueriesContext(connection) as queries:
            api.post("sessions/", body(secret_environ=given))
            failed(played, Session.objects.latest("created_at"))
        counted.append(len(queries))
    # The first time some things are looked up that are kept.
    assert counted[1] == counted[2]


def test_viewers_know_that_there_are_secrets(api: Api, at: Project) -> None:
    made = api.post("sessions/", body()).json()
    viewer = Api(factories.token(factories.user("vic", project=at, role=Role.VIEWER)))
    assert viewer.read(f"sessions/{made['id']}/")["secret_environ"] == NAMES
