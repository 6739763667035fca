"""Tables of sessions for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType

from reprise_client.cli.output import facts, grid, link, status_text
from reprise_client.cli.progress_words import number, progress_words
from reprise_client.cli.text import Text
from reprise_client.cli.typed import typed
from reprise_client.cli.words import (
    attempt_summary,
    avoided,
    clock,
    granted,
    next_in_brief,
    outcome,
    payment,
    reason,
    resource_words,
    span,
    what_next,
    when,
)

if TYPE_CHECKING:
    from reprise_client.models import Attempt, Budget, Decision, Event, JobSet, Session

FEW_BUDGETS = 3
SOME_BUDGETS = 6


def session_table(sessions: Iterable[Session], now: datetime) -> RenderableType:
    return grid(
        ["ID", "NAME", "STATUS", "ATTEMPT", "CAUSE", "NEXT", "QUEUE", "CREATED"],
        (
            [
                item.id,
                item.name,
                status_text(item.status),
                str(item.retry_state.attempt + 1),
                item.retry_cause or "",
                next_in_brief(item, now),
                item.queue,
                when(item.created_at, now),
            ]
            for item in sessions
        ),
    )


def session_facts(
    session: Session, decision: Decision | None, switch: str | None, now: datetime, web: str
) -> RenderableType:
    """Return everything about one session; `web` is the address of the server's pages.

    `decision` and `switch` are those of a waiting retry.
    """

    def page(session_id: str | None) -> Text:
        return link(session_id, f"{web}/sessions/{session_id}/") if session_id else Text()

    status = status_text(session.status)
    if session.status == "ERROR":
        status = Text.assemble(status, f", {outcome(session)}")
    root = None if session.root_session_id == session.id else session.root_session_id
    return facts(
        [
            ("Session", page(session.id)),
            ("Name", session.name),
            ("Status", status),
            ("Why", session.status_message or ""),
            ("Gave way to", page(session.made_room_for)),
            ("Waits", session.pending_reason or ""),
            ("Attempt", attempt_summary(session.retry_state)),
            *_progress_facts(session),
            ("Next", what_next(session, decision, now, switch)),
            ("By rule", session.retry_state.rule or ""),
            ("Will get", granted(decision, session.resources)),
            ("Will avoid", avoided(decision)),
            ("Parent", page(session.parent_session_id)),
            ("Root", page(root)),
            ("Budgets", _budgets(session.retry_state.budgets)),
            ("Policies", ", ".join(session.retry_policies)),
            *_run_facts(session, now),
        ]
    )


def _progress_facts(session: Session) -> list[tuple[str, str | Text]]:
    """Return how far the session is, and where its work was saved."""
    progress = session.progress
    if progress is None:
        return []
    saved = progress.checkpoint or ""
    if saved and progress.checkpoint_step is not None:
        saved += f" (step {number(progress.checkpoint_step)})"
    return [
        ("Progress", progress_words(progress, live=session.finished_at is None)),
        ("Checkpoint", saved),
    ]


def _run_facts(session: Session, now: datetime) -> list[tuple[str, str | Text]]:
    """Return what the session runs, where and since when."""
    return [
        ("Project", session.project),
        ("Queue", session.queue),
        ("Job set", session.job_set or ""),
        ("Owner", session.owner or ""),
        ("Image", session.image or ""),
        ("Command", typed(session.command)),
        ("Resources", resource_words(session.resources)),
        ("Labels", _listed(session.labels)),
        ("Executor", session.executor or ""),
        ("Node", session.node or ""),
        ("Created", when(session.created_at, now)),
        ("Started", when(session.started_at, now)),
        ("Finished", when(session.finished_at, now)),
    ]


def _budgets(budgets: Sequence[Budget]) -> str:
    """Return a line for each budget. Of many unused ones only some names are shown."""
    untouched = [item for item in budgets if not item.used]
    if len(untouched) <= FEW_BUDGETS:
        return "\n".join(_budget(item) for item in budgets)
    lines = [_budget(item) for item in budgets if item.used]
    names = ", ".join(
        f"{item.name} ({_limit(item) or 'no limit'})" for item in untouched[:SOME_BUDGETS]
    )
    more = len(untouched) - SOME_BUDGETS
    return "\n".join([*lines, f"unused: {names}" + (f" and {more} more" if more > 0 else "")])


def _budget(item: Budget) -> str:
    limit = _limit(item)
    if item.window and limit:
        # `used` are all that it ever paid, not those within the window.
        return f"{item.name}: {item.used} used, {limit}"
    return f"{item.name}: {item.used} {limit} used" if limit else f"{item.name}: {item.used} used"


def _limit(item: Budget) -> str:
    """Return `of 3` or `at most 3 in 1 h`; "" if there is no limit."""
    if item.limit is None:
        return ""
    return f"at most {item.limit} in {span(item.window)}" if item.window else f"of {item.limit}"


def _listed(values: dict[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in values.items())


def attempt_table(attempts: Iterable[Attempt], now: datetime) -> RenderableType:
    chain = list(attempts)
    # Most programs tell nothing, one failure is like no other, and the table is wide enough.
    told = any(item.progress for item in chain)
    failed = sum(item.failure_signature is not None for item in chain) > 1
    more = ["PROGRESS"] if told else []
    alike = ["SIGNATURE"] if failed else []
    ran = ["EXIT", *alike, "NODE", "RAN", *more]
    return grid(
        ["ATTEMPT", "ID", "STATUS", "CAUSE", *ran, "FINISHED", "DECISION"],
        (
            [
                str(item.attempt + 1),
                item.id,
                status_text(item.status),
                item.failure_category or item.cause or "",
                "" if item.exit_code is None else str(item.exit_code),
                *([item.failure_signature or ""] if failed else []),
                item.node or "",
                _ran(item, now),
                *([_done(item)] if told else []),
                when(item.finished_at, now),
                item.decision or "",
            ]
            for item in chain
        ),
    )


def _done(attempt: Attempt) -> str:
    progress = attempt.progress
    if progress is None:
        return ""
    return number(progress.step) + (f" of {number(progress.of)}" if progress.of else "")


def success_words(session: Session) -> str:
    """Return why there is no decision about an attempt that succeeded."""
    failed = session.retry_state.attempt
    if not failed:
        return "The first attempt succeeded, so that nothing was to be decided."
    before = "the one before it" if failed == 1 else f"the {failed} before it"
    return f"Attempt {failed + 1} succeeded; {before} failed, and came back as follows."


def success(session: Session, chain: Sequence[Attempt], now: datetime) -> RenderableType:
    """Return an attempt that succeeded, and the decisions that led to it."""
    return Group(Text(success_words(session)), Text(), attempt_table(chain, now))


def _ran(attempt: Attempt, now: datetime) -> str:
    if attempt.started_at is None:
        return ""
    return span(((attempt.finished_at or now) - attempt.started_at).total_seconds())


def event_table(events: Iterable[Event], now: datetime) -> RenderableType:
    return grid(
        ["ID", "TIME", "TYPE", "DATA"],
        ([str(item.id), when(item.time, now), item.type, _listed(item.data)] for item in events),
    )


def event_line(event: Event, now: datetime) -> str:
    return f"{clock(event.time, now) if event.time else ''}  {event.type}  {_listed(event.data)}"


def job_set_table(job_sets: Iterable[JobSet], now: datetime) -> RenderableType:
    return grid(
        ["NAME", "PROJECT", "FIRST EVENT", "LAST EVENT"],
        (
            [each.name, each.project, when(each.first_event_at, now), when(each.last_event_at, now)]
            for each in job_sets
        ),
    )


def job_set_event_table(events: Iterable[Event], now: datetime) -> RenderableType:
    return grid(
        ["CURSOR", "TIME", "SESSION", "TYPE", "DATA"],
        (
            [
                event.cursor or "",
                when(event.time, now),
                event.session_id or "",
                event.type,
                _listed(event.data),
            ]
            for event in events
        ),
    )


def job_set_event_line(event: Event, now: datetime) -> str:
    at = clock(event.time, now) if event.time else ""
    return f"{at}  {event.session_id}  {event.type}  {_listed(event.data)}"


def explanation(decision: Decision, now: datetime) -> RenderableType:
    """Return the decision in sentences, its facts, and its steps."""
    return Group(
        *(Text(sentence) for sentence in decision.explanation),
        Text(),
        facts(
            [
                ("Decision", decision.action),
                ("Reason", reason(decision.reason) if decision.reason else ""),
                ("Cause", decision.cause or ""),
                ("Category", decision.failure_category or ""),
                ("Rule", decision.rule or ""),
                ("Paid by", payment(decision) if decision.paid_by else ""),
                ("Delay", "" if decision.delay is None else span(decision.delay)),
                ("Due", when(decision.due_at, now)),
                ("Storm limit", "postponed it to a later slot" if decision.paced else ""),
                ("State", decision.state or ""),
                ("Next", decision.next_session_id or ""),
                ("Gets", granted(decision)),
                ("Avoids", avoided(decision)),
                ("Asked for by", decision.requested_by or ""),
                ("Made by", decision.dispatched_by or ""),
                ("Policies", _revisions(decision)),
                ("Decided", when(decision.decided_at, now)),
            ]
        ),
        Text(),
        Text("Trace", "bold"),
        *(Text(f"{number:3}. {_step(step)}") for number, step in enumerate(decision.trace, 1)),
    )


def _revisions(decision: Decision) -> str:
    return ", ".join(
        name if number is None else f"{name} revision {number}"
        for name, number in decision.policy_revisions.items()
    )


def _step(step: Any) -> str:
    if not isinstance(step, dict):
        return str(step)
    values = dict(step)
    name, result = values.pop("step", ""), values.pop("result", "")
    shown = {key: _short(value) for key, value in values.items() if value not in ("", [], None)}
    return f"{name}: {_short(result)}" + (f" ({_listed(shown)})" if shown else "")


def _short(value: Any) -> Any:
    """Return a number with six significant digits at most: `2.24369`, `3600`."""
    return f"{float(f'{value:.6g}'):.15g}" if isinstance(value, float) else value
