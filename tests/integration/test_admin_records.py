"""Configuration through the admin: what is stored, what is refused and where, what is audited."""

import re
from datetime import timedelta
from itertools import cycle, product
from typing import Any
from urllib.parse import quote_from_bytes

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django_celery_beat.models import IntervalSchedule, PeriodicTask

from interfaces.admin.executors import ExecutorAdmin
from scheduler.models import Executor, Lease, QueueUsage, Reservation
from sessions_app.models import ApiToken, AuditLog, Domain, Membership, Project, Queue
from sessions_app.models.tenants import Role
from sessions_app.services.access.tokens import token_find
from tests import factories
from tests.audit import audited_acts
from tests.integration.admin import World, errors_of, messages_of, operator, records, text_of, url


@pytest.fixture
def client() -> Client:
    return operator()


def add(client: Client, kind: str, **fields: Any) -> Any:
    return client.post(url(kind, "add"), fields)


def change(client: Client, kind: str, record: Any, **fields: Any) -> Any:
    return client.post(url(kind, "change", record.pk), fields)


def last(object_type: str) -> AuditLog:
    entry = audited_acts().filter(object_type=object_type).order_by("-pk").first()
    assert entry is not None
    assert entry.actor == "root"
    return entry


def change_of(entry: AuditLog, field: str) -> tuple[Any, Any]:
    return entry.data["before"].get(field), entry.data["after"].get(field)


def served(name: str) -> list[tuple[str, Any, Any]]:
    """Return what the log says of the projects that an executor serves, oldest first."""
    verbs = ("executor.serve", "executor.stop_serving")
    found = audited_acts().filter(actor="root", action__in=verbs, object_id=name).order_by("pk")
    return [(each.action, each.data["before"], each.data["after"]) for each in found]


def test_a_domain_is_made_and_deleted_while_it_is_empty(client: Client) -> None:
    assert add(client, "sessions_app_domain", name="acme").status_code == 302
    domain = Domain.objects.get(name="acme")
    assert (last("domain").action, last("domain").object_id) == ("domain.create", "acme")
    project = factories.project("work", domain="acme")
    address = url("sessions_app_domain", "delete", domain.pk)
    assert client.post(address, {"post": "yes"}).status_code == 403
    Queue.objects.all().delete()
    project.delete()
    client.post(url("sessions_app_domain", "delete", domain.pk), {"post": "yes"})
    assert not Domain.objects.exists()
    assert last("domain").action == "domain.delete"


@pytest.mark.parametrize("name", ["", "Big", "a_b", "-a", "x" * 64, "a\x00b", "ä"])
def test_a_name_that_is_no_label_is_refused_at_its_field(client: Client, name: str) -> None:
    domain = factories.domain("acme")
    for kind, fields in (
        ("sessions_app_domain", {}),
        ("sessions_app_project", {"domain": domain.pk}),
        ("scheduler_executor", {}),
    ):
        page = add(client, kind, name=name, **fields)
        assert list(errors_of(page)) == ["name"], kind
    assert Domain.objects.count() == 1
    assert not audited_acts().exists()


def test_a_project_comes_with_its_default_queue_and_keeps_its_address(client: Client) -> None:
    domain = factories.domain("acme")
    add(client, "sessions_app_project", domain=domain.pk, name="work")
    project = Project.objects.get()
    assert project.queues.get().is_default
    assert last("project").action == "project.create"
    page = add(client, "sessions_app_project", domain=domain.pk, name="work")
    assert errors_of(page) == {"name": ["The domain has a project of this name."]}
    change(client, "sessions_app_project", project, name="other", domain=99)
    project.refresh_from_db()
    assert project.address == "acme/work"
    address = url("sessions_app_project", "delete", project.pk)
    assert client.get(address).status_code == 200
    assert client.post(address).status_code == 200, "asked first"
    assert Project.objects.get() == project
    factories.submit(project)
    assert client.get(address).status_code == 403
    assert client.post(address, {"post": "yes"}).status_code == 403
    assert Project.objects.get() == project


def test_quotas_are_set_and_shown_with_what_is_in_use(
    client: Client, django_capture_on_commit_callbacks: Any
) -> None:
    project = factories.project("work", domain="acme")
    factories.quotas(project.domain, sessions=9)
    factories.submit(project)
    fields = {"quota_pending_sessions": "3", "quota_resources": "memory: 64Gi\n gpu:2 \n"}
    with django_capture_on_commit_callbacks(execute=True):
        assert change(client, "sessions_app_project", project, **fields).status_code == 302
    entries = audited_acts().filter(action="quota.create", object_id="acme/work")
    limits: dict[str, str] = {}
    for entry in entries:
        limits |= entry.data["after"]
    assert limits == {
        "pending_sessions": "3", "resources.gpu": "2", "resources.memory": str(64 * 2**30),
    }  # fmt: skip
    page = client.get(url("sessions_app_project", "change", project.pk))
    for text in ("pending_sessions: 1 of 3 (acme/work)", "resources.memory: 0 of 64Gi (acme/work)",
                 "sessions: 0 of 9 (acme)"):  # fmt: skip
        assert text in text_of(page)
    form = page.context["adminform"].form
    again = {name: form.initial[name] or "" for name in (*fields, "quota_sessions")}
    with django_capture_on_commit_callbacks(execute=True):
        change(client, "sessions_app_project", project, **again)
    assert entries.count() == len(limits), "what changes nothing leaves no entry"
    with django_capture_on_commit_callbacks(execute=True):
        change(client, "sessions_app_domain", project.domain, quota_sessions="")
    assert last("quota").data == {"before": {"sessions": "9"}, "after": {}}
    assert "no limits" in text_of(
        client.get(url("sessions_app_domain", "change", project.domain.pk))
    )


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("quota_sessions", "-1", "greater than or equal to 0"),
        ("quota_pending_sessions", "many", "whole number"),
        ("quota_resources", "memory 64Gi", "write it like memory: 64Gi"),
        ("quota_resources", "memory: much", "memory: 'much' is not a quantity"),
        ("quota_resources", "memory: -1", "must not be negative"),
        ("quota_resources", ": 1", "write it like memory: 64Gi"),
        ("quota_resources", "\n".join(f"r{n}: 1" for n in range(65)), "Give at most 64"),
    ],
)
def test_a_quota_that_makes_no_sense_is_refused_at_its_field(
    client: Client, field: str, value: str, message: str
) -> None:
    project = factories.project("work", domain="acme")
    for kind, record in (
        ("sessions_app_project", project),
        ("sessions_app_domain", project.domain),
    ):
        (fault,) = errors_of(change(client, kind, record, **{field: value})).items()
        assert fault[0] == field
        assert message in fault[1][0]
    assert not project.quotas.exists()


def test_a_queue_is_cordoned_with_a_reason(client: Client) -> None:
    queue = factories.queue(factories.project("work", domain="acme"), "gpu")
    page = change(client, "sessions_app_queue", queue, priority_factor="1", cordoned="on")
    assert errors_of(page) == {"cordon_reason": ["Say why it is cordoned."]}
    fields = {"priority_factor": "1", "cordoned": "on", "cordon_reason": "new racks"}
    assert change(client, "sessions_app_queue", queue, **fields).status_code == 302
    queue.refresh_from_db()
    assert (queue.cordoned, queue.cordon_reason) == (True, "new racks")
    entry = last("queue")
    assert (entry.object_id, entry.project) == ("acme/work/gpu", "acme/work")
    assert change_of(entry, "cordoned") == (False, True)
    assert change_of(entry, "cordon_reason") == ("", "new racks")
    assert "cordoned: false → true" in text_of(client.get(url("sessions_app_auditentry")))
    change(client, "sessions_app_queue", queue, **fields)
    assert audited_acts().count() == 1, "what changes nothing leaves no entry"


def test_a_queue_has_time_limits_one_a_line(client: Client) -> None:
    queue = factories.queue(factories.project("work", domain="acme"), "gpu")
    fields = {"priority_factor": "1"}
    for text, wrong in (
        ("queue_timeout 5", "write it as queue_timeout max: seconds"),
        ("run_timeout max: 5", "each is the default or the max of one of"),
        ("queue_timeout max: nan", "more than 0"),
        ("queue_timeout max: 5\nqueue_timeout default: 6", "at most the max of 5 seconds"),
    ):
        page = change(client, "sessions_app_queue", queue, **fields, time_limits=text)
        assert wrong in errors_of(page)["time_limits"][0]
    sent = fields | {"time_limits": "queue_timeout default: 600\r\n queue_timeout  max : 7200.5"}
    assert change(client, "sessions_app_queue", queue, **sent).status_code == 302
    queue.refresh_from_db()
    assert queue.time_limits == {"queue_timeout": {"default": 600, "max": 7200.5}}
    assert change_of(last("queue"), "time_limits")[0] == {}


def test_a_queue_has_a_breaker_and_a_retry_budget(client: Client) -> None:
    queue = factories.queue(factories.project("work", domain="acme"), "gpu")
    fields = {"priority_factor": "1"}
    for name, text, wrong in (
        ("breaker", '{"chains": 1}', "chains: Input should be greater than or equal to 2"),
        ("retry_budget", '{"ratio": -1}', "ratio: must be between 0 and 100"),
        ("retry_budget", "50", "Input should be"),
    ):
        page = change(client, "sessions_app_queue", queue, **fields, **{name: text})
        assert wrong in errors_of(page)[name][0]
    sent = fields | {"breaker": '{"chains": 5}', "retry_budget": '{"burst": 9}'}
    assert change(client, "sessions_app_queue", queue, **sent).status_code == 302
    queue.refresh_from_db()
    assert queue.breaker == {"chains": 5, "window": 600, "probe_after": 60}
    assert queue.retry_budget is not None
    assert (queue.retry_budget["burst"], queue.retry_budget["over"]) == (9, "postpone")
    assert change_of(last("queue"), "breaker")[0] is None
    change(client, "sessions_app_queue", queue, **fields)
    queue.refresh_from_db()
    assert (queue.breaker, queue.retry_budget) == (None, None)


def test_an_operator_closes_breakers(client: Client) -> None:
    project = factories.project("work", domain="acme")
    first, second = factories.breaker(project), factories.breaker(project, signature="ba9876543210")
    assert "acme/work" in text_of(client.get(url("sessions_app_breaker")))
    for action, each, muted in (("close", first, False), ("close_and_mute", second, True)):
        sent = {"action": action, "_selected_action": str(each.pk)}
        done = client.post(url("sessions_app_breaker"), sent, follow=True)
        assert "What they held goes on." in messages_of(done)[0]
        each.refresh_from_db()
        assert (each.state, each.muted, each.closed_by) == ("closed", muted, "root")


def test_a_queue_has_limits_one_a_line(client: Client) -> None:
    queue = factories.queue(factories.project("work", domain="acme"), "gpu")
    fields = {"priority_factor": "1"}
    for text, wrong in (("cpu", "write it as resource: amount"), ("cpu: many", "not a quantity")):
        page = change(client, "sessions_app_queue", queue, **fields, resource_limits=text)
        assert wrong in errors_of(page)["resource_limits"][0]
    sent = fields | {"resource_limits": "cpu: 200\r\n\r\n sessions : 5 "}
    assert change(client, "sessions_app_queue", queue, **sent).status_code == 302
    queue.refresh_from_db()
    assert queue.resource_limits == {"cpu": "200", "sessions": "5"}
    QueueUsage.objects.create(
        queue=queue, used={"cpu": "20"}, cost=0.25, current_priority=0.5, computed_at=timezone.now()
    )
    page = text_of(client.get(url("sessions_app_queue", "change", queue.pk)))
    assert "25.0% of the pool; effective priority 0.5" in page
    assert "cpu 20" in page


def test_the_list_of_queues_shows_share_and_waiting_as_bars(client: Client) -> None:
    project = factories.project("work", domain="acme")
    for name, cost, waits in (("gpu", 0.25, 2), ("slow", 0.05, 1), ("idle", 0.0, 0)):
        queue = factories.queue(project, name)
        for _ in range(waits):
            factories.submit(project, queue=name)
        QueueUsage.objects.create(
            queue=queue, cost=cost, current_priority=0.5, computed_at=timezone.now()
        )
    page = client.get(url("sessions_app_queue")).content.decode()
    bars = re.findall(r'<progress class="bar" value="([^"]+)" max="([^"]+)"', page)
    assert bars == [
        *(("0.0", "0.25"), ("0", "2")),  # the default queue
        *(("0.25", "0.25"), ("2", "2")),
        *(("0.0", "0.25"), ("0", "2")),
        *(("0.05", "0.25"), ("1", "2")),
    ]
    assert "25.0%" in page


def test_a_list_folds_what_many_queues_use_and_no_is_nothing_bad(client: Client) -> None:
    project = factories.project("work", domain="acme")
    factories.named_policy("popular", retryLimit=1)
    for number in range(9):
        factories.attach(factories.queue(project, f"batch-{number}"), "popular")
    page = client.get(url("sessions_app_retrypolicy"))
    assert "acme/work/batch-2 and 6 more" in text_of(page)
    assert page.content.count(b"<details") == 1
    tokens = client.get(url("auth_user")).content.decode()
    assert "close_small" not in tokens
    assert re.search(r"yes\s*</td>", tokens)


def test_a_new_default_queue_takes_the_place_of_the_old_one(client: Client) -> None:
    project = factories.project("work", domain="acme")
    fields = {"project": project.pk, "name": "fast", "priority_factor": "0.5", "is_default": "on"}
    assert add(client, "sessions_app_queue", **fields).status_code == 302
    defaults = Queue.objects.filter(project=project, is_default=True)
    assert [queue.name for queue in defaults] == ["fast"]
    changed = audited_acts().filter(object_type="queue").values_list("object_id", flat=True)
    assert set(changed) == {"acme/work/default", "acme/work/fast"}


def test_a_queue_names_policies_in_their_order(client: Client) -> None:
    project = factories.project("work", domain="acme")
    for name in ("one", "two", "three"):
        factories.named_policy(name, project=project)
    queue, fields = factories.queue(project, "gpu"), {"priority_factor": "1"}
    sent = fields | {"retry_policies": "three\r\n one \r\n\r\nthree"}
    assert change(client, "sessions_app_queue", queue, **sent).status_code == 302
    queue.refresh_from_db()
    assert queue.retry_policies == ["three", "one"]
    assert change_of(last("queue"), "retry_policies") == ([], ["three", "one"])
    page = client.get(url("sessions_app_queue", "change", queue.pk))
    assert page.context["adminform"].form["retry_policies"].value() == "three\none"
    assert "available: one, three, two" in text_of(page)
    assert "three, one" in text_of(client.get(url("sessions_app_queue")))
    change(client, "sessions_app_queue", queue, **fields, retry_policies="three\r\none")
    assert audited_acts().filter(object_type="queue").count() == 1
    change(client, "sessions_app_queue", queue, **fields, retry_policies="")
    queue.refresh_from_db()
    assert queue.retry_policies == []


def test_policies_that_a_queue_cannot_have_are_named_at_the_field(client: Client) -> None:
    project = factories.project("work", domain="acme")
    factories.named_policy("known")
    factories.named_policy("far", project=factories.project("far", domain="acme"))
    queue, fields = factories.queue(project, "gpu"), {"priority_factor": "1"}
    sent = fields | {"retry_policies": "known\nfar\n<b>missing</b>"}
    page = change(client, "sessions_app_queue", queue, **sent)
    refusal = "unknown retry policies: far, <b>missing</b>"
    assert errors_of(page) == {"retry_policies": [refusal]}
    assert "<b>missing" not in page.content.decode()
    new = {"project": project.pk, "name": "new"}
    page = add(client, "sessions_app_queue", **new, **sent)
    assert errors_of(page) == {"retry_policies": [refusal]}
    for number in range(17):
        factories.named_policy(f"p{number}")
    many = "\n".join(f"p{number}" for number in range(17))
    page = change(client, "sessions_app_queue", queue, **fields, retry_policies=many)
    assert errors_of(page) == {"retry_policies": ["must be at most 16 policies, not 17"]}
    assert not audited_acts().filter(object_type="queue").exists()
    added = add(client, "sessions_app_queue", **new, **fields, retry_policies="known")
    assert added.status_code == 302
    assert Queue.objects.get(name="new").retry_policies == ["known"]


def test_a_queue_that_was_used_or_is_the_default_cannot_be_deleted(client: Client) -> None:
    project = factories.project("work", domain="acme")
    used, unused = factories.queue(project, "used"), factories.queue(project, "unused")
    factories.submit(project, queue="used")
    for queue in (used, project.queues.get(is_default=True)):
        address = url("sessions_app_queue", "delete", queue.pk)
        assert client.post(address, {"post": "yes"}).status_code == 403
    client.post(url("sessions_app_queue", "delete", unused.pk), {"post": "yes"})
    assert set(project.queues.values_list("name", flat=True)) == {"default", "used"}
    assert last("queue").action == "queue.delete"


def test_a_role_is_given_in_exactly_one_place(client: Client) -> None:
    project = factories.project("work", domain="acme")
    user, here, there = factories.user("mia"), project.pk, project.domain.pk
    kind = "sessions_app_membership"
    for wrong in ({}, {"project": here, "domain": there}):
        page = add(client, kind, user=user.pk, role="member", **wrong)
        assert list(errors_of(page)) == ["project"]
    page = add(client, kind, user=user.pk, role="domain_admin", project=here)
    assert list(errors_of(page)) == ["role"]
    assert add(client, kind, user=user.pk, role="member", project=here).status_code == 302
    page = add(client, kind, user=user.pk, role="viewer", project=here)
    assert list(errors_of(page)) == ["user"]
    role = Membership.objects.get()
    change(client, kind, role, role=Role.MAINTAINER, project=here)
    assert change_of(last("membership"), "role") == ("member", "maintainer")
    client.post(url(kind, "delete", role.pk), {"post": "yes"})
    assert not Membership.objects.exists()


def shown_token(page: Any) -> str:
    """The new token that a page shows."""
    (secret,) = re.findall(r"rpr_[\w-]{43}", page.content.decode())
    return str(secret)


def test_a_project_goes_while_nothing_ever_ran_in_it(client: Client) -> None:
    used, new = (factories.project(name, domain="acme") for name in ("used", "new"))
    factories.submit(used)
    secret = factories.token(factories.user(project=new), project=new)
    factories.quotas(new, sessions=3)
    page = client.get(url("sessions_app_project", "delete", new.pk))
    assert "tokens restricted to it" in text_of(page)
    assert client.get(url("sessions_app_project", "delete", used.pk)).status_code == 403
    executor = factories.executor("gpu-1", projects=(new,))
    address = url("sessions_app_project", "delete", new.pk)
    refused = client.post(address, {"post": "yes"}, follow=True)
    assert "executors are configured to serve the project" in text_of(refused)
    executor.projects.clear()
    assert client.post(address, {"post": "yes"}).status_code == 302
    assert list(Project.objects.values_list("name", flat=True)) == ["used"]
    assert token_find(secret) is None
    assert last("project").action == "project.delete"


def test_a_token_is_shown_once_and_revoked(client: Client) -> None:
    user = factories.user("mia")
    kind = "sessions_app_apitoken"
    page = client.post(url(kind, "add"), {"name": "ci", "user": user.pk})
    secret = shown_token(page)
    assert "it does not expire" in text_of(page)
    assert "no-store" in page["Cache-Control"]
    assert secret not in str(page.cookies) + str(client.cookies)
    found = token_find(secret)
    assert found is not None
    assert found.user == user
    assert secret not in client.get(url(kind)).content.decode()
    assert last("token").object_id == found.prefix
    assert secret not in str(last("token").data)
    history = client.get(url(kind, "history", found.pk), follow=True)
    assert "token.create" in text_of(history)
    times = {"expires_at_0": "2031-01-31", "expires_at_1": "12:00:00"}
    ends = client.post(url(kind, "add"), {"name": "ci", "user": user.pk, **times})
    assert "until 2031-01-31 12:00 UTC." in text_of(ends)
    client.post(url(kind, "delete", found.pk), {"post": "yes"})
    assert token_find(secret) is None
    assert last("token").action == "token.revoke"


def test_a_new_member_comes_with_a_note_on_what_sessions_may_do(
    client: Client, settings: Any
) -> None:
    warning = "whoever may submit them acts as that user"
    secret = {"password1": "long enough 9", "password2": "long enough 9"}
    for user, expected in (("", False), ("ada", True)):
        settings.REPRISE_RUNS_AS = user
        name = f"mia{user}"
        sent = {"username": name, "usable_password": "true", **secret}
        page = client.post(url("auth_user", "add"), sent, follow=True)
        assert (warning in text_of(page)) is expected
        mia = User.objects.get(username=name)
        kind = "sessions_app_apitoken"
        page = client.post(url(kind, "add"), {"name": "ci", "user": mia.pk})
        assert shown_token(page)
        assert (warning in text_of(page)) is expected


def test_a_token_that_makes_no_sense_is_refused(client: Client) -> None:
    project = factories.project("work", domain="acme")
    user = factories.user("mia")
    kind = "sessions_app_apitoken"
    assert list(errors_of(add(client, kind, name="x"))) == ["user"]
    both = add(client, kind, name="x", user=user.pk, executor_name="e")
    assert list(errors_of(both)) == ["user"]
    narrowed = add(client, kind, name="x", executor_name="e", project=project.pk)
    assert list(errors_of(narrowed)) == ["__all__"]
    times = {"expires_at_0": "2001-01-01", "expires_at_1": "00:00:00"}
    assert list(errors_of(add(client, kind, name="x", user=user.pk, **times))) == ["expires_at"]
    assert not ApiToken.objects.exists()


def test_an_executor_is_made_with_its_token_and_cordoned(client: Client) -> None:
    project = factories.project("work", domain="acme")
    sent = {"name": "gpu-1", "projects": [project.pk]}
    token = token_find(shown_token(client.post(url("scheduler_executor", "add"), sent)))
    assert token is not None
    assert token.executor_name == "gpu-1"
    executor = Executor.objects.get()
    assert list(executor.projects.all()) == [project]
    assert served("gpu-1") == [("executor.serve", {}, {"project": "acme/work"})]
    page = change(client, "scheduler_executor", executor, cordoned="on")
    assert errors_of(page) == {"cordon_reason": ["Say why it is cordoned."]}
    closed = {"cordoned": "on", "cordon_reason": "new racks"}
    assert change(client, "scheduler_executor", executor, **closed).status_code == 302
    executor.refresh_from_db()
    assert (executor.cordoned, executor.projects.count()) == (True, 0)
    (closing,) = audited_acts().filter(action="executor.change")
    assert (closing.actor, closing.object_id) == ("root", "gpu-1")
    assert change_of(closing, "cordoned") == (False, True)
    assert served("gpu-1")[1:] == [("executor.stop_serving", {"project": "acme/work"}, {})]


def test_a_change_leaves_alone_what_the_executor_says_meanwhile(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = factories.executor("gpu-1")
    stored = ExecutorAdmin.store

    def beats_meanwhile(*arguments: Any) -> None:
        Executor.objects.update(incarnation=7, driver="local", last_seen_at=timezone.now())
        stored(*arguments)

    monkeypatch.setattr(ExecutorAdmin, "store", beats_meanwhile)
    closed = {"cordoned": "on", "cordon_reason": "new racks"}
    assert change(client, "scheduler_executor", executor, **closed).status_code == 302
    executor.refresh_from_db()
    assert (executor.cordoned, executor.incarnation, executor.driver) == (True, 7, "local")
    assert last("executor").action == "executor.cordon"
    assert set(last("executor").data["after"]) == {"cordoned", "cordon_reason"}


def test_the_slower_one_with_the_same_name_is_refused(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = ExecutorAdmin.store

    def somebody_is_faster(*arguments: Any) -> None:
        Executor.objects.create(name="gpu-1")
        stored(*arguments)

    monkeypatch.setattr(ExecutorAdmin, "store", somebody_is_faster)
    page = client.post(url("scheduler_executor", "add"), {"name": "gpu-1"}, follow=True)
    assert messages_of(page) == ["Conflict: there is an executor 'gpu-1' already."]
    assert not ApiToken.objects.exists()


def test_an_executor_page_shows_heartbeat_nodes_and_leases(client: Client) -> None:
    world = World(1)
    page = text_of(client.get(url("scheduler_executor", "change", world.executor.pk)))
    assert "alive" in page
    assert "n1 cpu 8 cpu 4" in page
    assert "template has labels at most" not in page
    assert Lease.objects.filter(executor=world.executor).count() == 1
    address = url("scheduler_executor", "delete", world.executor.pk)
    assert client.post(address, {"post": "yes"}).status_code == 403
    long_ago = timezone.now() - timedelta(hours=2)
    Executor.objects.filter(pk=world.executor.pk).update(last_seen_at=long_ago)
    row = text_of(client.get(url("scheduler_executor") + "?q=agent"))
    assert "silent" in row
    assert "2 h ago" in row


def test_an_executor_page_shows_the_nodes_that_its_cluster_can_add(client: Client) -> None:
    world = World(1)
    gpu = {"name": "gpu", "resources": {"cpu": "8"}, "labels": {"pool": "<b>"}, "taints": []}
    Executor.objects.filter(pk=world.executor.pk).update(node_templates=[{**gpu, "max": 3}])
    page = text_of(client.get(url("scheduler_executor", "change", world.executor.pk)))
    assert "template has labels at most gpu cpu 8 pool=&lt;b&gt; 3" in page


def test_an_executor_page_shows_for_whom_nodes_are_kept_free(client: Client) -> None:
    world = World(1)
    address = url("scheduler_executor", "change", world.executor.pk)
    assert "for the session" not in text_of(client.get(address))
    waits = [factories.submit(world.project) for _ in range(2)]
    for session, nodes in zip(waits, ([*"abcdefg"], []), strict=True):
        Reservation.objects.create(executor=world.executor, session=session, nodes=nodes)
    with CaptureQueriesContext(connection) as asked:
        page = client.get(address)
    text = text_of(page)
    first, second = (str(each.pk)[:13] for each in waits)
    head = "for the session of the project nodes since"
    assert f"{head} {first} {world.project.address} a, b, c, d, e and 2 more f g" in text
    assert f"{second} {world.project.address} a session slot" in text
    assert sum('FROM "scheduler_reservation"' in each["sql"] for each in asked) == 1


def test_a_lease_page_shows_the_planned_nodes(client: Client) -> None:
    lease = World(1).executor.leases.get()
    Lease.objects.update(nodes=["n1", "n2", "n1"])
    page = text_of(client.get(url("scheduler_lease", "change", lease.pk)))
    assert "Planned nodes n1, n2" in page


def test_users_are_made_changed_and_switched_off_but_never_deleted(client: Client) -> None:
    secret = {"password1": "long enough 9", "password2": "long enough 9"}
    assert (
        add(client, "auth_user", username="mia", usable_password="true", **secret).status_code
        == 302
    )
    mia = User.objects.get(username="mia")
    assert mia.check_password("long enough 9")
    assert "long enough" not in str(last("user").data)
    change(client, "auth_user", mia, username="mia", email="mia@example.org")
    assert change_of(last("user"), "is_active") == (True, False)
    assert client.post(url("auth_user", "delete", mia.pk), {"post": "yes"}).status_code == 403
    sent = {"password1": "another one 9", "password2": "another one 9", "usable_password": "true"}
    client.post(f"/admin/auth/user/{mia.pk}/password/", sent)
    mia.refresh_from_db()
    assert mia.check_password("another one 9")
    assert last("user").data == {"before": {}, "after": {"password": "changed"}}


def test_an_operator_cannot_lock_himself_out(client: Client) -> None:
    root = User.objects.get(username="root")
    page = change(client, "auth_user", root, username="root")
    assert sorted(errors_of(page)) == ["is_active", "is_superuser"]
    root.refresh_from_db()
    assert (root.is_active, root.is_superuser) == (True, True)


def test_groups_and_periodic_tasks_are_audited_like_all_else(client: Client) -> None:
    add(client, "auth_group", name="night shift")
    assert Group.objects.get().name == "night shift"
    assert last("group").action == "group.create"
    every = IntervalSchedule.objects.create(every=5, period="seconds")
    fields = {"name": "mine", "task": "t", "interval": every.pk, "args": "[]", "kwargs": "{}"}
    kind = "django_celery_beat_periodictask"
    assert add(client, kind, enabled="on", **fields).status_code == 302
    task = PeriodicTask.objects.get(name="mine")
    change(client, kind, task, **fields)
    assert change_of(last("periodic_task"), "enabled") == (True, False)
    client.post(url(kind), {"action": "enable_tasks", "_selected_action": task.pk})
    assert change_of(last("periodic_task"), "enabled") == (False, True)


@pytest.mark.parametrize(
    ("field", "value"),
    [("args", "{}"), ("kwargs", "[]"), ("args", "[" * 100_000), ("task", "x" * 201), ("task", "")],
)
def test_a_periodic_task_that_cannot_run_is_refused(client: Client, field: str, value: str) -> None:
    every = IntervalSchedule.objects.create(every=5, period="seconds")
    fields = {"name": "mine", "task": "t", "interval": every.pk, "args": "[]", "kwargs": "{}"}
    page = add(client, "django_celery_beat_periodictask", **{**fields, field: value})
    assert field in errors_of(page)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("intervalschedule", {"every": "2147483647", "period": "days"}),
        ("intervalschedule", {"every": "0", "period": "days"}),
        (
            "crontabschedule",
            {"minute": "0", "hour": "0", "day_of_month": "31", "month_of_year": "2",
             "day_of_week": "*", "timezone": "UTC"},
        ),
    ],
)  # fmt: skip
def test_a_schedule_that_beat_would_stumble_over_is_refused(
    client: Client, kind: str, fields: dict[str, str]
) -> None:
    page = add(client, f"django_celery_beat_{kind}", **fields)
    assert errors_of(page)
    usual = {"every": "90"} if "every" in fields else {"day_of_month": "28"}
    assert add(client, f"django_celery_beat_{kind}", **fields | usual).status_code == 302


@pytest.mark.parametrize("value", ["-1", "1e300", "x", "31622401"])
def test_a_wait_that_the_sweep_could_not_reckon_with_is_refused(client: Client, value: str) -> None:
    page = add(client, "scheduler_executor", name="gpu", unconfirmed_after=value)
    assert list(errors_of(page)) == ["unconfirmed_after"]


def test_a_failure_after_the_change_takes_the_audit_entry_with_it(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.raise_request_exception = False
    domain = factories.domain("acme")
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE sessions_app_auditentry ADD CHECK (actor <> 'root') NOT VALID")
    assert add(client, "sessions_app_domain", name="other").status_code == 302
    assert list(Domain.objects.all()) == [domain]
    assert not audited_acts().exists()


JUNK = ["\x00", "x" * 20_000, "9" * 400, "\udcff", "-1", "1e400", "nan", "'; --", "[]", "é" * 70]


def test_junk_in_any_field_of_any_form_is_never_an_error_of_ours(client: Client) -> None:
    World(1)
    found = records()
    # The same junk everywhere, then another in each field.
    fillings = [[junk] for junk in JUNK[:4]] + [JUNK, JUNK[3:]]
    for model in admin.site._registry:
        kind = model._meta.label_lower.replace(".", "_")
        names = [field.name for field in model._meta.get_fields() if hasattr(field, "attname")]
        names += ["password1", "password2", "mode", "do", "action", "confirmed"]
        names += ["quota_sessions", "quota_pending_sessions", "quota_resources"]
        pages = [url(kind, "add")]
        pages += [url(kind, "change", found[kind].pk)] if found[kind] else []
        for address, filling in product(pages, fillings):
            fields = [
                name.encode() + b"=" + quote(j)
                for name, j in zip(names, cycle(filling), strict=False)
            ]
            form = "application/x-www-form-urlencoded"
            answer = client.generic("POST", address, b"&".join(fields), content_type=form)
            assert answer.status_code < 500, (address, filling)


def quote(junk: str) -> bytes:
    # Byte by byte, both ways of 20,000 letters would take most of the test.
    return quote_from_bytes(junk.encode("utf-8", "surrogateescape"), safe="").encode()


def test_a_change_takes_a_fixed_number_of_statements(client: Client) -> None:
    executor = factories.executor("e", projects=tuple(factories.project() for _ in range(2)))

    def cost() -> int:
        keys = list(executor.projects.values_list("pk", flat=True))
        with CaptureQueriesContext(connection) as captured:
            sent = {"projects": keys, "unconfirmed_after": len(keys)}
            assert change(client, "scheduler_executor", executor, **sent).status_code == 302
        return len(captured)

    few = cost()
    executor.projects.add(*(factories.project() for _ in range(18)))
    assert cost() == few
