"""A database with something of everything, and what of it calls may name."""

import json
from dataclasses import dataclass

from django.contrib.auth.models import User

from retry.policies.categories import FailureCategory
from scheduler.models import Node
from sessions_app.core.states import Status
from sessions_app.models import (
    ApiToken,
    Breaker,
    FailureSignature,
    Membership,
    Project,
    Schedule,
    Session,
    WebhookDelivery,
    WebhookEndpoint,
)
from sessions_app.models.tenants import Role
from sessions_app.services.resources.categories import category_create
from sessions_app.services.resources.priority_classes import priority_class_create
from sessions_app.webhooks.endpoints import webhook_create, webhook_ping
from tests import factories
from tests.agent import Agent
from tests.told_log import failures_count

Names = dict[str, list[str | int]]


@dataclass(frozen=True)
class World:
    """The secrets of who calls; `names` of records by parameter, `words` that fields may hold."""

    admin: str
    member: str
    viewer: str
    names: Names
    words: Names

    def names_in(self, path: str, parameter: str) -> list[str | int]:
        """Return the values of a parameter of an address; for `name` they depend on the address's
        beginning."""
        if parameter != "name":
            return self.names.get(parameter, [])
        return self.names[path.removeprefix("/api/v2/").partition("/")[0]]


def build() -> World:
    """Three projects of two domains with all that a call can be about."""
    work = factories.project("work", domain="acme")
    for project in (work, factories.project("spare", domain="acme")):
        factories.queue(project, "gpu")
    factories.project("other", domain="umbrella")
    admin = factories.user("fuzz-admin", superuser=True)
    member = factories.user("fuzz-member", project=work)
    viewer = factories.user("fuzz-viewer", project=work, role=Role.VIEWER)
    for number in range(4):
        factories.token(factories.user(f"user-{number}", project=work, role=Role.VIEWER))
    _sessions(work, member)
    _configuration(work)
    return World(
        # The secret of a call must not be one of those that a call can revoke.
        admin=factories.token(admin),
        member=factories.token(member),
        viewer=factories.token(viewer),
        names=_names(),
        words=WORDS,
    )


def _sessions(work: Project, owner: User) -> None:
    """Sessions of every state: waiting, held, running, failed, retrying and exhausted."""
    agent = Agent(factories.executor("one"))
    for name in ("n1", "n2"):
        Node.objects.create(executor=agent.executor, name=name, address=f"one/{name}")
    factories.executor("two", projects=(work,))
    policy = factories.policy(max_retries=1)

    def made(**fields: object) -> Session:
        return factories.submit(work, owner=owner, job_set="nightly", **fields)

    ended = [made(retry_policy=policy), made(), made()]
    agent.lease()
    agent.start(*(each.pk for each in ended))
    agent.fail(ended[0].pk, ended[1].pk, exit_code=3)
    agent.succeed(ended[2].pk)
    running = made(pod_spec={"containers": [{"name": "main", "image": "busybox"}]})
    made(name="leased")
    agent.lease()
    agent.start(running.pk)
    factories.settle(made(retry_policy=policy, queue="gpu"), exit_code=137)
    for number in range(3):
        made(name=f"waiting-{number}", labels={"a": "b"}, environ={"A": "1"})


def _configuration(work: Project) -> None:
    for number in range(4):
        document = {
            "name": f"category-{number}",
            "matchers": [{"onPodMessage": {"pattern": f"disk {number}"}}],
        }
        category = FailureCategory.model_validate_json(json.dumps(document))
        category_create(category, position=None, by="root")
    for number in range(2):
        priority_class_create(f"class-{number}", number + 1, {}, by="root")
    for number in range(3):
        factories.named_policy(f"policy-{number}", retryLimit=number)
        factories.named_policy(f"own-{number}", project=work, retryLimit=number)
    factories.named_policy("domain", domain=work.domain, retryLimit=2)
    factories.quotas(work, sessions=1_000, cpu="100")
    for number in range(3):
        url = f"https://example.org/{number}"
        webhook = webhook_create(project=work, url=url, event_types=[], description="", by="root")
        webhook_ping(webhook)
        factories.schedule(work, User.objects.filter(is_superuser=True)[0])
    failures_count()
    factories.breaker(work)
    factories.breaker(work, signature="ba9876543210")


def _names() -> Names:
    """Two or three of each: every one of them is tried in every place."""
    failed = Session.objects.filter(exit_code=3)[:1]
    waiting = Session.objects.filter(status=Status.PENDING)[:2]
    return {
        "session_id": [str(each.pk) for each in (*failed, *waiting)],
        "key": [each.key for each in FailureSignature.objects.all()[:2]],
        "schedule_id": [str(each.pk) for each in Schedule.objects.all()[:2]],
        "webhook_id": [str(each.pk) for each in WebhookEndpoint.objects.all()[:2]],
        "breaker_id": [str(each.pk) for each in Breaker.objects.all()[:2]],
        "number": [each.pk for each in WebhookDelivery.objects.all()[:2]],
        "membership_id": [each.pk for each in Membership.objects.all()[:2]],
        "prefix": [token.prefix for token in ApiToken.objects.filter(executor_name=None)[:3]],
        "domain": ["acme"],
        "project": ["work", "spare"],
        "queue": ["default", "gpu"],
        "executors": ["one", "two"],
        "executor": ["one"],
        "nodes": ["n1", "n2"],
        "failure-categories": ["category-0", "category-1"],
        "priority-classes": ["class-0", "class-1"],
        "retry-policies": ["policy-0", "policy-1"],
        "job-sets": ["nightly"],
    }


WORDS: Names = {
    "query.project": ["acme/work", "acme/spare"],
    "query.domain": ["acme"],
    "body.project": ["acme/work", "acme/spare"],
    "body.domain": ["acme", "umbrella"],
    "body.user": ["fuzz-member", "user-1"],
    "body.queue": ["default", "gpu"],
    "body.url": ["https://example.org/hook"],
    "body.retry_policies[*]": ["policy-0", "policy-1"],
    "body.projects[*]": ["acme/work"],
    "body.domains[*]": ["acme"],
}
