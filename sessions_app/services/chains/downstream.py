"""Downstream: a retry by hand also retries what could not begin because of the failure.

The retried dependants wait for their dependencies again.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from django.db import connection, transaction

from sessions_app import wakeups
from sessions_app.authorization import Action, Actor
from sessions_app.core.errors import DomainError, TooLarge
from sessions_app.core.retry_changes import Changes
from sessions_app.db.bulk import array
from sessions_app.locks import lock_chains
from sessions_app.selectors.sessions import sessions_allowed
from sessions_app.services.chains.manual_retry import (
    Granted,
    session_retry,
    sessions_retry,
    sessions_retry_paced,
)

MOST = 1_000
"""Most chains that one retry takes along."""
_FAILED = "t.tip AND t.resting = 'cancelled' AND t.retry_cause = 'dependency_failed'"
_DOWN = f"""
    WITH RECURSIVE down(root) AS (
        SELECT d.root_id FROM sessions_app_dependency d
        JOIN sessions_app_session t ON t.root_id = d.root_id AND {_FAILED}
        WHERE d.on_root = ANY(%s::uuid[]) AND NOT d.met
        UNION
        SELECT d.root_id FROM down w
        JOIN sessions_app_dependency d ON d.on_root = w.root AND NOT d.met
        JOIN sessions_app_session t ON t.root_id = d.root_id AND {_FAILED}
    )
    SELECT t.id, w.root FROM down w
    JOIN sessions_app_session t ON t.root_id = w.root AND t.tip LIMIT %s
"""
_OF_THESE = f"SELECT t.id FROM sessions_app_session t WHERE t.id = ANY(%s::uuid[]) AND {_FAILED}"
_REOPEN = """
    UPDATE sessions_app_dependency SET outcome = '', met = NULL, tip_id = NULL, status = NULL,
        exit_code = NULL
    WHERE root_id = ANY(%s::uuid[]) AND NOT met RETURNING on_root
"""


@dataclass(frozen=True, slots=True)
class Retried:
    """The new attempts of a session and of those downstream; None and the failed ones if dry.

    `secrets_dropped` are the names of the secrets that the new attempt does not get.
    """

    child_id: UUID | None
    downstream: list[UUID]
    secrets_dropped: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """Return what was done, for the page of the new attempt."""
        more = f" {len(self.downstream):,} downstream wait for it again." if self.downstream else ""
        names = ", ".join(self.secrets_dropped)
        without = f" It does not get the secrets {names}: somebody else gave them." if names else ""
        warned = "".join(f" Warning: {each}." for each in self.warnings)
        return f"This is the new attempt.{more}{without}{warned}"


def downstream_of(root_ids: Collection[UUID]) -> dict[UUID, UUID]:
    """Return the sessions that ended as `dependency_failed` because of chains, with their roots.

    Also through others, in one statement. Raises `TooLarge` if there are more than `MOST`.
    """
    found = _down(root_ids)
    if len(found) > MOST:
        raise TooLarge(
            f"more than {MOST:,} sessions wait downstream: retry those further down first, or "
            "retry without `downstream`"
        )
    return found


def downstream_words(root_id: UUID) -> str:
    """Return how many sessions are downstream of a chain, for people; "" for none."""
    count = len(_down([root_id]))
    if count > MOST:
        return f"more than {MOST:,} sessions"
    return f"{count:,} session{'' if count == 1 else 's'}" if count else ""


def _down(root_ids: Collection[UUID]) -> dict[UUID, UUID]:
    with connection.cursor() as cursor:
        cursor.execute(_DOWN, [array(root_ids), MOST + 1])
        return dict(cursor.fetchall())


def downstream_allowed(actor: Actor, root_ids: Collection[UUID]) -> dict[UUID, UUID]:
    """Return the sessions downstream of chains, with their roots.

    Raises the refusal of the first one that the actor may not retry, and `TooLarge`.
    """
    down = downstream_of(root_ids)
    if down:
        _, refusals = sessions_allowed(actor, Action.SESSION_RETRY, list(down))
        for refusal in refusals.values():
            raise refusal
    return down


def dependency_failed(session_ids: Collection[UUID]) -> set[UUID]:
    """Return those of the sessions that ended as `dependency_failed`, in one statement."""
    with connection.cursor() as cursor:
        cursor.execute(_OF_THESE, [array(session_ids)])
        return {row[0] for row in cursor.fetchall()}


def session_retry_downstream(
    session_id: UUID,
    root_id: UUID,
    down: Mapping[UUID, UUID],
    *,
    by: str,
    changes: Changes | None = None,
) -> Retried:
    """Retry a session as `session_retry` does, and those `down` of it, in one transaction.

    The `changes` are those of the first one. Of the others, those that somebody else has retried
    meanwhile are left as they are.
    """
    with transaction.atomic():
        # All of them in order, before either call locks its own.
        lock_chains([root_id, *down.values()])
        first = session_retry(session_id, root_id, by=by, changes=changes)
        made = _granted(_retry_blocked(down, by=by))
    others = [each.child_id for each in made.values() if each.child_id]
    return Retried(first.child_id, others, first.secrets_dropped, first.warnings)


def sessions_retry_downstream(
    roots: Mapping[UUID, UUID],
    failed: Collection[UUID],
    *,
    by: str,
    changes: Changes,
    dry_run: bool = False,
) -> dict[UUID, Granted | DomainError]:
    """Retry sessions as `sessions_retry_paced` does, and those downstream, in one transaction.

    `roots` maps the sessions to their roots. Those in `failed` ended as `dependency_failed`: they
    wait for their dependencies again. They and `roots` get the `changes`. Return the outcomes of
    `roots`, and of those downstream that are retried; what is downstream of a refused session is
    left as it is, and so is what somebody else has retried meanwhile. A `dry_run` changes nothing.
    """
    own = {key: root for key, root in roots.items() if key in failed}
    paced = {key: root for key, root in roots.items() if key not in failed}
    with transaction.atomic():
        if dry_run:
            outcomes = _looked_at(own, by=by, changes=changes)
        else:
            # All of them in order, before the calls lock their own.
            lock_chains([*roots.values(), *downstream_of(roots.values()).values()])
            outcomes = _retry_blocked(own, by=by, changes=changes)
        if paced:
            outcomes |= sessions_retry_paced(paced, by=by, changes=changes, dry_run=dry_run)
        down = downstream_of([roots[key] for key in _granted(outcomes)])
        matched = {key: root for key, root in down.items() if key in failed and key not in roots}
        others = {key: root for key, root in down.items() if key not in failed}
        if dry_run:
            outcomes |= _granted(_looked_at(matched, by=by, changes=changes))
            return outcomes | dict.fromkeys(others, Granted())
        outcomes |= _granted(_retry_blocked(matched, by=by, changes=changes))
        return outcomes | _granted(_retry_blocked(others, by=by))


def _retry_blocked(
    roots: Mapping[UUID, UUID], *, by: str, changes: Changes | None = None
) -> dict[UUID, Granted | DomainError]:
    """Retry locked chains, whose new attempts wait for their dependencies again."""
    if not roots:
        return {}
    outcomes = sessions_retry(roots, by=by, changes=changes, blocked=True)
    _reopen([roots[key] for key in _granted(outcomes)])
    return outcomes


def _looked_at(
    roots: Mapping[UUID, UUID], *, by: str, changes: Changes
) -> dict[UUID, Granted | DomainError]:
    """Return what `_retry_blocked` would, and change nothing. No storm limit holds these."""
    looked = sessions_retry_paced(roots, by=by, changes=changes, dry_run=True) if roots else {}
    return {
        key: replace(each, due_at=None) if isinstance(each, Granted) else each
        for key, each in looked.items()
    }


def _granted(outcomes: Mapping[UUID, Granted | DomainError]) -> dict[UUID, Granted]:
    return {key: each for key, each in outcomes.items() if isinstance(each, Granted)}


def _reopen(root_ids: Collection[UUID]) -> None:
    """Let chains wait again for what was not met."""
    with connection.cursor() as cursor:
        cursor.execute(_REOPEN, [array(root_ids)])
        awaited = {row[0] for row in cursor.fetchall()}
    # Some of these may have ended otherwise, and not be retried.
    wakeups.awaited_after_commit()
    wakeups.ended_after_commit(list(awaited))
