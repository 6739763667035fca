"""The quotas of a project or a domain, shown as a section of its page."""

from typing import Any, ClassVar

from django.db import transaction
from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from interfaces.admin.base import OperatorForm, column, operator
from interfaces.admin.theme import themed
from interfaces.forms.quotas import COUNTS, RESOURCES_FIELD, QuotaTexts, quotas_of
from sessions_app.in_force.config_scope import ConfigScope
from sessions_app.models import Domain
from sessions_app.selectors.quotas import quota_uses
from sessions_app.services.resources.quotas import quotas_put


def quota_scope(record: Any) -> ConfigScope:
    """Return the scope of a project or a domain."""
    return ConfigScope(record) if isinstance(record, Domain) else ConfigScope(project=record)


class QuotaForm(QuotaTexts, OperatorForm):
    """The limits beside the record's own fields."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        themed(self)
        if self.instance.pk:
            self.initial.update(quotas_of(quota_scope(self.instance)))


class QuotaFields:
    """A mixin for the page of a project or a domain: a section of quotas once the record exists."""

    quota_fieldset: ClassVar[Any] = (
        "Quotas",
        {"fields": (*COUNTS, RESOURCES_FIELD, "quotas_in_use")},
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
        rows = quota_uses(quota_scope(record)) if record.pk else []
        shown = ((each.name, each.used, each.limit, each.scope) for each in rows)
        return format_html_join("", "<p>{}: {} of {} ({})</p>", shown) or "no limits"
