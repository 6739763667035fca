"""The pages of domains, projects and memberships."""

from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.db.models import Count, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.contrib.filters.admin import AutocompleteSelectFilter

from interfaces.admin.base import OperatorForm, RecordAdmin, column, operator
from interfaces.admin.cells import link, past
from interfaces.admin.quotas import QuotaFields, QuotaForm
from sessions_app.models import Domain, Membership, Project
from sessions_app.services.resources.tenants import (
    domain_delete,
    membership_delete,
    membership_save,
    project_delete,
    project_ensure,
    project_ever_ran,
)


def _list_url(kind: str, **query: object) -> str:
    asked = "&".join(f"{name}={value}" for name, value in query.items())
    return f"{reverse(f'admin:sessions_app_{kind}_changelist')}?{asked}"


def retry_links(**scope: int) -> SafeString:
    """Return links to the retry defaults and the switch of a domain or project."""
    query = "&".join(f"{name}={key}" for name, key in scope.items())
    pages = [
        link(f"{reverse(f'admin:sessions_app_{kind}_add')}?{query}", text)
        for kind, text in (("retrydefaults", "defaults"), ("retrysettings", "switch"))
    ]
    return format_html("{} · {}", *pages)


class TenantAdmin(QuotaFields, RecordAdmin):
    """The columns that domains and projects share."""

    @column("retries")
    def retries(self, record: Any) -> SafeString | str:
        return retry_links(**{record._meta.model_name: record.pk}) if record.pk else "-"

    @column("created", ordering="created_at")
    def created(self, record: Any) -> str:
        return past(record.created_at) if record.pk else "-"


@admin.register(Domain)
class DomainAdmin(TenantAdmin):
    """The domains. One can be deleted if it has no projects."""

    form = QuotaForm
    list_display = ("name", "project_count", "retries", "created")
    search_fields = ("name__startswith",)
    ordering = ("name",)
    fieldsets = ((None, {"fields": ("name", "projects_link", "retries", "created")}),)
    readonly_fields = ("projects_link", "retries", "created", "quotas_in_use")
    fixed_fields = ("name",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the domains with their numbers of projects, in one query."""
        found: QuerySet[Any] = super().get_queryset(request)
        counted: QuerySet[Any] = found.annotate(project_count=Count("projects"))
        return counted

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Refuse to delete a domain that has projects."""
        if obj is None or obj.projects.exists():
            return False
        return bool(super().has_delete_permission(request, obj))

    def store(self, request: HttpRequest, record: Any, form: Any) -> None:
        """Create the domain. Only the quotas of an existing one can be changed."""
        if record.pk is None:
            super().store(request, record, form)
        else:
            self.store_quotas(request, record, form)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        domain_delete(obj, by=operator(request))

    @column("projects", ordering="project_count")
    def project_count(self, domain: Any) -> SafeString:
        return link(_list_url("project", domain__id__exact=domain.pk), domain.project_count)

    @column("projects")
    def projects_link(self, domain: Any) -> SafeString | str:
        return self.project_count(domain) if domain.pk else "-"


_OF_PROJECT = ("queues", "sessions", "failures", "retries", "created")


class ProjectForm(QuotaForm):
    """The form of a project. Its address cannot be changed."""

    refusals = {"project_name_unique": ("name", "The domain has a project of this name.")}


@admin.register(Project)
class ProjectAdmin(TenantAdmin):
    """The projects. One can be deleted if nothing ever ran in it."""

    form = ProjectForm
    list_display = ("address", "domain", *_OF_PROJECT)
    list_display_links = ("address",)
    list_filter = (("domain", AutocompleteSelectFilter),)
    joined = ("domain",)
    search_fields = ("name__startswith", "domain__name__startswith")
    ordering = ("domain__name", "name")
    autocomplete_fields = ("domain",)
    fieldsets = ((None, {"fields": ("domain", "name", *_OF_PROJECT)}),)
    readonly_fields = (*_OF_PROJECT, "quotas_in_use")
    fixed_fields = ("domain", "name")

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Refuse to delete a project in which anything ever ran."""
        if obj is None or project_ever_ran(obj):
            return False
        return bool(super().has_delete_permission(request, obj))

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Return what goes with the project.

        Django's own check would ask for permission to delete each related record.
        """
        dependents = (
            "its queues, policies, defaults, quotas, webhooks and roles; tokens restricted to it"
        )
        return [*map(str, objs), dependents], {}, set(), []

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        project_delete(obj, by=operator(request))

    def store(self, request: HttpRequest, record: Any, form: Any) -> None:
        """Create the project with its default queue.

        Only the quotas of an existing one can be changed.
        """
        if record.pk is not None:
            self.store_quotas(request, record, form)
        else:
            made, _ = project_ensure(
                domain=record.domain.name, name=record.name, by=operator(request)
            )
            record.pk = made.pk

    @column("project", ordering="name")
    def address(self, project: Project) -> str:
        return project.address

    @column("queues")
    def queues(self, project: Project) -> SafeString | str:
        return link(_list_url("queue", project__id__exact=project.pk), "queues")

    @column("failures")
    def failures(self, project: Project) -> SafeString | str:
        """Return links to its failures, and to the page of what its retries were worth."""
        if not project.pk:
            return "-"
        at = (project.domain.name, project.name)
        worth = link(reverse("project-worth", args=at), "what retries were worth")
        listed = link(_list_url("failuresignature", project__id__exact=project.pk), "failures")
        return format_html("{} · {}", listed, worth)

    @column("sessions")
    def sessions(self, project: Project) -> SafeString | str:
        return link(_list_url("session", project__id__exact=project.pk), "sessions")


class MembershipForm(OperatorForm):
    """The form of a membership: a role in exactly one domain or project."""

    refusals: ClassVar = {
        "membership_one_scope": ("project", "Choose either a domain or a project."),
        "membership_role_fits_scope": ("role", "Only a domain can have a domain admin."),
        "membership_unique": ("user", "The user already has a role there: change that role."),
    }

    class Meta:
        widgets = {"role": forms.Select}


@admin.register(Membership)
class MembershipAdmin(RecordAdmin):
    """The memberships: which user has which role where."""

    form = MembershipForm
    list_display = ("user", "role", "domain", "project")
    joined = ("user", "domain", "project__domain")
    list_filter = ("role",)
    search_fields = (
        "user__username__startswith", "project__name__startswith", "domain__name__startswith"
    )  # fmt: skip
    ordering = ("user__username", "pk")
    autocomplete_fields = ("user", "domain", "project")
    fieldsets = ((None, {"fields": ("user", "role", "domain", "project")}),)
    fixed_fields = ("user",)

    def audited_as(self, record: Any) -> tuple[str, str]:
        """Return the type and the id in the audit log.

        They do not contain the role, which may change.
        """
        return "membership", f"{record.user} in {record.project or record.domain}"

    def store(self, request: HttpRequest, record: Any, form: Any) -> None:
        membership_save(record, by=operator(request))

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        membership_delete(obj, by=operator(request))
