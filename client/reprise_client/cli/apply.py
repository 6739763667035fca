"""`reprise apply` and `update`: bring the server in line with documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reprise_client.cli.documents import Document, read_documents
from reprise_client.cli.exits import USAGE, CommandError, code_of, complain, hint_of
from reprise_client.cli.kinds import KINDS, kind_named
from reprise_client.cli.kinds.base import API_VERSION, Applied, FieldError, How, Kind
from reprise_client.cli.output import note
from reprise_client.cli.scope import DomainOption, ProjectOption, Scope, asked_scope
from reprise_client.cli.state import client_of
from reprise_client.errors import ApiError

if TYPE_CHECKING:
    from reprise_client.api import Client

KEYS = ("apiVersion", "kind", "metadata", "spec", "status")


MoreArgument = Annotated[list[str] | None, typer.Argument(metavar="FILE", help="More files.")]


def file_option() -> Any:
    """Return the option that names files of documents."""
    text = "YAML or JSON file, a directory of them, or - for stdin."
    return typer.Option("--file", "-f", metavar="FILE", help=text)


FilesOption = Annotated[list[str], file_option()]


def apply(
    ctx: typer.Context,
    more: MoreArgument = None,
    *,
    files: FilesOption,
    domain: DomainOption = None,
    project: ProjectOption = None,
) -> None:
    """Create or change objects from documents.

    Documents are retry policies, queues, retry defaults, failure categories and existing executors.
    Nothing is sent unless all files are readable and valid documents. Then each one is applied,
    dependencies first.
    """
    send_documents(ctx, [*files, *(more or [])], asked_scope(domain, project), How.APPLY)


def update(
    ctx: typer.Context,
    more: MoreArgument = None,
    *,
    files: FilesOption,
    domain: DomainOption = None,
    project: ProjectOption = None,
) -> None:
    """Change existing objects from documents. Otherwise it works like `apply`."""
    send_documents(ctx, [*files, *(more or [])], asked_scope(domain, project), How.UPDATE)


def send_documents(
    ctx: typer.Context, sources: Sequence[str], asked: Scope | None, how: How
) -> None:
    """Apply the documents in files; exit with the code of the first refusal."""
    wanted = documents_wanted(sources)
    client = client_of(ctx)
    codes = [code for each in wanted if (code := _applied(client, each, asked, how))]
    if codes:
        raise typer.Exit(codes[0])


@dataclass(frozen=True)
class Wanted:
    """A document and its kind."""

    document: Document
    kind: Kind[Any]


def documents_wanted(sources: Sequence[str]) -> list[Wanted]:
    """Return the documents in files, in the order in which they depend on each other.

    Exits if any document is malformed.
    """
    documents = read_documents(sources)
    faults = [
        document.fault(path, fault)
        for document in documents
        for path, fault in _faults(document.data)
    ]
    for fault in faults:
        complain(fault)
    if faults:
        raise typer.Exit(USAGE)
    wanted = [
        Wanted(document, kind)
        for document in documents
        if (kind := kind_named(document.data["kind"]))
    ]
    return sorted(wanted, key=lambda each: KINDS.index(each.kind))


_Fault = tuple[str, str]


def _faults(data: Mapping[str, Any]) -> Iterator[_Fault]:
    """Yield what is wrong in the form of a document. The server checks the rest."""
    kind, version = kind_named(data.get("kind")), data.get("apiVersion")
    if kind is None or not kind.is_foreign(version):
        for key in data:
            if key not in KEYS:
                yield key, "is not a known field"
        if version != API_VERSION:
            yield "apiVersion", f"must be {API_VERSION}"
    if kind is None:
        yield "kind", f"must be one of: {', '.join(sorted(each.name for each in KINDS))}"
        return
    spec = data.get("spec")
    if isinstance(spec, dict):
        yield from kind.faults(spec)
    else:
        yield "spec", "must be a mapping of fields"
    metadata = data.get("metadata")
    if not isinstance(metadata, dict):
        yield (
            "metadata",
            "must be a mapping of fields" + ("" if kind.needs_name else "; {} will do"),
        )
        return
    yield from _metadata_faults(kind, metadata)


def _metadata_faults(kind: Kind[Any], metadata: Mapping[str, Any]) -> Iterator[_Fault]:
    for key, value in metadata.items():
        if key not in kind.metadata_keys:
            yield f"metadata.{key}", f"is not a known field of a {kind.name}"
        elif value is not None and not isinstance(value, str):
            yield f"metadata.{key}", "must be text"
    if kind.needs_name and not metadata.get("name"):
        yield "metadata.name", "is required"
    project, domain = metadata.get("project"), metadata.get("domain")
    if isinstance(project, str) and "/" in project:
        before, _, after = project.partition("/")
        yield "metadata.project", f"must be written as domain: {before} and project: {after}"
    elif project and not domain:
        yield "metadata.project", "requires the domain"


def _applied(client: Client, wanted: Wanted, asked: Scope | None, how: How) -> int:
    """Apply one document and print the result. Return 0, or the exit code of a refusal."""
    document, kind = wanted.document, wanted.kind
    try:
        applied = kind.apply(client, document.data, asked, how)
    except CommandError as error:
        path = error.path if isinstance(error, FieldError) else ""
        complain(document.fault(path, str(error)))
        return error.code
    except ApiError as error:
        if error.status in {401, 429} or error.status >= 500:  # the next one would fail, too
            raise
        for fault in refusals(wanted, error):
            complain(fault)
        return code_of(error)
    _say(kind, applied, document)
    return 0


def refusals(wanted: Wanted, error: ApiError) -> Iterator[str]:
    """Yield what the server refused, at its places in the document."""
    document, kind = wanted.document, wanted.kind
    if error.status != 400 or not error.errors:
        hint = hint_of(error) if error.status == 403 else ""
        text = error.detail or error.title
        yield document.fault("", f"{text} ({hint})" if hint else text)
        return
    for name, texts in error.errors.items():
        path = "" if name == "body" else kind.field_path(name)
        for text in texts:
            yield document.fault(path, f"{text}{_advice(text)}")


def _advice(text: str) -> str:
    return " (see: reprise get policies)" if text.startswith("unknown retry policies") else ""


def _say(kind: Kind[Any], applied: Applied, document: Document) -> None:
    revision = "" if applied.revision is None else f", revision {applied.revision}"
    typer.echo(f"{kind.label}/{applied.address} {applied.outcome}{revision}")
    for warning in applied.warnings:
        path, _, text = warning.partition(" ")
        note(f"warning: {document.fault(path, text)}", "yellow")
