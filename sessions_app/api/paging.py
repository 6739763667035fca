"""Cursor paging that answers junk with a 404."""

from typing import Any, TypeVar
from urllib.parse import urlsplit

from django.core.exceptions import ValidationError
from django.db import DataError
from django.db.models import Model, QuerySet
from django.http import QueryDict
from rest_framework.exceptions import NotFound
from rest_framework.pagination import Cursor, CursorPagination
from rest_framework.request import Request

Row = TypeVar("Row", bound=Model)


class RowCursor(CursorPagination):
    """Pages by fields that are never null; the first is unique unless it is said not to be."""

    max_page_size = 500
    page_size = 50
    page_size_query_param = "page_size"

    def __init__(self, *ordering: str, unique: bool = True):
        self._ordering = ordering
        self._unique = unique

    def get_ordering(self, *_args: Any) -> tuple[str, ...]:
        """DRF's hook."""
        return self._ordering

    def decode_cursor(self, request: Request) -> Cursor | None:
        """DRF's, which passes over characters that no cursor has: here those are junk, too.

        So is a cursor without a position, which says that all rows of a page are equal.
        """
        cursor: Cursor | None = super().decode_cursor(request)
        if cursor is not None:
            name = self.cursor_query_param
            link = QueryDict(urlsplit(self.encode_cursor(cursor)).query)
            no_position = self._unique and cursor.position is None
            if no_position or request.query_params[name] != link[name]:
                raise NotFound(self.invalid_cursor_message)
        return cursor

    def read(self, rows: QuerySet[Row], request: Request) -> list[Row]:
        """One page; a cursor that is none raises `NotFound`."""
        try:
            return list(self.paginate_queryset(rows, request) or [])
        except (ValueError, ValidationError, DataError) as error:
            raise NotFound("the cursor is not one of ours") from error


class SessionCursor(RowCursor):
    """Pages by id, which grows with creation: stable while sessions arrive."""

    def __init__(self, ordering: str):
        super().__init__("id" if ordering == "created_at" else "-id")
