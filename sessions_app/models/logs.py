"""The output of sessions on standard output and standard error."""

from django.db import models


class LogChunk(models.Model):
    """A piece of one session's output; `data` begins at byte `offset` of it."""

    id = models.BigAutoField(primary_key=True)
    session_id = models.UUIDField()
    offset = models.BigIntegerField()
    data = models.BinaryField()

    class Meta:
        constraints = [
            models.UniqueConstraint("session_id", "offset", name="log_chunk_offset_unique")
        ]
