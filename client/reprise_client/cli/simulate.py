"""`reprise simulate`: shows what a change of policies would have done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reprise_client.cli.ages import age
from reprise_client.cli.documents import Document, read_documents
from reprise_client.cli.exits import INVALID, USAGE, CommandError, complain
from reprise_client.cli.limits import METAVAR, UNLIMITED, limit
from reprise_client.cli.output import Format, OutputOption, console, emit, local_now, plain
from reprise_client.cli.scope import ProjectOption, asked_scope
from reprise_client.cli.simulate_view import simulation_report
from reprise_client.cli.simulation_parts import Chains, Window, in_parts
from reprise_client.cli.spec import with_options
from reprise_client.cli.state import client_of
from reprise_client.errors import ApiError

if TYPE_CHECKING:
    from reprise_client.api import Client
    from reprise_client.models import Simulation

LAST = "30d"
_POLICIES, _CATEGORIES, _DEFAULTS = "policies", "failure_categories", "retry_policy"
_SETTINGS, _SHARED = "settings", ("breaker", "retry_budget")


@dataclass(frozen=True)
class Draft:
    """The draft in the body of the call, and the documents that its fields come from."""

    body: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, tuple[Document, str]] = field(default_factory=dict)
    """The beginning of a field's path -> the document, and the path within it."""

    def faults(self, errors: dict[str, list[str]]) -> Iterator[str]:
        """Yield the server's errors at their places in the files."""
        for path, texts in errors.items():
            begin = max(filter(path.startswith, self.sources), key=len, default="")
            document, own = self.sources.get(begin, (None, ""))
            rest = path.removeprefix(begin).removeprefix(".")
            place = ".".join(name for name in (own, rest) if name)
            for text in texts:
                yield document.fault(place, text) if document else f"{path}: {text}"


def _limit(text: str) -> Any:
    return typer.Option(help=text, metavar=METAVAR, parser=limit)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """The values of the options; None means that an option was not given."""

    files: Annotated[
        list[str] | None,
        typer.Option(
            "--file",
            "-f",
            metavar="FILE",
            help="Retry policies in effective order, retry defaults, or failure categories.",
        ),
    ] = None
    retries: Annotated[
        Any, _limit("Maximum retries after failures, in each chain's own policy.")
    ] = None
    preemption_retries: Annotated[
        Any, _limit("Separate budget for preemptions and lost nodes.")
    ] = None
    global_max_retries: Annotated[Any, _limit("Maximum retries of any chain.")] = None
    last: Annotated[
        str | None,
        typer.Option(metavar="SPAN", help=f"Chains of this period, such as 12h (default: {LAST})."),
    ] = None
    since: Annotated[datetime | None, typer.Option(formats=["%Y-%m-%dT%H:%M:%S%z"])] = None
    until: Annotated[datetime | None, typer.Option(formats=["%Y-%m-%dT%H:%M:%S%z"])] = None
    project: ProjectOption = None
    chains: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Simulate these chains of terminations instead of the history."
        ),
    ] = None

    def draft(self) -> Draft:
        """Return the draft: the files, overridden by the options."""
        draft = Draft()
        for document in read_documents(self.files) if self.files else []:
            _lay(draft, document)
        own = {"max_retries": self.retries, "max_preemption_retries": self.preemption_retries}
        if defaults := {name: value for name, value in own.items() if value is not None}:
            draft.body[_DEFAULTS] = {**draft.body.get(_DEFAULTS, {}), **defaults}
        if self.global_max_retries is not None:
            most = self.global_max_retries
            limit = {"global_max_retries": None if most == UNLIMITED else most}
            draft.body[_SETTINGS] = {**draft.body.get(_SETTINGS, {}), **limit}
        return draft

    def given(self, source: str) -> Chains:
        """Return the chains of the file `source`, to simulate instead of a past."""
        if self.last or self.since or self.until or self.project:
            raise typer.BadParameter("--chains replaces the history of a project: give one of them")
        return Chains(_chains(source))

    def window(self, now: datetime) -> Window:
        """Return the part of the past to simulate."""
        if self.last and self.since:
            raise typer.BadParameter("give --last or --since, not both")
        return Window(self.since or _before(self.until or now, self.last or LAST), self.until, now)


@with_options(Trial)
def simulate(
    trial: Trial,
    ctx: typer.Context,
    *,
    decisions: Annotated[
        bool, typer.Option("--decisions", help="With -o json or yaml: include every decision.")
    ] = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Simulate what policies would decide, for the history of a project or for given failures.

    Nothing is changed. Settings that the files and options do not give are those that each chain
    had.
    """
    draft = trial.draft()
    part: Chains | Window
    if trial.chains is not None:
        part, about = trial.given(trial.chains), f"given in {trial.chains}"
    elif draft.body:
        part = trial.window(local_now())
        about = f"submitted since {part.since:%Y-%m-%d %H:%M}"
    else:
        raise typer.BadParameter("give what to simulate: -f FILE, --retries N, ...")
    client = client_of(ctx)
    whole = output is not Format.TABLE and decisions
    scope = asked_scope(None, trial.project)
    found = _asked(client, draft, part, scope.address if scope else None, whole)
    emit(
        output,
        plain(found),
        table=lambda: simulation_report(found, about, client.url),
        names=(each.root for each in found.summary.changed),
    )


def _lay(draft: Draft, document: Document) -> None:
    """Add a document to the draft's body."""
    data = document.data
    spec, metadata = data.get("spec"), data.get("metadata")
    match data.get("kind"):
        case "RetryDefaults":
            policy, settings = _parts(spec)
            draft.body[_DEFAULTS] = {**draft.body.get(_DEFAULTS, {}), **policy}
            draft.sources[_DEFAULTS] = (document, "spec.policy")
            if shared := {name: settings[name] for name in _SHARED if name in settings}:
                draft.body[_SETTINGS] = {**draft.body.get(_SETTINGS, {}), **shared}
                draft.sources[_SETTINGS] = (document, "spec.settings")
        case "FailureCategory":
            named = metadata if isinstance(metadata, dict) else {}
            fields = spec if isinstance(spec, dict) else {}
            listed = draft.body.setdefault(_CATEGORIES, [])
            draft.sources[f"{_CATEGORIES}[{len(listed)}]"] = (document, "spec")
            listed.append({"name": named.get("name"), "matchers": fields.get("matchers")})
        case "Queue":
            raise CommandError(document.fault("kind", "queues are not simulated"), USAGE)
        case _:
            listed = draft.body.setdefault(_POLICIES, [])
            draft.sources[f"{_POLICIES}[{len(listed)}]"] = (document, "")
            listed.append(data)


def _parts(spec: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return `policy` and `settings` of retry defaults; empty if there are none."""
    found = spec if isinstance(spec, dict) else {}
    policy, settings = found.get("policy"), found.get("settings")
    return policy or {}, settings if isinstance(settings, dict) else {}


def _before(moment: datetime, span: str) -> datetime:
    try:
        ago = age(span.strip())
        if ago is not None:
            return moment - ago
    except OverflowError:
        raise typer.BadParameter(f"--last is too long: {span!r}") from None
    raise typer.BadParameter(f"--last takes a number of s, m, h, d or w, not {span!r}")


def _chains(source: str) -> list[Any]:
    """Return the chains of a file: a list, a body of the API, or one chain per document."""
    documents = [each.data for each in read_documents([source])]
    if len(documents) == 1 and isinstance(documents[0].get("chains"), list):
        return list(documents[0]["chains"])
    return documents


def _asked(
    client: Client, draft: Draft, part: Chains | Window, project: str | None, decisions: bool
) -> Simulation:
    def ask(asked: Chains | Window) -> Simulation:
        if isinstance(asked, Chains):
            return client.simulate_chains(asked.items, draft=draft.body)
        return client.simulate_history(
            asked.since, asked.until, draft=draft.body, project=project, decisions=decisions
        )

    shown = console(err=True)
    try:
        with shown.status("Simulating ...") if shown.is_terminal else nullcontext():
            return in_parts(ask, part)
    except ApiError as error:
        if error.status != 400 or not error.errors:
            raise
        for fault in draft.faults(error.errors):
            complain(fault)
        raise typer.Exit(INVALID) from error
