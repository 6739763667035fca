"""Who did what."""

from django.db import models
from django.db.models import Q
from django.utils import timezone

ENGINE = "reprise"
"""The author of what no person did."""


class AuditEntry(models.Model):
    """One act of a person or of the engine. Append-only."""

    id = models.BigAutoField(primary_key=True)
    time = models.DateTimeField(default=timezone.now)
    actor = models.CharField(max_length=150)
    action = models.CharField(max_length=64)
    object_type = models.CharField(max_length=32)
    object_id = models.CharField(max_length=200)
    project = models.CharField(max_length=128, blank=True)
    data = models.JSONField(default=dict)

    class Meta:
        indexes = [
            models.Index("object_type", "object_id", "id", name="audit_object"),
            # What people did; the engine's own acts are a thousand times as many.
            models.Index("id", condition=~Q(actor=ENGINE), name="audit_people"),
        ]
        verbose_name = "audit entry"
        verbose_name_plural = "audit entries"

    def __str__(self) -> str:
        return f"{self.action} {self.object_id}"
