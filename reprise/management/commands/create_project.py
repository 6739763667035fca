"""`manage.py create_project`: create a project for a tenant."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from sessions_app.core.errors import DomainError
from sessions_app.services.resources.tenants import project_ensure

BY = "manage.py"


class Command(BaseCommand):
    """Does nothing if the project exists, so that it can be part of a deployment."""

    help = "Create a project with a default queue, and its domain if it does not exist."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("address", metavar="DOMAIN/NAME")

    def handle(self, *_args: Any, **options: Any) -> None:
        domain, _, name = options["address"].partition("/")
        try:
            project, made = project_ensure(domain=domain, name=name, by=BY)
        except DomainError as refusal:
            raise CommandError(str(refusal)) from refusal
        self.stdout.write(f"project {project.address} {'created' if made else 'exists'}")
