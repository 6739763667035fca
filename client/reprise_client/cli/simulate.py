"""`reprise simulate`: what a change of policies would have done, before anybody makes it."""

import re
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated, Any

import typer

from reprise_client.api import Client
from reprise_client.cli.documents import Document, read_documents
from reprise_client.cli.exits import INVALID, USAGE, CommandError, complain
from reprise_client.cli.output import Format, OutputOption, console, emit, local_now, plain
from reprise_client.cli.scope import ProjectOption, asked_scope
from reprise_client.cli.simulate_view import simulation_report
from reprise_client.cli.simulation_parts import Chains, Window, in_parts
from reprise_client.cli.state import client_of
from reprise_client.errors import ApiError
from reprise_client.simulations import Simulation

LAST = "30d"
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_SPAN = re.compile(r"(\d{1,9})([smhdw])")
_POLICIES, _CATEGORIES, _DEFAULTS = "policies", "failure_categories", "retry_policy"


@dataclass(frozen=True)
class Draft:
    """The body's part that is tried, and the documents that its fields come from."""

    body: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, tuple[Document, str]] = field(default_factory=dict)
    """By the beginning of a field's path: the document, and that beginning within it."""

    def faults(self, errors: dict[str, list[str]]) -> Iterator[str]:
        """What the server found wrong, at its place in the files."""
        for path, texts in errors.items():
            begin = max(filter(path.startswith, self.sources), key=len, default="")
            document, own = self.sources.get(begin, (None, ""))
            rest = path.removeprefix(begin).removeprefix(".")
            place = ".".join(name for name in (own, rest) if name)
            for text in texts:
                yield document.fault(place, text) if document else f"{path}: {text}"


def simulate(
    ctx: typer.Context,
    *,
    files: Annotated[
        list[str] | None,
        typer.Option(
            "--file",
            "-f",
            metavar="FILE",
            help="Retry policies in effective order; or retry defaults, or failure categories.",
        ),
    ] = None,
    retries: Annotated[
        int | None, typer.Option(min=0, help="Retries after failures, in each chain's own policy.")
    ] = None,
    preemption_retries: Annotated[
        int | None, typer.Option(min=0, help="The budget apart for preemptions and lost nodes.")
    ] = None,
    global_max_retries: Annotated[
        int | None, typer.Option(min=0, help="The most retries of any chain.")
    ] = None,
    last: Annotated[
        str | None,
        typer.Option(metavar="SPAN", help=f"Chains submitted since, such as 12h; else {LAST}."),
    ] = None,
    since: Annotated[datetime | None, typer.Option(formats=["%Y-%m-%dT%H:%M:%S%z"])] = None,
    until: Annotated[datetime | None, typer.Option(formats=["%Y-%m-%dT%H:%M:%S%z"])] = None,
    project: ProjectOption = None,
    chains: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Not the past, but these chains of terminations."),
    ] = None,
    decisions: Annotated[
        bool, typer.Option("--decisions", help="With -o json or yaml: every decision, too.")
    ] = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Say what policies would decide, about the past of a project or about given failures.

    Nothing is changed. What the files and options leave open is what each chain had.
    """
    draft = _draft(files or [], retries, preemption_retries, global_max_retries)
    now = local_now()
    if chains is not None:
        if last or since or until or project:
            raise typer.BadParameter("--chains takes the place of a project's past")
        about = f"given in {chains}"
        part: Chains | Window = Chains(_given(chains))
    else:
        if not draft.body:
            raise typer.BadParameter("give what is to be tried: -f FILE, --retries N, ...")
        part = _window(last, since, until, now)
        about = f"submitted since {part.since:%Y-%m-%d %H:%M}"
    client = client_of(ctx)
    whole = output is not Format.TABLE and decisions
    scope = asked_scope(None, project)
    found = _asked(client, draft, part, scope.address if scope else None, whole)
    emit(
        output,
        plain(found),
        table=lambda: simulation_report(found, about, client.url),
        names=(each.root for each in found.summary.changed),
    )


def _draft(
    files: Sequence[str],
    retries: int | None,
    preemption_retries: int | None,
    global_max_retries: int | None,
) -> Draft:
    draft = Draft()
    for document in read_documents(files) if files else []:
        _lay(draft, document)
    own = {"max_retries": retries, "max_preemption_retries": preemption_retries}
    if said := {name: value for name, value in own.items() if value is not None}:
        draft.body[_DEFAULTS] = {**draft.body.get(_DEFAULTS, {}), **said}
    if global_max_retries is not None:
        draft.body["settings"] = {"global_max_retries": global_max_retries}
    return draft


def _lay(draft: Draft, document: Document) -> None:
    """Put a document where it belongs in the body."""
    data = document.data
    spec, metadata = data.get("spec"), data.get("metadata")
    match data.get("kind"):
        case "RetryDefaults":
            policy = spec.get("policy") if isinstance(spec, dict) else None
            draft.body[_DEFAULTS] = {**draft.body.get(_DEFAULTS, {}), **(policy or {})}
            draft.sources[_DEFAULTS] = (document, "spec.policy")
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


def _window(
    last: str | None, since: datetime | None, until: datetime | None, now: datetime
) -> Window:
    if last and since:
        raise typer.BadParameter("give --last or --since, not both")
    return Window(since or (until or now) - _span(last or LAST), until, now)


def _span(text: str) -> timedelta:
    found = _SPAN.fullmatch(text.strip())
    if not found:
        raise typer.BadParameter(f"--last takes a number of s, m, h, d or w, not {text!r}")
    return timedelta(seconds=int(found[1]) * _UNITS[found[2]])


def _given(source: str) -> list[Any]:
    """The chains of a file: a list, a body of the API, or documents that are one chain each."""
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
