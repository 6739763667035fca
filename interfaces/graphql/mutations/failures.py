"""Mutations of failures."""

from typing import Any

import graphene

from interfaces.calls import failures as operations
from interfaces.graphql.context import Context
from interfaces.graphql.failures import Failure, failure_peer
from interfaces.graphql.mutations.base import Change
from interfaces.requests.failures import FailureChanges, FailureQuery


class OfFailure:
    """The input fields that name a kind of failures."""

    project = graphene.String(
        description="`domain/name`; by default the token's project, or the default one."
    )
    key = graphene.String(required=True)


class UpdateFailure(Change, body=FailureChanges):
    """Mute a kind of failures, or take that back."""

    Input = OfFailure
    failure = graphene.Field(Failure)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        asked = FailureQuery(project=given.pop("project", None))
        found = operations.change(context.actor, given.pop("key"), asked, given)
        return {"failure": failure_peer(found)}


class FailureMutations:
    """The mutations of failures."""

    update_failure = UpdateFailure.Field()
