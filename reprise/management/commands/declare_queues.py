"""`manage.py declare_queues`: create what Reprise needs in RabbitMQ, at deployment."""

from argparse import ArgumentParser
from typing import Any

from amqp.exceptions import AMQPError, PreconditionFailed
from django.core.management.base import BaseCommand, CommandError
from kombu.exceptions import OperationalError

from reprise.celery import app
from reprise.worker import broker

CONNECT_SECONDS = 5


class Command(BaseCommand):
    """Safe to repeat, and while everything runs."""

    help = "Declare Reprise's exchanges and queues, and the ladder of delays, in RabbitMQ."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--replace",
            action="store_true",
            help="delete queues that exist with other arguments, and declare them again; their "
            "messages are lost, but they are only wake-ups",
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        if broker.in_memory(str(app.conf.broker_url)):
            raise CommandError("BROKER_URL is not set: the broker in memory needs no declarations")
        try:
            with app.connection_for_write(connect_timeout=CONNECT_SECONDS) as connection:
                connection.ensure_connection(max_retries=1, timeout=CONNECT_SECONDS)
                broker.declare(connection, replace=options["replace"])
        except PreconditionFailed as error:
            raise CommandError(
                f"{error.reply_text}\nAnother version of Reprise declared the queue: run the "
                "command again with --replace"
            ) from error
        except (OSError, OperationalError, AMQPError) as error:
            raise CommandError(f"RabbitMQ does not answer, or refuses: {error}") from error
        self.stdout.write(
            f"Declared: {', '.join(broker.KINDS)}, {broker.PARKED.name} and the ladder of delays."
        )
