"""Values as people read them: times, durations, states, ids, free text from terminals.

Everything that returns markup escapes what it was given.
"""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django import template
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from base.podspec.unseen import CONTROLS, FURTHER, INVISIBLE
from retry.explain.reasons import reason_words
from sessions_app.core.binding import Binding, Moment, Part, binding
from sessions_app.core.states import LIVE_STATUSES, Status

register = template.Library()

SHORT_ID = 13
"""The part of a UUIDv7 that tells its millisecond: the least that tells neighbours apart."""
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_TONES = {
    Status.PENDING: "waiting",
    **dict.fromkeys(LIVE_STATUSES, "live"),
    Status.TERMINATED: "good",
    Status.ERROR: "bad",
    Status.CANCELLED: "off",
}
# What a reader of a command would not see.
_UNSEEN = re.compile(f"(?![\\t\\n])[{CONTROLS}{INVISIBLE}{FURTHER}]")
# Colours and cursor movements (CSI), titles and links (OSC), and single control characters.
_TERMINAL = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b-\x1f\x7f]"
)


@register.filter
def duration(seconds: float | None, parts: int = 2) -> str:
    """Seconds as text of at most `parts` units: `0.25 s`, `42 s`, `3 min 20 s`, `2 d 4 h`."""
    if seconds is None:
        return ""
    if 0 < seconds < 10:
        return f"{seconds:.2g} s"
    rest = max(int(seconds), 0)
    found: list[tuple[int, str]] = []
    for size, unit in _UNITS:
        count, rest = divmod(rest, size)
        if count or found:
            found.append((count, unit))
    return " ".join(f"{count} {unit}" for count, unit in found[:parts] if count) or "0 s"


@register.filter
def usage(budget: Mapping[str, Any]) -> str:
    """Return how much of a budget was used: `1 of 3`, and with a window `4, at most 2 in 1 h`."""
    used, limit, window = budget["used"], budget["limit"], budget.get("window")
    if limit is None:
        return str(used)
    return f"{used}, at most {limit} in {duration(window)}" if window else f"{used} of {limit}"


def seconds_between(start: datetime | None, end: datetime | None) -> float | None:
    """Seconds from `start` to `end`, never negative; None if one of them is missing."""
    if start is None or end is None:
        return None
    return max((end - start).total_seconds(), 0.0)


@register.filter
def lasted(attempt: Mapping[str, Any], now: datetime) -> float | None:
    """Seconds that an attempt ran, up to `now` if it still does; None if it never started."""
    return seconds_between(attempt["started_at"], attempt["finished_at"] or now)


@register.filter
def exact(value: datetime) -> str:
    """A time to the second, in UTC."""
    return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


@register.filter
def ago(value: datetime | None, now: datetime) -> str:
    """A past time as `<time>`: relative in text, exact on hover; `reprise.js` keeps it current."""
    if value is None:
        return ""
    seconds = int((now - value).total_seconds())
    return _time(value, f"{duration(seconds, 1)} ago" if seconds > 0 else "just now", "ago")


@register.filter
def until(value: datetime | None, now: datetime) -> str:
    """A coming time as `<time>`, counted down; one that has passed is due `now`."""
    if value is None:
        return ""
    seconds = int((value - now).total_seconds())
    return _time(value, f"in {duration(seconds)}" if seconds > 0 else "now", "until")


@register.filter
def since(value: datetime | None, now: datetime) -> str:
    """Return the time since a moment as `<time>`, which the page counts up."""
    if value is None:
        return ""
    return _time(value, duration(int((now - value).total_seconds())), "since")


@register.simple_tag
def what_binds(
    session: Mapping[str, Any],
    newest: Mapping[str, Any] | None = None,
    silence: tuple[str, datetime] | None = None,
) -> Binding:
    """Return what binds a session now.

    `newest` is its chain's newest attempt and `silence` that of its executor; "" if unknown.
    """
    return binding(session, newest or None, silence or None)


@register.filter
def spoken(parts: Sequence[Part], now: datetime) -> SafeString:
    """The parts of a sentence: words, times that go on, and links to sessions."""
    return format_html_join("", "{}", ((_spoken(part, now),) for part in parts))


def _spoken(part: Part, now: datetime) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, Moment):
        return _TIMES[part.kind](part.at, now)
    address = reverse("session", args=[part.session_id])
    return format_html('<a href="{}">{}</a>', address, part.text)


_TIMES = {"ago": ago, "until": until, "since": since}


def _time(value: datetime, text: str, kind: str) -> SafeString:
    return format_html(
        '<time datetime="{}" title="{}" data-time="{}">{}</time>',
        value.astimezone(UTC).isoformat(),
        exact(value),
        kind,
        text,
    )


@register.filter
def tone(status: str) -> str:
    """The family of a status: `waiting`, `live`, `good`, `bad` or `off`; it decides the colour."""
    return _TONES[Status(status)]


@register.filter
def badge(status: str) -> str:
    """A status as a coloured word."""
    return format_html('<span class="badge {}">{}</span>', tone(status), status)


@register.filter
def counted(number: object, unit: str) -> str:
    """Return a number with its unit, which is a plural: `1 lease`, `2 held retries`."""
    one = f"{unit[:-3]}y" if unit.endswith("ies") else unit.removesuffix("s")
    return f"{number} {one if str(number) == '1' else unit}"


@register.filter
def short_id(value: UUID | str) -> str:
    """The beginning of an id, enough to find it by."""
    return str(value)[:SHORT_ID]


@register.filter
def words(code: object) -> str:
    """A code of the contract as words: `max_retries` is `max retries`; nothing for None."""
    if isinstance(code, float):
        return compact(code)
    return "" if code is None else str(code).replace("_", " ")


@register.filter
def because(reason: str | None) -> str:
    """The reason of a decision as a clause: `its retries are used up`."""
    return reason_words(reason or "")


@register.filter
def coded(sentence: str) -> SafeString:
    """A sentence in which `what one types` is set apart."""
    parts = sentence.split("`")
    if len(parts) % 2 == 0:
        return format_html("{}", sentence)
    forms = ("{}", "<code>{}</code>")
    shown = [(format_html(forms[at % 2], part),) for at, part in enumerate(parts)]
    return format_html_join("", "{}", shown)


@register.filter
def shell(command: Sequence[str]) -> str:
    """A command as one would type it into bash, lines as lines; what nobody sees is escaped."""
    return " ".join(_typed(word) for word in command)


def _typed(word: str) -> str:
    if not _UNSEEN.search(word):
        return shlex.quote(word)
    escaped = word.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"$'{_UNSEEN.sub(_escaped, escaped)}'"


def _escaped(found: "re.Match[str]") -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x80 else f"\\U{code:08x}"


@register.filter
def compact(value: object) -> str:
    """A JSON value on one line; text as it is, a list of texts with commas, a number in short."""
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return f"{float(f'{value:.6g}'):.15g}"
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    return json.dumps(value, default=str, ensure_ascii=False)


@register.filter
def items(facts: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The pairs of a mapping, also of one that has a key `items` (an `environ` may)."""
    return list(facts.items())


@register.filter
def step_facts(step: Mapping[str, Any]) -> dict[str, Any]:
    """Return what one step of a trace looked at, without its name, its result and what it did not
    find."""
    return {
        key: value
        for key, value in step.items()
        if key not in {"step", "result"} and value not in ("", None, [])
    }


@register.filter
def plain(text: str) -> str:
    """A log without the control sequences that only a terminal understands."""
    return _TERMINAL.sub("", text)
