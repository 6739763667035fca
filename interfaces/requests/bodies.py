"""The bodies that create and change sessions, checked field by field."""

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

from django.conf import settings
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.config import JsonDict
from pydantic_core import CoreSchema

from base.podspec.mounts import read_mount
from base.podspec.quantity import AMOUNT_PATTERN, parse_resource
from base.podspec.resources import sensible_check
from base.podspec.specification import problem
from base.podspec.unseen import CONTROLS, INVISIBLE, UNSEEN, has_unseen
from interfaces.requests.program import Argument, Environ, EnvironChanges
from interfaces.requests.queries import ADDRESS_PATTERN, lowered
from interfaces.requests.strict import StrictModel
from interfaces.requests.whole_numbers import WHOLE
from retry.policies.documents import MAX_POLICIES
from retry.policies.inline import InlinePolicy, dump_set
from sessions_app.core.cadence import OF_SCHEDULES
from sessions_app.core.dependencies import MOST, Wanted
from sessions_app.core.errors import InvalidInput
from sessions_app.core.priorities import DEFAULT_CLASS, MOST_PRIORITY
from sessions_app.services.secrets.stored import too_large
from sessions_app.services.sessions.submission import Submission

MAX_SECONDS = 10 * 365 * 86_400
MAX_REASON = 256
MAX_CREATION_ID = 200
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("must be a number of seconds")
    if (isinstance(value, float) and not math.isfinite(value)) or not 0 <= value <= MAX_SECONDS:
        raise ValueError(f"must be between 0 and {MAX_SECONDS} seconds")
    return float(value)


def _positive(value: float) -> float:
    if value <= 0:
        raise ValueError("must be more than 0 seconds")
    return value


def _name(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise ValueError("must be letters, digits, '.', '_' and '-', with none of these at an end")
    return value


def _label(value: str) -> str:
    if not _LABEL.fullmatch(value):
        raise ValueError("must be an RFC 1123 label: lower-case letters, digits and '-'")
    return value


def one_line(value: str) -> str:
    """Return the text, which is for lists and logs. Raises `ValueError`."""
    if has_unseen(value):
        raise ValueError(UNSEEN)
    return value


def _quantity(value: object) -> object:
    parse_resource(value)  # type: ignore[arg-type]  # it checks the type
    return str(value)


def _resources(value: object) -> object:
    # Both forms are checked here, so that an error names the field and not the form.
    sensible_check(value)
    return value


def _mount(value: object) -> object:
    read_mount(value)
    return value


def _pod_spec(value: dict[str, Any]) -> dict[str, Any]:
    if wrong := problem(value, settings.POD_FIELDS_REFUSED):
        raise ValueError(wrong)
    return value


ProjectAddress = Annotated[
    StrictStr, Field(max_length=127, json_schema_extra={"pattern": ADDRESS_PATTERN})
]
"""`domain/name`."""
GracePeriod = Annotated[float, Field(ge=0, le=86_400), BeforeValidator(_seconds)]
PositiveSeconds = Annotated[
    float, Field(gt=0, le=MAX_SECONDS), BeforeValidator(_positive), BeforeValidator(_seconds)
]
Quantity = Annotated[
    str, Field(json_schema_extra={"pattern": AMOUNT_PATTERN}), BeforeValidator(_quantity)
]
Amounts = dict[Annotated[StrictStr, Field(min_length=1, max_length=128)], Quantity]
Resources = Annotated[
    Amounts | dict[Literal["requests", "limits"], Amounts], BeforeValidator(_resources)
]
Priority = Annotated[StrictInt, Field(ge=-MOST_PRIORITY, le=MOST_PRIORITY), WHOLE]
Label = Annotated[
    StrictStr,
    Field(max_length=63, json_schema_extra={"pattern": f"^{_LABEL.pattern}$"}),
    AfterValidator(_label),
]
Mount = Annotated[dict[str, Any], AfterValidator(_mount)]
_LINE: JsonDict = {"pattern": f"^[^{CONTROLS}{INVISIBLE}]*$"}
OneLine = Annotated[StrictStr, Field(json_schema_extra=_LINE), AfterValidator(one_line)]
Image = Annotated[
    StrictStr,
    Field(min_length=1, max_length=512, json_schema_extra=_LINE),
    AfterValidator(one_line),
]


def reserved(creation_id: str) -> str:
    """Return why nobody may give this id, which the server gives itself; "" if they may."""
    if ":retry:" in creation_id:
        return "must not contain ':retry:', which marks the ids of retries"
    if creation_id.startswith(OF_SCHEDULES):
        return f"must not begin with {OF_SCHEDULES!r}, which marks the ids of schedules' sessions"
    return ""


UNRESERVED = f"(?!{OF_SCHEDULES})(?!.*:retry:)"
CreationId = Annotated[
    StrictStr,
    Field(
        min_length=1,
        max_length=MAX_CREATION_ID,
        json_schema_extra={"pattern": rf"^{UNRESERVED}[^\x00]*$"},
    ),
]


class DependencyAsked(StrictModel):
    """A session that another one waits for: its id or `creation_id`, and the outcome."""

    session: Annotated[
        StrictStr, Field(min_length=1, max_length=255, json_schema_extra={"pattern": r"^[^\x00]*$"})
    ]
    """Its chain counts: any attempt names it."""
    when: Literal["succeeded", "ended", "failed"] = "succeeded"


def _dependency(value: object) -> object:
    return {"session": value} if isinstance(value, str) else value


_NAME_SCHEMA = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[^\x00]*$"}


class _OrText:
    """Describes that a text may stand for the object."""

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": [_NAME_SCHEMA, handler(schema)]}


class SessionTemplate(StrictModel):
    """What a session is, wherever it runs. Only what to run is required; all else has a default."""

    name: Annotated[OneLine, Field(max_length=128)] = ""
    job_set: Annotated[
        StrictStr, Field(max_length=128, json_schema_extra={"pattern": f"^({_NAME.pattern})?$"})
    ] = ""
    session_type: Annotated[
        Literal["batch", "interactive", "inference"], BeforeValidator(lowered)
    ] = "batch"
    image: Annotated[OneLine, Field(max_length=512)] = ""
    pod_spec: Annotated[dict[str, Any], AfterValidator(_pod_spec)] | None = None
    command: Annotated[list[Argument], Field(max_length=4096, validate_default=True)] = []
    """It comes after `image` and `pod_spec`, because it may be empty if one of them is given."""
    environ: Environ = {}
    resources: Resources = {}
    mounts: Annotated[list[Mount], Field(max_length=256)] = []
    ports: Annotated[list[Label], Field(max_length=64)] = []
    labels: Annotated[
        dict[Annotated[StrictStr, Field(min_length=1, max_length=317)], StrictStr],
        Field(max_length=64),
    ] = {}
    cluster_size: Annotated[StrictInt, Field(ge=1, le=10_000), WHOLE] = 1
    priority: Priority = 0
    """It orders the sessions of a class within their queue."""
    priority_class: Annotated[StrictStr, Field(max_length=63)] = ""
    """Sessions of a class of a higher value go first. Empty: the class `default`."""
    batch_timeout: PositiveSeconds | None = None
    scheduling_timeout: PositiveSeconds | None = None
    """The longest time that a pod which was created may have no node."""
    queue_timeout: PositiveSeconds | None = None
    """The longest time that each attempt may wait, from its creation or from the end of what it
    depends on, in its queue and for a node together; then it fails as `scheduler_timeout`."""
    termination_grace_period: GracePeriod = 30.0
    retry_policy: InlinePolicy = InlinePolicy()
    retry_policies: Annotated[
        list[Annotated[StrictStr, Field(min_length=1, max_length=63)]],
        Field(max_length=MAX_POLICIES),
    ] = []
    """They are added to those of the queue."""

    @field_validator("job_set")
    @classmethod
    def _job_set(cls, value: str) -> str:
        return _name(value) if value else value

    @field_validator("command")
    @classmethod
    def _something_to_run(cls, value: list[str], info: ValidationInfo) -> list[str]:
        # A field that is missing in `data` was given but is invalid.
        if not value and not info.data.get("image", "?") and not info.data.get("pod_spec", "?"):
            raise ValueError("give a command, an image or a pod_spec")
        return value

    def submission(self) -> Submission:
        """Return the request in the service's form."""
        return Submission(
            name=self.name,
            job_set=self.job_set,
            session_type=self.session_type,
            priority=self.priority,
            priority_class="" if self.priority_class == DEFAULT_CLASS else self.priority_class,
            retry_policy=self.retry_policy,
            retry_policies=tuple(self.retry_policies),
            creation_id=None,
            spec=self.model_dump(
                include={
                    "image",
                    "command",
                    "environ",
                    "resources",
                    "mounts",
                    "ports",
                    "labels",
                    "pod_spec",
                    "cluster_size",
                    "batch_timeout",
                    "scheduling_timeout",
                    "queue_timeout",
                    "termination_grace_period",
                }
            ),
        )


class SessionCreate(SessionTemplate):
    """The body of `POST /sessions/`."""

    project: ProjectAddress | None = None
    """`domain/name`."""
    queue: Annotated[StrictStr, Field(max_length=63)] | None = None
    creation_id: CreationId | None = None
    secret_environ: Annotated[Environ, Field(repr=False)] = {}
    """Variables whose values are stored encrypted and shown to nobody but the run.

    They may have 512 KiB together. Answers have only their names.
    """
    depends_on: Annotated[
        list[Annotated[DependencyAsked, BeforeValidator(_dependency), _OrText()]],
        Field(max_length=MOST),
    ] = []
    """Sessions of the project, also of the same bulk call, that have to end first. A text alone
    means `succeeded`."""
    on_dependency_failure: Literal["cancel", "run"] = "cancel"
    """What happens if a dependency cannot be met any more: the session is cancelled, or it runs
    once all of them have ended."""

    @field_validator("creation_id")
    @classmethod
    def _creation_id(cls, value: str | None) -> str | None:
        if value is not None and (why := reserved(value)):
            raise ValueError(why)
        return value

    @field_validator("secret_environ")
    @classmethod
    def _secrets(cls, value: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        return secrets_checked(value, info.data.get("environ") or {})

    def submission(self) -> Submission:
        """Return the request in the service's form."""
        asked = super().submission()
        return replace(
            asked,
            creation_id=self.creation_id,
            secrets=self.secret_environ,
            depends_on=tuple(Wanted(each.session, each.when) for each in self.depends_on),
            on_dependency_failure=self.on_dependency_failure,
        )


def secrets_checked(value: dict[str, str], environ: Mapping[str, str | None]) -> dict[str, str]:
    """Return secret variables beside others of the same body. Raises `ValueError`."""
    if both := value.keys() & environ.keys():
        raise ValueError(f"has {', '.join(sorted(both)[:5])}, which environ also has")
    if why := too_large(value):
        raise ValueError(why)
    return value


class SessionUpdate(StrictModel):
    """The body of `PATCH /sessions/{id}/`: what can be changed while a session waits."""

    priority: Priority

    @model_validator(mode="before")
    @classmethod
    def _nothing_else(cls, value: Any) -> Any:
        if isinstance(value, dict) and (others := value.keys() - cls.model_fields.keys()):
            why = "cannot be changed: only the priority can"
            raise InvalidInput({name: [why] for name in sorted(others)})
        return value


class SessionPreempt(StrictModel):
    """The body of `POST /sessions/{id}/preempt/`, which may be empty."""

    reason: Annotated[StrictStr, Field(max_length=MAX_REASON)] = ""
    """A reason, which is shown to everybody who looks at the session."""


class CordonBody(StrictModel):
    """The reason of a cordon. It is shown to the users whose sessions wait."""

    reason: Annotated[StrictStr, Field(min_length=1, max_length=MAX_REASON)]


class RetryChanges(StrictModel):
    """Changes to what the next attempt runs, and all later ones of its chain.

    What is left out stays. `environ` and `resources` change those of the previous attempt; a null
    removes a variable. The fields of `retry_policy` replace those of the chain's own policy; what
    the chain has spent stays spent. If somebody else gave the present `secret_environ`, and
    `image`, `command`, `environ`, `secret_environ` or `pod_spec` are changed, the attempt gets none
    of it any more.
    """

    image: Image | None = None
    command: Annotated[list[Argument], Field(min_length=1, max_length=4096)] | None = None
    environ: EnvironChanges | None = None
    secret_environ: Annotated[Environ | None, Field(repr=False)] = None
    """Secret variables to add or replace; the caller is who gave them then."""
    resources: Resources | None = None
    priority: Priority | None = None
    retry_policy: InlinePolicy | None = None
    batch_timeout: PositiveSeconds | None = None
    """Null removes the limit."""
    pod_spec: Annotated[dict[str, Any], AfterValidator(_pod_spec)] | None = None

    @field_validator("secret_environ")
    @classmethod
    def _secrets(cls, value: dict[str, str] | None, info: ValidationInfo) -> dict[str, str] | None:
        return value and secrets_checked(value, info.data.get("environ") or {})


class AnotherAttempt(StrictModel):
    """What a person says about another attempt, of one session or of many."""

    resources: Resources = {}
    """They change those of the previous attempt: a given amount replaces its own."""
    changes: RetryChanges = RetryChanges()
    reason: Annotated[OneLine, Field(max_length=MAX_REASON)] = ""
    """Why, for everybody who looks at the attempt."""

    @field_validator("changes")
    @classmethod
    def _resources_once(cls, value: RetryChanges, info: ValidationInfo) -> RetryChanges:
        if value.resources and info.data.get("resources"):
            raise ValueError("has resources, which the body has, too")
        return value

    def asked(self) -> dict[str, Any]:
        """Return all changes in the service's form."""
        given = self.changes.model_fields_set - {"retry_policy"}
        dumped = self.changes.model_dump(include=given)
        # Only a limit can be taken away by a null.
        none = {name for name in ("environ", "secret_environ") if not dumped.get(name)}
        none |= {k for k, v in dumped.items() if v is None and k != "batch_timeout"}
        kept = {k: v for k, v in dumped.items() if k not in none}
        if self.changes.retry_policy is not None:
            kept["retry_policy"] = dump_set(self.changes.retry_policy)
        resources = self.model_dump()["resources"] or kept.get("resources")
        if resources:
            kept["resources"] = resources
        return {**kept, "reason": self.reason} if self.reason else kept


class SessionRetry(AnotherAttempt):
    """The body of `POST /sessions/{id}/retry/`, which may be empty."""

    downstream: StrictBool = False
    """Also retry the sessions that ended as `dependency_failed` because of this one, at most 1,000.
    They wait for their dependencies again."""
    dry_run: StrictBool = False
    """Return what would be retried, and change nothing."""
