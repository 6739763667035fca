"""The base classes and helpers of all admin pages: audit links, error messages, cheap lists."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from django import forms
from django.contrib import messages
from django.contrib.admin import ShowFacets
from django.contrib.admin.widgets import AutocompleteSelect, AutocompleteSelectMultiple
from django.contrib.auth.models import User
from django.core.exceptions import NON_FIELD_ERRORS, PermissionDenied, ValidationError
from django.core.paginator import Paginator
from django.core.validators import RegexValidator
from django.db import IntegrityError, models
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import cached_property
from django.utils.http import urlencode
from unfold.admin import ModelAdmin
from unfold.decorators import display
from unfold.views import ChangeList

from interfaces.templatetags.reprise import tone
from sessions_app.authorization import Actor
from sessions_app.core.errors import DomainError, InvalidInput
from sessions_app.core.states import Status
from sessions_app.models import Project
from sessions_app.models.tenants import LABEL_PATTERN
from sessions_app.selectors.tenants import projects_all
from sessions_app.services.write.records import record_delete, record_save, record_type

COUNTED = 1_000
"""Most rows that a list counts and pages through. Filters lead to older rows."""
_VARIANTS = {
    "waiting": "warning",
    "live": "info",
    "good": "success",
    "bad": "danger",
    "off": "default",
}
STATUS_LABELS = {status.value: _VARIANTS[tone(status)] for status in Status}
_CONSTRAINT = re.compile(r"Constraint “(\w+)” is violated")
_KEY = re.compile(r"[0-9]{1,18}", re.ASCII)
_LABEL = RegexValidator(
    LABEL_PATTERN, "Up to 63 lower-case letters, digits and '-', with no '-' at an end."
)


class CappedPaginator(Paginator):  # type: ignore[type-arg]  # not generic at run time
    """A paginator that counts at most `COUNTED` rows, so that a list of a million rows stays
    cheap."""

    template_name = "admin/capped_pagination.html"

    @cached_property
    def count(self) -> int:
        """Return the number of rows, at most `COUNTED`."""
        rows: Any = self.object_list
        if not isinstance(rows, models.QuerySet):
            return min(len(rows), COUNTED)
        # Only ids are counted, so that the list's other columns are not computed.
        return rows.order_by().values("pk")[: COUNTED + 1].count()

    @property
    def most(self) -> int:
        """Return the most rows that can be paged through."""
        return COUNTED

    @property
    def capped(self) -> bool:
        """Return whether there are more rows than can be paged through."""
        return self.count > COUNTED


class OperatorChangeList(ChangeList):  # type: ignore[misc]  # the theme is untyped
    """Django's list without the count of all rows before filters."""

    def get_results(self, request: HttpRequest) -> None:
        """Read the page, and skip the count of all unfiltered rows."""
        super().get_results(request)
        self.full_result_count = self.result_count


class OperatorForm(forms.ModelForm):  # type: ignore[type-arg]  # likewise
    """A form that shows the database's refusals at the field they concern."""

    refusals: ClassVar[dict[str, tuple[str, str]]] = {}
    """Name of a constraint -> field and message."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if isinstance(field := self.fields.get("name"), forms.CharField) and self._is_label():
            field.validators.append(_LABEL)

    def _is_label(self) -> bool:
        constraints = self._meta.model._meta.constraints
        return any(constraint.name.endswith("name_label") for constraint in constraints)

    def _update_errors(self, errors: ValidationError) -> None:
        # Django's own messages would only name the constraints.
        found = errors.error_dict if hasattr(errors, "error_dict") else {}
        for error in found.pop(NON_FIELD_ERRORS, ()):
            text = " ".join(error.messages)
            named = _CONSTRAINT.search(text)
            field, message = self.refusals.get(named[1] if named else "", ("", text))
            if message:
                self.add_error(field if field in self.fields else None, message)
        if found:
            super()._update_errors(errors)  # type: ignore[misc]


class KnownOnly(AutocompleteSelect):
    """Django's widget, made safe against values that are no keys when the form is shown again."""

    def optgroups(self, name: str, value: Sequence[str], attr: Any = None) -> Any:
        """Ignore values that are no keys."""
        keys = [each for each in value if not each or _KEY.fullmatch(str(each))]
        return super().optgroups(name, keys, attr)


class KnownOnlyMultiple(KnownOnly, AutocompleteSelectMultiple):
    """The same for several values."""


class OperatorAdmin(ModelAdmin):  # type: ignore[misc]  # the theme is untyped
    """The base of all pages. Django's own log is off, because the services keep the audit log."""

    show_full_result_count = False
    # Counting the rows of each filter choice would take a scan for each.
    show_facets = ShowFacets.NEVER
    list_fullwidth = True
    list_filter_submit = True
    compressed_fields = True
    warn_unsaved_form = True
    joined: ClassVar[tuple[str, ...]] = ()
    """The related rows that the names of the records need, in lists and on pages."""

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        found: models.QuerySet[Any] = super().get_queryset(request)
        return found.select_related(*self.joined) if self.joined else found

    def log_addition(self, *_: Any) -> None:
        """Do nothing: the service has written the audit entry."""

    log_change = log_deletions = log_addition

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Use the widget that is safe against values that are no keys."""
        if db_field.name in self.get_autocomplete_fields(request):
            kwargs.setdefault("widget", KnownOnly(db_field, self.admin_site))
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Use the widget that is safe against values that are no keys."""
        if db_field.name in self.get_autocomplete_fields(request):
            kwargs.setdefault("widget", KnownOnlyMultiple(db_field, self.admin_site))
        return super().formfield_for_manytomany(db_field, request, **kwargs)

    def get_field_queryset(self, db: Any, db_field: Any, request: HttpRequest) -> Any:
        if db_field.remote_field.model is Project:
            return projects_all().select_related("domain")
        return super().get_field_queryset(db, db_field, request)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> Any:
        return OperatorChangeList

    def audited_as(self, record: Any) -> tuple[str, str]:
        """Return the type and the id of a record in the audit log."""
        return record_type(type(record)), str(record)

    def audit_url(self, record: Any) -> str:
        """Return the address of the list of a record's audit entries."""
        kind, key = self.audited_as(record)
        query = urlencode({"object_type": kind, "q": key})
        return f"{reverse('admin:sessions_app_auditentry_changelist')}?{query}"

    def render(
        self, request: HttpRequest, template: str, title: str, **context: Any
    ) -> HttpResponse:
        """Return a page made with one of our templates, with the context that its frame needs."""
        shared = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": title,
            "now": timezone.now(),
        }
        return TemplateResponse(request, f"admin/{template}.html", {**shared, **context})

    def missing(self, request: HttpRequest, key: object) -> HttpResponse:
        """Redirect to the admin's first page with a message that the record does not exist."""
        found: HttpResponse = self._get_obj_does_not_exist_redirect(request, self.opts, str(key))
        return found

    def history_view(
        self,
        request: HttpRequest,
        object_id: str,
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Redirect to the audit entries of one record."""
        record = self.get_object(request, object_id)
        if record is None:
            return self.missing(request, object_id)
        return HttpResponseRedirect(self.audit_url(record))


class RecordAdmin(OperatorAdmin):
    """Records that operators change. Each change gets an audit entry with before and after."""

    form = OperatorForm
    fixed_fields: ClassVar[Sequence[str]] = ()
    """Fields that cannot be changed later: they are part of an address or place of the record."""

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        """Make the fixed fields of an existing record read-only."""
        fixed = self.fixed_fields if obj is not None else ()
        return [*super().get_readonly_fields(request, obj), *fixed]

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> Any:
        """Show the form, and show refusals of the database or of a service as messages."""
        try:
            return super().changeform_view(request, object_id, form_url, extra_context)
        except IntegrityError:
            refusal = "Somebody else has just changed this. Check the new values and try again."
        except DomainError as error:
            refusal = f"{error.title}: {error.detail}."
        messages.error(request, refusal)
        return HttpResponseRedirect(request.get_full_path())

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> Any:
        """Show the page, and show a service's refusal as a message."""
        try:
            return super().delete_view(request, object_id, extra_context)
        except DomainError as error:
            messages.error(request, f"{error.title}: {error.detail}.")
        return HttpResponseRedirect(request.get_full_path())

    def store(self, request: HttpRequest, record: Any, form: Any) -> None:
        """Write the record by its service. Raises `InvalidInput`."""
        many = {
            field.name: form.cleaned_data[field.name]
            for field in self.opts.many_to_many
            if field.name in form.cleaned_data
        }
        record_save(record, by=operator(request), fields=form.changed_data, many=many)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        self.store(request, obj, form)

    def save_related(self, *_: Any) -> None:
        """Do nothing: the service has also written the many-to-many members."""

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        record_delete(obj, by=operator(request))

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        """Remove the bulk deletion: each record is deleted on a page that says what goes with
        it."""
        actions: dict[str, Any] = super().get_actions(request)
        actions.pop("delete_selected", None)
        return actions


class ReadOnlyAdmin(OperatorAdmin):
    """Records that the services write and nobody edits."""

    ordering: tuple[str, ...] = ("-pk",)
    paginator = CappedPaginator
    sortable_by = ()
    list_per_page = 50
    actions: Any = ()

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class LookedUpAdmin(ReadOnlyAdmin):
    """Records that are searched by an index. Django's own search would scan all rows."""

    def found(self, queryset: models.QuerySet[Any], text: str) -> models.QuerySet[Any]:
        """Return the rows that match a search for `text`."""
        raise NotImplementedError

    def get_search_results(
        self,
        request: HttpRequest,
        queryset: models.QuerySet[Any],
        search_term: str,
    ) -> tuple[models.QuerySet[Any], bool]:
        """Return the rows that match the search, or all rows if the text is empty."""
        text = search_term.strip()
        return (self.found(queryset, text) if text else queryset), False


class OwnPage:
    """A mixin that replaces Django's form by a page of our own. It must precede Django's class."""

    def show(self, request: HttpRequest, object_id: str | None) -> HttpResponse:
        """Return the page of a record, or the page for a new one."""
        raise NotImplementedError

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Return our own page."""
        return self.show(request, object_id)


Method = TypeVar("Method", bound=Callable[..., Any])


def read_only(request: HttpRequest, object_id: str | None) -> None:
    """Refuse every request but a GET or HEAD of an existing record."""
    if object_id is None or request.method not in {"GET", "HEAD"}:
        raise PermissionDenied


def column(
    description: str, *, ordering: str | None = None, label: Mapping[str, str] | None = None
) -> Callable[[Method], Method]:
    """Return a decorator that makes a method a column; `label` maps its values to theme colours."""
    found: Callable[[Method], Method] = display(
        description=description, ordering=ordering, label=label
    )
    return found


def operator(request: HttpRequest) -> str:
    """Return the signed-in user's name as the audit log keeps it."""
    return actor_of(request).name


def actor_of(request: HttpRequest) -> Actor:
    """Return the signed-in user. The site admits nobody else."""
    if not isinstance(request.user, User):
        raise PermissionDenied
    return Actor(user=request.user)


def add_errors(form: forms.BaseForm, error: InvalidInput, strip: str = "") -> None:
    """Add a service's errors to the form fields that they name."""
    for name, texts in error.errors.items():
        field = name.removeprefix(strip)
        form.add_error(field if field in form.fields else None, [*texts])
