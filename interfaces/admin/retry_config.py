"""The pages of retry defaults, bounds and switches of the cluster, domains and projects."""

from collections.abc import Callable
from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from unfold.widgets import (
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminRadioSelectWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
)

from interfaces.admin.base import KnownOnly, OperatorAdmin, OwnPage, add_errors, column, operator
from interfaces.admin.budgets import budget_context
from interfaces.admin.cells import change_url, past
from interfaces.admin.theme import themed
from interfaces.forms import defaults
from interfaces.forms.defaults import DefaultsForm
from interfaces.forms.json_settings import BREAKER, breaker_field, budget_field
from interfaces.forms.limits import LimitField
from interfaces.forms.pod_defaults import PODS, PodDefaultsField
from interfaces.forms.queues import policies_offered
from retry.engine.decide import Mode
from retry.engine.decision import GLOBAL_MAX_RETRIES
from retry.policies.limits import UNLIMITED, Limit, limit_of, most_of
from retry.policies.merge import merge
from sessions_app.core.errors import InvalidInput
from sessions_app.core.stored_numbers import in_short
from sessions_app.in_force.config_scope import ConfigScope
from sessions_app.in_force.layers import bound_layers, policy_layers
from sessions_app.in_force.retry_scope import settings_in_force
from sessions_app.models import RetryDefaults, RetrySettings
from sessions_app.models.tenants import NAME_LENGTH
from sessions_app.selectors.counts import Waiting, retries_waiting
from sessions_app.selectors.retry_config import defaults_of, settings_of
from sessions_app.selectors.tenants import domains_all, projects_all
from sessions_app.services.resources.policy_names import policies_require
from sessions_app.services.resources.retry_config import (
    EVERYWHERE,
    SETTINGS,
    retry_defaults_delete,
    retry_defaults_put,
    retry_settings_put,
)

MOST = 1_000_000
_LINES = UnfoldAdminTextareaWidget(attrs={"rows": 3, "class": "yaml-text"})
CLUSTERS = [name for name in SETTINGS if name not in {*EVERYWHERE, BREAKER, PODS}]
_PLACES: dict[str, Callable[[], QuerySet[Any]]] = {"domain": domains_all, "project": projects_all}


class ScopeAdmin(OwnPage, OperatorAdmin):
    """The base of pages for rows of a scope. A page edits the scope, even if it has no row yet."""

    joined = ("domain", "project__domain")
    search_fields = ("domain__name__startswith", "project__name__startswith")
    ordering = ("domain__name", "project__domain__name", "project__name")
    list_display_links = ("scope",)

    def show(self, request: HttpRequest, object_id: str | None) -> HttpResponse:
        """Return the page of the row's scope, of the scope in the address, or a choice of
        scopes."""
        if object_id is not None:
            row = self.get_object(request, object_id)
            if row is None:
                return self.missing(request, object_id)
            return self.edit(request, ConfigScope(row.domain, row.project), row)
        scope = self._asked(request)
        if scope is None:
            return self._choose(request)
        row = self.stored(scope)
        if row is not None and request.method != "POST":
            return HttpResponseRedirect(change_url(self.opts.model_name, row.pk))
        return self.edit(request, scope, row)

    def stored(self, scope: ConfigScope) -> Any:
        """Return the row of a scope, or None."""
        raise NotImplementedError

    def edit(self, request: HttpRequest, scope: ConfigScope, row: Any) -> HttpResponse:
        """Return the page of one scope."""
        raise NotImplementedError

    def _asked(self, request: HttpRequest) -> ConfigScope | None:
        """Return the scope that the address names, or None."""
        for level, places in _PLACES.items():
            if key := request.GET.get(level):
                try:
                    found = places().filter(pk=key).first()
                except (ValueError, OverflowError, ValidationError):
                    found = None
                return ConfigScope(**{level: found}) if found else None
        return ConfigScope() if "cluster" in request.GET else None

    def _choose(self, request: HttpRequest) -> HttpResponse:
        if set(request.GET) & _PLACES.keys():
            messages.error(request, "There is no such domain or project.")
        form = forms.Form()
        for level, places in _PLACES.items():
            widget = KnownOnly(self.opts.get_field(level), self.admin_site)
            form.fields[level] = forms.ModelChoiceField(
                places().none(),
                required=False,
                widget=widget,
            )
        return self.page(request, "scope_choose", None, form=form, media=self.media + form.media)

    def page(
        self, request: HttpRequest, name: str, scope: ConfigScope | None, **context: Any
    ) -> HttpResponse:
        """Return a page made with one of the templates of this file."""
        kind = str(self.opts.verbose_name).capitalize()
        original = context.get("original")
        shared = {
            "scope": scope,
            "list_url": reverse(f"admin:sessions_app_{self.opts.model_name}_changelist"),
            "audit_url": self.audit_url(original) if original else "",
            "media": self.media,
        }
        title = f"{kind}: {scope.name if scope else 'of what?'}"
        return self.render(request, name, title, **{**shared, **context})

    def done(self, request: HttpRequest, text: str) -> HttpResponse:
        """Show what was done, and go back to the list."""
        messages.success(request, text)
        return HttpResponseRedirect(
            reverse(f"admin:sessions_app_{self.opts.model_name}_changelist")
        )

    @column("scope")
    def scope(self, row: Any) -> str:
        return ConfigScope(row.domain, row.project).name

    @column("level", label={"cluster": "primary", "domain": "info", "project": "default"})
    def level(self, row: Any) -> str:
        if row.project_id is not None:
            return "project"
        return "cluster" if row.domain_id is None else "domain"

    @column("changed", ordering="updated_at")
    def changed(self, row: Any) -> str:
        return past(row.updated_at)


@admin.register(RetryDefaults)
class RetryDefaultsAdmin(ScopeAdmin):
    """The retry defaults that sessions inherit, and the bounds on what they may ask for."""

    list_display = ("scope", "level", "sets", "binds", "changed")
    actions: Any = ()

    def stored(self, scope: ConfigScope) -> RetryDefaults | None:
        return defaults_of(scope)

    def edit(self, request: HttpRequest, scope: ConfigScope, row: Any) -> HttpResponse:
        """Return the page: each field with its effective value, the layer that sets it, and its
        bound."""
        stored = defaults.initial(in_short(row.policy), in_short(row.bounds)) if row else {}
        form = themed(
            DefaultsForm(request.POST if request.method == "POST" else None, initial=stored)
        )
        if form.is_bound and form.is_valid() and self._put(request, scope, form):
            return self.done(request, f"The retry defaults of {scope.name} were changed.")
        bounds = bound_layers(scope.project, scope.domain)
        merged = merge(policy_layers(scope.project, scope.domain))
        return self.page(
            request,
            "retry_defaults",
            scope,
            form=form,
            original=row,
            policy=list(form.policy_lines(merged, bounds)),
            bounds=list(form.bound_lines(bounds)),
        )

    def _put(self, request: HttpRequest, scope: ConfigScope, form: DefaultsForm) -> bool:
        try:
            retry_defaults_put(scope, policy=form.policy, bounds=form.bounds, by=operator(request))
        except InvalidInput as error:
            add_errors(form, error, "policy.")
            return False
        return True

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        """Delete the row, so that the scope inherits everything again."""
        retry_defaults_delete(ConfigScope(obj.domain, obj.project), by=operator(request))

    @column("sets")
    def sets(self, row: RetryDefaults) -> str:
        values = {name: defaults.shown(value) for name, value in in_short(row.policy).items()}
        return ", ".join(f"{name} {value}" for name, value in values.items())[:120] or "-"

    @column("bounds")
    def binds(self, row: RetryDefaults) -> str:
        values = {name: defaults.shown(value) for name, value in in_short(row.bounds).items()}
        return ", ".join(f"{name} {value}" for name, value in values.items()) or "-"


def _limit(least: int, help_text: str) -> forms.IntegerField:
    return forms.IntegerField(
        min_value=least,
        max_value=MOST,
        required=False,
        help_text=help_text,
        widget=UnfoldAdminIntegerFieldWidget,
    )


class SwitchForm(forms.Form):
    """The form of a switch; for the cluster also with the global limits and the default policy."""

    mode = forms.ChoiceField(
        choices=[(mode.value, mode.value) for mode in Mode], widget=UnfoldAdminRadioSelectWidget
    )
    global_max_retries = LimitField(
        min_value=0,
        max_value=MOST,
        required=False,
        help_text=f"the most retries of any chain, or {UNLIMITED}; empty: {GLOBAL_MAX_RETRIES}",
        widget=UnfoldAdminTextInputWidget,
    )
    default_policy = forms.CharField(
        required=False,
        max_length=NAME_LENGTH,
        help_text="the cluster's policy for new chains whose queue and session name no policy; "
        "empty: no policy",
        widget=UnfoldAdminTextInputWidget,
    )
    retries_per_minute = _limit(
        1,
        "the most retries that start in one minute; further retries are not lost, they start in "
        "later minutes; empty: no limit",
    )
    queue_retries_per_minute = _limit(1, "the same limit for each queue; empty: no limit")
    refuse_unfittable = forms.NullBooleanField(
        help_text="refuse submissions that fit on no executor, even if it were empty; without it "
        "they are accepted with a warning",
        widget=UnfoldAdminSelectWidget(
            choices=[("", "as the scope above"), ("True", "yes"), ("False", "no")]
        ),
    )

    retry_budget = budget_field(widget=_LINES)
    breaker = breaker_field(widget=_LINES)

    pod_defaults = PodDefaultsField()

    def __init__(self, scope: ConfigScope, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if scope.project is None:
            del self.fields[PODS]
        if scope.domain is not None:
            del self.fields[BREAKER]  # a domain has none
        if scope != ConfigScope():
            for name in CLUSTERS:
                self.fields.pop(name, None)  # not all settings have a field here
        else:
            policy = self.fields["default_policy"]
            policy.help_text = f"{policy.help_text}; {policies_offered(None)}"

    def clean_global_max_retries(self) -> int | None:
        """Return the number; None if the field says that there is no limit."""
        limit: Limit | None = self.cleaned_data["global_max_retries"]
        return GLOBAL_MAX_RETRIES if limit is None else most_of(limit)

    def clean_default_policy(self) -> str:
        """Check the policy before asking for confirmation of the switch."""
        name: str = self.cleaned_data["default_policy"]
        if name:
            try:
                with transaction.atomic():
                    policies_require([name], project=None, field="default_policy")
            except InvalidInput as error:
                raise forms.ValidationError(error.errors["default_policy"]) from None
        return name

    @property
    def clusters(self) -> list[forms.BoundField]:
        """Return the fields that only the cluster has."""
        return [self[name] for name in CLUSTERS if name in self.fields]


@admin.register(RetrySettings)
class RetrySettingsAdmin(ScopeAdmin):
    """The switches. A change must be confirmed, because it holds or releases waiting retries."""

    list_display = (
        "scope",
        "level",
        "switch",
        "limit",
        "default",
        "per_minute",
        "queue_per_minute",
        "changed",
    )
    list_filter = ("mode",)
    actions: Any = ()
    meanings: ClassVar = {
        Mode.ON: "Failed sessions are retried as their policies say.",
        Mode.PAUSED: "Retries are decided, but held until the switch is on again.",
        Mode.OFF: "Sessions that fail from now on are never retried. Waiting retries are held. "
        "Nobody can retry by hand.",
    }

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Refuse deletion: switching on is a change of the mode, which must be confirmed."""
        return False

    def stored(self, scope: ConfigScope) -> RetrySettings | None:
        return settings_of(scope)

    def edit(self, request: HttpRequest, scope: ConfigScope, row: Any) -> HttpResponse:
        """Return the page of the switch, and ask for confirmation before the switch moves."""
        now = Mode(row.mode) if row else Mode.ON
        stored = {"mode": now.value} | {name: row and getattr(row, name) for name in SETTINGS[1:]}
        if row and row.global_unlimited:
            stored["global_max_retries"] = limit_of(row.most_retries)
        asked = request.POST if request.method == "POST" else None
        form = SwitchForm(scope, asked, initial=stored)
        domain = scope.project.domain if scope.project else scope.domain
        in_force = settings_in_force(project=scope.project, domain=domain)
        context = {
            "form": form,
            "original": row,
            "now": now.value,
            "meanings": [(mode.value, text) for mode, text in self.meanings.items()],
            "effective": in_force.mode.value,
            "refuses": in_force.refuses_unfittable,
            "budget": budget_context(scope.budget_key),
        }
        if not form.is_bound or not form.is_valid():
            return self.page(request, "retry_settings", scope, **context)
        wanted = Mode(form.cleaned_data["mode"])
        # A confirmation is valid only for the change that it was shown for.
        move = f"{now.value} to {wanted.value}"
        if wanted is not now and request.POST.get("confirmed") != move:
            projects = [scope.project.pk] if scope.project else None
            waiting = retries_waiting(projects=projects, domain=scope.domain)
            context |= {
                "wanted": wanted.value,
                "move": move,
                "waiting": waiting,
                "consequences": consequences(wanted, waiting),
            }
            return self.page(request, "retry_settings_confirm", scope, **context)
        if not self._put(request, scope, form, wanted):
            return self.page(request, "retry_settings", scope, **context)
        return self.done(request, f"Retries of {scope.name} are {wanted.value}.")

    def _put(self, request: HttpRequest, scope: ConfigScope, form: SwitchForm, mode: Mode) -> bool:
        values: Any = {name: form.cleaned_data[name] for name in form.fields}
        try:
            retry_settings_put(scope, by=operator(request), **{**values, "mode": mode})
        except InvalidInput as error:
            add_errors(form, error)
            return False
        return True

    @column("most retries")
    def limit(self, row: RetrySettings) -> int | str:
        own = row.global_unlimited or row.global_max_retries is not None
        return limit_of(row.most_retries) if own else "-"

    @column("default policy")
    def default(self, row: RetrySettings) -> str:
        return row.default_policy or "-"

    @column("per minute")
    def per_minute(self, row: RetrySettings) -> int | str:
        return row.retries_per_minute or "-"

    @column("per queue and minute")
    def queue_per_minute(self, row: RetrySettings) -> int | str:
        return row.queue_retries_per_minute or "-"

    @column("mode", label={"on": "success", "paused": "warning", "off": "danger"})
    def switch(self, row: RetrySettings) -> str:
        return row.mode


def consequences(wanted: Mode, waiting: Waiting) -> list[str]:
    """Return sentences on what the change does to waiting retries."""
    scheduled = f"{waiting.scheduled} scheduled {_noun(waiting.scheduled.value)}"
    held = f"{waiting.held} held {_noun(waiting.held.value)}"
    return [text.format(scheduled=scheduled, held=held) for text in _CONSEQUENCES[wanted]]


_HOLDING = (
    "{scheduled} will be held when due. None is lost: they continue when the switch is on again.",
    "{held} will stay held.",
)
_CONSEQUENCES = {
    Mode.ON: (
        "{held} can start: at once if due.",
        "Retries that something else holds stay held, such as a breaker.",
        "{scheduled} will start when due.",
    ),
    Mode.PAUSED: (
        *_HOLDING,
        "For sessions that fail from now on, the retry is decided and then held, too.",
    ),
    Mode.OFF: (
        *_HOLDING,
        "Sessions that fail from now on are never retried, even after the switch is on again.",
        "Retrying by hand is refused.",
    ),
}


def _noun(number: int) -> str:
    return "retry" if number == 1 else "retries"
