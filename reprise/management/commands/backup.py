"""`manage.py backup`: write all of a standalone server to one file, while it runs or not."""

import signal
from argparse import ArgumentParser
from pathlib import Path
from types import FrameType
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from reprise.standalone.backup import backup, describe
from reprise.standalone.errors import StandaloneError
from reprise.standalone.postgres import PostgresError


class Command(BaseCommand):
    """Suitable for cron: writes to standard error only if it failed."""

    help = "Write a backup of a standalone server to one file. The server may be running."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--data-dir", type=Path, required=True, help="the server's data directory"
        )
        parser.add_argument(
            "file",
            type=Path,
            help="file to write; it is replaced in one step, and only its owner can read it",
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        path = options["file"].absolute()
        signal.signal(signal.SIGTERM, leave)
        try:
            backup(options["data_dir"].absolute(), path)
        except (StandaloneError, PostgresError) as error:
            raise CommandError(str(error)) from error
        except OSError as error:
            place = error.filename or path
            raise CommandError(f"cannot write the backup: {place}: {error.strerror}") from error
        except KeyboardInterrupt:
            raise CommandError(f"stopped: {path} is as it was") from None
        self.stdout.write(f"backup written to {describe(path)}: it holds secrets, keep it safe")


def leave(_number: int, _frame: FrameType | None) -> None:
    """Stop as with Ctrl-C, so that no unfinished file is left."""
    raise KeyboardInterrupt
