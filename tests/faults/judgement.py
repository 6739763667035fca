"""Compares what the executors did with what the server believes, and with what people were
promised."""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from tests.faults.late import JOB_SET as LATE
from tests.faults.load import JOB_SET


class Attempt(NamedTuple):
    """A session as the server has it; `unfenced`: settled although it might have run on; `paced`:
    a storm limit made its retry wait; `lost`: its executor was silent for too long."""

    id: str
    root: str
    creation_id: str
    retry_count: int
    status: str
    exit_code: int | None
    token: int | None
    unfenced: bool
    log_size: int
    paced: bool = False
    lost: bool = False


@dataclass
class Run:
    """A run as its executor did it; times in seconds since boot. `status` is None for one that
    ended with its agent."""

    session: str
    token: int
    root: str
    began: float
    ended: float
    status: str | None = None
    exit_code: int | None = None


@dataclass
class Truth:
    """All runs, and how often reports met which trouble."""

    runs: list[Run] = field(default_factory=list)
    troubles: Counter[str] = field(default_factory=Counter)


_ATTEMPTS = """
    SELECT s.id::text, s.root_id::text, s.creation_id, s.retry_count, s.status, s.exit_code,
        s.fencing_token,
        EXISTS (SELECT FROM sessions_app_sessionevent e
            WHERE e.session_id = s.id AND e.data->>'unfenced' = 'true'),
        coalesce((SELECT sum(length(c.data)) FROM sessions_app_logchunk c
            WHERE c.session_id = s.id), 0)::int,
        coalesce(d.paced, false),
        EXISTS (SELECT FROM sessions_app_sessionevent e
            WHERE e.session_id = s.id AND e.type = 'session.terminating'
                AND e.data->>'reason' = 'lost')
    FROM sessions_app_session s LEFT JOIN sessions_app_retrydecision d ON d.session_id = s.id
    WHERE s.job_set <> %s
"""


def attempts_of(connection: "psycopg.Connection[Any]") -> list[Attempt]:
    """All sessions but those that are played by hand."""
    return [Attempt._make(row) for row in connection.execute(_ATTEMPTS, [LATE]).fetchall()]


def truth_of(logs: Mapping[str, Path], deaths: Mapping[str, Sequence[float]]) -> Truth:
    """Read what the executors wrote down. A run without an end ended when its agent died next, or
    when it was last alive, if it is one that says so itself."""
    truth = Truth()
    for name, path in logs.items():
        open_runs: dict[tuple[str, int], Run] = {}
        for line in path.read_text().splitlines():
            match json.loads(line):
                case ["started", session, token, root, at]:
                    end = min((death for death in deaths[name] if death >= at), default=at)
                    run = Run(session, token, root, at, end)
                    open_runs[session, token] = run
                    truth.runs.append(run)
                case ["alive", session, token, at]:
                    open_runs[session, token].ended = at
                case ["ended", session, token, status, exit_code, at]:
                    run = open_runs[session, token]
                    run.ended, run.status, run.exit_code = at, status, exit_code
                case ["trouble", kind, _]:
                    truth.troubles[kind] += 1
    # What never got a place on its planned nodes goes back, and has not run.
    truth.runs = [run for run in truth.runs if run.status != "UNSTARTED"]
    return truth


def nothing_is_lost(
    attempts: Sequence[Attempt], acknowledged: Mapping[str, str], submitted: int
) -> Iterator[str]:
    """Each submission that was acknowledged is there, once; no other came out of nothing."""
    roots: dict[str, list[str]] = defaultdict(list)
    for each in attempts:
        if each.retry_count == 0:
            roots[each.creation_id].append(each.id)
    for creation_id, session in acknowledged.items():
        if roots[creation_id] != [session]:
            yield f"{creation_id} was acknowledged as {session}, there is {roots[creation_id]}"
    for creation_id, found in roots.items():
        if creation_id.startswith("schedule:"):
            continue  # nobody submits those: `timetable.py` judges them
        number = creation_id.removeprefix("faults-")
        if len(found) > 1 or not number.isdigit() or int(number) >= submitted:
            yield f"nobody submitted {creation_id} {len(found)} times"


def promises_are_kept(attempts: Sequence[Attempt], promised: Iterable[str]) -> Iterator[str]:
    """Each next attempt that somebody who retried was told of is there."""
    for missing in sorted(set(promised) - {each.id for each in attempts}):
        yield f"{missing} was promised to who retried, and is not there"


_SLOTS = """
    SELECT to_char(date_trunc('minute', d.due_at), 'HH24:MI'), s.queue_id, count(*)
    FROM sessions_app_retrydecision d JOIN sessions_app_session s ON s.id = d.session_id
    WHERE d.paced AND d.state = 'dispatched' AND d.dispatched_at >= d.due_at
    GROUP BY date_trunc('minute', d.due_at), s.queue_id
"""


def slots_of(connection: "psycopg.Connection[Any]") -> list[tuple[str, int, int]]:
    """Return the number of retries that waited for their slots, by minute and queue."""
    return [(minute, queue, count) for minute, queue, count in connection.execute(_SLOTS)]


def limits_hold(slots: Iterable[tuple[str, int, int]], cluster: int, queue: int) -> Iterator[str]:
    """No minute got more retries than a storm limit allows, of those that it made wait."""
    minutes: Counter[str] = Counter()
    for minute, number, count in slots:
        minutes[minute] += count
        if count > queue:
            yield f"{minute}: {count} retries of queue {number}, limited to {queue}"
    for minute, count in minutes.items():
        if count > cluster:
            yield f"{minute}: {count} retries, limited to {cluster}"


def nothing_runs_twice(truth: Truth) -> Iterator[str]:
    """A session is started once at most, under whatever lease."""
    for session, count in Counter(run.session for run in truth.runs).items():
        if count > 1:
            yield f"{session} was started {count} times"


def one_run_of_a_chain(attempts: Sequence[Attempt], truth: Truth) -> Iterator[str]:
    """No two runs of a chain at one time, but after one that was given up unfenced."""
    unfenced = {each.id for each in attempts if each.unfenced}
    chains: dict[str, list[Run]] = defaultdict(list)
    for run in truth.runs:
        chains[run.root].append(run)
    for root, runs in chains.items():
        runs.sort(key=lambda run: run.began)
        for number, run in enumerate(runs):
            for earlier in runs[:number]:
                if earlier.ended > run.began and earlier.session not in unfenced:
                    both = earlier.ended - run.began
                    yield f"{root}: {earlier.session} and {run.session} ran together {both:.2f} s"


def ends_are_true(attempts: Sequence[Attempt], truth: Truth) -> Iterator[str]:
    """A success, and an exit code, are what the run with the session's lease came to."""
    runs = {(run.session, run.token): run for run in truth.runs}
    for each in attempts:
        if each.status not in {"TERMINATED", "ERROR"}:
            continue
        run = runs.get((each.id, each.token or 0))
        if each.status == "TERMINATED" and (run is None or run.status != "TERMINATED"):
            yield f"{each.id} is TERMINATED, but its run: {run}"
        if each.exit_code is not None and (run is None or run.exit_code != each.exit_code):
            yield f"{each.id} has exit code {each.exit_code}, but its run: {run}"


def overtaken(attempts: Sequence[Attempt], truth: Truth) -> int:
    """Return the number of runs that succeeded for nothing: when their ends came, others had been
    started."""
    runs = {(run.session, run.token): run for run in truth.runs}
    found = (runs.get((each.id, each.token or 0)) for each in attempts if each.status == "ERROR")
    return sum(run is not None and run.status == "TERMINATED" for run in found)


class Waited(NamedTuple):
    """The root of a chain, and the attempt of another one whose success it waited for."""

    root: str
    on_tip: str


_WAITED = """
    SELECT root_id::text, tip_id::text FROM sessions_app_dependency WHERE outcome = 'succeeded'
"""


def waited_of(connection: "psycopg.Connection[Any]") -> list[Waited]:
    """Return what chains waited for that succeeded."""
    return [Waited._make(row) for row in connection.execute(_WAITED).fetchall()]


def dependants_come_later(waited: Sequence[Waited], truth: Truth) -> Iterator[str]:
    """No first attempt began before the run whose success it waited for had ended."""
    began = {run.session: run.began for run in truth.runs}
    successes = {run.session: run.ended for run in truth.runs if run.status == "TERMINATED"}
    for each in waited:
        if each.root not in began:
            continue
        ended = successes.get(each.on_tip)
        if ended is None or ended > began[each.root]:
            yield f"{each.root} began at {began[each.root]:.2f}, {each.on_tip} ended: {ended}"


class GaveWay(NamedTuple):
    """An attempt that Reprise stopped to make room for another session, in a chain that was not
    cancelled; `in_vain`: a later attempt waited for longer than it may."""

    session: str
    root: str
    retry_count: int
    in_vain: bool = False


# What ended by itself before it was stopped is decided as any other failure.
_GAVE_WAY = """
    SELECT s.id::text, s.root_id::text, s.retry_count,
        EXISTS (SELECT FROM sessions_app_session l WHERE l.root_id = s.root_id
            AND l.retry_count > s.retry_count AND l.retry_cause = 'scheduler_timeout')
    FROM sessions_app_session s JOIN sessions_app_session r ON r.id = s.root_id
    WHERE s.gave_way_to IS NOT NULL AND s.retry_cause IN ('preempted', 'agent_transient')
        AND r.cancel_requested_at IS NULL
"""


def gave_way_of(connection: "psycopg.Connection[Any]") -> list[GaveWay]:
    """Return the attempts that were stopped to make room."""
    return [GaveWay._make(row) for row in connection.execute(_GAVE_WAY).fetchall()]


def who_made_room_comes_back(
    gave_way: Iterable[GaveWay], attempts: Sequence[Attempt], truth: Truth
) -> Iterator[str]:
    """Each attempt that made room has a next one, and its chain ran again."""
    ran = {run.session for run in truth.runs}
    chains: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        chains[attempt.root].append(attempt)
    for each in gave_way:
        later = [a for a in chains[each.root] if a.retry_count > each.retry_count]
        if not later:
            yield f"{each.session} made room and never came back"
        elif not each.in_vain and ran.isdisjoint(attempt.id for attempt in later):
            yield f"{each.session} made room and came back, but never ran again"


def output_is_whole(attempts: Sequence[Attempt], size: int) -> Iterator[str]:
    """Yield a line for each run whose output before a success is not there once."""
    for each in attempts:
        if each.log_size not in {0, size}:
            yield f"{each.id} has {each.log_size} bytes of output, not {size}"
        if each.status == "TERMINATED" and not each.log_size:
            yield f"{each.id} succeeded, and its output is lost"


def streams_tell_all(connection: "psycopg.Connection[Any]", seen: Sequence[int]) -> Iterator[str]:
    """The reader that followed the events got each of them once."""
    query = "SELECT id FROM sessions_app_sessionevent WHERE job_set = %s"
    there = {row[0] for row in connection.execute(query, [JOB_SET]).fetchall()}
    sent = Counter(seen)
    for event, count in sent.items():
        if count > 1 or event not in there:
            yield f"event {event} was told {count} times"
    if missing := sorted(there - sent.keys()):
        yield f"{len(missing)} events were never told: {missing[:5]}"


def parked_of(connection: "psycopg.Connection[Any]") -> set[str]:
    """The tasks that are shown to operators."""
    rows = connection.execute("SELECT task_id FROM reprise_parkedtask").fetchall()
    return {row[0] for row in rows}


def poison_is_parked(
    parked: Collection[str], poisons: Iterable[str], found: Mapping[str, str]
) -> Iterator[str]:
    """Each poison task that no wipe of the broker took is shown to operators.

    `found` says in which queue of the broker a task still stands.
    """
    for missing in sorted(set(poisons) - set(parked)):
        where = f"in {found[missing]}" if missing in found else "in none of the broker's queues"
        yield f"poison task {missing} is not parked: it is {where}"


_UNFINISHED = """
    SELECT s.id::text || ' is ' || s.status || ', ' || s.retry_state || ', due '
        || coalesce(d.due_at::text, '-') || ', on ' || s.executor
    FROM sessions_app_session s LEFT JOIN sessions_app_retrydecision d ON d.session_id = s.id
    WHERE s.phase <> 'final' OR d.state IN ('scheduled', 'held')
"""


_TIMES_LEFT = """
    SELECT 'schedule ' || name || ' has a time at ' || next_at::text FROM sessions_app_schedule
    WHERE next_at IS NOT NULL AND paused_at IS NULL
"""


def unfinished(connection: "psycopg.Connection[Any]") -> list[str]:
    """Return the chains that have not ended, and the times to come: a line for each."""
    found = [connection.execute(query).fetchall() for query in (_UNFINISHED, _TIMES_LEFT)]
    return [row[0] for rows in found for row in rows]
