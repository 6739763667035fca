"""`manage.py create_executor`: create an executor and the token of its agent."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from reprise.management.commands.create_project import BY
from reprise.standalone.credentials import ensure_executor_token
from scheduler.services.registration import executor_ensure
from sessions_app.core.errors import DomainError
from sessions_app.models import Project


class Command(BaseCommand):
    """Does nothing if both exist, so that it can be part of a deployment."""

    help = "Create an executor if it does not exist. With a file, ensure that it has a valid token."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument(
            "--project",
            action="append",
            default=[],
            metavar="DOMAIN/NAME",
            help="project to serve; repeatable (default: all projects)",
        )
        parser.add_argument(
            "--token-file",
            type=Path,
            help="file for a new token, readable by its owner only; not written if it has a valid "
            "token. Without this option, use create_token",
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        name, path = options["name"], options["token_file"]
        projects = [_project(address) for address in options["project"]]
        try:
            _, made = executor_ensure(name=name, projects=projects, by=BY)
            written = path is not None and ensure_executor_token(path, name)
        except DomainError as refusal:
            raise CommandError(str(refusal)) from refusal
        except OSError as error:
            raise CommandError(f"cannot write {path}: {error.strerror}") from error
        self.stdout.write(f"executor {name} {'created' if made else 'exists'}")
        if path is not None:
            self.stdout.write(f"{'a new token is' if written else 'its token is'} in {path}")


def _project(address: str) -> Project:
    domain, _, name = address.partition("/")
    project = Project.objects.filter(domain__name=domain, name=name).first()
    if project is None:
        raise CommandError(f"no project {address}: create it with create_project")
    return project
