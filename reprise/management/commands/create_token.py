"""`manage.py create_token`: create an API token for a person, a program or an executor."""

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from reprise.management.commands.create_project import BY
from scheduler.models import Executor
from sessions_app.services.access.tokens import PREFIX_LENGTH, token_create


class Command(BaseCommand):
    """Writes only the token to standard output, so that it can be redirected to a file."""

    help = "Create an API token and print it. Only its hash is stored, so it cannot be shown again."

    def add_arguments(self, parser: ArgumentParser) -> None:
        bearer = parser.add_mutually_exclusive_group(required=True)
        bearer.add_argument("--user", help="a user's name; the token may do what the user may")
        bearer.add_argument("--executor", help="an executor's name")
        parser.add_argument("--name", required=True, help="purpose of the token")
        parser.add_argument("--read-only", action="store_true", help="allow reading only")
        parser.add_argument("--days", type=int, help="days until it expires (default: never)")

    def handle(self, *_args: Any, **options: Any) -> None:
        days = options["days"]
        if days is not None and days < 1:
            raise CommandError("--days must be at least 1")
        secret = token_create(
            name=options["name"],
            by=BY,
            user=_user(options["user"]) if options["user"] else None,
            executor_name=_executor_name(options["executor"]) if options["executor"] else "",
            read_only=options["read_only"],
            expires_at=timezone.now() + timedelta(days=days) if days else None,
        )
        self.stdout.write(secret)
        revoke = f"{settings.REPRISE_COMMAND} revoke_token {secret[:PREFIX_LENGTH]}"
        self.stderr.write(f"revoke it with: {revoke}")


def _user(name: str) -> User:
    user = User.objects.filter(username=name, is_active=True).first()
    if user is None:
        raise CommandError(
            f"no active user {name}: create one with createsuperuser or in the admin"
        )
    return user


def _executor_name(name: str) -> str:
    if not Executor.objects.filter(name=name).exists():
        raise CommandError(f"no executor {name}: create it with create_executor")
    return name
