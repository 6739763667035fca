"""The log of one session: pages, search, the line of the error, what is written, download."""

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import urlencode
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, QueryDict, StreamingHttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from pydantic import BaseModel, Field, ValidationError

from base.runlines.progress import is_progress
from interfaces.templatetags.reprise import SHORT_ID
from interfaces.web.fragments import fragment, session_or_404
from interfaces.web.terminal import terminal_lines
from sessions_app.models import Session
from sessions_app.services.sessions.log_pages import (
    Found,
    Line,
    LogPage,
    log_error,
    log_last_page,
    log_page,
    log_page_before,
    log_search,
)
from sessions_app.services.sessions.logs import log_read

BEFORE_HIT = 10
"""Lines that are shown before a line that was looked for."""
MOST_FOLLOWED = 5_000
"""Lines after which a followed log has to be opened anew, so that no page grows for ever."""
_Offset = Annotated[int, Field(ge=0, lt=2**62)]


class LogWanted(BaseModel):
    """The query string of a log: the page at byte `at`, or around the line at byte `show`; the
    error; or the lines that contain `q`, from byte `since` on.

    Lines that tell the progress are left out, unless `progress` says otherwise.
    """

    at: _Offset | None = None
    show: _Offset | None = None
    find: Literal["error"] | None = None
    q: Annotated[str, Field(max_length=200, pattern=r"^[^\x00]+$")] | None = None
    since: _Offset = 0
    wrap: Literal["on", "off"] = "on"
    progress: Literal["show", "hide"] = "hide"


class Following(BaseModel):
    """The query string of what is written: bytes `after` which, `reached` before, lines `shown`."""

    after: _Offset
    reached: _Offset
    shown: Annotated[int, Field(ge=0, lt=2**31)] = 0
    progress: Literal["show", "hide"] = "hide"


def log_wanted(query: QueryDict) -> tuple[LogWanted, list[str]]:
    """Return the valid parameters, and the names of the invalid ones."""
    sent = {name: query[name] for name in LogWanted.model_fields if query.get(name)}
    try:
        return LogWanted.model_validate(sent), []
    except ValidationError as error:
        wrong = sorted({str(item["loc"][0]) for item in error.errors()})
    kept = {name: text for name, text in sent.items() if name not in wrong}
    return LogWanted.model_validate(kept), wrong


@require_safe
@login_required
@never_cache
def log(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Show a page of the log, by default its end."""
    found = session_or_404(request, session_id)
    wanted, misunderstood = log_wanted(request.GET)
    context = {"title": "Log", "wanted": wanted, "misunderstood": misunderstood}
    if found.archived_chain is None:
        context |= _page_context(found, wanted)
    return fragment(request, "log", found, context)


def _page_context(found: Session, wanted: LogWanted) -> dict[str, Any]:
    hit = wanted.show
    if wanted.find is not None:
        hit = log_error(found.pk, _message(found))
    page = _page(found.pk, wanted.at, hit)
    last = page.reached >= page.size
    following = last and found.finished_at is None
    everything = wanted.progress == "show"
    lines = page.lines if following else page.shown
    return {
        "page": page,
        "lines": terminal_lines(_shown(lines, everything, hit), hit),
        "rest": terminal_lines(_shown(_rest(page), everything)),
        "all": everything,
        "shown": len(page.lines),
        "hit": hit,
        "following": following,
        "last": last,
        "tools": _tools(wanted, page),
        "pages": list(_pages(found.pk, wanted, page)),
        "found": _searched(found.pk, wanted),
    }


def _page(session_id: UUID, at: int | None, hit: int | None) -> LogPage:
    if hit is not None:
        return log_page(session_id, log_page_before(session_id, hit, BEFORE_HIT))
    return log_last_page(session_id) if at is None else log_page(session_id, at)


class LogLink(NamedTuple):
    """A link to another view of the log: its id on the page, its words, its query string."""

    id: str
    text: str
    query: str


def _link(wanted: LogWanted, name: str, text: str, **query: Any) -> LogLink:
    kept = {"wrap": "off"} if wanted.wrap == "off" else {}
    if wanted.progress == "show":
        kept["progress"] = "show"
    chosen = {key: value for key, value in {**kept, **query}.items() if value is not None}
    return LogLink(f"log-{name}", text, urlencode(chosen))


def _tools(wanted: LogWanted, page: LogPage) -> list[LogLink]:
    wrap = ("Do not wrap", "off") if wanted.wrap == "on" else ("Wrap lines", "on")
    told = ("Show progress", "show") if wanted.progress == "hide" else ("Hide progress", "hide")
    return [
        _link(wanted, "error", "Jump to the error", find="error"),
        _link(wanted, "wrap", wrap[0], at=page.start, wrap=wrap[1]),
        _link(wanted, "progress", told[0], at=page.start, progress=told[1]),
    ]


def _pages(session_id: UUID, wanted: LogWanted, page: LogPage) -> Iterator[LogLink]:
    if page.start:
        yield _link(wanted, "first", "Beginning", at=0)
        yield _link(wanted, "earlier", "Earlier", at=log_page_before(session_id, page.start))
    if page.reached < page.size:
        yield _link(wanted, "later", "Later", at=page.end)
        yield _link(wanted, "end", "End")


def _shown(lines: Iterable[Line], everything: bool, hit: int | None = None) -> list[Line]:
    """Return the lines without those that tell the progress; the one at `hit` stays."""
    return [
        line
        for line in lines
        if everything or line.offset == hit or not is_progress(line.text.encode("utf-8", "replace"))
    ]


def _rest(page: LogPage) -> list[Line]:
    return [page.rest] if page.rest else []


def _searched(session_id: UUID, wanted: LogWanted) -> Found | None:
    return log_search(session_id, wanted.q, wanted.since) if wanted.q else None


def _message(found: Session) -> str:
    """Return what was said about the end: by the workload, or else by the cluster."""
    decision = getattr(found, "decision", None)
    termination = decision.termination if decision else {}
    return str(termination.get("message") or termination.get("pod_message") or "")


@require_safe
@login_required
@never_cache
def log_more(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Show what was written after a byte; 204 if it is nothing.

    For htmx, which asks again as long as the answer says so.
    """
    found = session_or_404(request, session_id)
    try:
        asked = Following.model_validate(request.GET.dict())
    except ValidationError as error:
        wrong = ", ".join(sorted({str(item["loc"][0]) for item in error.errors()}))
        return HttpResponse(f"Not understood: {wrong}.", status=400, content_type="text/plain")
    page, everything = log_page(found.pk, asked.after), asked.progress == "show"
    ended = found.finished_at is not None
    if not ended and page.reached == asked.reached:
        return HttpResponse(status=204)
    context = {
        "session": found,
        "page": page,
        "shown": asked.shown + len(page.lines),
        "lines": terminal_lines(_shown(page.lines, everything)),
        "rest": terminal_lines(_shown(_rest(page), everything)),
        "all": everything,
        "following": not ended or page.reached < page.size,
        "too_long": asked.shown + len(page.lines) > MOST_FOLLOWED,
    }
    return render(request, "fragments/log_more.html", context)


@require_safe
@login_required
@never_cache
def log_download(request: HttpRequest, session_id: UUID) -> StreamingHttpResponse:
    """Send the whole log as a file. Behind the ASGI front, the front sends the body."""
    found = session_or_404(request, session_id)
    if found.archived_chain is not None:
        raise Http404
    # The front sends a HEAD and streams the body itself, so that a slow reader holds no thread.
    body = () if request.method == "HEAD" else log_read(found.pk)
    response = StreamingHttpResponse(body, content_type="text/plain; charset=utf-8")
    name = f"session-{str(found.pk)[:SHORT_ID]}.log"
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["X-Reprise-Log-Offset"] = "0"
    response["X-Content-Type-Options"] = "nosniff"
    return response
