"""The audit log over REST."""

from dataclasses import fields
from typing import Annotated, Any, ClassVar, Self
from urllib.parse import urlencode
from uuid import UUID

from drf_spectacular.utils import extend_schema
from pydantic import Field, model_validator
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api.http.views import RestView
from sessions_app.api.openapi.generator import query_parameters
from sessions_app.api.requests.queries import PageQuery, Text, Time, query_of
from sessions_app.api.requests.whole_numbers import in_short
from sessions_app.api.shapes import audit_shapes as shapes
from sessions_app.audit.context import ENGINE, Door
from sessions_app.authorization import Action
from sessions_app.core.errors import InvalidInput
from sessions_app.models import AuditLog
from sessions_app.selectors.audit import Place, Wanted, audit_page, place_parsed


class AuditFilter(PageQuery):
    """The query parameters of `GET /audit/`."""

    cursor: Annotated[str, Field(max_length=60)] | None = None
    actor: Text | None = None
    action: Text | None = None
    object_type: Text | None = None
    object_id: Text | None = None
    """It needs `object_type`."""
    project: Text | None = None
    """`domain/name`."""
    domain: Text | None = None
    """The entries of the domain itself and of its projects."""
    door: Door | None = None
    automatic: bool | None = None
    """True for the engine's acts, false for people's."""
    session: UUID | None = None
    chain: UUID | None = None
    """The chain, by the id of its first session."""
    created_after: Time | None = None
    created_before: Time | None = None

    @model_validator(mode="after")
    def _object_by_type(self) -> Self:
        if self.object_id is not None and self.object_type is None:
            raise InvalidInput({"object_id": ["requires object_type"]})
        return self

    def wanted(self) -> Wanted:
        """Return the conditions in the selector's form."""
        return Wanted(**{each.name: getattr(self, each.name) for each in fields(Wanted)})


class AuditView(RestView):
    """`/audit/`."""

    actions: ClassVar = {"GET": Action.AUDIT_READ}

    @extend_schema(
        operation_id="audit_list",
        parameters=query_parameters(AuditFilter),
        responses=shapes.AuditPage,
    )
    def get(self, request: Request) -> Response:
        """List the audit entries of the scopes that you may configure, newest first."""
        asked = query_of(AuditFilter, request.query_params)
        newer, place = _cursor(asked.cursor)
        rows = audit_page(
            self.actor, asked.wanted(), limit=asked.page_size + 1, place=place, newer=newer
        )
        more, rows = len(rows) > asked.page_size, rows[: asked.page_size]
        if newer:
            rows.reverse()
        older = more or newer
        before = more if newer else place is not None
        return Response(
            {
                "next": _link(request, cursor_behind(rows[-1])) if rows and older else None,
                "previous": _link(request, f"a{_place(rows[0])}") if rows and before else None,
                "results": [audit_json(each) for each in rows],
            }
        )


def _cursor(text: str | None) -> tuple[bool, Place | None]:
    """Return whether newer entries are asked for, and the place to continue from."""
    if text is None:
        return False, None
    try:
        if text[:1] not in {"a", "b"}:
            raise ValueError("has no direction")
        return text[0] == "a", place_parsed(text[1:])
    except (ValueError, OverflowError) as error:
        raise NotFound("the cursor is invalid") from error


def place_behind(cursor: str | None) -> Place | None:
    """Return the place after which a page begins.

    Raises `NotFound` for a cursor that is invalid or leads to newer entries.
    """
    newer, place = _cursor(cursor)
    if newer:
        raise NotFound("the cursor is invalid")
    return place


def cursor_behind(entry: AuditLog) -> str:
    """Return the cursor of the entries that are older than one."""
    return f"b{_place(entry)}"


def _place(entry: AuditLog) -> Place:
    return Place(entry.time, entry.pk)


def _link(request: Request, cursor: str) -> str:
    query = urlencode({**request.query_params.dict(), "cursor": cursor})
    return request.build_absolute_uri(f"{request.path}?{query}")


def audit_json(entry: AuditLog) -> dict[str, Any]:
    """Return an entry of the log."""
    before, after = entry.data.get("before"), entry.data.get("after")
    changed = isinstance(before, dict) and isinstance(after, dict)
    return {
        "id": entry.pk,
        "time": entry.time,
        "actor": entry.actor,
        "automatic": entry.actor == ENGINE,
        "door": entry.door or None,
        "via": entry.via,
        "action": entry.action,
        "object_type": entry.object_type,
        "object_id": entry.object_id,
        "project": entry.project or None,
        "domain": entry.domain or None,
        "root_session_id": entry.root,
        "before": in_short(before) if changed else None,
        "after": in_short(after) if changed else None,
        "data": {} if changed else in_short(entry.data),
    }
