"""Tenants and access: domains, projects, memberships, tokens."""

from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone

NAME_LENGTH = 63
LABEL_PATTERN = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
"""An RFC 1123 label: the form of every name that is part of an address."""


class Domain(models.Model):
    """An organisation: the outermost tenant."""

    name = models.CharField(max_length=NAME_LENGTH, unique=True)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(name__regex=LABEL_PATTERN), name="domain_name_label")
        ]

    def __str__(self) -> str:
        return self.name


class Project(models.Model):
    """A team's share of a domain; sessions, queues and quotas belong to one."""

    domain = models.ForeignKey(Domain, models.PROTECT, related_name="projects")
    name = models.CharField(max_length=NAME_LENGTH)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint("domain", "name", name="project_name_unique"),
            models.CheckConstraint(
                condition=Q(name__regex=LABEL_PATTERN), name="project_name_label"
            ),
        ]

    def __str__(self) -> str:
        return self.address

    @property
    def address(self) -> str:
        """Return `domain/name`, as the API writes it."""
        return f"{self.domain.name}/{self.name}"


class Role(models.TextChoices):
    """The role of a member. Each role includes the ones before it."""

    VIEWER = "viewer"
    MEMBER = "member"
    MAINTAINER = "maintainer"
    DOMAIN_ADMIN = "domain_admin"


class Membership(models.Model):
    """A user's role in one project, or in every project of a domain."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="reprise_memberships"
    )
    domain = models.ForeignKey(Domain, models.CASCADE, null=True, blank=True)
    project = models.ForeignKey(Project, models.CASCADE, null=True, blank=True)
    role = models.CharField(max_length=16, choices=Role.choices)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(domain__isnull=False, project__isnull=True)
                | Q(domain__isnull=True, project__isnull=False),
                name="membership_one_scope",
            ),
            models.CheckConstraint(
                condition=Q(role__in=Role.values)
                & (~Q(role="domain_admin") | Q(domain__isnull=False)),
                name="membership_role_fits_scope",
            ),
            models.UniqueConstraint(
                "user", "domain", "project", name="membership_unique", nulls_distinct=False
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user} is {self.role} of {self.project or self.domain}"


class ApiToken(models.Model):
    """A bearer token; only its hash is stored.

    It acts for a user, or for the executor that it names (and then for nothing else).
    """

    name = models.CharField(max_length=128)
    prefix = models.CharField(max_length=16)
    digest = models.CharField(max_length=64, unique=True)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, null=True, blank=True, related_name="api_tokens"
    )
    executor_name = models.CharField(max_length=NAME_LENGTH, blank=True)
    project = models.ForeignKey(Project, models.CASCADE, null=True, blank=True)
    read_only = models.BooleanField(default=False)
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    made_with = models.CharField(max_length=16, blank=True, default="", db_default="")
    """The prefix of the token with which it was created; "" if there was none."""
    budget = models.BigIntegerField(null=True, editable=False)
    """The id of the token with which it shares a limit of calls; null if it has its own."""

    memberships: list[list[Any]] | None = None
    """Its user's memberships, as the fields of `Held`, if they were read together with it."""

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(user__isnull=False, executor_name="")
                | (Q(user__isnull=True) & ~Q(executor_name="")),
                name="token_one_bearer",
            )
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    @property
    def budget_key(self) -> int:
        """Return the key of the `RequestBudget` that its calls count against."""
        return self.pk if self.budget is None else self.budget


class RequestBudget(models.Model):
    """The calls left to a token, or to a group of callers without one.

    It refills within a minute. The table is unlogged: after a crash of the database every budget is
    full.
    """

    key = models.BigIntegerField(primary_key=True)
    """A token's `budget_key`; below 0 for a group of addresses or a browser's user."""
    available = models.FloatField()
    granted = models.FloatField()
    """The calls granted by the last statement to its process."""
    refilled_at = models.DateTimeField()

    def __str__(self) -> str:
        return str(self.key)
