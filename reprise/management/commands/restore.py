"""`manage.py restore`: restore a standalone server from a backup."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from reprise.standalone.errors import StandaloneError
from reprise.standalone.postgres import PostgresError
from reprise.standalone.restore import restore


class Command(BaseCommand):
    """After any failure the data directory is as it was."""

    help = "Restore a standalone server from a backup. The server must not be running."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--data-dir", type=Path, required=True, help="data directory to write")
        parser.add_argument("file", type=Path, help="file that the command `backup` has written")
        parser.add_argument(
            "--force", action="store_true", help="move existing content of the data directory aside"
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        data_dir, path = options["data_dir"].absolute(), options["file"].absolute()
        try:
            replaced = restore(data_dir, path, force=options["force"])
        except (StandaloneError, PostgresError) as error:
            raise CommandError(str(error)) from error
        except OSError as error:
            place = error.filename or data_dir
            raise CommandError(f"cannot restore: {place}: {error.strerror}") from error
        except KeyboardInterrupt:
            raise CommandError(f"stopped: {data_dir} is as it was") from None
        self.stdout.write(f"restored into {data_dir}")
        if replaced is not None:
            self.stdout.write(
                f"the old content is in {replaced}: remove it when you no longer need it"
            )
        self.stdout.write(
            f"start it with: {settings.REPRISE_COMMAND} standalone --data-dir (sessions that ran "
            "at the time of the backup end as agent_transient and are retried by their policies)"
        )
