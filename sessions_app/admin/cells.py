"""What cells of lists and pages show: links, and times as people say them."""

from typing import Any
from uuid import UUID

from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from sessions_app.templatetags.reprise import ago, until


def change_url(kind: str, key: object) -> str:
    """The page of a record of this application."""
    return reverse(f"admin:sessions_app_{kind}_change", args=[key])


def short(key: object) -> SafeString:
    """The beginning of an id, which tells it from its neighbours."""
    return format_html('<span class="one-line">{}</span>', str(key)[:13])


def session_link(session_id: UUID | str | None, text: str = "") -> SafeString | str:
    """A link to a session; its id if no text is given."""
    if session_id is None:
        return ""
    return link(change_url("session", session_id), text or str(session_id)[:13])


def link(url: str, text: object) -> SafeString:
    """A link as the lists show it."""
    return format_html(
        '<a class="text-primary-600 dark:text-primary-500" href="{}">{}</a>', url, text
    )


def past(value: Any) -> str:
    """A past time, relative, exact on hover; a dash if there is none."""
    return ago(value, timezone.now()) or "-"


def coming(value: Any) -> str:
    """A coming time, relative, exact on hover; a dash if there is none."""
    return until(value, timezone.now()) or "-"
