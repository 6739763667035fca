"""The signatures of ended sessions: which failures are the same one."""

import json
from collections.abc import Sequence
from uuid import UUID

from django.db import connection

from retry.evidence.termination import Termination
from retry.signatures.signature import Signature, signature
from sessions_app.db.bulk import array
from sessions_app.locks import LockedSession

_PROGRAMS = """
    SELECT s.id, c.image, c.command
    FROM sessions_app_session s JOIN sessions_app_sessionspec c ON c.id = s.spec_id
    WHERE s.id = ANY(%s::uuid[])
"""


def failure_signatures(
    ends: Sequence[tuple[LockedSession, Termination, str]],
) -> dict[UUID, Signature]:
    """Return the signature of each failure; a success and a cancel have none.

    Only failures that no text tells need the image and the command: a batch without one reads
    nothing.
    """
    failed = {
        session.id: (termination, log_tail)
        for session, termination, log_tail in ends
        if termination.status == "error"
    }
    found = {key: signature(*failure) for key, failure in failed.items()}
    for key, image, command in _programs([key for key, each in found.items() if each.of_program]):
        found[key] = signature(*failed[key], image=image, command=command)
    return found


def _programs(ids: Sequence[UUID]) -> list[tuple[UUID, str, list[str]]]:
    """Read the images and commands of these sessions."""
    if not ids:
        return []
    with connection.cursor() as cursor:
        cursor.execute(_PROGRAMS, [array(ids)])
        return [(key, image, json.loads(command)) for key, image, command in cursor.fetchall()]
