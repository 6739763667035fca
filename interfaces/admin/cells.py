"""The contents of cells in lists and on pages: links, and times as people say them."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from interfaces.templatetags.reprise import ago, until

UNFOLDED = 200
"""Most names of a list that is folded."""


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


def measure(text: str, value: float, most: float, label: str) -> SafeString:
    """A number with a bar beside it, as long as its part of `most`; `label` says what it is of."""
    return format_html(
        '<span class="measure"><span>{}</span>'
        '<progress class="bar" value="{}" max="{}" aria-label="{}">{}</progress></span>',
        text,
        value,
        most or 1,
        label,
        text,
    )


def folded(names: Sequence[str], shown: int) -> SafeString | str:
    """Some names; what is more than `shown` of them is folded, up to `UNFOLDED`."""
    if not names:
        return "-"
    if len(names) <= shown:
        return ", ".join(names)
    head = f"{', '.join(names[:shown])} and {len(names) - shown:,} more"
    rest = format_html_join("", "<li>{}</li>", ((name,) for name in names[shown:UNFOLDED]))
    left = len(names) - UNFOLDED
    more = format_html("<li>and {} more</li>", f"{left:,}") if left > 0 else ""
    return format_html(
        '<details class="folded"><summary>{}</summary><ul>{}{}</ul></details>', head, rest, more
    )


def past(value: Any) -> str:
    """A past time, relative, exact on hover; a dash if there is none."""
    return ago(value, timezone.now()) or "-"


def coming(value: Any) -> str:
    """A coming time, relative, exact on hover; a dash if there is none."""
    return until(value, timezone.now()) or "-"
