"""The audit log: what the database tells by itself, that nobody unsays it, and who reads it."""

import json
from datetime import timedelta
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.db import DatabaseError, connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from reprise.upkeep.retention import prune
from sessions_app.audit.context import SQL, TASK, _writes_configuration, audited, through
from sessions_app.models import (
    AuditEntry,
    AuditLog,
    AutomaticDispatch,
    Membership,
    Project,
    Queue,
    RetryPolicy,
    Session,
)
from sessions_app.models.tenants import Role
from sessions_app.selectors.audit import Wanted, audit_entries
from sessions_app.services.chains.dispatch import retries_dispatch
from tests import factories
from tests.agent import Api
from tests.audit import audited_acts
from tests.integration.admin import operator, url

QUEUE = "queues/acme/work/default/"


@pytest.fixture
def api() -> Api:
    return Api(factories.token(factories.user("root", superuser=True)))


def run(sql: str, *params: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql, params)


def newest() -> AuditLog:
    return AuditLog.objects.latest("id")


def columns_of(entry: AuditLog) -> tuple[Any, ...]:
    return entry.action, entry.object_id, entry.project, entry.data["before"], entry.data["after"]


WORK = "acme/work"
RAW: list[tuple[str, tuple[Any, ...]]] = [
    (
        "UPDATE sessions_app_queue SET priority_factor = 2",
        ("queue.change", f"{WORK}/default", WORK, {"priority_factor": 1}, {"priority_factor": 2}),
    ),
    (
        "DELETE FROM sessions_app_membership",
        (
            *("membership.delete", f"ann in {WORK}", WORK),
            *({"user": "ann", "project": WORK, "role": "member"}, {}),
        ),
    ),
    (
        "UPDATE auth_user SET is_superuser = true",
        ("user.change", "ann", "", {"is_superuser": False}, {"is_superuser": True}),
    ),
    (
        "UPDATE auth_user SET password = 'x'",
        ("user.change", "ann", "", {}, {"password": "changed"}),
    ),
    (
        "UPDATE sessions_app_apitoken SET read_only = true",
        ("token.change", "rpr_", "", {"read_only": False}, {"read_only": True}),
    ),
    (
        'UPDATE sessions_app_projectusage SET "limit" = 5',
        ("quota.change", WORK, WORK, {"sessions": "3"}, {"sessions": "5"}),
    ),
    (
        "INSERT INTO sessions_app_retrysettings (mode, updated_at) VALUES ('off', now())",
        ("retry_settings.create", "cluster", "", {}, {"mode": "off", "default_policy": ""}),
    ),
    (
        "UPDATE scheduler_executor SET cordoned = true",
        ("executor.change", "one", "", {"cordoned": False}, {"cordoned": True}),
    ),
    (
        "DELETE FROM scheduler_executor_projects",
        ("executor.stop_serving", "one", "", {"project": WORK}, {}),
    ),
    (
        "UPDATE django_celery_beat_periodictask SET enabled = false WHERE name = 'expire leases'",
        ("periodic_task.change", "expire leases", "", {"enabled": True}, {"enabled": False}),
    ),
    (
        "UPDATE sessions_app_retrypolicy SET name = 'other'",
        ("retry_policy.change", f"{WORK}/ml", WORK, {"name": "ml"}, {"name": "other"}),
    ),
]


@pytest.fixture
def world(at: Project) -> Project:
    factories.token(factories.user("ann", project=at))
    factories.quotas(at, sessions=3)
    factories.executor("one", projects=(at,))
    factories.named_policy("ml", project=at, retryLimit=1)
    return at


@pytest.mark.parametrize(("sql", "expected"), RAW, ids=[sql.split("WHERE")[0] for sql, _ in RAW])
def test_raw_sql_is_told_by_the_role_that_ran_it(
    world: Project, sql: str, expected: tuple[Any, ...]
) -> None:
    run("SELECT set_config('reprise.audit', '', true)")
    before = AuditEntry.objects.count()
    run(sql)
    assert AuditEntry.objects.count() == before + 1
    entry = newest()
    action, name, *rest = columns_of(entry)
    assert (action, name[: len(expected[1])], *rest) == expected
    assert entry.actor.startswith("sql:")
    assert entry.door == SQL


QUIET = [
    "UPDATE sessions_app_apitoken SET last_used_at = now()",
    "UPDATE auth_user SET last_login = now()",
    "UPDATE sessions_app_projectusage SET used = used + 1",
    "UPDATE scheduler_executor SET last_seen_at = now(), nodes = '[]', round = round + 1",
    "UPDATE django_celery_beat_periodictask SET last_run_at = now(), total_run_count = 7",
    "UPDATE sessions_app_queue SET priority_factor = priority_factor",
]


@pytest.mark.parametrize("sql", QUIET)
def test_frequent_writes_are_not_audited(world: Project, sql: str) -> None:
    before = AuditEntry.objects.count()
    run(sql)
    assert AuditEntry.objects.count() == before


def test_every_column_of_the_configuration_is_told_or_left_out_on_purpose() -> None:
    """A new column that nobody thought of fails here."""
    untold = {
        "sessions_app_domain": {"id", "created_at"},
        "sessions_app_project": {"id", "created_at"},
        "sessions_app_membership": {"id"},
        "sessions_app_apitoken": {"id", "created_at", "last_used_at", "budget"},
        "sessions_app_queue": {"id", "created_at"},
        "sessions_app_projectusage": {"id", "used"},
        "sessions_app_retrydefaults": {"id", "updated_at"},
        "sessions_app_retrysettings": {"id", "updated_at"},
        "sessions_app_failurecategory": {"id", "created_at", "updated_at"},
        "sessions_app_priorityclass": {"id", "created_at", "updated_at"},
        "sessions_app_schedule": {
            *("id", "created_at", "next_at", "due_at", "last_at", "last_problem", "recent"),
            *("judged_from", "by_hand"),
        },
        "sessions_app_webhookendpoint": {
            *("id", "host", "previous_secret_until", "created_at", "failures", "failing_since"),
            *("epoch", "xid", "event_id"),
        },
        "auth_user": {"id", "last_login", "date_joined"},
        "auth_group": {"id"},
        "scheduler_executor": {
            *("id", "incarnation", "round", "state_id", "fenced_at", "driver", "nodes"),
            *(
                "max_sessions",
                "trouble",
                "project_troubles",
                "warnings",
                "last_seen_at",
                "warned_at",
            ),
            *("created_at", "refusals", "nodes_digest", "node_templates"),
            *("pod_placing", "extended_tolerations"),
        },
        "django_celery_beat_periodictask": {
            *("id", "last_run_at", "total_run_count", "date_changed"),
        },
        "django_celery_beat_intervalschedule": {"id"},
        "django_celery_beat_crontabschedule": {"id"},
        "django_celery_beat_clockedschedule": {"id"},
    }
    columns = {
        model._meta.db_table: {field.column for field in model._meta.concrete_fields}
        for model in apps.get_models()
    }
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT tgrelid::regclass::text, encode(tgargs, 'escape') FROM pg_trigger "
            "JOIN pg_proc ON pg_proc.oid = tgfoid "
            "WHERE proname = 'reprise_audit' AND tgname = 'audit_changed'"
        )
        found = {
            table: {each.strip("{}") for each in ",".join(args.split("\\000")[1:]).split(",")}
            for table, args in cursor.fetchall()
        }
    assert found.keys() == untold.keys()
    for table, names in found.items():
        assert (names - {""}) | untold[table] == columns[table], table
        assert not names & untold[table], table


def test_the_actor_is_set_before_each_table_with_triggers() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT tgrelid::regclass::text FROM pg_trigger WHERE tgname LIKE 'audit_%'")
        tables = {table for (table,) in cursor.fetchall()} - {AuditEntry._meta.db_table}
    assert len(tables) > 15
    assert {each for each in tables if not _writes_configuration(f'UPDATE "{each}" SET')} == set()


@pytest.mark.parametrize("verb", ["UPDATE %s SET actor = 'x'", "DELETE FROM %s", "TRUNCATE %s"])
def test_nobody_changes_the_log(at: Project, verb: str) -> None:
    run("ALTER TABLE sessions_app_auditentry ENABLE TRIGGER audit_kept_whole")
    before = list(AuditEntry.objects.values())
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        run(verb % "sessions_app_auditentry")
    assert list(AuditEntry.objects.values()) == before != []
    run("ALTER TABLE sessions_app_auditentry DISABLE TRIGGER audit_kept_whole")


def test_a_change_that_is_not_kept_is_not_told(at: Project) -> None:
    before = AuditEntry.objects.count()
    with transaction.atomic():
        Queue.objects.update(priority_factor=2)
        assert AuditEntry.objects.count() == before + 1
        transaction.set_rollback(True)
    assert AuditEntry.objects.count() == before


def test_an_entry_says_who_came_through_which_door(api: Api, at: Project) -> None:
    asked = api.call("PATCH", QUEUE, {"priority_factor": 4})
    assert asked.status_code == 200
    (found,) = api.read("audit/?object_type=queue&automatic=false&door=rest")["results"]
    assert (found["actor"], found["action"], found["domain"]) == ("root", "queue.change", "acme")
    assert (found["before"], found["after"]) == ({"priority_factor": 1}, {"priority_factor": 4})
    assert found["via"]["token"] == str(api.token)[:12]
    assert found["via"]["request_id"]
    User.objects.filter(username="root").delete()
    operator().post(url("sessions_app_domain", "add"), {"name": "globex"})
    entry = newest()
    assert (entry.actor, entry.door, entry.action) == ("root", "admin", "domain.create")


def test_reads_and_sessions_cost_no_statement_more(api: Api, at: Project) -> None:
    with CaptureQueriesContext(connection) as queries:
        assert api.post("sessions/", {"project": WORK, "command": ["true"]}).status_code == 201
        assert api.get(QUEUE).status_code == 200
    assert not [q for q in queries.captured_queries if "reprise.audit" in q["sql"]]
    with CaptureQueriesContext(connection) as queries:
        api.call("PATCH", QUEUE, {"priority_factor": 4})
    named, taken_back = [q["sql"] for q in queries.captured_queries if "reprise.audit" in q["sql"]]
    assert '"actor": "root"' in named
    assert taken_back == "SELECT set_config('reprise.audit', '', true)"


def test_later_writes_of_the_transaction_have_no_actor(at: Project) -> None:
    with audited(by="ann"):
        with audited(by="bob", action="queue.cordon"):
            Queue.objects.update(cordoned=True)
        assert (newest().actor, newest().action) == ("bob", "queue.cordon")
        Queue.objects.update(priority_factor=2)
        assert (newest().actor, newest().action) == ("ann", "queue.change")
    Queue.objects.update(priority_factor=3)
    assert (newest().actor.partition(":")[0], newest().door) == ("sql", SQL)


def test_a_failed_call_leaves_no_name_behind(at: Project) -> None:
    """The setting goes with the savepoint, and nothing is asked of a broken transaction."""

    def fail() -> None:
        with transaction.atomic(), audited(by="ann"):
            Queue.objects.update(priority_factor=2)
            run("UPDATE sessions_app_queue SET cordoned = NULL")

    with pytest.raises(DatabaseError, match="cordoned"):
        fail()
    Queue.objects.update(priority_factor=3)
    assert newest().door == SQL
    with transaction.atomic(), audited(by="ann"):
        Queue.objects.update(priority_factor=4)
        transaction.set_rollback(True)


def test_dispatches_are_told_by_session_and_chain(api: Api, at: Project) -> None:
    session = factories.start(factories.submit(at, retry_policy=factories.policy()))
    factories.settle(session)
    with through(TASK, task="t"):
        while not retries_dispatch().dispatched:
            pass
    child = Session.objects.get(parent=session)
    for query in (f"session={session.pk}", f"chain={session.root_id}", "automatic=true"):
        (found,) = api.read(f"audit/?{query}")["results"]
        assert (found["actor"], found["automatic"], found["door"]) == ("reprise", True, "task")
        assert found["data"]["child"] == str(child.pk)
        assert (found["project"], found["domain"], found["before"]) == (WORK, "acme", None)


def test_a_policy_is_told_once_with_what_it_says(world: Project) -> None:
    policy = RetryPolicy.objects.get()
    before = AuditEntry.objects.count()
    factories.named_policy("ml", project=world, retryLimit=2)
    assert AuditEntry.objects.count() == before + 1
    run("UPDATE sessions_app_retrypolicy SET revision = 1")
    entry = newest()
    sides = [entry.data[side] for side in ("before", "after")]
    assert [(s["revision"], s["document"]["spec"]["retryLimit"]) for s in sides] == [(2, 2), (1, 1)]
    policy.refresh_from_db()
    policy.archived_at = timezone.now()
    policy.save()
    assert newest().action == "retry_policy.delete"
    before = AuditEntry.objects.count()
    policy.delete()
    assert AuditEntry.objects.count() == before, "it was told when it was archived"


# Reading


def fill(at: Project, rows: int) -> None:
    """Dispatches of the engine, as they are most of the log: old ones and such as are kept now."""
    run(
        """INSERT INTO sessions_app_auditentry
            (time, actor, action, object_type, object_id, project, domain, door, via, root, data)
        SELECT now() - make_interval(secs => n), 'reprise', 'retry.dispatch', 'session',
            gen_random_uuid(), 'acme/p' || n %% 7, 'acme', 'task', '{}', gen_random_uuid(), '{}'
        FROM generate_series(1, %s, 2) n""",
        rows,
    )
    run(
        """INSERT INTO sessions_app_automaticdispatch
            (id, time, object_id, project, domain, via, root, data)
        SELECT nextval('sessions_app_auditentry_id_seq'), now() - make_interval(secs => n),
            gen_random_uuid(), 'acme/p' || n %% 7, 'acme', '{}', gen_random_uuid(), '{}'
        FROM generate_series(2, %s, 2) n""",
        rows,
    )


def test_pages_stay_as_they_are_while_rows_arrive(api: Api, at: Project) -> None:
    fill(at, 25)
    first = api.read("audit/?page_size=10")
    fill(at, 0)
    for number in range(15):
        factories.queue(at, f"new-{number}")
    seen = [each["id"] for each in first["results"]]
    page = first
    while page["next"]:
        page = api.read(page["next"].partition("/api/v2/")[2])
        seen += [each["id"] for each in page["results"]]
    assert len(seen) == len(set(seen))
    assert set(seen) == set(AuditLog.objects.filter(id__lte=max(seen)).values_list("id", flat=True))
    back = api.read(page["previous"].partition("/api/v2/")[2])
    assert [each["id"] for each in back["results"]] == seen[-10 - len(page["results"]) :][:10]
    assert api.read(first["results"] and "audit/?page_size=10")["previous"] is None


@pytest.mark.parametrize("cursor", ["x", "b1", "b1-x", "c1-1", "b1-1-1", "b9" * 20, "b01-1"])
def test_a_cursor_that_is_none_is_a_404(api: Api, cursor: str) -> None:
    assert api.get(f"audit/?cursor={cursor}").status_code == 404


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("door=window", "door"),
        ("session=x", "session"),
        ("automatic=maybe", "automatic"),
        ("created_after=5", "created_after"),
        ("object_id=x", "object_id"),
        ("actor=%00", "actor"),
        ("who=ann", "who"),
    ],
)
def test_a_bad_filter_is_a_400_that_names_it(api: Api, query: str, field: str) -> None:
    answer = api.get(f"audit/?{query}")
    assert (answer.status_code, list(answer.json()["errors"])) == (400, [field])


def test_everybody_sees_what_they_may_configure(world: Project) -> None:
    other = factories.project("other", domain="acme")
    far = factories.project("far", domain="globex")
    head = Api(factories.token(factories.user(domain=world.domain, role=Role.DOMAIN_ADMIN)))
    keeper = factories.user(project=other, role=Role.MAINTAINER)
    factories.user("both", project=far, role=Role.MAINTAINER)
    factories.executor("two")
    seen = {each["project"] for each in head.read("audit/?page_size=500")["results"]}
    assert seen == {None, WORK, "acme/other"}
    assert {each["domain"] for each in head.read("audit/")["results"]} == {"acme"}
    own = Api(factories.token(keeper))
    assert {each["project"] for each in own.read("audit/")["results"]} == {"acme/other"}
    for query, status in (
        *(("project=acme/other", 200), ("project=acme/work", 400), ("project=no/such", 400)),
        *(("domain=acme", 403), ("domain=globex", 400)),
    ):
        assert own.get(f"audit/?{query}").status_code == status, query
    assert head.get("audit/?domain=acme").status_code == 200
    # Of two scopes in one list, in order.
    Membership.objects.create(user=keeper, project=far, role=Role.MAINTAINER)
    times = [each["time"] for each in own.read("audit/")["results"]]
    assert times == sorted(times, reverse=True)
    assert {each["project"] for each in own.read("audit/")["results"]} == {
        "acme/other", "globex/far",
    }  # fmt: skip


def test_an_older_record_of_the_same_name_is_not_seen(world: Project) -> None:
    Project.objects.filter(pk=world.pk).update(created_at=timezone.now() + timedelta(hours=1))
    keeper = Api(factories.token(factories.user(project=world, role=Role.MAINTAINER)))
    assert keeper.read("audit/")["results"] == []


def test_the_number_of_statements_does_not_grow(api: Api, world: Project) -> None:
    def statements() -> int:
        with CaptureQueriesContext(connection) as queries:
            assert api.get("audit/?page_size=500").status_code == 200
        return len(queries)

    statements()  # the first use of the token is written down
    few = statements()
    fill(world, 400)
    assert statements() == few


ROWS = 20_000
LONG_AGO = timezone.now() - timedelta(seconds=ROWS - 100)
FILTERS = [
    Wanted(),
    Wanted(actor="nobody"),
    Wanted(actor="reprise"),
    Wanted(action="queue.change"),
    Wanted(action="retry.dispatch"),
    Wanted(object_type="retry_settings"),
    Wanted(object_type="queue", object_id="acme/work/none"),
    Wanted(door="sql", actor="nobody"),
    Wanted(door="graphql"),
    Wanted(door="task"),
    Wanted(automatic=False),
    Wanted(automatic=True),
    Wanted(session=uuid4()),
    Wanted(chain=uuid4()),
    Wanted(created_before=LONG_AGO),
    Wanted(created_after=timezone.now() + timedelta(days=1)),
    Wanted(automatic=False, created_before=LONG_AGO),
]
SCOPES: list[dict[str, str]] = [{"project": "acme/p3"}, {"project": "no/such"}, {"domain": "no"}]


@pytest.fixture
def long_log(at: Project) -> None:
    fill(at, ROWS)
    run("ANALYZE sessions_app_auditentry, sessions_app_automaticdispatch")


def test_no_filter_goes_over_the_log(long_log: None) -> None:
    """With plans as they are kept for any value, too."""
    run("SET LOCAL plan_cache_mode = force_generic_plan")
    wanted = [audit_entries(each) for each in FILTERS]
    wanted += [audit_entries(Wanted()).filter(**scope) for scope in SCOPES]
    wanted += [audit_entries(Wanted(automatic=False)).filter(**scope) for scope in SCOPES]
    for rows in wanted:
        page = rows.order_by("-time", "-id")[:51]
        (plan,) = plan_of(page)
        assert "Seq Scan" not in str(plan), (str(page.query), plan)
        assert touched(plan["Plan"]) <= 1_000, (str(page.query), plan)


def test_automatic_dispatches_are_kept_for_a_time(api: Api, at: Project, settings: Any) -> None:
    """And is one list with the rest, also with what servers of before go on writing."""
    session = failed_and_retried(at)
    fill(at, 2)
    (row,) = AutomaticDispatch.objects.filter(object_id=str(session.pk))
    (entry,) = api.read(f"audit/?session={session.pk}")["results"]
    assert (entry["id"], entry["actor"], entry["automatic"], entry["door"], entry["action"]) == (
        row.pk, "reprise", True, "task", "retry.dispatch",
    )  # fmt: skip
    assert (entry["project"], entry["root_session_id"]) == (at.address, str(session.root_id))
    assert entry["data"]["child"] == str(Session.objects.get(parent=session).pk)
    found = {each["id"] for each in api.read("audit/?automatic=true")["results"]}
    assert found == set(AuditLog.objects.filter(actor="reprise").values_list("id", flat=True))
    assert len(found) == 3
    assert not AuditEntry.objects.filter(object_id=str(session.pk)).exists()

    settings.REPRISE = {**settings.REPRISE, "automatic_audit_retention": 0.0}
    prune()
    assert AutomaticDispatch.objects.count() == 2, "0: for ever"
    kept = set(AuditEntry.objects.values_list("id", flat=True))
    settings.REPRISE = {**settings.REPRISE, "automatic_audit_retention": 3600.0}
    prune()
    assert AutomaticDispatch.objects.count() == 2, "not old enough"
    settings.REPRISE = {**settings.REPRISE, "automatic_audit_retention": 1e-6}
    with patch("reprise.upkeep.retention.DISPATCHES", 1):  # slice after slice
        prune()
    assert AutomaticDispatch.objects.count() == 0
    assert set(AuditEntry.objects.values_list("id", flat=True)) == kept != set()


def test_nobody_changes_what_the_engine_dispatched(at: Project) -> None:
    fill(at, 2)
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        run("UPDATE sessions_app_automaticdispatch SET data = '{}'")


def failed_and_retried(at: Project) -> Session:
    session = factories.settle(factories.submit(at, retry_policy=factories.policy()))
    assert retries_dispatch().dispatched == 1
    return session


def plan_of(rows: Any) -> Any:
    return json.loads(rows.explain(analyze=True, format="json"))


def touched(node: dict[str, Any]) -> int:
    own = node.get("Rows Removed by Filter", 0) + node["Actual Rows"] * node["Actual Loops"]
    return int(own) + sum(touched(each) for each in node.get("Plans", []))


def test_acts_are_people_and_engine_only(world: Project) -> None:
    assert set(audited_acts().values_list("actor", flat=True)) == {"root"}
