"""What the pages of the admin share: auditing, refusals, lists that stay cheap."""

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

from sessions_app.authorization import Actor
from sessions_app.core.errors import DomainError, InvalidInput
from sessions_app.core.states import Status
from sessions_app.models import Project
from sessions_app.models.tenants import LABEL_PATTERN
from sessions_app.selectors.tenants import projects_all
from sessions_app.services.write.records import record_delete, record_save, record_type
from sessions_app.templatetags.reprise import tone

COUNTED = 1_000
"""Rows that a list counts and pages through; who looks for older ones narrows it."""
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
    """Counts no further than it pages: a list of a million rows costs as much as one of 1,000."""

    template_name = "admin/capped_pagination.html"

    @cached_property
    def count(self) -> int:
        """Rows of the list, at most `COUNTED`."""
        rows: Any = self.object_list
        if not isinstance(rows, models.QuerySet):
            return min(len(rows), COUNTED)
        # Ids only: whatever else the list shows is not worked out for the count.
        return rows.order_by().values("pk")[: COUNTED + 1].count()

    @property
    def most(self) -> int:
        """Rows that can be paged through."""
        return COUNTED

    @property
    def capped(self) -> bool:
        """Whether there are more rows than can be paged through."""
        return self.count > COUNTED


class OperatorChangeList(ChangeList):  # type: ignore[misc]  # the theme is untyped
    """Django's, without the wish to know how many rows there would be without filters."""

    def get_results(self, request: HttpRequest) -> None:
        """Django's hook."""
        super().get_results(request)
        self.full_result_count = self.result_count


class OperatorForm(forms.ModelForm):  # type: ignore[type-arg]  # likewise
    """A form whose refusals stand at the field that they are about."""

    refusals: ClassVar[dict[str, tuple[str, str]]] = {}
    """Name of a constraint -> field, what to say."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if isinstance(field := self.fields.get("name"), forms.CharField) and self._is_label():
            field.validators.append(_LABEL)

    def _is_label(self) -> bool:
        constraints = self._meta.model._meta.constraints
        return any(constraint.name.endswith("name_label") for constraint in constraints)

    def _update_errors(self, errors: ValidationError) -> None:
        # Django's, which would say only the names of the constraints.
        found = errors.error_dict if hasattr(errors, "error_dict") else {}
        for error in found.pop(NON_FIELD_ERRORS, ()):
            text = " ".join(error.messages)
            named = _CONSTRAINT.search(text)
            field, told = self.refusals.get(named[1] if named else "", ("", text))
            if told:
                self.add_error(field if field in self.fields else None, told)
        if found:
            super()._update_errors(errors)  # type: ignore[misc]


class KnownOnly(AutocompleteSelect):
    """Django's, which stumbles over a value that is no key when it shows the form again."""

    def optgroups(self, name: str, value: Sequence[str], attr: Any = None) -> Any:
        """Django's hook."""
        keys = [each for each in value if not each or _KEY.fullmatch(str(each))]
        return super().optgroups(name, keys, attr)


class KnownOnlyMultiple(KnownOnly, AutocompleteSelectMultiple):
    """Likewise for several values."""


class OperatorAdmin(ModelAdmin):  # type: ignore[misc]  # the theme is untyped
    """Base of all: no log of its own, since the audit log is kept by the services."""

    show_full_result_count = False
    # A count for each choice of each filter is as many scans.
    show_facets = ShowFacets.NEVER
    list_fullwidth = True
    list_filter_submit = True
    compressed_fields = True
    warn_unsaved_form = True

    def log_addition(self, *_: Any) -> None:
        """Django's hook: the service has audited it."""

    log_change = log_deletions = log_addition

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Django's hook."""
        if db_field.name in self.get_autocomplete_fields(request):
            kwargs.setdefault("widget", KnownOnly(db_field, self.admin_site))
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Django's hook."""
        if db_field.name in self.get_autocomplete_fields(request):
            kwargs.setdefault("widget", KnownOnlyMultiple(db_field, self.admin_site))
        return super().formfield_for_manytomany(db_field, request, **kwargs)

    def get_field_queryset(self, db: Any, db_field: Any, request: HttpRequest) -> Any:
        """Django's hook: what is chosen from, with all that its names are made of."""
        if db_field.remote_field.model is Project:
            return projects_all().select_related("domain")
        return super().get_field_queryset(db, db_field, request)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> Any:
        """Django's hook."""
        return OperatorChangeList

    def audited_as(self, record: Any) -> tuple[str, str]:
        """The type and the id under which the audit log knows a record."""
        return record_type(type(record)), str(record)

    def audit_url(self, record: Any) -> str:
        """Where the audit entries of a record are listed."""
        kind, key = self.audited_as(record)
        query = urlencode({"object_type": kind, "q": key})
        return f"{reverse('admin:sessions_app_auditentry_changelist')}?{query}"

    def render(
        self, request: HttpRequest, template: str, title: str, **context: Any
    ) -> HttpResponse:
        """One of our templates, with what the frame around it wants to know."""
        shared = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": title,
            "now": timezone.now(),
        }
        return TemplateResponse(request, f"admin/{template}.html", {**shared, **context})

    def missing(self, request: HttpRequest, key: object) -> HttpResponse:
        """Back to the first page, with the word that there is no such record."""
        found: HttpResponse = self._get_obj_does_not_exist_redirect(request, self.opts, str(key))
        return found

    def history_view(
        self,
        request: HttpRequest,
        object_id: str,
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """The audit entries of one record."""
        record = self.get_object(request, object_id)
        if record is None:
            return self.missing(request, object_id)
        return HttpResponseRedirect(self.audit_url(record))


class RecordAdmin(OperatorAdmin):
    """Records that operators change, with an audit entry of before and after."""

    form = OperatorForm
    fixed_fields: ClassVar[Sequence[str]] = ()
    """Fields that are chosen once: part of an address, or the place of a record."""

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        """Django's hook."""
        fixed = self.fixed_fields if obj is not None else ()
        return [*super().get_readonly_fields(request, obj), *fixed]

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> Any:
        """Django's hook. What only the database or a service refuses is told, too."""
        try:
            return super().changeform_view(request, object_id, form_url, extra_context)
        except IntegrityError:
            refusal = "Somebody else has just changed this. Look at it and try again."
        except DomainError as error:
            refusal = f"{error.title}: {error.detail}."
        messages.error(request, refusal)
        return HttpResponseRedirect(request.get_full_path())

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> Any:
        """Django's hook. What a service refuses is told."""
        try:
            return super().delete_view(request, object_id, extra_context)
        except DomainError as error:
            messages.error(request, f"{error.title}: {error.detail}.")
        return HttpResponseRedirect(request.get_full_path())

    def store(self, request: HttpRequest, record: Any, form: Any) -> None:
        """Write the record by its service; raises `InvalidInput`."""
        many = {
            field.name: form.cleaned_data[field.name]
            for field in self.opts.many_to_many
            if field.name in form.cleaned_data
        }
        record_save(record, by=operator(request), fields=form.changed_data, many=many)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Django's hook."""
        self.store(request, obj, form)

    def save_related(self, *_: Any) -> None:
        """Django's hook: the service has written the members, too."""

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        """Django's hook."""
        record_delete(obj, by=operator(request))

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        """Django's hook: records are deleted one by one, each on a page that says what goes."""
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
        """Django's hook."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Django's hook."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Django's hook."""
        return False


class LookedUpAdmin(ReadOnlyAdmin):
    """Records that are looked up by an index, where Django's search would go over all of them."""

    def found(self, queryset: models.QuerySet[Any], text: str) -> models.QuerySet[Any]:
        """The rows that a search for `text` means."""
        raise NotImplementedError

    def get_search_results(
        self,
        request: HttpRequest,
        queryset: models.QuerySet[Any],
        search_term: str,
    ) -> tuple[models.QuerySet[Any], bool]:
        """Django's hook: no text, no search."""
        text = search_term.strip()
        return (self.found(queryset, text) if text else queryset), False


class OwnPage:
    """Mixed in before Django's class: a page of our own in place of its form."""

    def show(self, request: HttpRequest, object_id: str | None) -> HttpResponse:
        """The page of a record, or of none yet."""
        raise NotImplementedError

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Django's hook."""
        return self.show(request, object_id)


Method = TypeVar("Method", bound=Callable[..., Any])


def read_only(request: HttpRequest, object_id: str | None) -> None:
    """Let through who looks at a record that is there to be read."""
    if object_id is None or request.method not in {"GET", "HEAD"}:
        raise PermissionDenied


def column(
    description: str, *, ordering: str | None = None, label: Mapping[str, str] | None = None
) -> Callable[[Method], Method]:
    """A method as a column of a list; `label` maps its values to the theme's colours."""
    found: Callable[[Method], Method] = display(
        description=description, ordering=ordering, label=label
    )
    return found


def operator(request: HttpRequest) -> str:
    """The name of who is signed in, as the audit log keeps it."""
    return actor_of(request).name


def actor_of(request: HttpRequest) -> Actor:
    """Who is signed in; the site lets nobody else come here."""
    if not isinstance(request.user, User):
        raise PermissionDenied
    return Actor(user=request.user)


def add_errors(form: forms.BaseForm, error: InvalidInput, strip: str = "") -> None:
    """Put what a service refused at the fields that it names."""
    for name, texts in error.errors.items():
        field = name.removeprefix(strip)
        form.add_error(field if field in form.fields else None, [*texts])
