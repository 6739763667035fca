"""The switches of operators, with what each holds and would hold."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from django.db import connection

from reprise.operations.problems import SHOWN, Act, ActName, Switch, SwitchKind
from retry.engine.decide import Mode
from scheduler.models import Executor
from sessions_app.models import Queue, RetrySettings
from sessions_app.selectors.counts import Count, Waiting

MOST_OF_PROJECT = 1_000
"""Most retries of a kind that are counted in each project."""
BUSIEST = 10
"""Projects and queues that are listed for what waits in them."""

_BY_PROJECT = """
    SELECT p.id, p.domain_id, d.name, p.name, scheduled.n, held.n
    FROM sessions_app_project p JOIN sessions_app_domain d ON d.id = p.domain_id
    CROSS JOIN LATERAL (SELECT count(*) AS n FROM (
        SELECT FROM sessions_app_retrydecision
        WHERE state = 'scheduled' AND project_id = p.id LIMIT %(limit)s) AS s) AS scheduled
    CROSS JOIN LATERAL (SELECT count(*) AS n FROM (
        SELECT FROM sessions_app_session
        WHERE resting = 'held' AND project_id = p.id LIMIT %(limit)s) AS h) AS held
    WHERE scheduled.n + held.n > 0
    ORDER BY scheduled.n + held.n DESC, p.id
"""


@dataclass(frozen=True, slots=True)
class _Project:
    """The retries of a project that wait for their time, or that something holds."""

    id: int
    domain_id: int
    address: str
    waiting: Waiting


@dataclass(frozen=True, slots=True)
class Scopes:
    """The retries that wait, of all together and of the projects that have any."""

    total: Waiting
    projects: list[_Project]

    def of(self, row: RetrySettings) -> Waiting:
        """Return those of the scope of a switch."""
        if row.project_id is None and row.domain_id is None:
            return self.total
        return _sum(
            each.waiting
            for each in self.projects
            if row.project_id in {None, each.id} and row.domain_id in {None, each.domain_id}
        )


def _sum(several: Iterator[Waiting]) -> Waiting:
    found = list(several)
    scheduled, held = (
        Count(sum(each.value for each in counts), any(each.more for each in counts))
        for counts in ([w.scheduled for w in found], [w.held for w in found])
    )
    return Waiting(scheduled, held)


def scopes(total: Waiting) -> Scopes:
    """Return the retries that wait, by scope; one statement, and in it two looks at a project."""
    with connection.cursor() as cursor:
        cursor.execute(_BY_PROJECT, {"limit": MOST_OF_PROJECT + 1})
        rows = cursor.fetchall()
    return Scopes(
        total,
        [
            _Project(key, domain, f"{above}/{name}", Waiting(_capped(scheduled), _capped(held)))
            for key, domain, above, name, scheduled, held in rows
        ],
    )


def _capped(found: int) -> Count:
    return Count(min(found, MOST_OF_PROJECT), found > MOST_OF_PROJECT)


def switches(
    moved: Sequence[RetrySettings],
    found: Scopes,
    executors: Sequence[Executor],
    queues: Sequence[Queue],
    waiting: dict[int, Count],
) -> list[Switch]:
    """Return the switches: retries of cluster and scopes, executors, queues."""
    return [
        *_retries(moved, found),
        *(_executor(each) for each in executors[:SHOWN]),
        *(_queue(each, waiting.get(each.pk, Count(0))) for each in queues[:SHOWN]),
    ]


def scope_name(row: RetrySettings) -> str:
    """Return the scope of a switch as the acts name it."""
    return str(row.project or row.domain or "")


def _retries(moved: Sequence[RetrySettings], found: Scopes) -> Iterator[Switch]:
    modes = {scope_name(row): row.mode for row in moved}
    yield _switch("", modes.get("", Mode.ON.value), found.total)
    for row in moved:
        if name := scope_name(row):
            yield _switch(name, row.mode, found.of(row))
    others = [each for each in found.projects if each.address not in modes]
    for each in others[:BUSIEST]:
        yield _switch(each.address, Mode.ON.value, each.waiting)


def _switch(name: str, mode: str, waiting: Waiting) -> Switch:
    act = ActName.RETRIES_PAUSE if mode == Mode.ON else ActName.RETRIES_ON
    return Switch(
        SwitchKind.RETRIES,
        name,
        mode,
        holds=waiting.held,
        would_hold=waiting.scheduled,
        unit="retries",
        acts=(Act(act, name),),
    )


def _executor(executor: Executor) -> Switch:
    acts = [ActName.EXECUTOR_UNCORDON if executor.cordoned else ActName.EXECUTOR_CORDON]
    state = "cordoned" if executor.cordoned else "open"
    if executor.draining_since is None:
        acts.append(ActName.EXECUTOR_DRAIN)
    else:
        state = "draining"
    leases = Count(int(getattr(executor, "lease_count", 0)))
    acted = tuple(Act(each, executor.name) for each in acts)
    return Switch(SwitchKind.EXECUTOR, executor.name, state, None, leases, "leases", acted)


def _queue(queue: Queue, waiting: Count) -> Switch:
    name = f"{queue.project.address}/{queue.name}"
    act = ActName.QUEUE_UNCORDON if queue.cordoned else ActName.QUEUE_CORDON
    return Switch(
        SwitchKind.QUEUE,
        name,
        "cordoned" if queue.cordoned else "open",
        holds=waiting if queue.cordoned else Count(0),
        would_hold=waiting,
        unit="sessions",
        acts=(Act(act, name),),
    )
