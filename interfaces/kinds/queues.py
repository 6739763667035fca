"""Queues."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import (
    Field,
    StrictBool,
    StrictFloat,
    StrictStr,
)

from interfaces.kinds.resource import Call, Listing, Resource, each
from interfaces.render.policy_render import queue_json
from interfaces.requests.bodies import Amounts, CordonBody, PositiveSeconds, ProjectAddress
from interfaces.requests.filters import QueueFilter
from interfaces.requests.strict import StrictModel
from interfaces.shapes import policy_shapes as shapes
from retry.breakers import BreakerRule
from retry.policies.documents import MAX_POLICIES
from retry.policies.fields import Label
from retry.policies.shared_budget import SharedBudget
from sessions_app.authorization import Action, Actor
from sessions_app.core.errors import InvalidInput
from sessions_app.core.versions import Expected
from sessions_app.models import Project, Queue
from sessions_app.selectors.policies import queue_get, queue_stored, queues_visible
from sessions_app.selectors.sessions import project_get, project_resolve
from sessions_app.services.resources.queues import queue_delete, queue_save, queue_version

MAX_LIMITS = 32


TimeLimits = dict[
    Literal["queue_timeout", "scheduling_timeout", "batch_timeout"],
    dict[Literal["default", "max"], PositiveSeconds],
]


class QueueFields(StrictModel):
    """The changeable fields of a queue."""

    priority_factor: Annotated[StrictFloat, Field(gt=0, le=1e9)] = 1.0
    """Lower is more important."""
    is_default: StrictBool | None = None
    """True makes it the project's default queue instead of the present one."""
    resource_limits: Annotated[Amounts, Field(max_length=MAX_LIMITS)] = {}
    """The most that its running sessions may hold together, by resource; `sessions` is their
    number."""
    time_limits: TimeLimits = {}
    """By the name of a time of its sessions: the `default`, which those have that do not give it,
    and the `max`, in seconds."""
    retry_policies: Annotated[
        list[Annotated[StrictStr, Field(min_length=1, max_length=63)]],
        Field(max_length=MAX_POLICIES),
    ] = []
    """The names in order; each must be within reach of the project."""
    breaker: BreakerRule | None = None
    """When retries of a failure wait because many chains of this queue fail with it. Null: as the
    project and the cluster say."""
    retry_budget: SharedBudget | None = None
    """The most automatic retries of the queue within a window; null: no limit."""

    def give(self, queue: Queue, *, only: bool = False) -> set[str]:
        """Write the fields into a queue, with `only` those that were sent. Return their names."""
        fields = {name for name in QueueFields.model_fields if name in self.model_fields_set}
        if not only:
            fields |= {"priority_factor", "resource_limits", "retry_policies", "time_limits"}
            fields |= {"breaker", "retry_budget"}
        if self.is_default is None:
            fields.discard("is_default")
        elif queue.is_default and not self.is_default:
            raise InvalidInput({"is_default": ["make another queue the default instead"]})
        for name in fields:
            setattr(queue, name, getattr(self, name))
        if "breaker" in fields:
            queue.breaker = self.breaker.model_dump() if self.breaker else None
        if "retry_budget" in fields:
            queue.retry_budget = self.retry_budget and self.retry_budget.stored()
        return fields


class QueueCreate(QueueFields):
    """The body of `POST /queues/`."""

    project: ProjectAddress | None = None
    """`domain/name`."""
    name: Label


class QueuePut(QueueFields):
    """The body of `PUT`. If the project and the name are sent, they must equal those in the
    address."""

    project: StrictStr | None = None
    name: StrictStr | None = None

    def placed(self, domain: str, project: str, queue: str) -> Self:
        """Return itself if it names this queue. Raises `InvalidInput` otherwise."""
        for field, given, meant in (
            ("project", self.project, f"{domain}/{project}"),
            ("name", self.name, queue),
        ):
            if given not in {None, meant}:
                raise InvalidInput({field: [f"must be {meant!r}, as in the address"]})
        return self


class QueueName(NamedTuple):
    """The address of a queue."""

    domain: str
    project: str
    queue: str


def queue_found(actor: Actor, name: QueueName, action: Action) -> Queue:
    """Return the queue with its project if the caller may do `action`. Raises `NotFound`."""
    project = project_get(actor, name.domain, name.project, action)
    return queue_get(project, name.queue)


def create(actor: Actor, body: Mapping[str, Any]) -> Queue:
    """Create a queue."""
    asked = QueueCreate.model_validate(body)
    project = project_resolve(actor, asked.project, Action.QUEUE_WRITE)
    return _create(asked, project, asked.name, actor.name)


def _create(asked: QueueFields, project: Project, name: str, by: str) -> Queue:
    queue = Queue(project=project, name=name)
    asked.give(queue)
    queue_save(queue, by=by)
    return queue


def put(
    actor: Actor, name: QueueName, body: Mapping[str, Any], expected: Expected | None
) -> tuple[Queue, bool]:
    """Create a queue or replace all its fields that can change. Return whether it was created."""
    project = project_get(actor, name.domain, name.project, Action.QUEUE_WRITE)
    asked = QueuePut.model_validate(body).placed(*name)
    queue = queue_stored(project, name.queue)
    if queue is None:
        if expected is not None:
            expected.check(None)
        label = QueueCreate.model_validate({"name": name.queue}).name
        return _create(asked, project, label, actor.name), True
    queue.project = project
    queue_save(queue, by=actor.name, fields=asked.give(queue), expected=expected)
    return queue_found(actor, name, Action.QUEUE_READ), False


def change(
    actor: Actor, name: QueueName, body: Mapping[str, Any], expected: Expected | None
) -> Queue:
    """Change the given fields."""
    queue = queue_found(actor, name, Action.QUEUE_WRITE)
    fields = QueueFields.model_validate(body).give(queue, only=True)
    queue_save(queue, by=actor.name, fields=fields, expected=expected)
    return queue_found(actor, name, Action.QUEUE_READ)


def delete(actor: Actor, name: QueueName, expected: Expected | None) -> None:
    """Delete a queue without recorded sessions."""
    queue_delete(queue_found(actor, name, Action.QUEUE_WRITE), by=actor.name, expected=expected)


def cordon(actor: Actor, name: QueueName, body: Mapping[str, Any]) -> Queue:
    """Cordon the queue."""
    queue = queue_found(actor, name, Action.QUEUE_WRITE)
    reason = CordonBody.model_validate(body).reason
    return _set_cordon(actor, queue, cordoned=True, reason=reason)


def uncordon(actor: Actor, name: QueueName) -> Queue:
    """Uncordon the queue."""
    queue = queue_found(actor, name, Action.QUEUE_WRITE)
    return _set_cordon(actor, queue, cordoned=False, reason="")


def _set_cordon(actor: Actor, queue: Queue, *, cordoned: bool, reason: str) -> Queue:
    queue.cordoned, queue.cordon_reason = cordoned, reason
    queue_save(queue, by=actor.name, fields=("cordoned", "cordon_reason"))
    return queue


QUEUE = Resource(
    name="queue",
    many="queues",
    address="queues",
    place="<str:domain>/<str:project>/<str:queue>",
    key=lambda **names: (QueueName(**names),),
    at=str,
    shape=shapes.Queue,
    page=shapes.QueuePage,
    render=each(queue_json),
    version=queue_version,
    listing=Listing(
        Action.QUEUE_LIST,
        "List the queues of the projects that you may see, oldest first.",
        queues_visible,
        ["id"],
        QueueFilter,
    ),
    read=Call(Action.QUEUE_READ, "One queue.", queue_found),
    create=Call(Action.QUEUE_WRITE, "Create a queue.", create, QueueCreate),
    put=Call(
        Action.QUEUE_WRITE,
        "Create a queue, or replace its changeable fields. Its cordon stays.",
        put,
        QueuePut,
        creates=True,
    ),
    patch=Call(Action.QUEUE_WRITE, "Change the given fields.", change, QueueFields),
    delete=Call(Action.QUEUE_WRITE, "Delete a queue that has no recorded sessions.", delete),
    acts={
        "cordon": Call(
            Action.QUEUE_WRITE,
            "Cordon the queue: it accepts sessions, but none of them is started.",
            cordon,
            CordonBody,
        ),
        "uncordon": Call(
            Action.QUEUE_WRITE,
            "Uncordon the queue. A queue that is not cordoned does not change.",
            uncordon,
        ),
    },
)
