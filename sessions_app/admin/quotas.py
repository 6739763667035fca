"""The quotas of a project or a domain, shown as a section of its page."""

from decimal import Decimal
from typing import Any, ClassVar

from django import forms
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from unfold.widgets import UnfoldAdminIntegerFieldWidget, UnfoldAdminTextareaWidget

from podspec.quantity import parse_resource
from sessions_app.admin.base import OperatorForm, column, operator
from sessions_app.core.quotas import PENDING, RESOURCES, SESSIONS
from sessions_app.in_force.config_scope import ConfigScope
from sessions_app.models import Domain
from sessions_app.selectors.quotas import quotas_standing
from sessions_app.services.resources.quotas import quotas_put

MOST = 1_000_000_000
MOST_RESOURCES = 64
LONGEST_NAME = 128
_COUNTS = {"quota_sessions": SESSIONS, "quota_pending_sessions": PENDING}
_RESOURCES_FIELD = "quota_resources"


def quota_scope(record: Any) -> ConfigScope:
    """Return the scope of a project or a domain."""
    return ConfigScope(record) if isinstance(record, Domain) else ConfigScope(project=record)


def _count_field(label: str, help_text: str) -> forms.IntegerField:
    return forms.IntegerField(
        required=False,
        min_value=0,
        max_value=MOST,
        label=label,
        widget=UnfoldAdminIntegerFieldWidget,
        help_text=help_text,
    )


class QuotaForm(OperatorForm):
    """The limits beside the record's own fields; an empty field means no limit."""

    quota_sessions = _count_field("sessions", "on executors at once; what is over it waits")
    quota_pending_sessions = _count_field(
        "pending sessions", "waiting at once; what is over it is refused, retries apart"
    )
    quota_resources = forms.CharField(
        required=False,
        max_length=10_000,
        label="resources",
        widget=UnfoldAdminTextareaWidget({"rows": 4, "class": "yaml-text"}),
        help_text="one a line, such as memory: 64Gi; what those on executors ask for together",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not self.instance.pk:
            return
        scope = quota_scope(self.instance)
        own = {each.name: each.limit for each in quotas_standing(scope) if each.scope == scope.name}
        for field, name in _COUNTS.items():
            self.initial[field] = int(own[name]) if name in own else None
        self.initial[_RESOURCES_FIELD] = "\n".join(
            f"{name.removeprefix(RESOURCES)}: {limit}"
            for name, limit in own.items()
            if name.startswith(RESOURCES)
        )

    def clean_quota_resources(self) -> dict[str, Decimal]:
        """Return the limits by the names of their quotas."""
        found: dict[str, Decimal] = {}
        lines = [line for line in self.cleaned_data[_RESOURCES_FIELD].splitlines() if line.strip()]
        if len(lines) > MOST_RESOURCES:
            raise ValidationError(f"No more than {MOST_RESOURCES} resources.")
        for line in lines:
            name, colon, amount = (part.strip() for part in line.rpartition(":"))
            if not colon or not 0 < len(name) <= LONGEST_NAME:
                raise ValidationError(f"{line!r} is not of the form memory: 64Gi.")
            try:
                found[f"{RESOURCES}{name}"] = parse_resource(amount)
            except ValueError as error:
                raise ValidationError(f"{name}: {error}.") from None
        return found

    def limits(self) -> dict[str, Decimal | None]:
        """Return all limits of the scope by the names of the quotas."""
        counts = {name: self.cleaned_data.get(field) for field, name in _COUNTS.items()}
        found: dict[str, Decimal | None] = {
            name: None if count is None else Decimal(count) for name, count in counts.items()
        }
        found.update(self.cleaned_data.get(_RESOURCES_FIELD, {}))
        return found

    @property
    def changes_quotas(self) -> bool:
        """Return whether any limit was changed."""
        return bool({*_COUNTS, _RESOURCES_FIELD} & set(self.changed_data))


class QuotaFields:
    """A mixin for the page of a project or a domain: a section of quotas once the record exists."""

    quota_fieldset: ClassVar[Any] = (
        "Quotas",
        {"fields": (*_COUNTS, _RESOURCES_FIELD, "quotas_in_use")},
    )

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """Add the section of quotas for an existing record."""
        own = super().get_fieldsets(request, obj)  # type: ignore[misc]
        return own if obj is None else [*own, self.quota_fieldset]

    def store_quotas(self, request: HttpRequest, record: Any, form: Any) -> None:
        """Set the changed quotas after the page's own transaction.

        New counters are committed before they are filled, because everybody else waits while they
        are created.
        """
        if form.changes_quotas:
            limits, by = form.limits(), operator(request)
            transaction.on_commit(lambda: quotas_put(quota_scope(record), limits, by=by))

    @column("in use")
    def quotas_in_use(self, record: Any) -> SafeString | str:
        """Return all limits that apply here: the scope's own, and those of its domain."""
        rows = quotas_standing(quota_scope(record)) if record.pk else []
        lines = ((each.name, each.used, each.limit, each.scope) for each in rows)
        return format_html_join("", "<p>{}: {} of {} ({})</p>", lines) or "no limits"
