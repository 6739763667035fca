"""An operator's browser for tests, and a world of records for the admin to show."""

import re
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import Group
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from django_celery_beat.models import CrontabSchedule, IntervalSchedule, PeriodicTask

import reprise.urls  # noqa: F401  # finds what the admin shows
from reprise.models import Heartbeat, HourCount, ParkedTask
from retry.engine.decide import Mode
from retry.policies.categories import FailureCategory as CategoryDocument
from retry.policies.inline import Bounds, InlinePolicy
from scheduler.models import Node
from sessions_app.in_force.config_scope import ConfigScope
from sessions_app.models import LogChunk, Project, Queue, Session
from sessions_app.models.tenants import Role
from sessions_app.services.resources.categories import category_create
from sessions_app.services.resources.priority_classes import priority_class_create
from sessions_app.services.resources.queues import queue_save
from sessions_app.services.resources.retry_config import retry_defaults_put, retry_settings_put
from sessions_app.webhooks.endpoints import webhook_create, webhook_ping
from tests import factories
from tests.agent import Agent


def url(model: str, page: str = "changelist", *args: object) -> str:
    """The address of a page of the admin: `sessions_app_queue`, `change`, key."""
    return reverse(f"admin:{model}_{page}", args=args)


def operator(name: str = "root") -> Client:
    """The browser of a cluster admin who is signed in."""
    client = Client()
    client.force_login(factories.user(name, superuser=True))
    return client


def text_of(response: Any) -> str:
    """The words of a page, without markup, spaces run together."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", response.content.decode()))


def errors_of(response: Any) -> dict[str, list[str]]:
    """Return the refusals of the form of a page, by field."""
    shown = response.context.get("adminform")
    form = shown.form if shown else response.context["form"]
    return {name: list(texts) for name, texts in form.errors.items()}


def queries(client: Client, address: str, *, seen: bool = False) -> int:
    """Return the number of statements that a page takes; it has to work.

    What a process keeps from the first time is read before, unless the page has been seen.
    """
    if not seen:
        client.get(address)
    with CaptureQueriesContext(connection) as captured:
        response = client.get(address)
    assert response.status_code == 200, (address, response.status_code)
    return len(captured)


def messages_of(response: Any) -> list[str]:
    """Return what the page says was done or refused."""
    return [str(message) for message in response.context["messages"]]


def past_day(now: datetime) -> None:
    """What happened in each of the last 24 hours."""
    begun = now.replace(minute=0, second=0, microsecond=0)
    HourCount.objects.bulk_create(
        HourCount(hour=begun - timedelta(hours=back), type=f"session.{kind}", cause=cause, value=n)
        for back in range(24)
        for kind, cause, n in (
            ("submitted", "", 300 + 20 * back % 70),
            ("terminated", "", 280 + 30 * back % 90),
            ("error", "oom_killed", 10 * back % 47),
            ("error", "kernel_nonzero_exit", 12 * back % 31),
            ("error", "evicted", 40 if back in {3, 4} else 2),
            ("error", "image_pull_failure", 3),
            ("cancelled", "", 4),
            ("retry_dispatched", "", 16 * back % 60),
        )
    )


class World:
    """Some records of every kind; `grow` adds as many again."""

    def __init__(self, count: int):
        self.made = 0
        self.project = factories.project("work", domain="acme")
        self.owner = factories.user("olga", project=self.project)
        self.executor = factories.executor("agent-0")
        nodes = [{"name": "n1", "allocatable": {"cpu": "8"}, "free": {"cpu": "4"}}]
        self.agent = Agent(self.executor, nodes=nodes)
        self.agent.lease()
        self.grow(count)

    def grow(self, count: int) -> None:
        """More of everything."""
        self.executor.refresh_from_db()
        for _ in range(count):
            self.made += 1
            self._configuration(f"n{self.made}")
            self._work(f"run-{self.made}")
        self.agent.lease()

    def _configuration(self, name: str) -> None:
        domain = factories.domain(name)
        project = factories.project(name, domain=name)
        extra = factories.queue(project, "extra", cordoned=True, cordon_reason="moving")
        self._policies(name, project, extra)
        user = factories.user(name, domain=domain, role=Role.VIEWER)
        factories.token(user)
        executor = factories.executor(name, projects=(project,))
        factories.token(executor_name=executor.name)
        Node.objects.create(executor=executor, name="n1", address=f"{name}/n1")
        Group.objects.create(name=name)
        for scope in (ConfigScope(domain=domain), ConfigScope(project=project)):
            policy = InlinePolicy(max_retries=2)
            retry_defaults_put(scope, policy=policy, bounds=Bounds(max_retries=9), by="root")
            retry_settings_put(scope, mode=Mode.PAUSED, global_max_retries=None, by="root")
        every = IntervalSchedule.objects.create(every=1000 + self.made, period="seconds")
        PeriodicTask.objects.create(
            name=name, task="sessions_app.tasks.sweep_retries", interval=every
        )
        factories.schedule(project, user)
        factories.breaker(project)
        factories.spent_budget(extra)
        hook = webhook_create(
            project=project, url="https://example.com/", event_types=[], description="", by="root"
        )
        webhook_ping(hook)
        CrontabSchedule.objects.create(minute=str(self.made % 60))
        now = timezone.now()
        Heartbeat.objects.create(part="worker", name=name, started_at=now, seen_at=now)
        ParkedTask.objects.create(
            task_id=name,
            name="sessions_app.tasks.sweep_retries",
            queue="retry",
            reason="delivery_limit",
            first_parked_at=now,
            parked_at=now,
            message=b"{}",
        )

    def _policies(self, name: str, project: Project, extra: Queue) -> None:
        rules = [{"action": "Retry", "onConditions": ["OOMKilled"]}]
        factories.named_policy(name, rules=rules)
        factories.named_policy(name + "-own", project=project, rules=rules, retryLimit=1)
        factories.named_policy(name + "-own", project=project, rules=rules, retryLimit=2)
        extra.retry_policies = [name, name + "-own"]
        queue_save(extra, by="root")
        matchers = [{"onExitCodes": {"operator": "In", "values": [7]}}]
        category = CategoryDocument.model_validate({"name": name, "matchers": matchers})
        category_create(category, position=None, by="root")
        priority_class_create(name, self.made, {}, by="root")

    def _work(self, name: str) -> None:
        policy = {"max_retries": 3, "retry_delay": 3600, "jitter": "none"}
        factories.submit(self.project, owner=self.owner, name=name)
        failed = self.chain(name, policy)
        factories.failure(failed, key=f"{self.made:012x}")
        factories.room_made(self.executor, failed, failed, dry_run=True, taker_rank=1)
        LogChunk.objects.create(session_id=failed.pk, offset=0, data=b"one\ntwo\n")

    def chain(self, name: str = "", policy: Any = None) -> Session:
        """A session that ran and failed."""
        asked = {"retry_policy": policy} if policy else {}
        session = factories.submit(self.project, owner=self.owner, name=name, **asked)
        return factories.settle(factories.start(session), exit_code=3)


def records() -> dict[str, Any]:
    """A record of each kind that has a page, by the name of the kind."""
    from django.contrib import admin

    return {
        model._meta.label_lower.replace(".", "_"): model._default_manager.order_by("-pk").first()
        for model in admin.site._registry
    }
