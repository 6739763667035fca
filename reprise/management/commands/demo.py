"""`manage.py demo`: standalone, and a flaky session that is retried until it succeeds."""

import os
import shlex
import subprocess
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from reprise.management.commands.standalone import PROGRAM, typed_program
from reprise.management.commands.standalone import Command as StandaloneCommand
from reprise.standalone.credentials import Credentials
from reprise.standalone.errors import StandaloneError
from reprise.standalone.server import Standalone
from reprise.standalone.web import listen
from sessions_app.core.demo_session import FLAKY, NAME

SHOWN = """\
echo "attempt $((REPRISE_ATTEMPT + 1)): working on it ..."; sleep 1
    if [ "$REPRISE_ATTEMPT" -lt 2 ]; then echo "the network went away" >&2; exit 75; fi
    echo "done: 42\""""
RETRIES = ["--retries", "3", "--retry-delay", "2", "--backoff", "exponential"]


class Command(StandaloneCommand):
    """Shows a newcomer the main features, with the commands for them."""

    help = "Start everything, run a session that fails and is retried, show its chain, and stay up."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--exit", action="store_true", help="stop after the demonstration instead of staying up"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        options["port"] = self._free_port(options["host"], options["port"])
        self._exit = options["exit"]
        super().handle(*args, **options)

    def _free_port(self, host: str, port: int) -> int:
        """Return the wanted port, or 0 for any free one if it is taken."""
        try:
            listen(host, port).close()
        except StandaloneError:
            self.stdout.write(f"Port {port} is taken; a free one is used instead.")
            return 0
        return port

    def ready(self, server: Standalone, credentials: Credentials, data_dir: Path) -> bool:  # noqa: ARG002
        """Show the demonstration. Return whether the server stays up."""
        self._show(credentials)
        self._farewell(credentials, data_dir)
        return not self._exit

    def _show(self, credentials: Credentials) -> None:
        self._say("A job that fails twice before it succeeds, with a policy that retries it:")
        self.stdout.write(f"  $ reprise run any-image {' '.join(RETRIES)} -- sh -c '{SHOWN}'\n\n")
        command = ["run", "any-image", "--name", NAME, "--detach", *RETRIES]
        session_id = self._reprise(credentials, *command, "--", "sh", "-c", FLAKY).strip()
        self._say("It runs, fails, waits and is retried:")
        self._shown(credentials, "session", "wait", session_id)
        self._say("The chain, oldest first; every attempt is a session of its own:")
        self._shown(credentials, "session", "attempts", session_id)
        self._say("Why the first attempt was retried:")
        self._shown(credentials, "session", "explain", session_id)
        self._say("The logs of all attempts:")
        self._shown(credentials, "session", "logs", session_id, "--all-attempts")

    def _farewell(self, credentials: Credentials, data_dir: Path) -> None:
        path = shlex.quote(str(data_dir / "credentials.json"))
        self._say("Try it yourself:")
        self.stdout.write(
            f"  web pages    {credentials.url}/   "
            f"user {credentials.username}, password {credentials.password}\n"
            f"  API docs     {credentials.url}/api/v2/docs/\n"
            f"  GraphQL      {credentials.url}/graphql/\n"
            f"  command      {typed_program()} login --credentials {path}\n"
            f"               {typed_program()} session list\n"
            f"  REST         TOKEN={credentials.token}\n"
            f'               curl -H "Authorization: Bearer $TOKEN" '
            f"{credentials.url}/api/v2/sessions/\n"
        )
        if not self._exit:
            self.warn()
            self._say("The server stays up until Ctrl-C.")

    def _say(self, text: str) -> None:
        self.stdout.write(self.style.MIGRATE_HEADING(f"\n{text}"))
        self.stdout.flush()

    def _shown(self, credentials: Credentials, *arguments: str) -> None:
        """Run a `reprise` command, and show the command and its output."""
        self.stdout.write(f"  $ reprise {shlex.join(arguments)}")
        self.stdout.flush()
        result = self._run(credentials, arguments, stdout=None)
        if result.returncode:
            raise StandaloneError(f"reprise {arguments[0]} ended with code {result.returncode}")

    def _reprise(self, credentials: Credentials, *arguments: str) -> str:
        result = self._run(credentials, arguments, stdout=subprocess.PIPE)
        if result.returncode:
            raise StandaloneError("the demonstration's session could not be submitted")
        return result.stdout

    def _run(
        self, credentials: Credentials, arguments: tuple[str, ...], *, stdout: int | None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [PROGRAM, *arguments],
            env=environ_of(credentials),
            stdout=stdout,
            text=True,
            check=False,
        )


def environ_of(credentials: Credentials) -> dict[str, str]:
    """Return the environment that tells the `reprise` command which server to use."""
    return {
        **os.environ,
        "REPRISE_URL": credentials.url,
        "REPRISE_TOKEN": credentials.token,
        "REPRISE_PROJECT": credentials.project,
    }
