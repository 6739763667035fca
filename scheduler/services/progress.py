"""The progress of live runs, which stands beside their leases."""

import json
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from django.db import connection

from scheduler.locks import note_progress
from scheduler.wire import ProgressNews, RunProgress
from sessions_app.db.bulk import array, json_text
from sessions_app.locks import LockedSession
from sessions_app.services.chains.decider import KNOWN, Known

Told = dict[str, Any]
"""Progress as it is stored."""
_BESIDE = """
    SELECT json_object_agg(l.id, (SELECT f.progress FROM scheduler_lease f
        WHERE f.session_id = l.id AND f.fencing_token = l.fencing_token)) FROM l
"""
KNOWN_AND_PROGRESS = f"json_build_array(({KNOWN}), ({_BESIDE}))"
"""SQL of one value about the sessions of a table `l`, for `known_and_progress`."""


def known_and_progress(
    value: Sequence[Any] | None, sessions: Iterable[LockedSession]
) -> tuple[Known | None, dict[UUID, Told]]:
    """Return what `KNOWN_AND_PROGRESS` found: what is known for decisions, and the progress beside
    the leases of the sessions; those that told nothing are left out."""
    if value is None:
        return None, {}
    known, beside = value
    told = {UUID(key): each for key, each in (beside or {}).items() if each is not None}
    return Known.of(known, sessions), told


def progress_at_end(told: RunProgress | None, beside: Told | None) -> Told | None:
    """Return the progress at the end of a run: what the report tells, and what it no longer knows.

    An agent that lost its state has read only a part of the output.
    """
    if told is None or beside is None:
        return beside if told is None else progress_told(told)
    found = progress_told(told)
    kept = {} if "checkpoint" in found else _checkpoint(beside)
    return found | kept | {"best": max(found["best"], beside["best"])}


def _checkpoint(told: Told) -> Told:
    return {name: told[name] for name in ("checkpoint", "checkpoint_step") if name in told}


def progress_note(executor: str, news: Sequence[ProgressNews]) -> None:
    """Store what runs of an executor told: one statement for all of them, none if none did."""
    if not news:
        return
    newest = {(each.session_id, each.fencing_token): each for each in news}
    note_progress(
        executor, [(*key, json_text(progress_told(each))) for key, each in newest.items()]
    )


def progress_told(told: RunProgress) -> Told:
    """Return the progress as it is stored."""
    stored: Told = {
        "step": told.step,
        "of": told.of,
        "note": told.note,
        "best": max(told.best, told.step),
        "rate": told.rate,
    }
    if told.checkpoint:
        stored |= {"checkpoint": told.checkpoint, "checkpoint_step": told.checkpoint_step}
    return stored


def progress_of(session_ids: Iterable[UUID]) -> dict[UUID, Told]:
    """Return the progress beside the leases of these sessions; those that told nothing are left
    out."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT session_id, progress FROM scheduler_lease"
            " WHERE session_id = ANY(%s::uuid[]) AND progress IS NOT NULL",
            [array(session_ids)],
        )
        return {key: json.loads(text) for key, text in cursor.fetchall()}
