"""The signatures of ended sessions: which failures are the same one."""

import json
from collections.abc import Mapping, Sequence
from uuid import UUID

from django.db import connection

from retry.evidence.ended import Ended
from retry.signatures.signature import Signature, signature
from sessions_app.db.bulk import array

_PROGRAMS = """
    SELECT s.id, c.image, c.command
    FROM sessions_app_session s JOIN sessions_app_sessionspec c ON c.id = s.spec_id
    WHERE s.id = ANY(%s::uuid[])
"""


def failure_signatures(ends: Mapping[UUID, tuple[Ended, str]]) -> dict[UUID, Signature]:
    """Return the signatures of failures by session; a success and a cancel have none.

    Each comes with the end of its output.

    Only failures that no text tells need the image and the command: a batch without one reads
    nothing.
    """
    failed = {key: end for key, end in ends.items() if end[0].termination.status == "error"}
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
