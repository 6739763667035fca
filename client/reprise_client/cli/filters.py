"""The options that select sessions, shared by `session list` and the commands with `--all`."""

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from reprise_client.cli.ages import age


def age_option(text: str) -> Any:
    return typer.Option(metavar="AGE|TIME", help=text)


@dataclass(frozen=True, kw_only=True)
class Filters:
    """The values of the options; None means that an option was not given."""

    project: Annotated[str | None, typer.Option(metavar="DOMAIN/NAME")] = None
    all_projects: Annotated[bool, typer.Option("--all-projects", "-A")] = False
    queue: Annotated[str | None, typer.Option()] = None
    job_set: Annotated[str | None, typer.Option()] = None
    status: Annotated[str | None, typer.Option(help="Status, such as RUNNING or ERROR.")] = None
    cause: Annotated[str | None, typer.Option(help="Cause of the failure.")] = None
    category: Annotated[str | None, typer.Option(help="Failure category.")] = None
    signature: Annotated[str | None, typer.Option(help="Signature of the failure.")] = None
    retry_state: Annotated[str | None, typer.Option(help="Retry state, such as scheduled.")] = None
    exit_code: Annotated[int | None, typer.Option()] = None
    owner: Annotated[str | None, typer.Option()] = None
    executor: Annotated[str | None, typer.Option()] = None
    node: Annotated[str | None, typer.Option()] = None
    session_type: Annotated[
        str | None, typer.Option("--type", help="Session type, such as batch.")
    ] = None
    since: Annotated[str | None, age_option("Created at most this long ago: 30m, 2h, 7d.")] = None
    until: Annotated[str | None, age_option("Created at least this long ago.")] = None
    search: Annotated[str | None, typer.Option(help="Beginning of an id or a name.")] = None

    @property
    def given(self) -> bool:
        """Return whether any option was given."""
        return any(value is not None and value is not False for value in asdict(self).values())

    def of(self, project: str | None) -> dict[str, Any]:
        """Return the filters for the API; `project` is the context's."""
        return {
            "project": None if self.all_projects else self.project or project,
            "queue": self.queue,
            "job_set": self.job_set,
            "status": self.status,
            "retry_cause": self.cause,
            "failure_category": self.category,
            "signature": self.signature,
            "retry_state": self.retry_state,
            "exit_code": self.exit_code,
            "owner": self.owner,
            "executor": self.executor,
            "node": self.node,
            "session_type": self.session_type,
            "created_after": moment("--since", self.since),
            "created_before": moment("--until", self.until),
            "search": self.search,
        }


def moment(flag: str, text: str | None) -> str | None:
    """Return the time for an age such as `2h` or an ISO 8601 time, as the API takes it."""
    if text is None:
        return None
    try:
        ago = age(text, "smhd")
        if ago is None:
            return datetime.fromisoformat(text).astimezone().isoformat()
        return (datetime.now(UTC) - ago).isoformat()
    except (ValueError, OverflowError):
        why = f"{flag} takes an age such as 2h or a time, not {text!r}"
        raise typer.BadParameter(why) from None
