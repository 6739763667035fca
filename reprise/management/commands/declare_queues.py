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
            help="delete a queue that exists with other arguments, and its messages, which are "
            "only wake-ups, and declare it again",
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        if broker.in_memory(str(app.conf.broker_url)):
            raise CommandError("BROKER_URL is not set: the broker in memory has nothing to declare")
        try:
            with app.connection_for_write(connect_timeout=CONNECT_SECONDS) as connection:
                connection.ensure_connection(max_retries=1, timeout=CONNECT_SECONDS)
                broker.declare(connection, replace=options["replace"])
        except PreconditionFailed as error:
            raise CommandError(
                f"{error.reply_text}\nThe queue is of another version of Reprise: run the command "
                "again with --replace"
            ) from error
        except (OSError, OperationalError, AMQPError) as error:
            raise CommandError(f"RabbitMQ does not answer as it should: {error}") from error
        self.stdout.write(
            f"Declared: {', '.join(broker.KINDS)}, {broker.PARKED.name} and the ladder of delays."
        )
