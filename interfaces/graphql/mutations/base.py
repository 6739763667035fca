"""The base of all mutations: an input like REST's body, and errors as part of the answer.

A mutation is one call of a service, which is one transaction: it is done completely, or refused
without a change. Errors that the caller can fix are in `errors` of the payload. A broken call (no
token, a document that does not fit the schema, a failure on our side) is a GraphQL error.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import graphene
from graphene import relay
from pydantic import BaseModel

from interfaces.graphql import scalars
from interfaces.graphql.context import Context
from interfaces.graphql.enums import enumeration
from interfaces.graphql.errors import code_of, extra_of
from interfaces.graphql.inputs import input_fields, path_of, plain
from interfaces.graphql.nodes import RestObject
from interfaces.http.parsing import BODY, checked
from interfaces.http.preconditions import IF_MATCH
from interfaces.http.problems import problem_of
from sessions_app.core.errors import InvalidInput
from sessions_app.core.versions import Expected
from sessions_app.instruments import GRAPHQL_ERRORS

ErrorCode = enumeration(
    "MutationErrorCode",
    (
        *("INVALID", "NOT_PERMITTED", "NOT_FOUND", "CONFLICT", "OUTDATED"),
        *("QUOTA_EXCEEDED", "TOO_LARGE"),
    ),
    "Why nothing was changed.",
)


class MutationError(RestObject):
    """Why a mutation changed nothing."""

    field = graphene.String(
        description="The path in `input` that is wrong, such as `retryPolicy.maxRetries`."
    )
    message = graphene.String(required=True)
    code = graphene.Field(ErrorCode, required=True)
    details = graphene.Field(
        scalars.JSON, description="Further fields for programs, as in REST's problem."
    )


def errors_of(error: Exception, model: type[BaseModel] | None = None) -> list[dict[str, Any]]:
    """Return the errors of a payload for a refusal; raise `error` again if it is none.

    `model` is the model of the input.
    """
    problem = problem_of(error)
    if problem["status"] >= 500:
        raise error
    usual = {"code": code_of(problem), "details": extra_of(problem) or None}
    found = [
        {"field": _named(model, name), "message": text, **usual}
        for name, texts in problem["errors"].items()
        for text in texts
    ]
    return found or [{"field": None, "message": problem["detail"], **usual}]


def _named(model: type[BaseModel] | None, name: str) -> str:
    if name in {BODY, IF_MATCH.name}:
        return {BODY: "input", IF_MATCH.name: "ifMatch"}[name]
    return path_of(model, name)


class Change(relay.ClientIDMutation):
    """The base of all mutations.

    `perform` makes the change and returns the fields of the payload.
    """

    class Meta:
        abstract = True

    if TYPE_CHECKING:  # graphene takes the options of a class from here, too, and has no types

        def __init_subclass__(cls, **options: Any) -> None: ...

    checked_by: ClassVar[type[BaseModel] | None] = None
    """The model that checks the input, except for the fields that identify the object."""

    @classmethod
    def __init_subclass_with_meta__(
        cls,
        body: type[BaseModel] | None = None,
        checked_by: type[BaseModel] | None = None,
        kinds: Mapping[str, Any] | None = None,
        named_by: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        """Build the input and the `errors` field when graphene defines the class.

        `body` gives the input its fields; `checked_by` only checks them. `kinds` are more exact
        types of some fields, and `named_by` the fields that name the object.
        """
        cls.checked_by = body or checked_by
        fields = {**(named_by or {}), **(input_fields(body, kinds) if body else {})}
        cls.errors = graphene.List(
            graphene.NonNull(MutationError),
            required=True,
            description="Why nothing was changed. Empty after a success.",
        )
        super().__init_subclass_with_meta__(input_fields=fields, **options)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        """Make the change. `given` is the input as a JSON object with REST's names."""
        raise NotImplementedError

    @classmethod
    def mutate(cls, _root: None, info: Any, input: Mapping[str, Any]) -> Any:
        """Call `perform`, and turn a refusal into `errors` of the payload."""
        given = plain(input)
        named = given.pop("client_mutation_id", None)
        try:
            payload = cls.perform(info.context, checked(given))
        except Exception as error:  # noqa: BLE001  # others are raised again
            errors = errors_of(error, cls.checked_by)
            GRAPHQL_ERRORS.labels(errors[0]["code"]).inc()
            return cls(errors=errors, client_mutation_id=named)
        return cls(**payload, errors=[], client_mutation_id=named)


class Deletion(Change, abstract=True):
    """The base of mutations that delete an object with an id."""

    deleted_id = graphene.ID(description="The global id of the deleted object.")


def expected_of(given: dict[str, Any]) -> Expected | None:
    """Take `ifMatch` out of the input and return it. Raises `InvalidInput`."""
    version = given.pop("if_match", None)
    if version is None:
        return None
    if not version.strip():
        raise InvalidInput({"if_match": ["must be a version from an answer"]})
    return Expected(None if version == "*" else frozenset({version.strip('"')}))
