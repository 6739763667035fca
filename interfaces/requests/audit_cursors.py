"""The cursors of the audit log: a direction, and the place of an entry."""

from rest_framework.exceptions import NotFound

from sessions_app.models import AuditLog
from sessions_app.selectors.audit import Place, place_parsed


def cursor_read(text: str | None) -> tuple[bool, Place | None]:
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
    newer, place = cursor_read(cursor)
    if newer:
        raise NotFound("the cursor is invalid")
    return place


def cursor_behind(entry: AuditLog) -> str:
    """Return the cursor of the entries that are older than one."""
    return f"b{Place(entry.time, entry.pk)}"


def cursor_before(entry: AuditLog) -> str:
    """Return the cursor of the entries that are newer than one."""
    return f"a{Place(entry.time, entry.pk)}"
