"""The people of the authorization tests, what they look at, and how to tell that nothing changed.

The world is made once for a module; whatever a test does to it is rolled back.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db import connection, transaction
from django.utils import timezone

from retry.policies.categories import FailureCategory
from retry.policies.inline import Bounds, InlinePolicy
from retry.policies.shared_budget import SharedBudget
from scheduler.models import Executor, Node, NodeAttempt, Preemption, Reservation
from sessions_app.in_force.config_scope import ConfigScope
from sessions_app.models import (
    Breaker,
    LogChunk,
    Membership,
    Project,
    Queue,
    RequestBudget,
    Schedule,
    Session,
    WebhookDelivery,
    WebhookEndpoint,
)
from sessions_app.models.tenants import Role
from sessions_app.services.access.tokens import PREFIX_LENGTH
from sessions_app.services.resources.categories import category_create
from sessions_app.services.resources.priority_classes import priority_class_create
from sessions_app.services.resources.retry_config import retry_defaults_put
from sessions_app.webhooks.endpoints import webhook_create, webhook_ping
from tests import factories
from tests.agent import Api

PEOPLE = (
    "owner",  # member, and the session is theirs
    "colleague",  # another member
    "viewer",
    "maintainer",
    "domain_admin",
    "neighbour",  # maintainer of another project of the same domain
    "stranger",  # maintainer of a project of another domain
    "nobody",  # no membership at all
    "admin",  # of the cluster
    "scoped",  # the cluster admin's token for this project only
    "elsewhere",  # the cluster admin's token for another project only
    "read_only",  # the maintainer's token that may only read
    "executor",
    "other_executor",
    "expired",
    "disabled",  # the token of a user who was switched off
    "wrong",
    "anonymous",
)
REJECTED = dict.fromkeys(("expired", "disabled", "wrong", "anonymous"), 401)
UNSEEN = ("neighbour", "stranger", "nobody", "elsewhere")
"""Who is told nothing of the project `acme/work`."""
EXECUTORS = ("executor", "other_executor")
SECRET = "canary"
"""In all that belongs to the project `acme/work`, and nowhere else."""
MATCHERS = [{"onConditions": ["OOMKilled"]}]


@dataclass
class World:
    """`acme/work`, in which a session failed, and everybody's tokens."""

    project: Project
    session: Session
    schedule: Schedule
    """The owner's."""
    webhook: WebhookEndpoint
    breaker: Breaker
    delivery: WebhookDelivery
    tokens: dict[str, str | None]
    membership: int
    """Of the colleague."""
    digest: dict[str, Any]
    """Of the database as it was made."""

    def api(self, who: str) -> Api:
        """The REST door for one of the people."""
        return Api(self.tokens[who])

    def prefix(self, who: str) -> str:
        """Return the part of somebody's token that is no secret."""
        return str(self.tokens[who])[:PREFIX_LENGTH]

    def path(self, route: str, **names: Any) -> str:
        """A route's address of what is here, or of what `names` says in its place."""
        known = {
            "<uuid:session_id>": self.session.pk,
            "<uuid:schedule_id>": self.schedule.pk,
            "<uuid:webhook_id>": self.webhook.pk,
            "<uuid:breaker_id>": self.breaker.pk,
            "<int:number>": self.delivery.pk,
            "<str:key>": "one",
            "<str:executor>": "one",
            "<str:domain>": "acme",
            "<str:project>": "work",
            "<str:name>": "one",
            "<str:queue>": "one",
            "<int:membership_id>": self.membership,
            "<str:prefix>": self.prefix("owner"),
        } | {f"<{kind}>": value for kind, value in names.items()}
        for placeholder, value in known.items():
            route = route.replace(placeholder, str(value))
        return route

    def grow(self) -> None:
        """More of everything in `acme/work`."""
        session = factories.submit(self.project, name=SECRET, job_set=SECRET)
        factories.failure(factories.settle(session), title=SECRET)
        factories.retry_day(self.project, value=SECRET)
        factories.breaker(self.project, signature="ba9876543210", reason=SECRET)
        waiting = factories.submit(self.project, name=SECRET)
        one = Executor.objects.get(name="one")
        Reservation.objects.create(executor=one, session=waiting, nodes=[SECRET])
        Preemption.objects.create(
            executor=one,
            planned_at=timezone.now(),
            until=timezone.now(),
            rule="priority",
            dry_run=True,
            nodes=[SECRET],
            taker_id=waiting.pk,
            taker_project=self.project,
            taker_rank=7,
            victim_id=session.pk,
            victim_project=self.project,
            victim_rank=0,
        )
        NodeAttempt.objects.create(
            node=Node.objects.get(), ended_at=timezone.now(), work=1, chain=session.pk, cause=SECRET
        )
        owner = User.objects.get(username="owner")
        factories.schedule(self.project, owner, template={"command": [SECRET]})
        _configure(self.project, f"{SECRET}-more")
        factories.token(factories.user(f"{SECRET}-user", project=self.project))


def make_world() -> World:
    """Everybody, and what they want to see and change."""
    work = factories.project("work", domain="acme")
    other = factories.project("other", domain="acme")
    far = factories.project("far", domain="globex")
    people: dict[str, User] = {
        "owner": factories.user("owner", project=work),
        "colleague": factories.user("colleague", project=work),
        "viewer": factories.user("viewer", project=work, role=Role.VIEWER),
        "maintainer": factories.user("maintainer", project=work, role=Role.MAINTAINER),
        "domain_admin": factories.user("domain_admin", domain=work.domain, role=Role.DOMAIN_ADMIN),
        "neighbour": factories.user("neighbour", project=other, role=Role.MAINTAINER),
        "stranger": factories.user("stranger", project=far, role=Role.MAINTAINER),
        "nobody": factories.user("nobody"),
        "admin": factories.user("admin", superuser=True),
    }
    tokens = _tokens(people, work, other)
    waits = factories.policy(retry_delay=3600)
    session = factories.submit(
        work,
        owner=people["owner"],
        retry_policy=waits,
        job_set="one",
        name=SECRET,
        command=[SECRET],
        environ={"WORD": SECRET},
    )
    # Failed, with a retry that waits: it can be cancelled and retried.
    session = factories.settle(session)
    factories.failure(session, key="one", title=SECRET, image=SECRET)
    LogChunk.objects.create(session_id=session.pk, offset=0, data=SECRET.encode())
    webhook = _configure(work, "one")
    schedule = factories.schedule(work, people["owner"], name="one", template={"command": [SECRET]})
    for project in (other, far):
        factories.settle(factories.submit(project, owner=people["admin"], job_set="two"))
    factories.named_policy("one")
    category = FailureCategory.model_validate({"name": "one", "matchers": MATCHERS})
    category_create(category, position=None, by="root")
    priority_class_create("one", 7, {"projects": [work.address]}, by="root")
    colleague = Membership.objects.get(user=people["colleague"])
    delivery = webhook_ping(webhook)
    breaker = factories.breaker(work, reason=SECRET)
    made = (work, session, schedule, webhook, breaker, delivery, tokens, colleague.pk)
    return World(*made, database_digest())


def _tokens(people: dict[str, User], work: Project, other: Project) -> dict[str, str | None]:
    admin, maintainer = people["admin"], people["maintainer"]
    gone = factories.user("gone", superuser=True)
    gone.is_active = False
    gone.save()
    for name in ("one", "two"):
        factories.executor(name)
    one = Executor.objects.get(name="one")
    Node.objects.create(executor=one, name="one", address="one/one", quarantine_reason=SECRET)
    return {
        **{name: factories.token(person) for name, person in people.items()},
        "scoped": factories.token(admin, project=work),
        "elsewhere": factories.token(admin, project=other),
        "read_only": factories.token(maintainer, read_only=True),
        "executor": factories.token(executor_name="one"),
        "other_executor": factories.token(executor_name="two"),
        "expired": factories.token(admin, expires_at=timezone.now() - timedelta(days=1)),
        "disabled": factories.token(gone),
        "wrong": "rpr_" + "x" * 43,
        "anonymous": None,
    }


def _configure(project: Project, name: str) -> WebhookEndpoint:
    """A queue, a policy, defaults, quotas and a webhook of a project."""
    budget = SharedBudget().stored()
    Queue.objects.create(
        project=project, name=name, cordoned=True, cordon_reason=SECRET, retry_budget=budget
    )
    factories.named_policy(f"{SECRET}-{name}", project=project)
    factories.quotas(project, **{f"{SECRET}.example/{name}": 7})
    retry_defaults_put(
        ConfigScope(project=project), policy=InlinePolicy(max_retries=7), bounds=Bounds(), by=SECRET
    )
    url = f"https://example.com/{SECRET}"
    return webhook_create(project=project, url=url, event_types=[], description=SECRET, by="root")


# Reading is no change: neither when a token was last used nor how much of its limit is left.
_ROW = {"sessions_app_apitoken": "to_jsonb(t) - 'last_used_at'"}
_IGNORED = {RequestBudget._meta.db_table}


def database_digest() -> dict[str, Any]:
    """Return the number of rows of each table, and a hash of them all."""
    with connection.cursor() as cursor:
        tables = sorted({*connection.introspection.table_names(cursor)} - _IGNORED)
        parts = (
            f"SELECT '{table}', count(*), sum(hashtextextended(({_ROW.get(table, 't')})::text, 0))"
            f' FROM "{table}" t'
            for table in tables
        )
        cursor.execute(" UNION ALL ".join(parts))
        return {table: (count, digest) for table, count, digest in cursor.fetchall()}


@contextmanager
def undone() -> Iterator[None]:
    """Roll back what happens within, so that the next one meets the same world."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)
