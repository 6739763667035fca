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
    help="Tell other servers of events, and see what became of it.", no_args_is_help=True
)

POLL_SECONDS = 0.5
PING_SECONDS = 60.0

WebhookArgument = Annotated[
    str, typer.Argument(metavar="WEBHOOK", help="Its id, or the beginning of it.")
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
    url: Annotated[str, typer.Argument(metavar="URL", help="Where events are sent.")],
    *,
    event: Annotated[
        list[str] | None,
        typer.Option(
            "--event",
            "-e",
            metavar="TYPE",
            help="Only these, such as session.error or 'session.retry_*'; may be given again.",
        ),
    ] = None,
    description: Annotated[str, typer.Option(help="What it is for.")] = "",
    project: ProjectOption = None,
) -> None:
    """Make a webhook and print its secret, this once."""
    made = client_of(ctx).webhook_create(
        url, project=project, event_types=event or (), description=description
    )
    note(f"webhook/{made.id} created; its secret is shown only now")
    typer.echo(made.secret)


@app.command()
def secret(
    ctx: typer.Context,
    webhook: WebhookArgument,
    *,
    overlap: Annotated[
        int | None, typer.Option(metavar="SECONDS", help="How long the old one signs, too.")
    ] = None,
) -> None:
    """Make a new secret and print it, this once."""
    client = client_of(ctx)
    made = client.webhook_secret(webhook_typed(client, webhook).id, overlap=overlap)
    note(f"webhook/{made.id} has a new secret, shown only now")
    typer.echo(made.secret)


@app.command()
def deliveries(
    ctx: typer.Context,
    webhook: WebhookArgument,
    *,
    state: Annotated[DeliveryState | None, typer.Option(help="Only those in this state.")] = None,
    session: Annotated[str | None, typer.Option(metavar="ID", help="Only of this session.")] = None,
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
        int | None, typer.Argument(metavar="DELIVERY", help="One of its deliveries.")
    ] = None,
    *,
    since: Annotated[
        datetime | None,
        typer.Option(help="In place of one: all since this time, which is UTC."),
    ] = None,
    state: Annotated[Again, typer.Option(help="Which of those since a time.")] = Again.FAILED,
) -> None:
    """Send again one delivery, or those that failed since a time."""
    if (delivery is None) == (since is None):
        raise CommandError("say which: a DELIVERY, or --since TIME", USAGE)
    client = client_of(ctx)
    number = webhook_typed(client, webhook).id
    if since is None:
        count = client.webhook_redeliver(number, delivery=delivery)
    else:
        count = client.webhook_redeliver(number, since=_utc(since), state=state.value)
    typer.echo(f"webhook/{number}: {count} sent again")


@app.command()
def ping(ctx: typer.Context, webhook: WebhookArgument) -> None:
    """Send a test message, also to one that is paused, and tell what the receiver says."""
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
    reason: Annotated[str, typer.Option(help="Why, for whoever wonders.")],
) -> None:
    """Pause the webhook. Events of the pause are sent after it is resumed."""
    client = client_of(ctx)
    done = client.webhook_pause(webhook_typed(client, webhook).id, reason)
    typer.echo(f"webhook/{done.id} paused")


@app.command()
def resume(ctx: typer.Context, webhook: WebhookArgument) -> None:
    """Go on from where it was paused."""
    client = client_of(ctx)
    done = client.webhook_resume(webhook_typed(client, webhook).id)
    typer.echo(f"webhook/{done.id} resumed")


@app.command()
def delete(
    ctx: typer.Context,
    webhook: WebhookArgument,
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing.")] = False,
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
