"""`manage.py standalone`: run all of Reprise in one command."""

import shlex
import sys
from argparse import ArgumentParser, ArgumentTypeError
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from base.variables.options import option
from reprise.kinds import ISOLATION
from reprise.standalone.credentials import Credentials
from reprise.standalone.errors import StandaloneError
from reprise.standalone.postgres import PostgresError
from reprise.standalone.server import Standalone
from reprise.standalone.web_count import MOST, OPTION, default_count, usable_cores
from sessions_app.services.access import unisolated

# The client is a separate program, as for every user: the server never imports it.
PROGRAM = str(Path(sys.executable).with_name("reprise"))


class Command(BaseCommand):
    """Runs until Ctrl-C or SIGTERM."""

    help = "Run the whole of Reprise: database, server, worker, beat and a local executor."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--data-dir", type=_directory, required=True, help="directory for all data"
        )
        parser.add_argument("--port", type=int, default=8000, help="port; 0 takes a free one")
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
        parser.add_argument(
            "--max-sessions",
            type=positive,
            default=8,
            help="maximum number of sessions at the same time",
        )
        parser.add_argument(
            OPTION,
            type=positive,
            default=default_count(usable_cores()),
            metavar="N",
            help="processes that answer calls, beside the one of the worker if they are several "
            f"(default: half of the cores, at least 1 and at most {MOST}; here %(default)s)",
        )
        parser.add_argument(
            "--isolate-runs",
            nargs="?",
            type=option(ISOLATION),
            metavar="{on,partly,off}",
            const="on",
            default=settings.REPRISE_ISOLATE_RUNS,
            help="isolate sessions from this machine's files, this server and each other; partly: "
            "as far as the kernel can (default $REPRISE_ISOLATE_RUNS, else off)",
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        server: Standalone | None = None
        try:
            server = Standalone(
                options["data_dir"].absolute(),
                host=options["host"],
                port=options["port"],
                slots=options["max_sessions"],
                isolate=options["isolate_runs"],
                web_processes=options["web_processes"],
            )
            credentials = server.start()
            if not server.called:
                self.stdout.write(
                    "Note: the local executor has not called yet, so nothing runs; its messages "
                    f"are in {options['data_dir'] / 'executor.log'}"
                )
            if self.ready(server, credentials, options["data_dir"]):
                server.wait()
        except (StandaloneError, PostgresError) as error:
            raise CommandError(str(error)) from error
        except OSError as error:
            place = f"{error.filename}: " if error.filename else ""
            raise CommandError(f"{place}{error.strerror or error}") from error
        except KeyboardInterrupt:
            pass
        finally:
            if server is not None:
                server.stop()
        self.stdout.write("Reprise has stopped.")

    def ready(self, server: Standalone, credentials: Credentials, data_dir: Path) -> bool:  # noqa: ARG002
        """Print where to look. Return whether the server stays up."""
        self.stdout.write(
            f"Reprise is ready at {credentials.url}\n"
            f"  log in as {credentials.username} with the password in "
            f"{data_dir / 'credentials.json'}\n"
            f"  API documentation: {credentials.url}/api/v2/docs/\n"
            f"  on the command line: {typed_program()} login --credentials "
            f"{shlex.quote(str(data_dir / 'credentials.json'))}\n"
            "Ctrl-C stops it."
        )
        self.warn()
        self.stdout.flush()
        return True

    def warn(self) -> None:
        """Print warnings about runs that are not isolated, with the user that they run as."""
        for text in unisolated.warnings():
            self.stdout.write(f"Note: {text}")


def typed_program() -> str:
    """Return how to call `reprise` from the working directory."""
    return shlex.quote(PROGRAM.removeprefix(f"{Path.cwd()}/"))


def _directory(text: str) -> Path:
    # An empty name comes from an unset shell variable, and would mean the current directory.
    if not text:
        raise ArgumentTypeError("the name of the directory is empty")
    return Path(text)


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)
