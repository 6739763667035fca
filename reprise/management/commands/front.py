"""`manage.py front`: run the ASGI front as a process of its own."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from reprise.front.server import Server
from reprise.wsgi import application

GRACE_SECONDS = 8
"""Seconds for calls in threads to finish; held calls are answered at once."""


class Command(BaseCommand):
    """Serves all calls; in production the proxy sends it only those that wait or stream."""

    help = "Serve the long polls of executors, event streams and all other requests, until SIGTERM."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
        parser.add_argument("--port", type=int, default=8001)

    def handle(self, *_args: Any, **options: Any) -> None:
        Server(application, grace=GRACE_SECONDS, host=options["host"], port=options["port"]).run()
