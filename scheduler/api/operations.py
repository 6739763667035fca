"""Operations on executors: create, change, cordon, drain, delete. REST and GraphQL share them."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    Field,
    StrictBool,
    StrictFloat,
    StrictStr,
)

from retry.policies.fields import Label, Labels
from scheduler.models import Executor
from scheduler.selectors import executor_get, projects_named
from scheduler.services.drain import Drained, executor_drain
from scheduler.services.nodes.acts import node_quarantine, node_release
from scheduler.services.registry import (
    LONGEST,
    executor_cordon,
    executor_create,
    executor_delete,
    executor_save,
    executor_token_renew,
    executor_uncordon,
)
from sessions_app.api.requests.bodies import MAX_REASON, CordonBody, ProjectAddress
from sessions_app.api.requests.strict import StrictModel
from sessions_app.authorization import Action, Actor, authorize
from sessions_app.models import Project

MAX_PROJECTS = 1_000
_FIELDS = {
    *("unconfirmed_after", "placement", "avoid_suspects", "auto_quarantine"),
    *("preemption", "labels"),
}


class ExecutorFields(StrictModel):
    """The changeable fields of an executor."""

    projects: Annotated[list[ProjectAddress], Field(max_length=MAX_PROJECTS)] = []
    """The only projects that it serves, as `domain/name`; empty for all."""
    unconfirmed_after: Annotated[StrictFloat, Field(ge=0, le=LONGEST)] | None = None
    """Seconds until a lost run counts as ended without confirmation; null: the setting, 0:
    never."""

    placement: Literal["node", "cluster"] = "node"
    """`node`: each pod is bound to the node that was planned for it. `cluster`: the executor's
    cluster alone chooses nodes."""
    avoid_suspects: Literal["off", "retries", "all"] = "off"
    """Who avoids its suspect nodes: nobody, retries, or first attempts, too. `off`: none of its
    nodes is suspected."""
    auto_quarantine: StrictBool = False
    """Whether its suspect nodes get no leases at all."""
    labels: Labels = {}
    """Rules choose the executors of retries by these (`placement.executors.labels`)."""

    preemption: Literal["", "off", "dry_run", "on"] = ""
    """Whether running sessions make room for others here; `dry_run` only records which would.
    Empty: as the setting says."""

    def served(self) -> list[Project] | None:
        """Return the projects, None if not sent. Raises `InvalidInput` if one is missing."""
        return projects_named(self.projects) if "projects" in self.model_fields_set else None


class ExecutorCreate(ExecutorFields):
    """The body of `POST /executors/`."""

    name: Label


class DrainBody(StrictModel):
    """The body of `POST /executors/{name}/drain/`, which may be empty."""

    reason: Annotated[StrictStr, Field(max_length=MAX_REASON)] = ""
    """The reason of the cordon, also shown on sessions that ran there."""
    force: StrictBool = False
    """Whether to end interactive and inference sessions, too, which are never retried."""


class QuarantineBody(StrictModel):
    """The reason of a quarantine."""

    reason: Annotated[StrictStr, Field(min_length=1, max_length=MAX_REASON)]


def _found(actor: Actor, name: str) -> Any:
    return executor_get(actor, name, Action.EXECUTOR_WRITE)


def create(actor: Actor, body: Mapping[str, Any]) -> tuple[str, str]:
    """Create an executor. Return its name and its token."""
    authorize(actor, Action.EXECUTOR_WRITE)
    asked = ExecutorCreate.model_validate(body)
    executor = Executor(name=asked.name, **{field: getattr(asked, field) for field in _FIELDS})
    projects = asked.served() or []
    return asked.name, executor_create(executor, projects=projects, by=actor.name)


def change(actor: Actor, name: str, body: Mapping[str, Any]) -> None:
    """Change the fields that the body names."""
    executor = _found(actor, name)
    asked = ExecutorFields.model_validate(body)
    fields = asked.model_fields_set & _FIELDS
    for field in fields:
        setattr(executor, field, getattr(asked, field))
    executor_save(executor, by=actor.name, fields=fields, projects=asked.served())


def delete(actor: Actor, name: str) -> None:
    """Delete an executor without leases, and its tokens."""
    executor_delete(_found(actor, name), by=actor.name)


def cordon(actor: Actor, name: str, body: Mapping[str, Any]) -> None:
    """Cordon the executor: it gets no new leases, its runs continue."""
    executor = _found(actor, name)
    executor_cordon(executor, reason=CordonBody.model_validate(body).reason, by=actor.name)


def uncordon(actor: Actor, name: str) -> None:
    """Uncordon the executor."""
    executor_uncordon(_found(actor, name), by=actor.name)


def drain(actor: Actor, name: str, body: Mapping[str, Any]) -> Drained:
    """Cordon the executor and preempt its runs, until it is uncordoned."""
    _found(actor, name)
    asked = DrainBody.model_validate(body)
    return executor_drain(name, by=actor.name, reason=asked.reason, force=asked.force)


def quarantine(actor: Actor, executor: str, name: str, body: Mapping[str, Any]) -> None:
    """Give a node no leases, until it is released."""
    authorize(actor, Action.NODE_WRITE)
    reason = QuarantineBody.model_validate(body).reason
    found = executor_get(actor, executor, Action.NODE_WRITE)
    node_quarantine(found, name, reason=reason, by=actor.name)


def release(actor: Actor, executor: str, name: str) -> None:
    """End the quarantine and the suspicion of a node."""
    node_release(executor_get(actor, executor, Action.NODE_WRITE), name, by=actor.name)


def token_renew(actor: Actor, name: str) -> str:
    """Create a new token, and revoke all others of this executor."""
    return executor_token_renew(_found(actor, name), by=actor.name)
