"""`manage.py front`: run the ASGI front as a process of its own."""

import signal
from argparse import ArgumentParser
from types import FrameType
from typing import Any

import uvicorn
from django.core.management.base import BaseCommand

from reprise.front.app import Front
from reprise.standalone.web import KEEP_ALIVE_SECONDS
from reprise.wsgi import application

GRACE_SECONDS = 8
"""Seconds for requests in threads to finish; held calls are answered at once."""


class Server(uvicorn.Server):
    """Answers held calls before it waits for the end of all requests.

    uvicorn itself tells the application that it stops only when nothing is left to answer.
    """

    def __init__(self, config: uvicorn.Config, front: Front):
        super().__init__(config)
        self._front = front

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """Stop in order on SIGTERM and SIGINT; stop at once on a second SIGINT.

        uvicorn's own handler lets the process end by the signal after the stop, which supervisors
        take for a failure.
        """
        self._front.close()
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True


class Command(BaseCommand):
    """Serves all calls; in production the proxy sends it only those that wait or stream."""

    help = "Serve the long polls of executors, event streams and all other requests, until SIGTERM."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
        parser.add_argument("--port", type=int, default=8001)

    def handle(self, *_args: Any, **options: Any) -> None:
        front = Front(application)
        config = uvicorn.Config(
            front,
            host=options["host"],
            port=options["port"],
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            # Only REPRISE_TRUST_PROXY decides whose forwarded addresses are believed.
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
        Server(config, front).run()
