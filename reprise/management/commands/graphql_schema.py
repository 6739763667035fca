"""`manage.py graphql_schema`: write the GraphQL schema in its own language."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

from reprise.graphql.schema import schema_text


class Command(BaseCommand):
    """Writes the schema to standard output, or to a file."""

    help = "Write the GraphQL schema."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--file", type=Path, help="file to write (default: standard output)")

    def handle(self, *_args: Any, **options: Any) -> None:
        if options["file"] is None:
            self.stdout.write(schema_text(), ending="")
        else:
            options["file"].write_text(schema_text(), encoding="utf-8")
