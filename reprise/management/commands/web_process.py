"""`manage.py web_process`: one of several web servers of standalone, which starts it."""

import os
import signal
import socket
from argparse import ArgumentParser
from pathlib import Path
from types import FrameType
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from reprise.front.shared_server import SharedServer
from reprise.standalone.configuration import WEB_POOL_SIZE, configure, use_database
from reprise.standalone.postgres import EmbeddedPostgres
from reprise.standalone.web import GRACE_SECONDS
from reprise.standalone.web_process import READY
from reprise.worker import broker, relay


class Command(BaseCommand):
    """Answers calls on a socket that it was given open, until SIGTERM."""

    help = "Serve calls for standalone, which starts this by itself (--web-processes)."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--data-dir", type=Path, required=True, help="standalone's own")
        parser.add_argument("--host", required=True, help="address on which standalone listens")
        parser.add_argument("--isolate-runs", required=True, help="as standalone's")
        for name, text in (
            ("listener", "descriptor of the listening socket"),
            ("pipe", "descriptor to which messages to the worker are written"),
        ):
            parser.add_argument(f"--{name}", type=int, required=True, help=text)

    def handle(self, *_args: Any, **options: Any) -> None:
        data_dir = options["data_dir"]
        configure(data_dir, host=options["host"], isolate=options["isolate_runs"])
        if settings.GIVEN.database_url is None:
            use_database(EmbeddedPostgres(data_dir).url, WEB_POOL_SIZE)
        # Every view comes with it, so it follows the settings.
        from reprise.wsgi import application  # noqa: PLC0415

        with os.fdopen(options["pipe"], "w", encoding="utf-8") as pipe:

            def ready() -> None:
                pipe.write(READY)
                pipe.flush()
                if broker.in_memory(settings.CELERY_BROKER_URL):
                    relay.pass_on_to(pipe)

            listener = socket.socket(fileno=options["listener"])
            _Server(application, listener, grace=GRACE_SECONDS, ready=ready).run(sockets=[])


class _Server(SharedServer):
    """A server that the main process stops when its executors have ended."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Ignore SIGINT: Ctrl-C reaches all processes, and the main one stops them in order."""
        if sig != signal.SIGINT:
            super().handle_exit(sig, frame)
