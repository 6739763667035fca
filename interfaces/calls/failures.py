"""Operations on failures."""

from collections.abc import Mapping
from typing import Any

from interfaces.requests.failures import FailureChanges, FailureQuery
from sessions_app.authorization import Action, Actor
from sessions_app.locks import database_now
from sessions_app.selectors.failures import (
    Failure,
    FailuresWanted,
    failure_found,
    failure_project,
)
from sessions_app.services.failures.mute import failure_mute


def found(
    actor: Actor, key: str, asked: FailureQuery, action: Action = Action.FAILURE_READ
) -> Failure:
    """Return one failure with its figures of a time."""
    project = failure_project(actor, key, asked.project, action)
    wanted = FailuresWanted.of(database_now(), since=asked.since, until=asked.until, key=key)
    return failure_found(project, wanted)


def change(actor: Actor, key: str, asked: FailureQuery, body: Mapping[str, Any]) -> Failure:
    """Mute a failure, or take that back."""
    changes = FailureChanges.model_validate(body)
    failure = found(actor, key, asked, Action.FAILURE_WRITE)
    return failure_mute(failure, muted=changes.muted, by=actor.name)
