"""Named retry policies with their revisions, and failure categories."""

from django.db import models
from django.db.models import Q
from django.utils import timezone

from sessions_app.models.tenants import LABEL_PATTERN, NAME_LENGTH, Domain, Project


class RetryPolicy(models.Model):
    """A named policy of the cluster (no scope), a domain or a project.

    An archived policy was deleted while chains still named it: it goes on deciding for them, and
    nothing new may name it.
    """

    domain = models.ForeignKey(Domain, models.CASCADE, null=True, blank=True)
    project = models.ForeignKey(Project, models.CASCADE, null=True, blank=True)
    name = models.CharField(max_length=NAME_LENGTH)
    revision = models.PositiveIntegerField()
    """The number of the revision that decides now; the first is 1."""
    archived_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                "domain", "project", "name", name="retry_policy_name_unique", nulls_distinct=False
            ),
            models.CheckConstraint(
                condition=Q(domain__isnull=True) | Q(project__isnull=True),
                name="retry_policy_one_scope",
            ),
            models.CheckConstraint(
                condition=Q(name__regex=LABEL_PATTERN), name="retry_policy_name_label"
            ),
            models.CheckConstraint(
                condition=Q(revision__gt=0), name="retry_policy_revision_positive"
            ),
        ]
        # A chain finds its policies by name.
        indexes = [models.Index("name", name="retry_policy_by_name")]
        verbose_name_plural = "retry policies"

    def __str__(self) -> str:
        scope = self.project.address if self.project else self.domain and self.domain.name
        return f"{scope}/{self.name}" if scope else self.name

    @property
    def scope(self) -> str:
        """Return the scope for messages: `the cluster`, `domain acme` or `project acme/ml`."""
        if self.project is not None:
            return f"project {self.project.address}"
        return f"domain {self.domain.name}" if self.domain is not None else "the cluster"


class RetryPolicyRevision(models.Model):
    """The content of a policy from one edit to the next. Never changed."""

    policy = models.ForeignKey(
        RetryPolicy, models.CASCADE, related_name="revisions", db_index=False
    )
    revision = models.PositiveIntegerField()
    document = models.JSONField()
    """The canonical JSON of a `retry.policies.documents.PolicyDocument`."""
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=150)

    class Meta:
        constraints = [
            models.UniqueConstraint("policy", "revision", name="retry_policy_revision_unique")
        ]

    def __str__(self) -> str:
        return f"{self.policy} revision {self.revision}"


class FailureCategory(models.Model):
    """An operator's name for a kind of failure; the first category that matches applies."""

    name = models.CharField(max_length=NAME_LENGTH, unique=True)
    position = models.IntegerField()
    """The order in which categories are tried; ties by name."""
    matchers = models.JSONField()
    """A list of `retry.policies.categories.CategoryMatcher`, as canonical JSON."""
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        verbose_name_plural = "failure categories"

    def __str__(self) -> str:
        return self.name
