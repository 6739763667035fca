"""The screen of `reprise top`, from the server's overview. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table

from reprise_client.cli.text import Text
from reprise_client.cli.words import counted, span

if TYPE_CHECKING:
    from reprise_client.models import (
        Counted,
        Executor,
        Operations,
        OperatorProblem,
        OperatorSchedules,
        Overview,
        Pace,
        QueueLook,
    )

NARROW = 100
"""Width in columns below which bars are half as long."""
BAR = 8
SEVERITY_STYLES = {"critical": "bold red", "warning": "yellow"}
HEALTH_STYLES = {"late": "yellow", "silent": "red", "never_heard": "red"}
PROBLEMS = 3
"""Most problems on a small screen."""
BESIDE = 6
"""Most causes and executors on a small screen; the rest is for the queues."""
SCHEDULES = 3
"""Most schedules that come next, and most that are paused; `-o json` has more."""
PIPE_HEIGHT = 1_000


def top_line(seen: Overview, operations: Operations | None = None) -> str:
    """Return the overview in one line, for logs; with the worst problem, if there is one."""
    throughput = seen.pace
    line = (
        f"{seen.at.astimezone():%H:%M:%S}  waiting {_count(seen.waiting)}  live {seen.live:,}  "
        f"retries {_count(seen.retries.scheduled)}{_held(seen)}  "
        f"settled {_rate(throughput, throughput.settled)}  "
        f"retried {_rate(throughput, throughput.retried)}"
    )
    causes = ", ".join(f"{cause} {count:,}" for cause, count in throughput.causes.items())
    if causes:
        line = f"{line}  failed in {span(throughput.cause_window)}: {causes}"
    problems = operations.problems if operations else ()
    return f"{line}  {_sentence(problems[0])}" if problems else line


def top_view(
    seen: Overview,
    where: str,
    *,
    width: int,
    height: int = PIPE_HEIGHT,
    trouble: str = "",
    operations: Operations | None = None,
) -> RenderableType:
    """Return the overview for a screen of this width and height.

    `trouble` says why the overview is outdated. Of what operators are told it has the problems, the
    worst first, and the schedules.
    """
    wrong: list[RenderableType] = []
    if operations is not None:
        wrong += _problems(seen, operations.problems, max(PROBLEMS, height // 8))
        wrong += _schedules(seen, operations.schedules)
        wrong += [Text("")] if wrong else []
    most = max(BESIDE, height // 5)
    bar = BAR if width >= NARROW else BAR // 2
    used = 7 + len(wrong) + min(most, max(len(seen.pace.causes), len(seen.executors or ()), 1))
    return Group(
        _line(("reprise top", "bold"), f"   {where}   {seen.at.astimezone():%H:%M:%S}"),
        _counts(seen),
        _rates(seen.pace),
        _line((trouble, "red")),
        *wrong,
        _beside(seen, most, bar),
        Text(""),
        *_queues(seen, max(height - used, 3), bar=2 * bar),
    )


def _line(*parts: str | tuple[str, str]) -> Text:
    return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")


def _counts(seen: Overview) -> Text:
    waiting, scheduled = _count(seen.waiting), _count(seen.retries.scheduled)
    return _line(
        ("Waiting ", "dim"),
        (waiting, "bold yellow"),
        ("   Live ", "dim"),
        (f"{seen.live:,}", "bold cyan"),
        ("   Retries that wait ", "dim"),
        (scheduled + _held(seen), "bold magenta"),
    )


def _problems(
    seen: Overview, problems: list[OperatorProblem], most: int
) -> Iterator[RenderableType]:
    """Yield a line for each of the worst problems."""
    shown = problems if len(problems) <= most else problems[: most - 1]
    for each in shown:
        since = f"  {span((seen.at - each.since).total_seconds())}" if each.since else ""
        yield _line((_sentence(each), SEVERITY_STYLES.get(each.severity, "dim")), since)
    if left := len(problems) - len(shown):
        yield _line((f"and {counted(left, 'more problem')}", "dim"))


def _schedules(seen: Overview, schedules: OperatorSchedules) -> Iterator[RenderableType]:
    """Yield a line with what comes next, and one with what is paused."""
    coming = [
        f"{each.address} in {span((each.next_at - seen.at).total_seconds())}"
        for each in schedules.coming[:SCHEDULES]
        if each.next_at
    ]
    paused = [
        f"{each.address} ({each.paused_reason})" if each.paused_reason else each.address
        for each in schedules.paused[:SCHEDULES]
    ]
    if coming:
        yield _line(("Schedules ", "dim"), ", ".join(coming))
    if paused:
        left = len(schedules.paused) - len(paused)
        more = f" and {counted(left, 'more schedule')}" if left else ""
        yield _line(("Paused schedules ", "dim"), (", ".join(paused) + more, "yellow"))


def _sentence(problem: OperatorProblem) -> str:
    affected = problem.affected
    holds = f" [{_count(affected)} {problem.unit}]" if affected and affected.value else ""
    return f"{problem.severity.upper()}: {problem.sentence}{holds}"


def _rates(throughput: Pace) -> Text:
    return _line(
        ("Settled ", "dim"),
        (_rate(throughput, throughput.settled), "bold"),
        ("   succeeded ", "dim"),
        (_rate(throughput, throughput.succeeded), "green"),
        ("   failed ", "dim"),
        (_rate(throughput, throughput.failed), "red"),
        ("   retried ", "dim"),
        (_rate(throughput, throughput.retried), "magenta"),
        ("   submitted ", "dim"),
        _rate(throughput, throughput.submitted),
    )


def _beside(seen: Overview, most: int, bar: int) -> Table:
    """Return the causes, and beside them the executors if the server shows them."""
    made = Table.grid(padding=(0, 4))
    causes = _causes(seen.pace, most, bar)
    if seen.executors is None:
        made.add_row(causes)
    else:
        made.add_row(causes, _executors(seen.executors, most, bar))
    return made


def _causes(throughput: Pace, most: int, bar: int) -> Table:
    made = _table(f"FAILED IN {span(throughput.cause_window)}".upper(), "", "")
    made.columns[2].justify = "right"
    highest = max(throughput.causes.values(), default=1)
    for cause, count in list(throughput.causes.items())[:most]:
        made.add_row(cause, _bar(count, highest, bar, "red"), f"{count:,}")
    if not throughput.causes:
        made.add_row(Text("nothing", "dim"), "", "")
    return made


def _executors(executors: Iterable[Executor], most: int, bar: int) -> Table:
    made = _table("EXECUTOR", "LEASES", "", "HEARTBEAT")
    # Executors that need attention come first.
    urgent = sorted(
        executors, key=lambda each: (each.health == "alive", not each.cordoned, -each.lease_count)
    )
    for each in urgent[:most]:
        made.add_row(
            each.name,
            _bar(each.lease_count, max(each.max_sessions, 1), bar, "cyan"),
            f"{each.lease_count:,} of {each.max_sessions:,}",
            _heartbeat(each),
        )
    if not urgent:
        made.add_row(Text("none", "dim"), "", "", "")
    return made


def _heartbeat(executor: Executor) -> Text:
    age = executor.heartbeat_age
    last_seen = "never" if age is None else f"{span(age)} ago"
    state = "draining" if executor.draining_since else "cordoned" if executor.cordoned else ""
    style = HEALTH_STYLES.get(executor.health, "yellow" if state else "")
    return Text(f"{last_seen} {state}".rstrip(), style)


def _queues(seen: Overview, most: int, *, bar: int) -> list[RenderableType]:
    """Return the queues that fit into the remaining lines, the largest holders first."""
    if not seen.queues:
        return [Text("No queue has anything that waits or runs.", "dim")]
    whole = not seen.more_queues and len(seen.queues) <= most
    rows = seen.queues if whole else seen.queues[: most - 1]
    made = _table("QUEUE", "FACTOR", "WAITING", "LIVE", "SHARE", "", "PRIORITY")
    for column in made.columns[1:4]:
        column.justify = "right"
    for index in (5, 6):
        made.columns[index].justify = "right"
    highest = max((each.share for each in rows), default=0.0)
    for each in rows:
        made.add_row(*_queue_row(each, highest, bar))
    left = len(seen.queues) - len(rows) + seen.more_queues
    return [made, Text(f"and {counted(left, 'more queue')}", "dim")] if left else [made]


def _queue_row(queue: QueueLook, highest: float, bar: int) -> list[RenderableType]:
    name = Text(queue.address, "yellow" if queue.cordoned else "")
    if queue.cordoned:
        name.append(" cordoned")
    return [
        name,
        f"{queue.priority_factor:g}",
        _count(queue.waiting),
        f"{queue.live:,}",
        _bar(queue.share, highest or 1.0, bar, "green"),
        f"{queue.share:.1%}",
        f"{queue.effective_priority:.4f}",
    ]


def _table(*heads: str) -> Table:
    made = Table(box=None, pad_edge=False, header_style="bold")
    for head in heads:
        made.add_column(head, no_wrap=True)
    return made


def _bar(value: float, highest: float, width: int, style: str) -> ProgressBar:
    return ProgressBar(
        total=highest, completed=value, width=width, complete_style=style, finished_style=style
    )


def _rate(throughput: Pace, count: int) -> str:
    rate = throughput.rate(count)
    return f"{rate:,.0f}/s" if rate >= 10 or not rate else f"{rate:.1f}/s"


def _count(count: Counted) -> str:
    return f"{count.value:,}{'+' if count.more else ''}"


def _held(seen: Overview) -> str:
    held = seen.retries.held
    return f" ({_count(held)} held)" if held.value else ""
