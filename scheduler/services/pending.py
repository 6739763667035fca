"""The reason why a session waits, as the next lease round would find it."""

from collections.abc import Sequence
from typing import NamedTuple

from django.db import connection
from django.db.models import Q

from base.podspec.resources import Unparsed
from scheduler.allocation.holdings import below_at, leases_held, room_beside
from scheduler.allocation.limits import queue_limit
from scheduler.allocation.patience import PATIENCE
from scheduler.allocation.queue_usage import amounts_used
from scheduler.allocation.reservations import reservations_of, takers_waiting
from scheduler.allocation.waiting_lines import MICROSECONDS, ONE, Wish, queue_keys, wish_of
from scheduler.core.fairshare import Order
from scheduler.core.fit import ANOTHER_NODE, Ask, Misfit, Room
from scheduler.core.fit_words import MOST_NAMED, fits_nowhere, listed, now_words
from scheduler.models import Avoids, Executor, Preemption, with_nodes_out
from scheduler.services.silence import silent_before
from sessions_app.core.quotas import SESSIONS, Held
from sessions_app.core.states import Status
from sessions_app.db.bulk import array
from sessions_app.locks import database_now
from sessions_app.models import Session
from sessions_app.selectors.why_pending import MOST_AHEAD, Reason, WhyPending


class _Look(NamedTuple):
    """One executor and a session: why it would not fit if empty (`never`), and why not `now`."""

    executor: Executor
    never: Misfit | None
    now: Misfit | None
    avoided: bool
    troubled: str
    """The trouble that keeps the executor from sessions of this project; "" for none."""
    kept: Sequence[str] | None
    """The nodes on which room is kept for the session; None if it has no reservation."""
    suspect: bool
    """Whether only suspect nodes, which it avoids, have room now."""
    exhausted: Sequence[str]
    """The node templates that could hold it, but can bring no more nodes now."""

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
    looks = [] if wish is None else _looks(_executors(session.project_id, wish), wish, session)
    able = _able([look for look in looks if look.open])
    if wish is None or not able:
        return _nobody(looks, wish)
    limit = queue_limit(queue.resource_limits, amounts_used(queues=[queue.pk]).get(queue.pk, {}))
    if short := limit.exceeded_by(wish.taken):
        left = max(limit.left[short], 0)
        wants = wish.taken[short]
        text = f"its queue is at its limit of {short}: it needs {wants:f}, and {left:f} is left"
        return Reason.QUEUE_LIMIT, text
    willing = [look for look in able if not look.avoided] or able
    if all(look.now is not None for look in willing):
        reason, text = _full(wish, able, willing)
        return reason, f"{text}{_kept_free(willing)}{_room_made(session, willing)}"
    if all(look.now is not None or look.suspect for look in willing):
        names = listed([look.executor.name for look in willing if look.suspect][:MOST_NAMED], 0)
        text = f"there is room only on suspect nodes, which it avoids for {PATIENCE.seconds} s"
        return Reason.AVOIDED, f"{text}: {names}"
    return Reason.POSITION, "there is room, and other sessions come first"


def _able(looks: Sequence[_Look]) -> list[_Look]:
    """Return the executors that could run it if they were empty."""
    able = [look for look in looks if look.never is None]
    # An avoided node is allowed if no other node could ever run the session.
    return able or [look for look in looks if look.never and look.never.resource == ANOTHER_NODE]


def _nobody(looks: Sequence[_Look], wish: Wish | None) -> tuple[Reason, str]:
    """Return the reason why no open executor could ever run it."""
    if not looks and wish and wish.executor_labels:
        labels = ", ".join(f"{name}={value}" for name, value in wish.executor_labels.items())
        text = f"no living executor of its project has the labels {labels}, which a rule asks for"
        return Reason.NO_FIT, text
    uncordoned = [look for look in looks if not look.executor.cordoned]
    if kept := _able([look for look in uncordoned if look.troubled and not look.executor.trouble]):
        texts = [f"{look.executor.name}: {look.troubled}" for look in kept[:MOST_NAMED]]
        troubles = listed(texts, len(kept))
        return Reason.PROJECT_TROUBLE, f"no session of its project can be started now: {troubles}"
    if kept := _able([look for look in uncordoned if look.executor.trouble]):
        names = listed([look.executor.name for look in kept[:MOST_NAMED]], len(kept))
        return Reason.EXECUTOR_TROUBLE, f"the executors that could run it are in trouble: {names}"
    if closed := _able([look for look in looks if look.executor.cordoned]):
        text = f"the executors that could run it are cordoned: {_cordons(closed)}"
        return Reason.EXECUTOR_CORDONED, text
    open_ones = [look for look in looks if look.open]
    if not open_ones:
        return Reason.NO_EXECUTOR, "its project has no executor that is alive and not cordoned"
    misfits = [(look.executor.name, look.never) for look in open_ones if look.never]
    return Reason.NO_FIT, fits_nowhere(misfits, wish.spellings if wish else {})[0]


def _kept_free(looks: Sequence[_Look]) -> str:
    """Return which nodes are kept free for the session; "" for none."""
    texts = [
        f"{look.executor.name}: {', '.join(look.kept[:MOST_NAMED])}" for look in looks if look.kept
    ]
    return f". Kept free for it: {listed(texts[:MOST_NAMED], len(texts))}" if texts else ""


def _room_made(session: Session, looks: Sequence[_Look]) -> str:
    """Return how many sessions are making room for the session; "" for none."""
    if all(look.kept is None for look in looks):
        return ""
    made = Preemption.objects.filter(taker_id=session.pk, dry_run=False, until__gt=database_now())
    ids = made.values_list("victim_id", flat=True)
    number = Session.objects.filter(pk__in=list(ids), status=Status.TERMINATING).count()
    if not number:
        return ""
    return f". {number} session{'s' * (number > 1)} {'make' if number > 1 else 'makes'} room for it"


def _cordons(looks: Sequence[_Look]) -> str:
    named = [look.executor for look in looks[:MOST_NAMED]]
    # An executor cordoned by an older version has no reason.
    texts = [": ".join(filter(None, (each.name, each.cordon_reason))) for each in named]
    return listed(texts, len(looks))


def _full(wish: Wish, able: Sequence[_Look], willing: Sequence[_Look]) -> tuple[Reason, str]:
    misfits = _misfits(willing, wish.spellings)
    if len(willing) < len(able) or wish.node:
        avoided = sorted(wish.avoid_executors) + ([f"node {wish.node}"] if wish.node else [])
        return (
            Reason.AVOIDED,
            f"it avoids {', '.join(avoided)}, and there is no room elsewhere: {misfits}",
        )
    return Reason.CAPACITY, f"it waits for room: {misfits}"


def _executors(project_id: int, wish: Wish) -> list[Executor]:
    """Return live executors that serve the project, also those cordoned or in trouble.

    Those that lack a label which the wish asks for are left out.
    """
    serving = Executor.objects.filter(Q(projects=None) | Q(projects=project_id))
    alive = serving.filter(last_seen_at__gte=silent_before(database_now()))
    # An executor in trouble reports a limit of 0 sessions.
    willing = alive.filter(Q(max_sessions__gt=0) | ~Q(trouble=""))
    found = with_nodes_out(willing.order_by("name").distinct())
    return [each for each in found if wish.takes(each.labels)]


def _looks(executors: Sequence[Executor], wish: Wish, session: Session) -> list[_Look]:
    keys = [each.pk for each in executors]
    held, reserved = leases_held(*keys), reservations_of(keys)
    takers = takers_waiting(keys) if any(reserved.values()) else {}
    looks = []
    for executor in executors:
        node = wish.node_avoided_on(executor.name) if wish.node else ""
        mine = held[executor.pk]
        kept = {**reserved[executor.pk]}
        own = kept.pop(str(session.pk), None)
        room = room_beside(executor, mine)
        for key, nodes in kept.items():
            if key in takers:
                room.keep(nodes, takers[key].ask)
        ask = wish.ask_on(below_at(executor))
        now = room.misfit(ask, node)
        suspect = now is None and _shunned(room, executor, wish, node)
        exhausted = _templates(executor, ask) if now is not None else []
        if now is None and sum(each.leases for each in mine) >= executor.max_sessions:
            now = Misfit(SESSIONS, ONE, ONE * 0, ever=True)
        never = Room(executor.nodes, (), executor.node_templates).explained(ask, node)
        troubled = executor.project_troubles.get(str(session.project_id), {}).get("trouble", "")
        avoided = executor.name in wish.avoid_executors
        looks.append(_Look(executor, never, now, avoided, troubled, own, suspect, exhausted))
    return looks


def _templates(executor: Executor, ask: Ask) -> list[str]:
    """Return the names of an executor's node templates that could hold a session."""
    declared = executor.node_templates
    return [each["name"] for each in declared if Room((), (), [each]).never(ask) is None]


def _shunned(room: Room, executor: Executor, wish: Wish, node: str) -> bool:
    """Return whether a session that fits would not, without the suspect nodes that it avoids."""
    suspects = executor.suspect_nodes
    if not suspects or not (wish.retry or executor.avoid_suspects == Avoids.ALL):
        return False
    ask = wish.ask_on(below_at(executor))
    return room.misfit(ask, suspects | {node} if node else suspects) is not None


def _misfits(looks: Sequence[_Look], asked: Unparsed) -> str:
    texts = [
        f"{look.executor.name}: {now_words(look.now, asked)}{_no_more(look.exhausted)}"
        for look in looks[:MOST_NAMED]
        if look.now is not None
    ]
    return listed(texts, len(looks))


def _no_more(templates: Sequence[str]) -> str:
    """Return that a cluster cannot add a node for a session now; "" if it never could."""
    if not templates:
        return ""
    names = listed(templates[:MOST_NAMED], len(templates))
    return f" (its cluster has no more nodes to add of template {names})"


_MINE = f"SELECT {MICROSECONDS} FROM sessions_app_session s WHERE s.id = %s"
_HEADS = f"""
    SELECT s.priority, {MICROSECONDS}, s.retry_count = 0, s.root_id, s.id
    FROM unnest(%s::bigint[]) AS k(key)
    CROSS JOIN LATERAL (
        SELECT priority, root_submitted_at, retry_count, root_id, id FROM sessions_app_session
        WHERE phase = 'waiting' AND queue_id = %s AND scheduling_key = k.key
        ORDER BY priority DESC, root_submitted_at, root_id LIMIT %s
    ) s
"""


def _ahead(session: Session) -> int:
    """Return how many sessions of its queue go before it, at most `MOST_AHEAD`."""
    keys = queue_keys(session.queue_id)
    with connection.cursor() as cursor:
        cursor.execute(_MINE, [session.pk])
        (submitted,) = cursor.fetchone()
        fresh = session.retry_count == 0
        mine = Order(-session.stored_priority, submitted, fresh, session.root_id, session.pk)
        cursor.execute(_HEADS, [array(keys), session.queue_id, MOST_AHEAD])
        before = sum(Order(-row[0], *row[1:]) < mine for row in cursor.fetchall())
    return min(before, MOST_AHEAD)
