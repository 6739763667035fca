"""The progress of live runs, which stands beside their leases."""

import json
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from django.db import connection

from scheduler.locks import note_progress
from scheduler.wire import ProgressNews, RunProgress
from sessions_app.db.bulk import array, json_text


def progress_note(executor: str, news: Sequence[ProgressNews]) -> None:
    """Store what runs of an executor told: one statement for all of them, none if none did."""
    if not news:
        return
    newest = {(each.session_id, each.fencing_token): each for each in news}
    note_progress(
        executor, [(*key, json_text(progress_told(each))) for key, each in newest.items()]
    )


def progress_told(told: RunProgress) -> dict[str, Any]:
    """Return the progress as it is stored."""
    stored: dict[str, Any] = {
        "step": told.step,
        "of": told.of,
        "note": told.note,
        "best": max(told.best, told.step),
        "rate": told.rate,
    }
    if told.checkpoint:
        stored |= {"checkpoint": told.checkpoint, "checkpoint_step": told.checkpoint_step}
    return stored


def progress_of(session_ids: Iterable[UUID]) -> dict[UUID, dict[str, Any]]:
    """Return the progress beside the leases of these sessions; those that told nothing are left
    out."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT session_id, progress FROM scheduler_lease"
            " WHERE session_id = ANY(%s::uuid[]) AND progress IS NOT NULL",
            [array(session_ids)],
        )
        return {key: json.loads(text) for key, text in cursor.fetchall()}
