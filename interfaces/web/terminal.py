"""Lines of a terminal as markup: colours become classes, everything else is escaped."""

import re
from collections.abc import Iterable, Iterator

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from rich.ansi import AnsiDecoder
from rich.color import Color, ColorSystem
from rich.style import Style
from rich.text import Span

from sessions_app.services.sessions.log_pages import Line

LONGEST_LINE = 4096
"""Most characters of a line that are shown."""
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def terminal_lines(lines: Iterable[Line], marked: int | None = None) -> SafeString:
    """Return the lines, each in an element with its offset; the line at `marked` is a hit."""
    decoder = AnsiDecoder()
    shown = ((_line_class(line, marked), line.offset, _decoded(decoder, line)) for line in lines)
    return format_html_join("", '<span class="{}" id="byte-{}">{}\n</span>', shown)


def _line_class(line: Line, marked: int | None) -> str:
    return "line hit" if line.offset == marked else "line"


def _decoded(decoder: AnsiDecoder, line: Line) -> SafeString:
    text = decoder.decode_line(line.text[:LONGEST_LINE].rstrip("\r"))
    pieces, reached = [], 0
    # The decoder gives spans in their order, and none to words without a style.
    for span in [*text.spans, Span(len(text.plain), len(text.plain), Style.null())]:
        style = span.style if isinstance(span.style, Style) else Style.parse(span.style)
        before, inside = text.plain[reached : span.start], text.plain[span.start : span.end]
        pieces += [(_run(before, ""),), (_run(inside, " ".join(_classes(style))),)]
        reached = span.end
    cut = f" … and {len(line.text) - LONGEST_LINE:,} more" if len(line.text) > LONGEST_LINE else ""
    return format_html_join("", "{}", [*pieces, (cut,)])


def _run(words: str, classes: str) -> str:
    shown = _CONTROLS.sub("", words)
    return format_html('<span class="{}">{}</span>', classes, shown) if classes else shown


def _classes(style: Style) -> Iterator[str]:
    for name in ("bold", "dim", "italic", "underline", "strike", "reverse"):
        if getattr(style, name):
            yield f"ansi-{name}"
    if style.color is not None and not style.color.is_default:
        yield f"ansi-{_number(style.color)}"
    if style.bgcolor is not None and not style.bgcolor.is_default:
        yield f"ansi-on-{_number(style.bgcolor)}"


def _number(color: Color) -> int:
    """Return which of the eight colours of a terminal is closest."""
    return (color.downgrade(ColorSystem.STANDARD).number or 0) % 8
