"""`manage.py revoke_token`: make a lost token invalid."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from reprise.management.commands.create_project import BY
from sessions_app.core.errors import DomainError
from sessions_app.services.access.tokens import token_revoke


class Command(BaseCommand):
    """A token is named by its prefix, as in the admin and the audit log."""

    help = "Revoke a token at once."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("prefix", help="the token's first 12 characters")

    def handle(self, *_args: Any, **options: Any) -> None:
        try:
            token = token_revoke(prefix=options["prefix"], by=BY)
        except DomainError as refusal:
            raise CommandError(str(refusal)) from refusal
        self.stdout.write(f"token {token.prefix} ({token.name}) is revoked")
