"""Schedules under faults: one for each way to overlap, all with an end; and whether each of their
times became one chain."""

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import psycopg
from reprise_client import Client, RepriseError

from tests.faults.judgement import Attempt

OVERLAPS = ("allow", "skip", "cancel_running")
EVERY = 3
"""Seconds from one time to the next."""
CATCH_UP = 3_600
"""Longer than any run: no time may be left out."""
BEGINS_WITH = "schedule:"
TRIES, PAUSE = 60, 0.5


class Planned(NamedTuple):
    """A schedule as the server has it in the end."""

    id: str
    overlap: str
    created_at: datetime
    until: datetime
    paused_reason: str

    @property
    def times(self) -> set[datetime]:
        """Return all its times."""
        begin, step = self.created_at.replace(microsecond=0), timedelta(seconds=EVERY)
        count = int((self.until - begin) / step)
        return {begin + step * number for number in range(1, count + 1)}


def schedules_make(client: Client, job_set: str, seconds: float) -> None:
    """Create the schedules, whose times end after so many seconds, whatever fails meanwhile."""
    until = datetime.now(UTC) + timedelta(seconds=seconds)
    template = {"command": ["true"], "job_set": job_set}
    there: set[str] = set()
    for _ in range(TRIES):
        try:
            there = {each.name for each in client.schedules()}
            for overlap in OVERLAPS:
                if _name(overlap) not in there:
                    fields = {"every": EVERY, "catch_up": CATCH_UP, "until": until}
                    client.schedule_create(_name(overlap), template, overlap=overlap, **fields)
            return
        except RepriseError:
            time.sleep(PAUSE)
    raise RuntimeError(f"only these schedules could be made: {sorted(there)}")


def _name(overlap: str) -> str:
    return f"faults-{overlap.replace('_', '-')}"


_PLANNED = """
    SELECT id::text, overlap, created_at, until, paused_reason FROM sessions_app_schedule
"""


def planned_of(connection: "psycopg.Connection[Any]") -> list[Planned]:
    """Return all schedules."""
    return [Planned._make(row) for row in connection.execute(_PLANNED).fetchall()]


def times_become_chains(planned: Sequence[Planned], attempts: Sequence[Attempt]) -> Iterator[str]:
    """Each time has one chain at most, and with `allow` exactly one; there are no other times."""
    fired: dict[str, list[datetime]] = defaultdict(list)
    for attempt in attempts:
        if attempt.retry_count == 0 and attempt.creation_id.startswith(BEGINS_WITH):
            _, schedule, at = attempt.creation_id.split(":", 2)
            fired[schedule].append(datetime.fromisoformat(at))
    for each in planned:
        found = fired.pop(each.id, [])
        if each.paused_reason:
            yield f"schedule {each.overlap} is paused: {each.paused_reason}"
        if len(found) > len(set(found)):
            yield f"schedule {each.overlap} fired twice at a time: {sorted(found)}"
        if strange := set(found) - each.times:
            yield f"schedule {each.overlap} fired at {sorted(strange)}"
        if not found or (each.overlap == "allow" and each.times - set(found)):
            yield f"schedule {each.overlap} left out {sorted(each.times - set(found))}"
    for schedule in fired:
        yield f"nobody made a schedule {schedule}, and it fired"
