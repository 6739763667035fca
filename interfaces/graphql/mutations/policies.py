"""Mutations of named policies, given as fields or as documents."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import graphene
from graphql_relay import to_global_id
from pydantic import ValidationError

from interfaces.calls import policies as operations
from interfaces.graphql.context import Context
from interfaces.graphql.enums import enumeration
from interfaces.graphql.inputs import input_of
from interfaces.graphql.kinds import IfMatch
from interfaces.graphql.mutations.base import Change, Deletion, expected_of
from interfaces.graphql.mutations.scopes import OfScope, OfScopeVersion, taken_names
from interfaces.graphql.peers import single_peer
from interfaces.graphql.policies import RetryPolicy
from interfaces.graphql.scalars import JSON
from interfaces.http.documents import parse_yaml
from interfaces.http.parsing import BODY
from interfaces.http.problems import field_errors
from interfaces.render.policy_render import policies_json
from interfaces.requests.filters import ScopeQuery
from retry.policies.documents import API_VERSION, Spec
from sessions_app.core.errors import InvalidInput
from sessions_app.services.resources.policies import Applied

_WAYS = ("spec", "document", "yaml")
PolicySpec = input_of(Spec, name="RetryPolicySpecInput")


class OfDocument(OfScope):
    """The content of a policy. Its scope is named here, in the document, or in both."""

    name = graphene.String(
        description="Required with `spec`. Otherwise it must equal the document's."
    )
    spec = PolicySpec(description="The spec of the policy, as fields.")
    document = JSON(description="The whole document, as in REST.")
    yaml = graphene.String(description="The whole document as YAML.")


class OfDocumentVersion(OfDocument, IfMatch):
    """The same, with `ifMatch`."""


def _document(given: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the form of the document and the document itself. Raises `InvalidInput`."""
    ways = [way for way in _WAYS if given.get(way) is not None]
    if len(ways) != 1:
        raise InvalidInput({"spec": ["give exactly one of spec, document and yaml"]})
    (way,) = ways
    if way == "spec" and given.get("name") is None:
        raise InvalidInput({"name": ["is required"]})
    return way, _READERS[way](given)


def _of_fields(given: dict[str, Any]) -> dict[str, Any]:
    document = {"apiVersion": API_VERSION, "kind": "RetryPolicy", "spec": given["spec"]}
    return document | {"metadata": {"name": given["name"]}}


def _of_value(given: dict[str, Any]) -> dict[str, Any]:
    document = given["document"]
    if not isinstance(document, dict):
        raise InvalidInput({"document": ["must be an object"]})
    return document


def _of_yaml(given: dict[str, Any]) -> dict[str, Any]:
    with _named_as("yaml"):
        return parse_yaml(given["yaml"].encode())


_READERS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "spec": _of_fields,
    "document": _of_value,
    "yaml": _of_yaml,
}


@contextmanager
def _named_as(way: str) -> Iterator[None]:
    """Name errors in the document after the input field that held it."""
    try:
        yield
    except ValidationError as error:
        raise InvalidInput(_renamed(field_errors(error), way)) from None
    except InvalidInput as error:
        raise InvalidInput(_renamed(error.errors, way)) from None


def _renamed(errors: dict[str, list[str]], way: str) -> dict[str, list[str]]:
    if way == "spec":
        return {name.removeprefix("metadata."): texts for name, texts in errors.items()}
    return {way if name == BODY else f"{way}.{name}": texts for name, texts in errors.items()}


def _peer(context: Context, made: Applied) -> dict[str, Any]:
    render = partial(policies_json, context.actor, ignored=made.ignored)
    return {"retry_policy": single_peer(RetryPolicy, made.policy, render), "created": made.created}


class CreateRetryPolicy(Change):
    """Create a policy. It is refused if the scope has a policy with this name."""

    Input = OfDocument
    retry_policy = graphene.Field(RetryPolicy)
    created = graphene.Boolean()

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        asked = ScopeQuery(**taken_names(given))
        way, document = _document(given)
        with _named_as(way):
            return _peer(context, operations.create(context.actor, asked, document))


class ApplyRetryPolicy(Change):
    """Create a policy or a new revision of it. An equal document changes nothing."""

    Input = OfDocumentVersion
    retry_policy = graphene.Field(RetryPolicy)
    created = graphene.Boolean(description="False if the policy existed.")

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        expected, asked = expected_of(given), ScopeQuery(**taken_names(given))
        way, document = _document(given)
        with _named_as(way):
            made = operations.apply(context.actor, given.get("name"), asked, document, expected)
        return _peer(context, made)


class DeleteRetryPolicy(Deletion):
    """Delete a policy that nothing uses. If unfinished chains still need it, it is archived."""

    class Input(OfScopeVersion):
        name = graphene.String(required=True)

    outcome = graphene.Field(
        enumeration("PolicyDeleted", ("deleted", "archived"), "The result of deleting a policy.")
    )

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        expected, names = expected_of(given), taken_names(given)
        name = given["name"]
        outcome = operations.delete(context.actor, name, ScopeQuery(**names), expected)
        key = "/".join([*names.values(), name])
        return {"outcome": outcome, "deleted_id": to_global_id("RetryPolicy", key)}


class PolicyMutations:
    """The mutations of named policies."""

    create_retry_policy = CreateRetryPolicy.Field()
    apply_retry_policy = ApplyRetryPolicy.Field()
    delete_retry_policy = DeleteRetryPolicy.Field()
