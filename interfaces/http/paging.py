"""Cursor paging that answers invalid cursors with a 404."""

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db import DataError
from django.db.models import Model, QuerySet
from django.http import QueryDict
from rest_framework.exceptions import NotFound
from rest_framework.pagination import Cursor, CursorPagination
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.eventlog.reading import JobSet
from sessions_app.models import Session
from sessions_app.selectors.session_pages import Place

Row = TypeVar("Row", bound=Model)
Rows = QuerySet[Row] | Callable[[Place], list[Row]]
"""The rows to page through. For sessions it is a function that reads one page."""
MAX_PAGE = 500


class _Asked:
    """The part of a request that DRF's paging reads."""

    def __init__(self, query_params: QueryDict):
        self.query_params = query_params

    def build_absolute_uri(self) -> str:
        """Return "" for links, which nobody follows."""
        return ""


class RowCursor(CursorPagination):
    """Pages by fields that are never null. The first must be unique unless `unique` is false."""

    max_page_size = MAX_PAGE
    page_size = 50
    page_size_query_param = "page_size"
    base_url = ""
    cursor: Cursor | None = None

    def __init__(self, *ordering: str, unique: bool = True):
        self._ordering = ordering
        self._unique = unique

    def get_ordering(self, *_args: Any) -> tuple[str, ...]:
        """Return the order of the rows."""
        return self._ordering

    def decode_cursor(self, request: Any) -> Cursor | None:
        """Return the cursor, and refuse invalid ones that DRF would accept.

        These are cursors with extra characters, and, for a unique order, cursors without a
        position.
        """
        cursor: Cursor | None = super().decode_cursor(request)
        if cursor is not None:
            sent = request.query_params[self.cursor_query_param]
            no_position = self._unique and cursor.position is None
            if no_position or sent != self._text(cursor):
                raise NotFound(self.invalid_cursor_message)
        return cursor

    def read(self, rows: Rows[Row], request: Request) -> list[Row]:
        """Return one page. Raises `NotFound` for an invalid cursor."""
        return self._read(rows, request)

    def answer(
        self, rows: Rows[Row], request: Request, render: Callable[[Row], dict[str, Any]]
    ) -> Response:
        """Return one page, each row as `render` has it. Raises `NotFound`, too."""
        return self.get_paginated_response([render(row) for row in self.read(rows, request)])

    def number(self, after: str | None) -> int | None:
        """Return the number in a cursor. Raises `NotFound` for an invalid one."""
        if after is None:
            return None
        cursor = self.decode_cursor(_Asked(QueryDict(f"cursor={quote(after)}")))
        place = (not cursor or cursor.reverse or cursor.position) or ""
        if not (isinstance(place, str) and place.isascii() and place.isdigit()) or len(place) > 18:
            raise NotFound(self.invalid_cursor_message)
        return int(place)

    def slice(self, rows: Rows[Row], after: str | None, first: int) -> tuple[list[Row], bool]:
        """Return the first rows after a cursor, and whether more follow.

        It is for doors without query parameters. Raises `NotFound` for a cursor that is invalid or
        leads backwards.
        """
        asked = QueryDict(mutable=True)
        asked[self.page_size_query_param] = str(first)
        if after is not None:
            asked[self.cursor_query_param] = after
        page = self._read(rows, _Asked(asked))
        if self.cursor is not None and self.cursor.reverse:
            raise NotFound(self.invalid_cursor_message)
        return page, bool(self.has_next)

    def cursors(self, page: Sequence[Row]) -> list[str]:
        """Return the cursor after each row of the page that was just read."""
        begun = self.cursor or Cursor(0, reverse=False, position=None)
        before: Any = begun.position
        last, passed, found = before, begun.offset, []
        for at, row in enumerate(page):
            position = self._get_position_from_instance(row, self._ordering)
            if self._unique:
                before, passed = position, 0
            elif at and position != last:
                # Among equal rows, the cursor counts those after the last different one.
                before, passed = last, 1
            else:
                passed += 1
            last = position
            found.append(self._text(Cursor(passed, reverse=False, position=before)))
        return found

    def _text(self, cursor: Cursor) -> str:
        link = QueryDict(urlsplit(self.encode_cursor(cursor)).query)
        return str(link[self.cursor_query_param])

    def _read(self, rows: Rows[Row], request: Any) -> list[Row]:
        try:
            found = self.paginate_queryset(rows, request)  # type: ignore[arg-type]  # or what pages
            return list(found or [])
        except (ValueError, ValidationError, DataError) as error:
            raise NotFound("the cursor is invalid") from error


class SessionCursor(RowCursor):
    """Pages by id, which grows with creation, so pages are stable while sessions arrive.

    It pages through a function that reads one page.
    """

    def __init__(self, ordering: str):
        super().__init__("id" if ordering == "created_at" else "-id")

    def paginate_queryset(  # type: ignore[override]  # there is no queryset
        self, queryset: Callable[[Place], list[Session]], request: Any, view: object = None
    ) -> list[Session]:
        """Read one page."""
        del view
        self.base_url = request.build_absolute_uri()
        self.cursor = self.decode_cursor(request)
        size = self.get_page_size(request) or self.page_size
        back, beyond = self._place(self.cursor)
        newest_first = (self._ordering == ("-id",)) != back
        found = queryset(Place(size + 1, newest_first=newest_first, beyond=beyond))
        page, more = found[:size], len(found) > size
        if back:
            page.reverse()
        self.page = page
        self.has_next, self.has_previous = (True, more) if back else (more, beyond is not None)
        return page

    def _place(self, cursor: Cursor | None) -> tuple[bool, UUID | None]:
        if cursor is None:
            return False, None
        try:
            # Ids are unique, so none of our cursors has an offset beside its position.
            if not cursor.offset:
                return bool(cursor.reverse), UUID(str(cursor.position))
        except ValueError:
            pass
        raise NotFound(self.invalid_cursor_message)

    def get_next_link(self) -> str | None:
        """Return the link to the next page, or None."""
        return self._link(-1, back=False) if self.has_next else None

    def get_previous_link(self) -> str | None:
        """Return the link to the previous page, or None."""
        return self._link(0, back=True) if self.has_previous else None

    def _link(self, row: int, *, back: bool) -> str:
        # On an empty page the link continues from the present position.
        here = self.cursor.position if self.cursor else None
        position = str(self.page[row].pk) if self.page else here
        following = Cursor(offset=0, reverse=back, position=position)  # type: ignore[arg-type]
        return str(self.encode_cursor(following))


def job_set_cursor(each: JobSet) -> str:
    """Return the cursor after a job set in their list."""
    return json.dumps([each.project_id, each.name])


def job_set_place(cursor: str | None) -> tuple[int, str]:
    """Return the project and the name in a cursor. Raises `NotFound`."""
    if cursor is None:
        return 0, ""
    try:
        project, name = json.loads(cursor)
    except (ValueError, TypeError, RecursionError) as error:
        raise NotFound("the cursor is invalid") from error
    known = type(project) is int and 0 <= project < 2**63 and isinstance(name, str)
    if not known or not name.isprintable():
        raise NotFound("the cursor is invalid")
    return project, name


def offset_of(cursor: str | None) -> int:
    """Return the number of rows before a page of a list that is counted anew each time.

    Raises `NotFound` for an invalid cursor.
    """
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdigit()) or len(cursor) > 9:
        raise NotFound("the cursor is invalid")
    return int(cursor)
