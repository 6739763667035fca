"""`manage.py rebuild_nodes`: count the attempts on nodes of the last day anew."""

from typing import Any

from django.core.management.base import BaseCommand

from scheduler.services.nodes.sweep import nodes_rebuild


class Command(BaseCommand):
    """Can be stopped and run again at any time; everything works meanwhile."""

    help = "Count how attempts on nodes ended in the last day anew, from the log."

    def handle(self, *_args: Any, **_options: Any) -> None:
        self.stdout.write(f"counted {nodes_rebuild()} attempts")
