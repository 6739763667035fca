"""The filters of the list of sessions, as they stand in its address."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from urllib.parse import urlencode
from uuid import UUID

from django.http import QueryDict
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from interfaces.requests.queries import lowered, uppered
from interfaces.web import parts
from interfaces.web.parts import Choice
from interfaces.web.session_columns import USUAL, Name, columns_of
from retry.evidence.causes import RetryCause
from sessions_app.core.states import RetryState, Status
from sessions_app.selectors.session_pages import SEARCHED, SessionsWanted, SpecWanted

# PostgreSQL refuses text with NUL.
_Text = Annotated[str, Field(max_length=200, pattern=r"^[^\x00]+$")]


def _in_utc(value: datetime) -> datetime:
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def _written_out(value: object) -> object:
    # A bare number would be read as seconds since 1970.
    if isinstance(value, str) and value.replace(".", "").isdigit():
        raise ValueError("must be a time such as 2030-01-31T12:00")
    return value


_Time = Annotated[datetime, BeforeValidator(_written_out), AfterValidator(_in_utc)]


class SessionsFilter(BaseModel):
    """The query string of the list; the names are those of `GET /sessions/` where it has them."""

    model_config = ConfigDict(frozen=True)

    search: _Text | None = None
    status: Annotated[Status, BeforeValidator(uppered)] | None = None
    retry_state: Annotated[RetryState, BeforeValidator(lowered)] | None = None
    project: _Text | None = None
    retry_cause: Annotated[RetryCause, BeforeValidator(lowered)] | None = None
    signature: _Text | None = None
    queue: _Text | None = None
    owner: _Text | None = None
    job_set: _Text | None = None
    executor: _Text | None = None
    node: _Text | None = None
    created_after: _Time | None = None
    created_before: _Time | None = None
    image: _Text | None = None
    label: _Text | None = None
    attempts: Literal["newest", "all"] = "newest"
    columns: Annotated[tuple[Name, ...], BeforeValidator(columns_of)] = USUAL
    order: Literal["newest", "oldest"] = "newest"
    after: UUID | None = None
    """The last id of the page before."""

    def wanted(self) -> SessionsWanted:
        """Return the filters that an index serves."""
        shared = {name: getattr(self, name) for name in _INDEXED}
        # The newest attempt of a chain has no retry yet.
        every = self.attempts == "all" or self.retry_state is RetryState.RETRIED
        return SessionsWanted(tip=None if every else True, **shared)

    def spec(self) -> SpecWanted:
        """Return the filters by the specification, for which a bounded number is looked at."""
        return SpecWanted(self.image, self.label)

    @property
    def conditions(self) -> dict[str, str]:
        """Return the filters that are set, as they stand in an address."""
        return {name: _written(getattr(self, name)) for name in LABELS if getattr(self, name)}

    @property
    def filtered(self) -> bool:
        """Return whether any filter is set."""
        return bool(self.conditions)

    def query(self, **changes: object) -> str:
        """Return the query string with some values changed; None leaves one out."""
        kept: dict[str, Any] = dict(self.conditions)
        kept |= {"attempts": self.attempts, "order": self.order, "after": self.after}
        kept["columns"] = None if self.columns == USUAL else ",".join(self.columns)
        kept |= changes
        return urlencode({name: str(value) for name, value in kept.items() if value not in _USUAL})


_USUAL: Sequence[object] = (None, "", "newest")
_INDEXED = (
    *("search", "status", "retry_state", "project", "retry_cause", "queue", "owner", "job_set"),
    *("executor", "node", "created_after", "created_before", "signature"),
)
LABELS = {
    "search": "Name or id begins with",
    "status": "Status",
    "retry_state": "Retries",
    "project": "Project",
    "retry_cause": "Cause",
    "signature": "Signature",
    "queue": "Queue",
    "owner": "Owner",
    "job_set": "Job set",
    "executor": "Executor",
    "node": "Node",
    "created_after": "Created from (UTC)",
    "created_before": "Created before (UTC)",
    "image": "Image contains",
    "label": "Label",
}
"""The filters and what the page calls them, in its order."""
ALWAYS_SHOWN = ("search", "status", "retry_state", "project")
_LOOKED_AT = f"Looks at the newest {SEARCHED:,} sessions that match the other filters."
_HELP = {"image": _LOOKED_AT, "label": f"As name or name=value. {_LOOKED_AT}"}
_KINDS = {
    "search": "search",
    "status": "select",
    "retry_state": "select",
    "project": "select",
    "retry_cause": "select",
    "created_after": "datetime-local",
    "created_before": "datetime-local",
}


def sessions_filter(query: QueryDict) -> tuple[SessionsFilter, list[str]]:
    """Return the valid filters, and the names of the invalid ones."""
    sent = {name: query[name] for name in SessionsFilter.model_fields if query.get(name)}
    if "columns" in sent:  # the form sends one value for each
        sent["columns"] = ",".join(query.getlist("columns"))
    try:
        return SessionsFilter.model_validate(sent), []
    except ValidationError as error:
        wrong = sorted({str(item["loc"][0]) for item in error.errors()})
    kept = {name: text for name, text in sent.items() if name not in wrong}
    return SessionsFilter.model_validate(kept), wrong


def filter_fields(
    wanted: SessionsFilter, wrong: Sequence[str], projects: Sequence[str]
) -> tuple[list[parts.Field], list[parts.Field]]:
    """Return the form fields: those that are always shown, and the others."""
    choices: Mapping[str, Sequence[Choice]] = {
        "status": [Choice(each.value, each.value) for each in Status],
        "retry_state": [Choice(each.value, each.value.replace("_", " ")) for each in RetryState],
        "retry_cause": [Choice(each.value, each.value.replace("_", " ")) for each in RetryCause],
        "project": [Choice(each, each) for each in projects],
    }
    fields = {
        name: parts.Field(
            name,
            label,
            wanted.conditions.get(name, ""),
            kind=_KINDS.get(name, "text"),
            choices=choices.get(name, ()),
            help=_HELP.get(name, ""),
            error="not understood, so left out" if name in wrong else "",
            wide=name == "search",
        )
        for name, label in LABELS.items()
    }
    attempts = parts.Field(
        "attempts",
        "Show",
        wanted.attempts,
        kind="select",
        choices=[Choice("newest", "the newest attempt"), Choice("all", "every attempt")],
        empty="",
    )
    shown = [fields.pop(name) for name in ALWAYS_SHOWN]
    return shown, [*fields.values(), attempts]


def chips(wanted: SessionsFilter) -> Iterator[tuple[str, str, str]]:
    """Yield the filters that are set: label, value, and the query string without it."""
    for name, value in wanted.conditions.items():
        yield LABELS[name], value, wanted.query(**{name: None, "after": None})
    if wanted.attempts == "all":
        yield "Show", "every attempt", wanted.query(attempts=None, after=None)


def _written(value: object) -> str:
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%dT%H:%M}"
    return str(value)
