"""Admin pages of users and groups, in the theme; changes by operators are audited."""

from typing import Any

from django.contrib import admin, messages
from django.contrib.auth.admin import GroupAdmin as DjangosGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangosUserAdmin
from django.contrib.auth.models import Group, User
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.defaultfilters import pluralize
from django.urls import reverse
from django.utils.safestring import SafeString
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from interfaces.admin.base import RecordAdmin, column, operator
from interfaces.admin.cells import link, past
from reprise.admin_site import tasks as admin_tasks
from sessions_app.audit.context import audited
from sessions_app.services.access import unisolated

admin.site.unregister([User, Group])
admin_tasks.register(admin.site)


class UserForm(UserChangeForm):  # type: ignore[misc]  # the theme is untyped
    """A form that stops operators from locking themselves out."""

    operator: User

    def clean(self) -> dict[str, Any]:
        """Refuse to remove the operator's own rights."""
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if self.instance.pk == self.operator.pk:
            for field in ("is_active", "is_superuser"):
                if field in cleaned and not cleaned[field]:
                    self.add_error(field, "You cannot remove this from yourself.")
        return cleaned


@admin.register(User)
class UserAdmin(RecordAdmin, DjangosUserAdmin):  # type: ignore[type-arg,misc]  # as above
    """The admin page of users. They are only deactivated: their actions stay theirs."""

    form = UserForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    list_display = ("username", "email", "is_active", "is_superuser", "memberships", "seen")
    list_filter = ("is_superuser", "is_active")
    search_fields = ("username__startswith", "email__startswith")
    ordering = ("username",)
    filter_horizontal = ()
    fieldsets = (
        (None, {"fields": ("username", "password")}),
        ("Person", {"fields": ("first_name", "last_name", "email")}),
        ("Rights", {"fields": ("is_active", "is_superuser", "memberships")}),
        ("Times", {"fields": ("seen", "date_joined")}),
    )
    add_fieldsets = ((None, {"fields": ("username", "usable_password", "password1", "password2")}),)
    readonly_fields = ("memberships", "seen", "date_joined")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the users with their number of memberships, in the same query."""
        found: QuerySet[Any] = super().get_queryset(request)
        counted: QuerySet[Any] = found.annotate(role_count=Count("reprise_memberships"))
        return counted

    def get_form(
        self,
        request: HttpRequest,
        obj: Any = None,
        change: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Return the form class, which needs to know the operator."""
        form: Any = super().get_form(request, obj, change=change, **kwargs)
        form.operator = request.user
        return form

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Forbid deletion."""
        return False

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Save the user; after creating one, warn if runs are not isolated."""
        super().save_model(request, obj, form, change)
        for text in [] if change else unisolated.warnings():
            messages.warning(request, text)

    def user_change_password(
        self,
        request: HttpRequest,
        id: str,  # noqa: A002  # Django's name
        form_url: str = "",
    ) -> HttpResponse:
        """Change a password, as an audited action."""
        with audited(by=operator(request)):
            response: HttpResponse = super().user_change_password(request, id, form_url)
        return response

    @column("roles", ordering="role_count")
    def memberships(self, user: Any) -> SafeString | str:
        if user.pk is None:
            return "-"
        url = reverse("admin:sessions_app_membership_changelist")
        text = f"{user.role_count} role{pluralize(user.role_count)}"
        return link(f"{url}?user__id__exact={user.pk}", text)

    @column("signed in", ordering="last_login")
    def seen(self, user: User) -> str:
        return past(user.last_login)


@admin.register(Group)
class GroupAdmin(RecordAdmin, DjangosGroupAdmin):  # type: ignore[misc]  # as above
    """Django's groups. They grant nothing in Reprise, whose roles are memberships."""
