"""What Reprise noticed in one demonstration, and what that saved, in words.

Each feature that saves something is a function that returns its line; `SAVINGS` lists them in the
order of the summary. What would have happened without a feature is an estimate, and the line says
how it is made.
"""

from collections.abc import Callable
from itertools import groupby

from reprise.scale.judgement import Scope
from reprise.scale.plan import (
    DOMAIN,
    ENDLESS,
    GUARDED,
    LACKS,
    LEAST_NODES,
    MENDED,
    MOST_ENDLESS,
    MOST_RETRIES,
    PARKING,
    PARKING_RULE,
)
from sessions_app.core.retry_worth import Attempt, kept_parts
from sessions_app.selectors.ended_chains import ATTEMPT, JOINS

# Other nodes are those of the same executor that were never suspect.
_NODES = """
    , runs AS (
        SELECT n.id AS node_id, n.executor_id, n.address, n.suspected_at,
            mine.status = 'ERROR' AS failed, mine.started_at
        FROM mine JOIN scheduler_executor x ON x.name = mine.executor
        JOIN scheduler_node n ON n.executor_id = x.id AND n.name = mine.node
        WHERE mine.started_at IS NOT NULL
    ), bad AS (
        SELECT DISTINCT node_id, executor_id, address, suspected_at FROM runs
        WHERE suspected_at >= %(since)s
    )
    SELECT b.address, extract(epoch FROM b.suspected_at - %(since)s)::float8,
        own.before, own.failed, own.after, others.nodes, others.after, others.failed_share
    FROM bad b
    CROSS JOIN LATERAL (
        SELECT count(*) FILTER (WHERE started_at <= b.suspected_at) AS before,
            count(*) FILTER (WHERE failed AND started_at <= b.suspected_at) AS failed,
            count(*) FILTER (WHERE started_at > b.suspected_at) AS after
        FROM runs WHERE node_id = b.node_id) own
    CROSS JOIN LATERAL (
        SELECT count(DISTINCT node_id) AS nodes,
            count(*) FILTER (WHERE started_at > b.suspected_at) AS after,
            coalesce(avg(failed::int), 0)::float8 AS failed_share
        FROM runs WHERE executor_id = b.executor_id
            AND node_id NOT IN (SELECT node_id FROM bad)) others
    ORDER BY 1
"""
_STOPPED = """
    SELECT count(*), coalesce(sum(%(most)s - mine.retry_count), 0),
        coalesce(avg(extract(epoch FROM mine.finished_at - mine.started_at)), 0)::float8
    FROM mine JOIN sessions_app_retrydecision d ON d.session_id = mine.id
    WHERE d.reason = 'repeating_failure'
"""
# Retries that the breaker held until a person asked for them, with the mended image.
_GUARDED = """
    , held AS (
        SELECT DISTINCT ON (c.root_id) c.root_id, %(most)s - p.retry_count AS spared
        FROM mine c JOIN sessions_app_sessionspec s ON s.id = c.spec_id AND s.image = %(mended)s
        JOIN mine p ON p.id = c.parent_id
        JOIN sessions_app_retrydecision d ON d.session_id = p.id AND d.dispatched_by <> ''
        ORDER BY c.root_id, c.retry_count
    )
    SELECT extract(epoch FROM b.opened_at - %(since)s)::float8, b.chains, b.probes, b.signature,
        sums.chains, sums.spared, sums.succeeded,
        (SELECT coalesce(avg(extract(epoch FROM finished_at - started_at)), 0)::float8 FROM mine
            WHERE project_id = b.project_id AND failure_signature = b.signature)
    FROM sessions_app_breaker b JOIN sessions_app_project j ON j.id = b.project_id
    CROSS JOIN (
        SELECT count(*) AS chains, coalesce(sum(held.spared), 0) AS spared,
            count(*) FILTER (WHERE t.retry_state = 'succeeded') AS succeeded
        FROM held JOIN mine t ON t.root_id = held.root_id AND t.tip) sums
    WHERE b.project_id = ANY(%(projects)s::bigint[]) AND j.name = %(guarded)s
        AND b.opened_at >= %(since)s
    ORDER BY b.opened_at LIMIT 1
"""
_PARKED = """
    SELECT count(*), count(*) FILTER (WHERE d.state = 'dispatched'),
        count(*) FILTER (WHERE d.state = 'dispatched' AND t.retry_state = 'succeeded'),
        count(*) FILTER (WHERE d.state = 'final')
    FROM mine JOIN sessions_app_retrydecision d ON d.session_id = mine.id
    JOIN mine t ON t.root_id = mine.root_id AND t.tip
    WHERE d.reason = 'rule_limit' AND d.rule = %(rule)s
"""
_ENDLESS = """
    , runs AS (
        SELECT mine.tip, mine.retry_count, mine.retry_state, p.name = %(tenant)s AS own,
            coalesce(extract(epoch FROM mine.finished_at - mine.started_at), 0)::float8 AS ran
        FROM mine JOIN sessions_app_project p ON p.id = mine.project_id
    )
    SELECT count(*) FILTER (WHERE own AND tip), count(*) FILTER (WHERE own AND retry_count > 0),
        count(*) FILTER (WHERE own AND tip AND retry_state = 'cancelled'),
        coalesce(sum(%(most)s - retry_count)
            FILTER (WHERE own AND tip AND retry_state = 'cancelled'), 0),
        coalesce(avg(ran) FILTER (WHERE own), 0)::float8,
        coalesce(sum(ran) FILTER (WHERE own), 0)::float8, coalesce(sum(ran), 0)::float8
    FROM runs
"""
_TOLD = f"""
    SELECT a.root_id, {ATTEMPT} FROM mine a {JOINS}
    WHERE a.finished_at IS NOT NULL
        AND a.root_id IN (SELECT root_id FROM mine WHERE progress IS NOT NULL)
    ORDER BY a.root_id, a.retry_count
"""


def suspect_nodes(scope: Scope) -> str:
    """Tell which nodes became suspect, and estimate the failures that the others spared."""
    found = scope.ask(_NODES)
    if not found:
        return (
            "Bad nodes: none was found. Each cluster of at least "
            f"{LEAST_NODES} nodes has one, and more sessions show it sooner."
        )
    told, spared = [], 0.0
    for address, after_seconds, before, failed, after, nodes, others, failed_share in found:
        told.append(f"{address} after {after_seconds:.0f} s ({failed:,} of {before:,} runs failed)")
        expected = others / nodes if nodes else after
        worse = failed / before - failed_share if before else 0.0
        spared += max(expected - after, 0.0) * max(worse, 0.0)
    return (
        f"Bad nodes: found {', '.join(told)}. Later sessions avoided them. Had these nodes got as "
        f"many runs as the others, about {spared:,.0f} more runs would have failed."
    )


def stopped_chains(scope: Scope) -> str:
    """Tell which chains ended early since they failed in the same way again and again."""
    ((chains, left, seconds),) = scope.ask(_STOPPED, most=MOST_RETRIES)
    if not chains:
        return "Broken image: no session ran with it."
    return (
        f"Broken image: {_counted(chains)} failed in the same way until a rule stopped them "
        f"(stopAfterSame). That saved {int(left):,} retries that could not succeed, or "
        f"{_duration(float(left) * seconds)} of run time."
    )


def guarded_project(scope: Scope) -> str:
    """Tell what a breaker across chains held, until somebody mended the image."""
    mended = MENDED[LACKS]
    asked = {"guarded": GUARDED, "mended": mended, "most": MOST_RETRIES}
    found = scope.ask(_GUARDED, **asked)
    if not found:
        return f"Breaker: too few sessions of {DOMAIN}/{GUARDED} failed alike to open it."
    ((after, failed, probes, signature, held, spared, succeeded, seconds),) = found
    return (
        f"Breaker: {_counted(failed)} of {DOMAIN}/{GUARDED} had failed alike ({signature}) after "
        f"{after:.0f} s. From then on a breaker let {_counted(probes, 'probe')} through, and held "
        f"the others, at the end {_counted(held)}. Then {mended} was there: retried with it, "
        f"{succeeded:,} succeeded. That saved up to {int(spared):,} retries that could not "
        f"succeed, or {_duration(float(spared) * seconds)} of run time."
    )


def parked_chains(scope: Scope) -> str:
    """Tell what became of chains that were parked when their retries were used up."""
    rule = f"{PARKING}/{PARKING_RULE}"
    ((parked, retried, succeeded, given_up),) = scope.ask(_PARKED, rule=rule)
    if not parked:
        return "Parked chains: no session asked for it."
    return (
        f"Parked chains: {_counted(parked)} had used up their retries, and waited for somebody "
        f"instead of ending. Retried with a mended image: {retried:,}, of which {succeeded:,} "
        f"succeeded, and nobody had to submit them anew. Given up: {given_up:,}."
    )


def kept_steps(scope: Scope) -> str:
    """Tell how much work of failed attempts the next ones kept by checkpoints."""
    chains, lost, kept = 0, 0.0, 0.0
    for _, rows in groupby(scope.ask(_TOLD), key=lambda row: row[0]):
        attempts = [Attempt._make(row[1:]) for row in rows]
        parts = kept_parts(attempts)
        failed = [each for each in zip(attempts, parts, strict=True) if each[0].failed]
        lost += sum(attempt.ran for attempt, _ in failed)
        kept += sum(attempt.ran * part for attempt, part in failed)
        chains += any(part for _, part in failed)
    if not chains:
        return "Progress: no session went on from a checkpoint."
    return (
        f"Progress: {_counted(chains)} failed, and went on from their last checkpoint. That kept "
        f"{_duration(kept)} of the {_duration(lost)} that their failed attempts had run."
    )


def held_tenant(scope: Scope) -> str:
    """Tell what the shared budget of the tenant without end let go and held.

    What it still held at the end was cancelled.
    """
    asked = {"tenant": ENDLESS, "most": MOST_ENDLESS}
    ((chains, retries, held, left, seconds, own, whole),) = scope.ask(_ENDLESS, **asked)
    if not chains:
        return "Retries without end: no session asked for them."
    saved = float(left) * seconds
    share, unheld = (own / whole, (own + saved) / (whole + saved)) if whole else (0.0, 0.0)
    return (
        f"Retries without end: {_counted(chains)} of {DOMAIN}/{ENDLESS} failed, and asked for "
        f"{MOST_ENDLESS} retries each. The shared budget of the project let {retries:,} go, and "
        f"held {_counted(held)} until the end. That saved up to {int(left):,} retries that could "
        f"not succeed, or {_duration(saved)} of run time: the project had {share:.1%} of what all "
        f"ran, instead of {unheld:.1%}."
    )


SAVINGS: tuple[Callable[[Scope], str], ...] = (
    suspect_nodes,
    stopped_chains,
    guarded_project,
    held_tenant,
    parked_chains,
    kept_steps,
)


def savings(scope: Scope) -> list[str]:
    """Return a line for each feature."""
    return [saving(scope) for saving in SAVINGS]


def _counted(count: int, what: str = "session") -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"
