"""The bodies that create and change sessions, checked field by field."""

import math
import re
from typing import Annotated, Any, Literal

from django.conf import settings
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StrictInt,
    StrictStr,
    ValidationInfo,
    field_validator,
)

from podspec.mounts import read_mount
from podspec.quantity import AMOUNT_PATTERN, parse_resource
from podspec.resources import check
from podspec.specification import problem
from retry.policies.documents import MAX_POLICIES
from retry.policies.inline import InlinePolicy
from sessions_app.api.requests.queries import ADDRESS_PATTERN, lowered
from sessions_app.api.requests.strict import StrictModel
from sessions_app.api.requests.whole_numbers import WHOLE
from sessions_app.services.sessions.submit import Submission

MAX_SECONDS = 10 * 365 * 86_400
MAX_REASON = 256
MAX_CREATION_ID = 200
MOST_SECRET = 512 * 1024
"""Most bytes of a session's secrets: roughly what a Secret of Kubernetes and its etcd can hold."""
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_UNSEEN = (
    r"\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    r"\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
)
"""Control characters, invisible ones and those that change the direction of text.

With them two names could look alike, or a line could be read in another order than it is written.
"""
_CONTROL = re.compile(f"[{_UNSEEN}\U000e0000-\U000e0fff]")


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
    if _CONTROL.search(value):
        raise ValueError("must not contain control, invisible or direction-changing characters")
    return value


def _variable(value: str) -> str:
    if not value or "=" in value or "\x00" in value:
        raise ValueError("the name of a variable must not be empty or contain '=' or NUL")
    return value


def _quantity(value: object) -> object:
    parse_resource(value)  # type: ignore[arg-type]  # it checks the type
    return str(value)


def _resources(value: object) -> object:
    # Both forms are checked here, so that an error names the field and not the form.
    check(value)
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
Label = Annotated[
    StrictStr,
    Field(max_length=63, json_schema_extra={"pattern": f"^{_LABEL.pattern}$"}),
    AfterValidator(_label),
]
Mount = Annotated[dict[str, Any], AfterValidator(_mount)]
Variable = Annotated[
    StrictStr,
    Field(min_length=1, max_length=256, json_schema_extra={"pattern": r"^[^=\x00]+$"}),
    AfterValidator(_variable),
]
OneLine = Annotated[
    StrictStr,
    Field(json_schema_extra={"pattern": f"^[^{_UNSEEN}]*$"}),
    AfterValidator(one_line),
]


CreationId = Annotated[
    StrictStr,
    Field(
        min_length=1,
        max_length=MAX_CREATION_ID,
        json_schema_extra={"pattern": r"^(?!.*:retry:)[^\x00]*$"},
    ),
]


class SessionCreate(StrictModel):
    """The body of `POST /sessions/`. Only what to run is required; all else has a default."""

    project: ProjectAddress | None = None
    """`domain/name`."""
    queue: Annotated[StrictStr, Field(max_length=63)] | None = None
    name: Annotated[OneLine, Field(max_length=128)] = ""
    job_set: Annotated[
        StrictStr, Field(max_length=128, json_schema_extra={"pattern": f"^({_NAME.pattern})?$"})
    ] = ""
    creation_id: CreationId | None = None
    session_type: Annotated[
        Literal["batch", "interactive", "inference"], BeforeValidator(lowered)
    ] = "batch"
    image: Annotated[StrictStr, Field(max_length=512)] = ""
    pod_spec: Annotated[dict[str, Any], AfterValidator(_pod_spec)] | None = None
    command: Annotated[list[StrictStr], Field(max_length=4096, validate_default=True)] = []
    """It comes after `image` and `pod_spec`, because it may be empty if one of them is given."""
    environ: Annotated[dict[Variable, StrictStr], Field(max_length=4096)] = {}
    secret_environ: Annotated[dict[Variable, StrictStr], Field(max_length=4096, repr=False)] = {}
    """Variables whose values are stored encrypted and shown to nobody but the run.

    They may have 512 KiB together. Answers have only their names.
    """
    resources: Resources = {}
    mounts: Annotated[list[Mount], Field(max_length=256)] = []
    ports: Annotated[list[Label], Field(max_length=64)] = []
    labels: Annotated[
        dict[Annotated[StrictStr, Field(min_length=1, max_length=317)], StrictStr],
        Field(max_length=64),
    ] = {}
    cluster_size: Annotated[StrictInt, Field(ge=1, le=10_000), WHOLE] = 1
    priority: Annotated[StrictInt, Field(ge=-1_000_000, le=1_000_000), WHOLE] = 0
    batch_timeout: PositiveSeconds | None = None
    scheduling_timeout: PositiveSeconds | None = None
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

    @field_validator("creation_id")
    @classmethod
    def _creation_id(cls, value: str | None) -> str | None:
        if value is not None and ":retry:" in value:
            raise ValueError("must not contain ':retry:', which marks the ids of retries")
        return value

    @field_validator("secret_environ")
    @classmethod
    def _secrets(cls, value: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        if both := value.keys() & (info.data.get("environ") or {}).keys():
            raise ValueError(f"has {', '.join(sorted(both)[:5])}, which environ also has")
        if sum(len(each.encode()) for pair in value.items() for each in pair) > MOST_SECRET:
            raise ValueError(f"holds more than {MOST_SECRET} bytes of names and values")
        return value

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
            creation_id=self.creation_id,
            session_type=self.session_type,
            priority=self.priority,
            retry_policy=self.retry_policy,
            retry_policies=tuple(self.retry_policies),
            secrets=self.secret_environ,
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
                    "termination_grace_period",
                }
            ),
        )


class SessionPreempt(StrictModel):
    """The body of `POST /sessions/{id}/preempt/`, which may be empty."""

    reason: Annotated[StrictStr, Field(max_length=MAX_REASON)] = ""
    """A reason, which is shown to everybody who looks at the session."""


class CordonBody(StrictModel):
    """The reason of a cordon. It is shown to the users whose sessions wait."""

    reason: Annotated[StrictStr, Field(min_length=1, max_length=MAX_REASON)]


class SessionRetry(StrictModel):
    """The body of `POST /sessions/{id}/retry/`, which may be empty."""

    resources: Resources = {}
    """They change those of the previous attempt: a given amount replaces its own."""

    def changes(self) -> dict[str, Any]:
        """Return the resources in the service's form."""
        changes: dict[str, Any] = self.model_dump()["resources"]
        return changes
