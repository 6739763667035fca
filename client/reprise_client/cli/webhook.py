"""`reprise webhook`: create, show, pause and resume webhooks, and repeat deliveries."""

import time
from datetime import UTC, datetime
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from reprise_client.cli import get
from reprise_client.cli.exits import FAILED, USAGE, CommandError
from reprise_client.cli.kinds.webhook import answer_words, delivery_table, webhook_typed
from reprise_client.cli.output import Format, OutputOption, emit, local_now, note, plain
from reprise_client.cli.scope import ProjectOption
from reprise_client.cli.state import client_of

if TYPE_CHECKING:
    from reprise_client.api import Client
    from reprise_client.models import WebhookDelivery

app = typer.Typer(
    help="Send events to other servers, and show the deliveries.", no_args_is_help=True
)

POLL_SECONDS = 0.5
PING_SECONDS = 60.0

WebhookArgument = Annotated[
    str,
    typer.Argument(metavar="WEBHOOK", help="ID of the webhook, or an unambiguous beginning of it."),
]


class DeliveryState(StrEnum):
    WAITING = "waiting"
    DELIVERED = "delivered"
    FAILED = "failed"


class Again(StrEnum):
    FAILED = "failed"
    DELIVERED = "delivered"
    ALL = "all"


@app.command()
def create(
    ctx: typer.Context,
    url: Annotated[str, typer.Argument(metavar="URL", help="URL that receives the events.")],
    *,
    event: Annotated[
        list[str] | None,
        typer.Option(
            "--event",
            "-e",
            metavar="TYPE",
            help="Only these events, such as session.error or 'session.retry_*'; repeatable.",
        ),
    ] = None,
    description: Annotated[str, typer.Option(help="Purpose of the webhook.")] = "",
    project: ProjectOption = None,
) -> None:
    """Create a webhook and print its secret. It is shown only once."""
    made = client_of(ctx).webhook_create(
        url, project=project, event_types=event or (), description=description
    )
    note(f"webhook/{made.id} created; its secret is shown only once")
    typer.echo(made.secret)


@app.command()
def secret(
    ctx: typer.Context,
    webhook: WebhookArgument,
    *,
    overlap: Annotated[
        int | None, typer.Option(metavar="SECONDS", help="Time for which the old secret signs too.")
    ] = None,
) -> None:
    """Create a new secret and print it. It is shown only once."""
    client = client_of(ctx)
    made = client.webhook_secret(webhook_typed(client, webhook).id, overlap=overlap)
    note(f"webhook/{made.id} has a new secret, shown only once")
    typer.echo(made.secret)


@app.command()
def deliveries(
    ctx: typer.Context,
    webhook: WebhookArgument,
    *,
    state: Annotated[
        DeliveryState | None, typer.Option(help="Only deliveries in this state.")
    ] = None,
    session: Annotated[
        str | None, typer.Option(metavar="ID", help="Only deliveries of this session.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number to show.")] = 50,
    output: OutputOption = Format.TABLE,
) -> None:
    """List the deliveries of a webhook, sent and waiting, newest first."""
    client = client_of(ctx)
    number = webhook_typed(client, webhook).id
    asked = {"state": state and state.value, "session": session, "page_size": min(limit, 500)}
    found = list(islice(client.webhook_deliveries(number, **asked), limit))
    emit(
        output,
        [plain(item) for item in found],
        table=lambda: delivery_table(found, local_now()),
        names=(str(item.id) for item in found),
    )


@app.command()
def redeliver(
    ctx: typer.Context,
    webhook: WebhookArgument,
    delivery: Annotated[
        int | None, typer.Argument(metavar="DELIVERY", help="ID of a delivery.")
    ] = None,
    *,
    since: Annotated[
        datetime | None,
        typer.Option(help="All deliveries since this time (UTC), instead of one."),
    ] = None,
    state: Annotated[
        Again, typer.Option(help="With --since: only deliveries in this state.")
    ] = Again.FAILED,
) -> None:
    """Send one delivery again, or all that failed since a time."""
    if (delivery is None) == (since is None):
        raise CommandError("give a DELIVERY or --since TIME", USAGE)
    client = client_of(ctx)
    number = webhook_typed(client, webhook).id
    if since is None:
        count = client.webhook_redeliver(number, delivery=delivery)
    else:
        count = client.webhook_redeliver(number, since=_utc(since), state=state.value)
    typer.echo(f"webhook/{number}: {count} sent again")


@app.command()
def ping(ctx: typer.Context, webhook: WebhookArgument) -> None:
    """Send a test message, even if the webhook is paused, and show the answer of the receiver."""
    client = client_of(ctx)
    number = webhook_typed(client, webhook).id
    done = _await(client, number, client.webhook_ping(number))
    answer = answer_words(done) or f"nothing was sent within {PING_SECONDS:g} s: do workers run?"
    if done.state != "delivered":
        raise CommandError(f"webhook/{number}: {answer}", FAILED)
    typer.echo(f"webhook/{number} answers {answer}")


@app.command()
def pause(
    ctx: typer.Context,
    webhook: WebhookArgument,
    *,
    reason: Annotated[str, typer.Option(help="Reason, shown with the webhook.")],
) -> None:
    """Pause the webhook. Events of the pause are sent after it is resumed."""
    client = client_of(ctx)
    done = client.webhook_pause(webhook_typed(client, webhook).id, reason)
    typer.echo(f"webhook/{done.id} paused")


@app.command()
def resume(ctx: typer.Context, webhook: WebhookArgument) -> None:
    """Resume a paused webhook from where it stopped."""
    client = client_of(ctx)
    done = client.webhook_resume(webhook_typed(client, webhook).id)
    typer.echo(f"webhook/{done.id} resumed")


@app.command()
def delete(
    ctx: typer.Context,
    webhook: WebhookArgument,
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Delete a webhook and its deliveries."""
    get.delete(ctx, "webhook", webhook, yes=yes)


def _utc(given: datetime) -> datetime:
    return given if given.tzinfo else given.replace(tzinfo=UTC)


def _await(client: "Client", number: str, sent: "WebhookDelivery") -> "WebhookDelivery":
    deadline = time.monotonic() + PING_SECONDS
    while sent.state == "waiting" and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
        sent = client.webhook_delivery(number, sent.id)
    return sent
