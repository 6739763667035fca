"""The reason why a session waits, as the next lease round would find it."""

from collections.abc import Sequence
from typing import NamedTuple

from django.db import connection
from django.db.models import Q

from scheduler.allocation.holdings import leases_held, room_beside
from scheduler.allocation.queue_usage import amounts_used
from scheduler.allocation.round import queue_limit
from scheduler.allocation.waiting_lines import MICROSECONDS, ONE, Wish, queue_keys, wish_of
from scheduler.core.fairshare import Order
from scheduler.core.fit import ANOTHER_NODE, Misfit, Room
from scheduler.models import Executor
from scheduler.services.silence import silent_before
from sessions_app.core.quotas import SESSIONS, Held
from sessions_app.db.bulk import array
from sessions_app.locks import database_now
from sessions_app.models import Session
from sessions_app.selectors.why_pending import MOST_AHEAD, Reason, WhyPending

MOST_NAMED = 3
"""Maximum number of executors named in a message."""


class _Look(NamedTuple):
    """One executor and a session: why it would not fit if empty (`never`), and why not `now`."""

    executor: Executor
    never: Misfit | None
    now: Misfit | None
    avoided: bool
    troubled: str
    """The trouble that keeps the executor from sessions of this project; "" for none."""

    @property
    def open(self) -> bool:
        """Return whether the executor takes sessions of this project now."""
        executor = self.executor
        return not (executor.cordoned or executor.trouble or self.troubled)


def pending_explain(session: Session, quota: Held | None) -> WhyPending:
    """Return the strongest reason why a waiting session is not leased yet.

    `quota` is the quota that holds it back, if any.
    """
    ahead = _ahead(session)
    if quota is not None:
        return WhyPending(Reason.QUOTA, str(quota), ahead)
    reason, message = _reason(session)
    if reason is Reason.POSITION:
        message = f"{message}; {_place(ahead)}"
    return WhyPending(reason, message, ahead)


def _place(ahead: int) -> str:
    if ahead >= MOST_AHEAD:
        return f"{MOST_AHEAD:,} sessions of its queue or more go before it"
    if ahead == 0:
        return "it is the first in its queue"
    return f"{ahead} session{'s' * (ahead > 1)} of its queue go{'es' * (ahead == 1)} before it"


def _reason(session: Session) -> tuple[Reason, str]:
    queue = session.queue
    if queue.cordoned:
        return Reason.QUEUE_CORDONED, f"its queue is cordoned: {queue.cordon_reason}"
    wish = wish_of(session.pk)
    looks = [] if wish is None else _looks(_executors(session.project_id), wish, session.project_id)
    able = _able([look for look in looks if look.open])
    if wish is None or not able:
        return _nobody(looks)
    limit = queue_limit(queue.resource_limits, amounts_used(queues=[queue.pk]).get(queue.pk, {}))
    if short := limit.exceeded_by(wish.taken):
        left = max(limit.left[short], 0)
        wants = wish.taken[short]
        text = f"its queue is at its limit of {short}: it wants {wants:f}, {left:f} is left"
        return Reason.QUEUE_LIMIT, text
    willing = [look for look in able if not look.avoided] or able
    if all(look.now is not None for look in willing):
        return _full(wish, able, willing)
    return Reason.POSITION, "there is room, and other sessions come first"


def _able(looks: Sequence[_Look]) -> list[_Look]:
    """Return the executors that could run it if they were empty."""
    able = [look for look in looks if look.never is None]
    # An avoided node is allowed if no other node could ever run the session.
    return able or [look for look in looks if look.never and look.never.resource == ANOTHER_NODE]


def _nobody(looks: Sequence[_Look]) -> tuple[Reason, str]:
    """Return the reason why no open executor could ever run it."""
    uncordoned = [look for look in looks if not look.executor.cordoned]
    if kept := _able([look for look in uncordoned if look.troubled and not look.executor.trouble]):
        texts = [f"{look.executor.name}: {look.troubled}" for look in kept[:MOST_NAMED]]
        troubles = _listed(texts, len(kept))
        return Reason.PROJECT_TROUBLE, f"nothing of its project can be started: {troubles}"
    if kept := _able([look for look in uncordoned if look.executor.trouble]):
        names = _listed([look.executor.name for look in kept[:MOST_NAMED]], len(kept))
        return Reason.EXECUTOR_TROUBLE, f"what could run it is in trouble: {names}"
    if closed := _able([look for look in looks if look.executor.cordoned]):
        return Reason.EXECUTOR_CORDONED, f"what could run it is cordoned: {_cordons(closed)}"
    open_ones = [look for look in looks if look.open]
    if not open_ones:
        return Reason.NO_EXECUTOR, "no executor that serves its project is there and open"
    return Reason.NO_FIT, f"it fits on no executor: {_misfits(open_ones, never=True)}"


def _cordons(looks: Sequence[_Look]) -> str:
    named = [look.executor for look in looks[:MOST_NAMED]]
    # An executor cordoned by an older version has no reason.
    texts = [": ".join(filter(None, (each.name, each.cordon_reason))) for each in named]
    return _listed(texts, len(looks))


def _full(wish: Wish, able: Sequence[_Look], willing: Sequence[_Look]) -> tuple[Reason, str]:
    misfits = _misfits(willing, never=False)
    if len(willing) < len(able) or wish.node:
        avoided = sorted(wish.avoid_executors) + ([f"node {wish.node}"] if wish.node else [])
        return (
            Reason.AVOIDED,
            f"it avoids {', '.join(avoided)}, and elsewhere is no room: {misfits}",
        )
    return Reason.CAPACITY, f"it waits for room: {misfits}"


def _executors(project_id: int) -> list[Executor]:
    """Return live executors that serve the project, also those cordoned or in trouble."""
    serving = Executor.objects.filter(Q(projects=None) | Q(projects=project_id))
    alive = serving.filter(last_seen_at__gte=silent_before(database_now()))
    # An executor in trouble reports a limit of 0 sessions.
    willing = alive.filter(Q(max_sessions__gt=0) | ~Q(trouble=""))
    return list(willing.order_by("name").distinct())


def _looks(executors: Sequence[Executor], wish: Wish, project_id: int) -> list[_Look]:
    held = leases_held(*(each.pk for each in executors))
    looks = []
    for executor in executors:
        node = wish.node_avoided_on(executor.name) if wish.node else ""
        mine = held[executor.pk]
        now = room_beside(executor.nodes, mine).misfit(wish.ask, node)
        if now is None and sum(each.leases for each in mine) >= executor.max_sessions:
            now = Misfit(SESSIONS, ONE, ONE * 0, ever=True)
        never = Room(executor.nodes, ()).misfit(wish.ask, node)
        troubled = executor.project_troubles.get(str(project_id), {}).get("trouble", "")
        avoided = executor.name in wish.avoid_executors
        looks.append(_Look(executor, never, now, avoided, troubled))
    return looks


def _misfits(looks: Sequence[_Look], *, never: bool) -> str:
    texts = []
    for look in looks[:MOST_NAMED]:
        misfit = look.never if never else look.now
        if misfit is not None:
            has = "the largest node has" if never else "free is"
            texts.append(
                f"{look.executor.name}: {misfit.resource}, of which it wants "
                f"{misfit.wanted:f} and {has} {max(misfit.available, 0):f}"
            )
    return _listed(texts, len(looks))


def _listed(texts: Sequence[str], of: int) -> str:
    more = of - len(texts)
    return "; ".join(texts) + (f"; and {more} more" if more > 0 else "")


_MINE = f"SELECT {MICROSECONDS} FROM sessions_app_session s WHERE s.id = %s"
_HEADS = f"""
    SELECT s.priority, {MICROSECONDS}, s.id
    FROM unnest(%s::bigint[]) AS k(key)
    CROSS JOIN LATERAL (
        SELECT priority, root_submitted_at, id FROM sessions_app_session
        WHERE phase = 'waiting' AND queue_id = %s AND scheduling_key = k.key
        ORDER BY priority DESC, root_submitted_at, id LIMIT %s
    ) s
"""


def _ahead(session: Session) -> int:
    """Return how many sessions of its queue go before it, at most `MOST_AHEAD`."""
    keys = queue_keys(session.queue_id)
    with connection.cursor() as cursor:
        cursor.execute(_MINE, [session.pk])
        (submitted,) = cursor.fetchone()
        mine = Order(-session.priority, submitted, session.pk)
        cursor.execute(_HEADS, [array(keys), session.queue_id, MOST_AHEAD])
        before = sum(Order(-row[0], row[1], row[2]) < mine for row in cursor.fetchall())
    return min(before, MOST_AHEAD)
