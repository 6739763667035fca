"""How far an attempt came, as its row and its events keep it. Pure.

The columns are `progress`, what the attempt told, and `chain_progress`, what the attempts before it
told: their best step, and their newest checkpoint with the step of its line.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

Told = Mapping[str, Any]
"""`step`, `of` and `note` of the last line, `best` step, `rate` in steps a second or None, and, if
there was a checkpoint, `checkpoint` and `checkpoint_step`."""


def ended_progress(told: Told, best_before: float | None, now: datetime) -> dict[str, Any]:
    """Return the progress of an ended attempt; None: no attempt before it told of a step.

    It has `advanced`: whether the best step is above all before, in a first attempt above 0.
    """
    advanced = told["best"] > (best_before or 0)
    at = told.get("at") or now.astimezone(UTC).isoformat()
    return {**told, "at": at, "advanced": advanced}


CHAIN_PROGRESS = """
    CASE WHEN p.progress IS NULL THEN p.chain_progress
    ELSE coalesce(p.chain_progress, '{}') || jsonb_strip_nulls(jsonb_build_object(
        'best', greatest((p.progress ->> 'best')::float8, (p.chain_progress ->> 'best')::float8),
        'checkpoint', p.progress -> 'checkpoint', 'step', p.progress -> 'checkpoint_step')) END
"""
"""The `chain_progress` of a child whose parent is `p`, in SQL."""
