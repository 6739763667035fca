"""The admin page of preemptions."""

from django.contrib import admin
from unfold.contrib.filters.admin import AutocompleteSelectFilter

from interfaces.admin.base import ReadOnlyAdmin, column
from interfaces.admin.cells import past, session_link
from scheduler.models import Preemption


@admin.register(Preemption)
class PreemptionAdmin(ReadOnlyAdmin):
    """The admin page of preemptions: who made room for whom, or would have in a dry run."""

    list_display = ("victim", "taker", "executor_name", "rule", "dry_run", "planned")
    # The other columns are links to sessions already.
    list_display_links = ("planned",)
    list_filter = (("executor", AutocompleteSelectFilter), "dry_run")
    ordering = ("-planned_at", "-pk")
    fields = (
        "victim", "victim_class", "taker", "taker_class", "executor_name", "nodes", "rule",
        "dry_run", "planned_at", "until",
    )  # fmt: skip
    readonly_fields = fields

    @column("made room")
    def victim(self, made: Preemption) -> str:
        return session_link(made.victim_id)

    @column("for")
    def taker(self, made: Preemption) -> str:
        return session_link(made.taker_id)

    @column("value of its class")
    def victim_class(self, made: Preemption) -> int:
        return made.victim_rank

    @column("value of that one's class")
    def taker_class(self, made: Preemption) -> int:
        return made.taker_rank

    @column("planned")
    def planned(self, made: Preemption) -> str:
        return past(made.planned_at)
