"""The log store: output of sessions in the database, appended in pieces."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import connection
from django.db.models import QuerySet

from sessions_app.db.steps import atomic_step
from sessions_app.locks import lock_sessions
from sessions_app.models import LogChunk, Session

READ_BATCH = 4
"""Number of pieces in memory at once for each reader: 1 MiB."""
TAIL_BYTES = 128 * 1024


class LogEnd(NamedTuple):
    """The end of a session's log after an append.

    A full log has the beginning of the output; `tail_bytes` of its end may follow from `tail_from`.
    """

    next_offset: int
    full: bool
    stale: bool
    tail_from: int = 0
    tail_bytes: int = 0


@dataclass(frozen=True, slots=True)
class LogPiece:
    """Bytes of a run's output, at `offset` of its log; `tail`: from the end of a long output."""

    session_id: UUID
    fencing_token: int
    offset: int
    data: bytes
    tail: bool = False


def logs_append(executor: str, pieces: Sequence[LogPiece]) -> list[LogEnd]:
    """Store the pieces that continue each session's log. Return one answer each, in their order.

    Bytes that are stored already are skipped. Pieces that would leave a gap or exceed the cap are
    not stored. The answer says from which offset to continue.
    """
    with atomic_step("log"):
        ids = sorted({piece.session_id for piece in pieces})
        # One writer for each session, so that two sends of one piece cannot both append it.
        locked = lock_sessions(ids)
        tokens = {s.id: s.fencing_token for s in locked if s.executor == executor}
        ends = _ends(ids)
        answers: list[LogEnd] = []
        chunks: list[LogChunk] = []
        for piece in pieces:
            if tokens.get(piece.session_id) != piece.fencing_token:
                answers.append(LogEnd(piece.offset, full=False, stale=True))
                continue
            end, chunk = _continue(piece, ends.get(piece.session_id, 0))
            ends[piece.session_id] = end.next_offset
            answers.append(end)
            if chunk is not None:
                chunks.append(chunk)
        LogChunk.objects.bulk_create(chunks)
    return answers


def _continue(piece: LogPiece, end: int) -> tuple[LogEnd, LogChunk | None]:
    cap, tail = (int(settings.REPRISE[name]) for name in ("log_cap_bytes", "log_tail_bytes"))
    fresh = piece.data[end - piece.offset :] if piece.offset <= end else b""
    fresh = fresh[: max((cap + tail if piece.tail else cap) - end, 0)]
    reached = end + len(fresh)
    chunk = LogChunk(session_id=piece.session_id, offset=end, data=fresh) if fresh else None
    if reached < cap:
        return LogEnd(reached, full=False, stale=False), chunk
    return LogEnd(reached, full=True, stale=False, tail_from=cap, tail_bytes=tail), chunk


def _ends(session_ids: Sequence[UUID]) -> dict[UUID, int]:
    with connection.cursor() as cursor:
        cursor.execute(
            'SELECT i.id, c."offset" + length(c.data) FROM unnest(%s::uuid[]) AS i(id), LATERAL ('
            'SELECT "offset", data FROM sessions_app_logchunk WHERE session_id = i.id '
            'ORDER BY "offset" DESC LIMIT 1) c',
            [list(session_ids)],
        )
        return dict(cursor.fetchall())


def log_size(session_id: UUID) -> int:
    """Return the bytes stored of a session's log."""
    return _ends([session_id]).get(session_id, 0)


def log_read(session_id: UUID, offset: int = 0) -> Iterator[bytes]:
    """Yield the log from byte `offset`, piece by piece, a few rows at a time."""
    for begin, data in _rows(session_id, offset).iterator(chunk_size=READ_BATCH):
        yield from _fresh(begin, data, offset)


def _rows(session_id: UUID, offset: int) -> QuerySet[LogChunk, tuple[int, Any]]:
    """Return the offset and the bytes of each piece, from the one that contains `offset`."""
    chunks = LogChunk.objects.filter(session_id=session_id)
    holding = chunks.filter(offset__lte=offset).order_by("-offset").values_list("offset", flat=True)
    start = holding.first() or 0
    return chunks.filter(offset__gte=start).order_by("offset").values_list("offset", "data")


def _fresh(begin: int, data: Any, offset: int) -> Iterator[bytes]:
    fresh = bytes(data)[max(offset - begin, 0) :]
    if fresh:
        yield fresh


def log_tail_offset(session_id: UUID, lines: int) -> int:
    """Return the offset at which the last `lines` lines begin."""
    if lines == 0:
        return log_size(session_id)
    missing = lines + 1
    rows = (
        LogChunk.objects.filter(session_id=session_id)
        .order_by("-offset")
        .values_list("offset", "data")
    )
    last = True
    for start, raw in rows.iterator(chunk_size=READ_BATCH):
        data = bytes(raw)
        # A newline at the very end closes the last line and does not begin another.
        position = len(data) - 1 if last and data.endswith(b"\n") else len(data)
        last = False
        while (position := data.rfind(b"\n", 0, position)) >= 0:
            missing -= 1
            if missing == 1:
                return int(start) + position + 1
    return 0


def log_tail(session_id: UUID, lines: int) -> str:
    """Return the last lines of a log as text, fewer if they are very long."""
    start = max(log_tail_offset(session_id, lines), log_size(session_id) - TAIL_BYTES)
    return b"".join(log_read(session_id, start)).decode(errors="replace")


def log_more(session_id: UUID, offset: int) -> tuple[bytes, bool]:
    """Return the next pieces of the log from `offset`, and whether the session had ended before."""
    final = Session.objects.filter(pk=session_id, finished_at__isnull=False).exists()
    rows = _rows(session_id, offset)[:READ_BATCH]
    return b"".join(piece for row in rows for piece in _fresh(*row, offset)), final
