"""The base of the models of answers. `make schema` writes the models themselves, in `models.py`.

All are tolerant, so that a newer server does not break an older client: a field that is not
listed is kept as it came, one that is missing or null has its default, words stay plain strings.
"""

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from reprise_client.errors import InvalidAnswer

FINAL_STATUSES = frozenset({"TERMINATED", "ERROR", "CANCELLED"})
UNSTARTED_STATUSES = frozenset(
    {"PENDING", "SCHEDULED", "PREPARING", "PULLING", "PREPARED", "CREATING"}
)
WAITING_STATES = frozenset({"scheduled", "held", "parked"})


class Answer(BaseModel):
    """Base of the answers: immutable, open to unknown fields, null stands for the default."""

    model_config = ConfigDict(extra="allow", frozen=True)

    @field_validator("*", mode="before")
    @classmethod
    def _null_is_default(cls, value: Any, info: ValidationInfo) -> Any:
        field = cls.model_fields[str(info.field_name)]
        if value is None and not field.is_required():
            return field.get_default(call_default_factory=True)
        return value


class Versioned(Answer):
    """A record that people can change; `etag` is its version if only it was asked for."""

    etag: str = Field(default="", exclude=True)


AnyAnswer = TypeVar("AnyAnswer", bound=Answer)


def parsed(kind: type[AnyAnswer], data: Any, source: str) -> AnyAnswer:
    """Return `data` as a `kind`; raise `InvalidAnswer` with its URL, `source`, if it is none."""
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        raise InvalidAnswer(source, repr(data)[:200]) from error


# Below are the answers that can do something. Checkers of types see the fields that they need; the
# models have them, in the order of the document.


class Refusable(Answer):
    """The outcome for one of several records; the server may have refused it."""

    if TYPE_CHECKING:
        outcome: str

    @property
    def done(self) -> bool:
        return self.outcome != "refused"


class OfDomain(Answer):
    """A record that has a name in a domain."""

    if TYPE_CHECKING:
        domain: str
        name: str

    @property
    def address(self) -> str:
        """`domain/name`."""
        return f"{self.domain}/{self.name}"


class Addressed(Answer):
    """A record that has a name in a project (`domain/name`)."""

    if TYPE_CHECKING:
        project: str
        name: str

    @property
    def address(self) -> str:
        """`domain/project/name`."""
        return f"{self.project}/{self.name}"


class Placed(Answer):
    """A record that belongs to a project (`domain/name`) or to a whole domain."""

    if TYPE_CHECKING:
        domain: str | None
        project: str | None

    @property
    def place(self) -> str:
        """The domain, or `domain/name`."""
        return self.project or self.domain or ""


class Windowed(Answer):
    """Counts over a window of seconds."""

    if TYPE_CHECKING:
        window: float

    def rate(self, count: int) -> float:
        """Return the rate per second of a count within the window."""
        return count / self.window if self.window > 0 else 0.0


class Retried(Protocol):
    """The state of the retry of an attempt, and the attempt that it became."""

    @property
    def state(self) -> str: ...
    @property
    def next_session_id(self) -> str | None: ...


class ChainMember(Answer):
    """An attempt that knows its chain."""

    if TYPE_CHECKING:
        id: str
        status: str

        @property
        def retry_state(self) -> Retried: ...

        retry_chain: list[str]

    @property
    def final(self) -> bool:
        """This attempt has ended; its chain may go on."""
        return self.status in FINAL_STATUSES

    @property
    def started(self) -> bool:
        return self.status not in UNSTARTED_STATUSES

    @property
    def retry_waits(self) -> bool:
        """A retry is decided and has not been dispatched."""
        return self.retry_state.state in WAITING_STATES

    @property
    def successor_id(self) -> str | None:
        """The next attempt, if there is one."""
        if self.id in self.retry_chain[:-1]:
            return self.retry_chain[self.retry_chain.index(self.id) + 1]
        return self.retry_state.next_session_id if self.retry_state.state == "retried" else None

    @property
    def chain_over(self) -> bool:
        """No attempt runs and none waits: this one was the last."""
        return self.final and not self.retry_waits and self.successor_id is None
