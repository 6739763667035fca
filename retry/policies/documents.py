"""Named policies as documents that operators write, with strict validation.

A policy is an ordered list of rules; `retry.policies.matching` matches them. Every unknown key is
an error, because a misspelt `retryLimit` must not silently mean something else. A null counts as
absent, as in Kubernetes.
"""

import hashlib
import json
import re
from copy import deepcopy
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    StrictBool,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import InitErrorDetails, PydanticCustomError, ValidationError

from retry.policies.fields import (
    Action,
    AvoidMode,
    Cause,
    Condition,
    Duration,
    ExitCode,
    GrowthFactor,
    Label,
    Memory,
    Operator,
    ParkDuration,
    PatternText,
    PlainName,
    PolicyName,
    PositiveDuration,
    RetryLimit,
    RetryNumber,
    RuleName,
    SignatureKey,
    SomeLabels,
    WhenExhausted,
    list_of,
)
from retry.policies.inline import Jitter, Positive, Ratio, SameFailures

API_VERSION = "reprise/v1"
_ARMADA = r"armadaproject\.io/v[0-9]{1,3}((alpha|beta)[0-9]{1,3})?"
"""The API versions of Armada's own policies, which have the same form."""
MAX_RULES = 100
MAX_POLICIES = 16
MATCHERS = (
    "onConditions",
    "onExitCodes",
    "onTerminationMessage",
    "onPodMessage",
    "onSignatureTitle",
    "onFailureCategory",
    "onCauses",
    "onSignatures",
)


class Part(BaseModel):
    """A part of a document; its keys are in camel case."""

    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, alias_generator=to_camel, regex_engine="python-re"
    )

    def document(self) -> dict[str, Any]:
        """Return the part as JSON values without absent fields: it is valid input again."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True)


class BackoffPart(Part):
    """An exponential backoff. There is no jitter unless a jitter field is given."""

    initial_delay: Duration | None = None
    max_delay: PositiveDuration | None = None
    multiplier: Positive | None = None
    jitter: Jitter | None = None
    jitter_ratio: Ratio | None = None


class AntiAffinity(Part):
    """Avoidance of the failed attempt's node by the next one."""

    mode: AvoidMode


class MemoryGrowth(Part):
    """The next attempt gets `factor` times the memory, but at most `max`."""

    factor: GrowthFactor
    max: Memory | None = None


class ResourcesPart(Part):
    """Changes of the resources for the next attempt."""

    memory: MemoryGrowth


class ExecutorsPart(Part):
    """The executors that may run the next attempt: those that have all of these labels."""

    labels: SomeLabels


class PlacementPart(Part):
    """Other hardware for the rule's retries, from its retry number `after` on (0: the first)."""

    after: RetryNumber | None = None
    node_selector: SomeLabels | None = None
    executors: ExecutorsPart | None = None

    @model_validator(mode="after")
    def _places_somewhere(self) -> Self:
        if self.node_selector is None and self.executors is None:
            why = "needs a nodeSelector or executors"
            raise PydanticCustomError("no_place", "{why}", {"why": why})
        return self


_BOUNDS = {"minItems": 1}
_Conditions = Annotated[tuple[Condition, ...], Field(json_schema_extra=_BOUNDS), list_of(1, 100)]
_Names = Annotated[tuple[PlainName, ...], Field(json_schema_extra=_BOUNDS), list_of(1, 100)]
_Causes = Annotated[tuple[Cause, ...], Field(json_schema_extra=_BOUNDS), list_of(1, 100)]
_Signatures = Annotated[tuple[SignatureKey, ...], Field(json_schema_extra=_BOUNDS), list_of(1, 100)]


class ExitCodes(Part):
    """Exit code 0 matches neither operator."""

    operator: Operator
    values: Annotated[tuple[ExitCode, ...], Field(json_schema_extra=_BOUNDS), list_of(1, 255)]


class MessagePattern(Part):
    """An RE2 pattern, found anywhere in the last 4,096 bytes of the text."""

    pattern: PatternText


class Matcher(Part):
    """What a rule or a category looks at; all that is given must hold (AND), lists are OR."""

    on_conditions: _Conditions | None = None
    on_exit_codes: ExitCodes | None = None
    on_termination_message: MessagePattern | None = None
    container_name: PlainName | None = None

    def matchers(self) -> dict[str, Any]:
        """Return the matchers that are given, and the container that they are restricted to."""
        document = self.document()
        return {key: document[key] for key in (*MATCHERS, "containerName") if key in document}

    @model_validator(mode="after")
    def _matches_something(self) -> Self:
        if not self.matchers().keys() - {"containerName"}:
            raise PydanticCustomError("no_matcher", "{why}", {"why": self._wanted()})
        return self

    @classmethod
    def _wanted(cls) -> str:
        known = [f.alias for f in cls.model_fields.values() if f.alias in MATCHERS]
        return f"needs a matcher, at least one of: {', '.join(str(name) for name in known)}"


class Rule(Matcher):
    """One rule of a policy. The first rule that matches decides."""

    name: RuleName | None = None
    action: Action
    include_init_containers: StrictBool | None = None
    on_failure_category: _Names | None = None
    on_causes: _Causes | None = None
    on_signatures: _Signatures | None = None
    retry_limit: RetryLimit | None = None
    retry_window: PositiveDuration | None = None
    stop_after_same: SameFailures | None = None
    reset_on_progress: StrictBool | None = None
    backoff: BackoffPart | None = None
    anti_affinity: AntiAffinity | None = None
    resources: ResourcesPart | None = None
    placement: PlacementPart | None = None

    @property
    def counter(self) -> str:
        """Return the counter's name in the policy: the rule's name, or a hash of its matchers.

        The hash is the first 8 hex digits of SHA-256 over the canonical JSON of the matchers and
        `containerName`, so that moving the rule or changing its limits keeps its count.
        """
        if self.name is not None:
            return self.name
        text = json.dumps(self.matchers(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:8]


class Metadata(Part):
    """The policy's name and its scope: the cluster, a domain, or a project of a domain."""

    name: PolicyName
    domain: Label | None = None
    project: Label | None = None

    @model_validator(mode="after")
    def _project_is_in_a_domain(self) -> Self:
        if self.project is not None and self.domain is None:
            kind = PydanticCustomError("scope", "requires the domain")
            _refuse("Metadata", [(kind, ("project",), self.project)])
        return self


class Spec(Part):
    """The rules and the default action of a policy."""

    retry_limit: RetryLimit | None = None
    default_action: Action | None = None
    on_exhausted: WhenExhausted | None = None
    park_for: ParkDuration | None = None
    backoff: BackoffPart | None = None
    anti_affinity: AntiAffinity | None = None
    rules: (
        Annotated[tuple[Rule, ...], Field(max_length=MAX_RULES), list_of(0, MAX_RULES)] | None
    ) = None

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        kind = PydanticCustomError("repeated", "is the name of an earlier rule")
        names = [rule.name for rule in self.rules or ()]
        repeated = [at for at, name in enumerate(names) if name and name in names[:at]]
        _refuse("Spec", [(kind, ("rules", at, "name"), names[at]) for at in repeated])
        return self


def _refuse(
    title: str, found: list[tuple[PydanticCustomError, tuple[int | str, ...], Any]]
) -> None:
    errors = [InitErrorDetails(type=kind, loc=at, input=value) for kind, at, value in found]
    if errors:
        raise ValidationError.from_exception_data(title, errors)


def _is_armada(version: object) -> bool:
    return isinstance(version, str) and re.fullmatch(_ARMADA, version) is not None


def _our_version(value: object) -> object:
    if value != API_VERSION and not _is_armada(value):
        why = f"must be '{API_VERSION}', or a version of armadaproject.io"
        raise PydanticCustomError("version", "{why}", {"why": why})
    return API_VERSION


class PolicyDocument(Part):
    """A `RetryPolicy` document.

    Armada's documents of any version are accepted, too. What only they have is left out of them:
    `ignored` names it.
    """

    api_version: Annotated[
        Literal["reprise/v1"],
        BeforeValidator(_our_version),
        WithJsonSchema({"pattern": f"^({API_VERSION}|{_ARMADA})$", "type": "string"}),
    ]
    kind: Literal["RetryPolicy"]
    metadata: Metadata
    spec: Spec

    _ignored: tuple[str, ...] = ()

    @property
    def ignored(self) -> tuple[str, ...]:
        """Return a warning for each field of an Armada document that has no meaning here."""
        return self._ignored

    @model_validator(mode="wrap")
    @classmethod
    def _without_fields_of_armada(
        cls, value: Any, handler: ModelWrapValidatorHandler[Self]
    ) -> Self:
        try:
            return handler(value)
        except ValidationError as error:
            unknown = [
                each["loc"]
                for each in error.errors(include_url=False, include_input=False)
                if each["type"] == "extra_forbidden"
            ]
            if not unknown or not _is_armada(value.get("apiVersion")):
                raise
        document = handler(_without(value, unknown))
        told = tuple(f"{path_of(at)} is not known here and is ignored" for at in unknown)
        document._ignored = told  # noqa: SLF001  # its own
        return document


def path_of(location: tuple[int | str, ...]) -> str:
    """Return the path of a field as users write it: `spec.rules[2].action`."""
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in location)
    return path.removeprefix(".")


def _without(value: Any, unknown: list[tuple[int | str, ...]]) -> Any:
    """Return a copy of JSON values without the fields at these places."""
    copy = deepcopy(value)
    for *steps, field in unknown:
        part = copy
        for step in steps:
            part = part[step]
        del part[field]
    return copy
