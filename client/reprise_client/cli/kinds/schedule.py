"""The kind of schedules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType

from reprise_client.cli.kinds.base import (
    CREATED,
    Applied,
    How,
    Row,
    changed,
    found_or_made,
    listed_within,
    missing,
)
from reprise_client.cli.kinds.in_project import InProjectKind, project_meant
from reprise_client.cli.output import facts, grid, heading
from reprise_client.cli.scope import Scope
from reprise_client.cli.text import Text
from reprise_client.cli.words import when

if TYPE_CHECKING:
    from reprise_client.api import Client
    from reprise_client.models import Schedule, ScheduleRun

TIMING = ("cron", "time_zone", "every", "from", "until")
"""The fields of a `spec` that say when it fires."""
SPEC = (
    *(*TIMING, "queue", "overlap", "catch_up", "jitter"),
    *("pause_after", "paused", "template"),
)
COMPARED = tuple("from_" if name == "from" else name for name in SPEC)


class ScheduleKind(InProjectKind["Schedule"]):
    name = "Schedule"
    words = ("schedules", "schedule", "sched")
    spec_keys = SPEC
    heads = ("NAME", "PROJECT", "WHEN", "NEXT", "STATE")
    wide_heads = ("OWNER", "QUEUE", "OVERLAP", "LAST", "CREATED")

    def apply(
        self, client: Client, data: Mapping[str, Any], asked: Scope | None, how: How
    ) -> Applied:
        project = self.project_of(client, data, asked)
        name, spec = str(data["metadata"]["name"]), dict(data["spec"])
        more = {key: value for key, value in spec.items() if key != "template"}
        before, after = found_or_made(
            lambda: _named(client, project, name),
            lambda: client.schedule_create(name, spec.get("template", {}), project=project, **more),
            how,
        )
        if before is None:
            told = _warnings(after) if after else ()
            return Applied(after.address if after else f"{project}/{name}", CREATED, None, told)
        after = client.schedule_put(before.id, **spec)
        outcome = changed(before, after, *COMPARED)
        return Applied(after.address, outcome, None, _warnings(after))

    def all(self, client: Client, home: Scope | None) -> Iterable[Schedule]:
        return listed_within(client.schedules, home)

    def find(self, client: Client, typed: str, home: Scope) -> Schedule:
        """Return the schedule with this name in the project, or with the full address."""
        return schedule_typed(client, typed, home)

    def delete(self, client: Client, item: Schedule) -> str:
        client.schedule_delete(item.id)
        return "deleted"

    def row(self, item: Schedule, now: datetime) -> Row:
        return [item.name, item.project, rhythm(item), when(item.next_at, now), state_text(item)]

    def wide_row(self, item: Schedule, now: datetime) -> Row:
        return [
            item.owner or "",
            item.queue or "",
            item.overlap,
            when(item.last_at, now),
            when(item.created_at, now),
        ]

    def description(self, client: Client, item: Schedule, now: datetime) -> RenderableType:
        item = client.schedule(item.id)
        paused = f"since {when(item.paused_at, now)}: {item.paused_reason or 'no reason given'}"
        pairs = [
            ("Schedule", item.name),
            ("Project", item.project),
            ("ID", item.id),
            ("Owner", item.owner or "nobody"),
            ("Queue", item.queue or "the project's default queue"),
            ("When", rhythm(item)),
            ("From", when(item.from_, now)),
            ("Until", when(item.until, now)),
            ("Overlap", item.overlap),
            ("Catch up", f"{item.catch_up} s"),
            ("Jitter", f"up to {item.jitter} s" if item.jitter else ""),
            ("Pause after", f"{item.pause_after} failed chains" if item.pause_after else ""),
            ("Paused", paused if item.paused else ""),
            ("Problem", item.last_problem),
            ("Next times", "\n".join(time.isoformat() for time in item.next_times)),
            ("Created", when(item.created_at, now)),
        ]
        if not item.recent:
            return facts(pairs)
        return Group(facts(pairs), heading("Its latest chains"), _chains(item.recent, now))


def _warnings(saved: Schedule) -> list[str]:
    """Return what the server warns of, each after its place in the document."""
    return [f"spec.template {each}" for each in saved.warnings]


def _chains(runs: Iterable[ScheduleRun], now: datetime) -> RenderableType:
    rows = (
        [each.session_id, each.status, each.retry_state, when(each.submitted_at, now)]
        for each in runs
    )
    return grid(("SESSION", "STATUS", "RETRY", "SUBMITTED"), rows)


def _named(client: Client, project: str, name: str) -> Schedule | None:
    return next(client.schedules(project=project, name=name), None)


def schedule_typed(client: Client, typed: str, home: Scope | None) -> Schedule:
    """Return the schedule with a name in a project, or with its full address.

    Raises `CommandError`.
    """
    address = typed if "/" in typed else f"{project_meant(client, home, 'schedule')}/{typed}"
    place, _, name = address.rpartition("/")
    found = _named(client, place, name)
    if found is None:
        raise missing("schedule", name, f"project {place}", "schedules")
    return found


def rhythm(item: Schedule) -> str:
    """Return when it fires, such as `0 3 * * * Europe/Berlin`."""
    return f"every {item.every} s" if item.every else f"{item.cron} {item.time_zone}"


def state_text(item: Schedule) -> Text:
    if item.paused:
        return Text(f"paused: {item.paused_reason}" if item.paused_reason else "paused", "red")
    return Text("active", "green") if item.next_at else Text("over", "yellow")
