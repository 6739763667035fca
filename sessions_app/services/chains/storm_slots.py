"""Storm limits: slots of retries, counted for each minute in the cluster and in each queue.

A retry over a limit is postponed, not dropped: it reserves the first free slot, once. Slots are
counters, so that a gap can be filled.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from django.db import connection

from retry.storm_limits import Key, Slot, SlotBook, StormLimits
from sessions_app.db.bulk import array, columns
from sessions_app.locks import lock_slots

_READ = """
    SELECT queue_id, extract(epoch FROM minute)::bigint / 60, taken FROM sessions_app_retryslots
    WHERE minute >= %s AND queue_id IS NULL
    UNION ALL
    SELECT queue_id, extract(epoch FROM minute)::bigint / 60, taken FROM sessions_app_retryslots
    WHERE minute >= %s AND queue_id = ANY(%s::bigint[])
"""
# Every reservation deletes the minutes in the past, so that no separate sweep is needed.
_GIVE = """
    WITH over AS (DELETE FROM sessions_app_retryslots WHERE minute < %s)
    INSERT INTO sessions_app_retryslots AS s (queue_id, minute, taken)
    SELECT v.queue_id, to_timestamp(v.minute * 60), v.taken
    FROM unnest(%s::bigint[], %s::bigint[], %s::int[]) AS v(queue_id, minute, taken)
    ON CONFLICT (queue_id, minute) DO UPDATE SET taken = s.taken + excluded.taken
"""
_TAKE_BACK = """
    UPDATE sessions_app_retryslots s SET taken = greatest(s.taken - v.taken, 0)
    FROM unnest(%s::bigint[], %s::bigint[], %s::int[]) AS v(queue_id, minute, taken)
    WHERE s.minute = to_timestamp(v.minute * 60) AND s.queue_id IS NOT DISTINCT FROM v.queue_id
"""


def slots_reserve(
    queue_ids: Sequence[int], storm_limits: StormLimits, *, now: datetime, dry_run: bool = False
) -> list[datetime]:
    """Return when retries of these queues may go: `now`, or in a later minute; in their order.

    Takes their slots, unless it is a `dry_run`. Without limits no statement runs.
    """
    if not storm_limits.limited or not queue_ids:
        return [now] * len(queue_ids)
    lock_slots()
    this_minute = _minute_of(now)
    book = SlotBook(storm_limits, this_minute, _taken(queue_ids, this_minute))
    slots = [book.take(queue_id) for queue_id in queue_ids]
    if not dry_run:
        _give(book.given, this_minute)
    return [now if slot.minute == this_minute else _moment(slot) for slot in slots]


def slots_count(queue_ids: Sequence[int], storm_limits: StormLimits, *, now: datetime) -> None:
    """Count retries that go now in spite of the limits; less room is left for others."""
    if not storm_limits.limited or not queue_ids:
        return
    lock_slots()
    this_minute = _minute_of(now)
    counted = (queue for each in queue_ids for queue, _ in storm_limits.limits(each))
    _give(Counter((queue, this_minute) for queue in counted), this_minute)


def slots_release(given: Iterable[tuple[int, datetime]], *, now: datetime) -> None:
    """Return the slots (queue id, time) of retries that will not use them."""
    freed: Counter[Key] = Counter()
    for queue_id, due_at in given:
        if due_at > now:
            freed.update([(None, _minute_of(due_at)), (queue_id, _minute_of(due_at))])
    if not freed:
        return
    lock_slots()
    with connection.cursor() as cursor:
        cursor.execute(_TAKE_BACK, _columns(freed))


def _taken(queue_ids: Iterable[int], first: int) -> dict[Key, int]:
    since = _moment(Slot(first, 0))
    with connection.cursor() as cursor:
        cursor.execute(_READ, [since, since, array(sorted(set(queue_ids)))])
        return {(queue_id, minute): taken for queue_id, minute, taken in cursor.fetchall()}


def _give(given: Mapping[Key, int], first: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_GIVE, [_moment(Slot(first, 0)), *_columns(given)])


def _columns(counts: Mapping[Key, int]) -> list[str]:
    return columns([(queue_id, minute, count) for (queue_id, minute), count in counts.items()])


def _minute_of(moment: datetime) -> int:
    return int(moment.timestamp()) // 60


def _moment(slot: Slot) -> datetime:
    return datetime.fromtimestamp(slot.minute * 60, UTC) + timedelta(microseconds=slot.offset)
