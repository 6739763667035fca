"""Advice about the retries of projects: their recent chains, replayed once a day."""

import json
import time
from datetime import datetime, timedelta

from django.db import connection

from retry.advice import Advice, advise
from retry.simulate import Draft
from sessions_app.in_force.named_policies import applied, named_policies
from sessions_app.in_force.retry_scope import retry_scopes
from sessions_app.locks import database_now
from sessions_app.selectors.past_chains import chains_sampled
from sessions_app.selectors.reports import ADVICE_KEPT
from sessions_app.services.chains.simulate import SAMPLING, rulebook_of

STALE = timedelta(days=1)
"""After that long advice is computed anew."""
MOST = 100
"""Maximum number of projects of one run."""
MOST_FORGOTTEN = 10_000
"""Maximum number of projects that lose their advice in one run."""
TASK_SECONDS = 40.0

# Projects of which a chain was retried, those without advice first.
_STALE = """
    SELECT p.id FROM sessions_app_project p
    LEFT JOIN sessions_app_retryadvice a ON a.project_id = p.id
    WHERE (a.computed_at IS NULL OR a.computed_at < %(stale)s) AND EXISTS (
        SELECT FROM sessions_app_retryday d
        WHERE d.project_id = p.id AND d.dimension = '' AND d.day >= %(since)s AND d.retried > 0)
    ORDER BY a.computed_at NULLS FIRST, p.id LIMIT %(most)s
"""
_SAVE = """
    INSERT INTO sessions_app_retryadvice (project_id, computed_at, facts)
    SELECT id, %s, %s::jsonb FROM sessions_app_project WHERE id = %s
    ON CONFLICT (project_id) DO UPDATE
    SET computed_at = excluded.computed_at, facts = excluded.facts
"""
# Of projects without retries in the last 30 days, and of those that no run came to. No report shows
# it any more.
_FORGET = """
    DELETE FROM sessions_app_retryadvice WHERE project_id IN (
        SELECT project_id FROM sessions_app_retryadvice WHERE computed_at < %(kept)s
        ORDER BY project_id LIMIT %(most)s)
"""


def retries_advise(seconds: float = TASK_SECONDS) -> int:
    """Compute the advice that is older than a day, for at most `seconds`. Return the number of
    projects.

    Each takes a fixed number of statements. Two runs at once write the same. Advice that is too old
    to be shown is deleted.
    """
    until, now, done = time.monotonic() + seconds, database_now(), 0
    since = (now - timedelta(days=SAMPLING.days)).date()
    with connection.cursor() as cursor:
        cursor.execute(_STALE, {"stale": now - STALE, "since": since, "most": MOST})
        projects = [row[0] for row in cursor.fetchall()]
        cursor.execute(_FORGET, {"kept": now - ADVICE_KEPT, "most": MOST_FORGOTTEN})
    for project_id in projects:
        if time.monotonic() >= until:
            break
        found = _advice(project_id, now)
        # One statement, on which nothing else builds.
        with connection.cursor() as cursor:
            cursor.execute(_SAVE, [now, json.dumps(found.facts()), project_id])
        done += 1
    return done


def _advice(project_id: int, now: datetime) -> Advice:
    chains = chains_sampled(project_id, now, SAMPLING)
    scope = retry_scopes([project_id])[project_id]
    names = {chain.names for chain in chains}
    named = named_policies((project_id, each) for each in names).get(project_id, {})
    # As in simulations, no kill switch applies.
    draft = Draft()
    return advise(
        (chain.past, draft.over(rulebook_of(chain, applied(named, chain.names), scope)))
        for chain in chains
    )
