"""Quotas: what a project or a domain may have at once, with what is in use of it."""

from django.db import models
from django.db.models import Q

from sessions_app.models.tenants import Domain, Project

QUOTA_NAME_LENGTH = 140


class ProjectUsage(models.Model):
    """One limit, its counter beside it. There is a row only where there is a limit.

    Whoever moves a session moves the counters as its last statement before the commit, so that
    the rows, which many transactions want, are held for no longer than a commit takes.
    """

    # The unique constraints serve both keys.
    project = models.ForeignKey(
        Project, models.CASCADE, null=True, related_name="quotas", db_index=False
    )
    domain = models.ForeignKey(
        Domain, models.CASCADE, null=True, related_name="quotas", db_index=False
    )
    name = models.CharField(max_length=QUOTA_NAME_LENGTH)
    """`sessions`, `pending_sessions` or `resources.<name>`."""
    limit = models.DecimalField(max_digits=40, decimal_places=9, null=True)
    """None: counted already, but not yet set."""
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
