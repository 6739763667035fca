"""Operations on retry defaults and retry settings of the cluster, domains and projects."""

from collections.abc import Collection, Mapping
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationInfo,
    field_validator,
)

from interfaces.requests.pod_defaults import pod_defaults as pod_defaults_read
from interfaces.requests.queries import lowered
from interfaces.requests.strict import StrictModel
from interfaces.requests.whole_numbers import WHOLE
from retry.breakers import BreakerRule
from retry.engine.decide import Mode
from retry.engine.decision import GLOBAL_MAX_RETRIES
from retry.policies.inline import MAX_RETRIES, Bounds, InlinePolicy
from retry.policies.shared_budget import SharedBudget
from sessions_app.authorization import Action, Actor, authorize
from sessions_app.core.errors import InvalidInput
from sessions_app.core.versions import Expected
from sessions_app.in_force.config_scope import ConfigScope
from sessions_app.models import RetryDefaults, RetrySettings
from sessions_app.selectors.sessions import domain_get, project_get
from sessions_app.services.resources.retry_config import (
    EVERYWHERE,
    SETTINGS,
    retry_defaults_delete,
    retry_defaults_put,
    retry_settings_put,
)


class DefaultsBody(StrictModel):
    """The defaults and bounds of a scope; both are replaced."""

    policy: InlinePolicy = InlinePolicy()
    bounds: Bounds = Bounds()


def _policy_field(value: str) -> str:
    if value not in InlinePolicy.model_fields:
        raise ValueError(f"must be one of: {', '.join(InlinePolicy.model_fields)}")
    return value


PolicyField = Annotated[
    StrictStr,
    AfterValidator(_policy_field),
    Field(json_schema_extra={"enum": list(InlinePolicy.model_fields)}),
]


class DefaultsPatch(DefaultsBody):
    """Changes the given fields. `unset` names the policy fields to inherit again. A null bound
    removes the bound."""

    unset: list[PolicyField] = Field(default=[], max_length=len(InlinePolicy.model_fields))

    @field_validator("unset")
    @classmethod
    def _not_set_as_well(cls, value: list[str], info: ValidationInfo) -> list[str]:
        policy = info.data.get("policy")
        if policy and (both := policy.model_fields_set & set(value)):
            raise ValueError(f"{' and '.join(sorted(both))} cannot be both set and unset")
        return value


_PerMinute = Annotated[StrictInt, Field(ge=1, le=1_000_000), WHOLE]


class SettingsBody(StrictModel):
    """The kill switch, whether sessions that fit nowhere are refused, and the retry budget that all
    chains of the scope share. All other fields are for
    the cluster only. A null limit means no limit."""

    mode: Annotated[Mode, BeforeValidator(lowered)] = Mode.ON
    global_max_retries: Annotated[StrictInt, Field(ge=0, le=MAX_RETRIES), WHOLE] | None = (
        GLOBAL_MAX_RETRIES
    )
    """The most retries of any chain."""
    default_policy: Annotated[StrictStr, Field(min_length=1, max_length=63)] | None = None
    """The policy of chains whose queue and session name none."""
    retries_per_minute: _PerMinute | None = None
    """The most retries in a minute; others are postponed. Null means no limit."""
    queue_retries_per_minute: _PerMinute | None = None
    """The same for each queue."""
    refuse_unfittable: StrictBool | None = None
    """Whether a submission that fits on no executor is refused. Null: as the scope above says."""
    breaker: BreakerRule | None = None
    """When retries of a failure wait because many chains fail with it. Of the cluster or of a
    project. Null: never."""
    retry_budget: SharedBudget | None = None
    """The most automatic retries of the scope within a window. Fields that are not sent get the
    shipped values; null removes it."""
    pod_defaults: Annotated[dict[str, Any], AfterValidator(pod_defaults_read)] | None = None
    """What pods get where their sessions say nothing: some fields of a `pod_spec`. Of a project
    only. Null: nothing."""


READ = {
    "cluster": Action.CLUSTER_DEFAULTS_READ,
    "domain": Action.DOMAIN_DEFAULTS_READ,
    "project": Action.PROJECT_DEFAULTS_READ,
}
WRITE = {
    "cluster": Action.CLUSTER_DEFAULTS_WRITE,
    "domain": Action.DOMAIN_DEFAULTS_WRITE,
    "project": Action.PROJECT_DEFAULTS_WRITE,
}


def level_of(names: Mapping[str, str]) -> str:
    """Return the level of a scope: no names, `domain`, or `domain` and `project`."""
    return "project" if "project" in names else "domain" if names else "cluster"


def config_scope(actor: Actor, names: Mapping[str, str], action: Action) -> ConfigScope:
    """Return the scope with these names if the caller may do `action`."""
    level = level_of(names)
    if level == "project":
        return ConfigScope(project=project_get(actor, names["domain"], names["project"], action))
    if level == "domain":
        return ConfigScope(domain=domain_get(actor, names["domain"], action))
    authorize(actor, action)
    return ConfigScope()


def _written(actor: Actor, names: Mapping[str, str]) -> ConfigScope:
    return config_scope(actor, names, WRITE[level_of(names)])


def defaults_store(
    actor: Actor,
    names: Mapping[str, str],
    body: Mapping[str, Any],
    expected: Expected | None,
    *,
    keep: bool,
) -> tuple[ConfigScope, RetryDefaults]:
    """Replace the defaults and bounds of one scope; with `keep` only the given fields."""
    scope = _written(actor, names)
    asked = (DefaultsPatch if keep else DefaultsBody).model_validate(body)
    row = retry_defaults_put(
        scope,
        policy=asked.policy,
        bounds=asked.bounds,
        by=actor.name,
        keep=keep,
        unset=asked.unset if isinstance(asked, DefaultsPatch) else (),
        expected=expected,
    )
    return scope, row


def defaults_delete(actor: Actor, names: Mapping[str, str], expected: Expected | None) -> None:
    """Delete the layer, so that the scope inherits everything again."""
    retry_defaults_delete(_written(actor, names), by=actor.name, expected=expected)


def settings_store(
    actor: Actor,
    names: Mapping[str, str],
    body: Mapping[str, Any],
    expected: Expected | None,
    *,
    keep: bool,
) -> tuple[ConfigScope, RetrySettings]:
    """Set the switch and limits of one scope; with `keep` only the given ones."""
    scope = _written(actor, names)
    asked = SettingsBody.model_validate(body)
    sent = _settings(scope, asked, asked.model_fields_set if keep else SETTINGS)
    return scope, retry_settings_put(scope, by=actor.name, expected=expected, **sent)


def settings_delete(actor: Actor, names: Mapping[str, str], expected: Expected | None) -> None:
    """Reset the settings of a scope. The switch becomes `on`; the cluster gets the shipped limits
    and no default policy."""
    settings_store(actor, names, {}, expected, keep=False)


_ELSEWHERE = {
    "breaker": "can only be set for the cluster, a project or a queue",
    "pod_defaults": "can only be set for a project",
}


def _settings(scope: ConfigScope, asked: SettingsBody, only: Collection[str]) -> dict[str, Any]:
    sent: dict[str, Any] = {name: getattr(asked, name) for name in only}
    if sent.get("breaker") is not None:
        sent["breaker"] = sent["breaker"].model_dump()
    if asked.retry_budget is not None and "retry_budget" in sent:
        sent["retry_budget"] = asked.retry_budget.stored()
    if "default_policy" in sent:
        sent["default_policy"] = sent["default_policy"] or ""
    own = EVERYWHERE | {"breaker", "pod_defaults"} if scope.project else EVERYWHERE
    if scope.name == "cluster":
        own = frozenset(SETTINGS) - {"pod_defaults"}
    errors = {
        name: [_ELSEWHERE.get(name, "can only be set for the cluster")]
        for name, value in sent.items()
        if name not in own and name in asked.model_fields_set and getattr(asked, name) is not None
    }
    if errors:
        raise InvalidInput(errors)
    return {name: value for name, value in sent.items() if name in own}
