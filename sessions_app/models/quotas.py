"""Quotas: the limits of a project or a domain, with their use."""

from django.db import models
from django.db.models import Q

from sessions_app.models.tenants import Domain, Project

QUOTA_NAME_LENGTH = 140


class ProjectUsage(models.Model):
    """One limit with its counter. A row exists only where there is a limit.

    Changes of sessions update the counters in the last statement before the commit: many
    transactions need these rows, so they are held no longer than a commit takes.
    """

    # The unique constraints index both keys.
    project = models.ForeignKey(
        Project, models.CASCADE, null=True, related_name="quotas", db_index=False
    )
    domain = models.ForeignKey(
        Domain, models.CASCADE, null=True, related_name="quotas", db_index=False
    )
    name = models.CharField(max_length=QUOTA_NAME_LENGTH)
    """`sessions`, `pending_sessions` or `resources.<name>`."""
    limit = models.DecimalField(max_digits=40, decimal_places=9, null=True)
    """The limit; None while its use is counted but the limit is not yet set."""
    used = models.DecimalField(max_digits=40, decimal_places=9, default=0)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(domain__isnull=False, project__isnull=True)
                | Q(domain__isnull=True, project__isnull=False),
                name="usage_one_scope",
            ),
            models.UniqueConstraint("project", "name", name="usage_project_name_unique"),
            models.UniqueConstraint("domain", "name", name="usage_domain_name_unique"),
        ]

    def __str__(self) -> str:
        return f"{self.project or self.domain} {self.name}"
