"""Parts of the page of one session: attempts, steps of its decision, pod, comparison."""

import json
from collections import defaultdict
from typing import Any
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from base.runlines.progress import is_progress
from interfaces.render.session_render import (
    attempt_json,
    decision_json,
    decision_of,
    spec_json,
)
from interfaces.templatetags.reprise import seconds_between, shell
from interfaces.templatetags.timeline import chain_picture
from interfaces.web.fragments import fragment, session_or_404
from interfaces.web.visitor import visitor
from retry.evidence.termination import Termination
from sessions_app.core.attempt_changes import attempt_changes
from sessions_app.core.side_by_side import side_by_side
from sessions_app.core.states import GRANTED_RETRY
from sessions_app.models import Session
from sessions_app.selectors.dependencies import Edge, Node, dependency_graph
from sessions_app.selectors.resource_changes import flat_resources
from sessions_app.selectors.sessions import chain_attempts
from sessions_app.services.sessions.log_pages import LogPage, log_last_page, log_page

COMPARED_LINES = 400
"""Most lines of each log that are compared: the work grows with their product."""


@require_safe
@login_required
@never_cache
def steps(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Show each step of the decision with the facts that it looked at."""
    found = session_or_404(request, session_id)
    decision = decision_of(found)
    context = {"decision": decision_json(found, decision) if decision else None}
    return fragment(request, "steps", found, {"title": "Steps of the decision", **context})


@require_safe
@login_required
@never_cache
def attempts(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Show the attempts from number `first` to `last` of the timeline, on its scale."""
    found = session_or_404(request, session_id)
    first, last = (_number(request, name) for name in ("first", "last"))
    if first is None or last is None:
        raise Http404
    chain = chain_attempts(found)
    newest = decision_of(chain[-1])
    waits = newest is not None and chain[-1].retry_state in GRANTED_RETRY
    due_at = newest.due_at if newest and waits else None
    picture = chain_picture([attempt_json(each) for each in chain], due_at, timezone.now())
    rows = [row for row in picture.rows if first <= row.number <= last]
    context = {"title": "Attempts", "first": first, "rows": rows, "picture": picture}
    return fragment(request, "attempts", found, context)


def _number(request: HttpRequest, name: str) -> int | None:
    text = request.GET.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


@require_safe
@login_required
@never_cache
def pod(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Show what the record has of the pod: how it ended, as its cluster saw it."""
    found = session_or_404(request, session_id)
    decision = decision_of(found)
    facts = decision.termination if decision else None
    context = {
        "title": "The pod as its cluster saw it",
        "end": Termination.from_json(facts) if facts else None,
        "start_failure": _start_failure(found),
    }
    return fragment(request, "pod", found, context)


def _start_failure(found: Session) -> Termination | None:
    stored = found.start_failure
    if not stored:
        return None
    return Termination.from_json(json.loads(stored) if isinstance(stored, str) else stored)


@require_safe
@login_required
@never_cache
def dependencies(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Show what the chain waits for and what waits for it, also through others."""
    found = session_or_404(request, session_id)
    graph = dependency_graph(found.root_id)
    nodes = {node.session_id: node for node in graph.nodes}
    waits: dict[UUID, list[tuple[Edge, Node]]] = defaultdict(list)
    for edge in graph.edges:
        waits[edge.session_id].append((edge, nodes[edge.depends_on]))
    rows = [{"node": node, "waits": waits[key]} for key, node in nodes.items()]
    context = {"title": "Dependencies", "graph": graph, "rows": rows}
    return fragment(request, "dependencies", found, context)


@require_safe
@login_required
@never_cache
def compare(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Show another attempt beside this one: what changed, and both logs line by line."""
    found = session_or_404(request, session_id)
    chain = chain_attempts(found)
    wanted = _other(request, found, [each.pk for each in chain])
    context: dict[str, Any] = {
        "title": "Compared with another attempt",
        "attempts": [attempt_json(each) for each in chain if each.pk != found.pk],
        "from_start": request.GET.get("part") == "start",
        "lines": COMPARED_LINES,
    }
    if wanted is not None:
        other = session_or_404(request, wanted)
        context |= _compared(request, other, found, context["from_start"])
    return fragment(request, "compare", found, context)


def _other(request: HttpRequest, found: Session, chain: list[UUID]) -> UUID | None:
    """Return the attempt to compare with: the named one, or the one before, or the one after.

    Raises `Http404` for one that is not of the chain.
    """
    named = request.GET.get("with")
    if named:
        known = {str(each): each for each in chain}
        if named not in known:
            raise Http404
        return known[named]
    at = chain.index(found.pk)
    neighbours = chain[at - 1 : at] or chain[at + 1 : at + 2]
    return neighbours[0] if neighbours else None


def _compared(
    request: HttpRequest, other: Session, found: Session, from_start: bool
) -> dict[str, Any]:
    # The earlier attempt stands on the left.
    before, after = sorted((other, found), key=lambda each: each.retry_count)
    pages = [_page(each, from_start) for each in (before, after)]
    logs = [
        [line.text for line in page.shown if not is_progress(line.text.encode())] for page in pages
    ]
    cut = any(page.start > 0 or page.reached < page.size for page in pages)
    return {
        "other": other,
        "before": before,
        "after": after,
        "changes": attempt_changes(_facts(request, before), _facts(request, after)),
        "pairs": side_by_side(*logs, cut=("end" if from_start else "start") if cut else ""),
        "empty": not any(logs),
    }


def _page(session: Session, from_start: bool) -> LogPage:
    if from_start:
        return log_page(session.pk, 0, COMPARED_LINES)
    return log_last_page(session.pk, COMPARED_LINES)


def _facts(request: HttpRequest, session: Session) -> dict[str, Any]:
    spec = spec_json(session, visitor(request))
    return {
        **attempt_json(session),
        "retry_cause": session.retry_cause.replace("_", " "),
        "image": spec["image"],
        "command": shell(spec["command"]),
        "resources": flat_resources(spec["resources"]),
        "environ": spec["environ"],
        "waited": seconds_between(session.created_at, session.started_at),
        "ran": seconds_between(session.started_at, session.finished_at),
    }
