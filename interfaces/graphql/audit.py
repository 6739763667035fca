"""The audit log in GraphQL."""

from typing import Any

import graphene

from interfaces.graphql.connections import (
    Page,
    connection_source,
    connection_to,
    pages,
    slice_of,
)
from interfaces.graphql.context import actor_of
from interfaces.graphql.errors import read_arguments
from interfaces.graphql.nodes import RestObject, with_session_keys
from interfaces.graphql.peers import Peers, one_by_one
from interfaces.graphql.scalars import BigInt
from interfaces.graphql.shapes import arguments_of, shape_of
from interfaces.render.audit_render import audit_json
from interfaces.requests.audit_cursors import cursor_behind, place_behind
from interfaces.requests.filters import AuditFilter
from interfaces.shapes import audit_shapes as shapes
from sessions_app.selectors.audit import audit_page

_Shape: Any = shape_of(shapes.AuditEntry, kinds={"id": BigInt})


class AuditEntry(_Shape, RestObject):
    """An audit entry: who did what, and through which interface (`door`).

    For a change of the configuration, `before` and `after` are the fields that differ. For an
    action on a session or a task both are null, and `data` has the details.
    """


AuditEntryConnection = connection_to(AuditEntry)


class AuditQueries:
    """The root field of the audit log."""

    audit = pages(
        AuditEntryConnection,
        "The audit entries of the scopes that you may configure, newest first.",
        **arguments_of(AuditFilter, kinds={"session": graphene.ID, "chain": graphene.ID}),
    )

    @staticmethod
    def resolve_audit(_root: None, info: Any, **asked: Any) -> dict[str, Any]:
        page = Page.of(asked)
        asked = with_session_keys(asked, "session", "chain")
        wanted = read_arguments(AuditFilter, asked).wanted()
        place = place_behind(page.after)
        rows = audit_page(actor_of(info), wanted, limit=page.first + 1, place=place)
        found = slice_of(rows, page, [cursor_behind(row) for row in rows])
        return connection_source(found, page, Peers(AuditEntry, found.rows, _render_entries).each())


_render_entries = one_by_one(audit_json)
