"""Named policies with their revisions, and failure categories, in GraphQL."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import graphene

from interfaces.graphql.connections import (
    Page,
    Slice,
    connection_to,
    one,
    page_of,
    pages,
    pages_below,
    slice_of,
)
from interfaces.graphql.context import actor_of
from interfaces.graphql.errors import read_arguments
from interfaces.graphql.kinds import BY_NAME, Kind, KindNode, one_of, pages_of
from interfaces.graphql.nodes import RestNode, RestObject, found_by
from interfaces.graphql.peers import Peer, Peers, one_by_one, single_peer
from interfaces.graphql.scalars import JSON
from interfaces.graphql.scopes import SCOPE, names_of
from interfaces.graphql.shapes import arguments_of, shape_of
from interfaces.graphql.tenants import (
    Domain,
    Project,
    domains_of,
    resolve_project,
    seen_domain,
)
from interfaces.http.paging import RowCursor
from interfaces.kinds.categories import CATEGORY
from interfaces.render.policy_render import policies_json, revision_json
from interfaces.requests.filters import PolicyFilter
from interfaces.shapes import policy_shapes as shapes
from sessions_app.authorization import Actor
from sessions_app.core.errors import NotFound
from sessions_app.models import RetryPolicy as Row
from sessions_app.models import RetryPolicyRevision as RevisionRow
from sessions_app.selectors.peers import policies_revisions
from sessions_app.selectors.policies import (
    policies_visible,
    policy_get,
)
from sessions_app.services.resources.policies import policy_version

_PolicyShape: Any = shape_of(shapes.Policy)
_RevisionShape: Any = shape_of(shapes.PolicyRevision)
_CategoryShape: Any = shape_of(CATEGORY.shape, leave_out={"matchers"})
VERSION = "The version that was read: the `ETag` of REST."


class RetryPolicyRevision(_RevisionShape, RestObject):
    """A revision of a policy: its content between two edits."""


RetryPolicyRevisionConnection = connection_to(RetryPolicyRevision)


class RetryPolicy(_PolicyShape, RestNode):
    """A named policy of the cluster, a domain or a project: its document, and a `status`."""

    name = graphene.String(required=True)
    domain = graphene.Field(
        Domain, description="The domain that owns the policy. Null for a policy of a project."
    )
    project = graphene.Field(Project)
    version = graphene.String(required=True, description=VERSION)
    revisions = pages(RetryPolicyRevisionConnection, "Its revisions, newest first.")
    resolve_project = staticmethod(resolve_project)

    @staticmethod
    def resolve_id(source: Peer[Row], _info: Any) -> str:
        """Return its key; the part before the last slash is its scope."""
        return str(source.row)

    @staticmethod
    def resolve_name(source: Peer[Row], _info: Any) -> str:
        return source.row.name

    @staticmethod
    def resolve_domain(source: Peer[Row], info: Any) -> Any:
        return seen_domain(info, source.ask("domain", domains_of))

    @staticmethod
    def resolve_version(source: Peer[Row], _info: Any) -> str:
        """Return its version, which `ifMatch` takes."""
        return policy_version(source.row)

    @staticmethod
    def resolve_revisions(source: Peer[Row], _info: Any, **asked: Any) -> dict[str, Any]:
        page = Page.of(asked)
        return pages_below(source, "revisions", page, partial(_revisions, page), _revision_peers)


class FailureCategory(_CategoryShape, KindNode):
    """A failure category; lower positions are tried first."""

    of = CATEGORY
    matchers = graphene.List(graphene.NonNull(JSON), required=True)
    version = graphene.String(required=True, description=VERSION)


RetryPolicyConnection = connection_to(RetryPolicy)
FailureCategoryConnection = connection_to(FailureCategory)
CATEGORIES = Kind(CATEGORY, FailureCategory, BY_NAME)


class PolicyQueries:
    """The root fields of policies and categories."""

    retry_policy = one(
        RetryPolicy,
        "A policy of exactly this scope. Without a scope it is the cluster's.",
        name=graphene.String(required=True),
        **SCOPE,
    )
    retry_policies = pages(
        RetryPolicyConnection,
        "The policies that apply to what you may see, oldest first.",
        **arguments_of(PolicyFilter),
    )
    failure_category = one_of(CATEGORIES, name=graphene.String(required=True))
    failure_categories = pages_of(CATEGORIES, FailureCategoryConnection)

    @staticmethod
    def resolve_retry_policy(_root: None, info: Any, name: str, **scope: Any) -> Peer[Row]:
        return _policy(actor_of(info), name, *names_of(scope))

    @staticmethod
    def resolve_retry_policies(_root: None, info: Any, **asked: Any) -> dict[str, Any]:
        page, actor = Page.of(asked), actor_of(info)
        rows = read_arguments(PolicyFilter, asked).apply(actor, policies_visible(actor))
        return page_of(RetryPolicy, rows, RowCursor("id"), page, partial(policies_json, actor))


@found_by("RetryPolicy")
def policy_found(actor: Actor, key: str) -> Peer[Row]:
    """Return a policy by its key."""
    *scope, name = key.split("/")
    if len(scope) > 2:
        raise NotFound(f"no retry policy {key[:100]}")
    domain, project = [*scope, None, None][:2]
    return _policy(actor, name, domain, project)


def _policy(actor: Actor, name: str, domain: str | None, project: str | None) -> Peer[Row]:
    found = policy_get(actor, name, domain, project)
    return single_peer(RetryPolicy, found, partial(policies_json, actor))


def _revisions(page: Page, rows: Sequence[Row]) -> list[Slice[RevisionRow]]:
    order = RowCursor("-revision")
    found = policies_revisions(rows, order.number(page.after), page.first + 1)
    return [slice_of(each, page, order.cursors(each)) for each in found]


def _revision_peers(rows: Sequence[RevisionRow]) -> Peers[RevisionRow]:
    return Peers(RetryPolicyRevision, rows, one_by_one(revision_json))
