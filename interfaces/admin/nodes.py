"""The admin pages of nodes: how attempts ended there; operators quarantine and release them."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import F, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from unfold.contrib.filters.admin import AutocompleteSelectFilter, DropdownFilter
from unfold.widgets import UnfoldAdminTextInputWidget

from interfaces.admin.base import (
    OperatorChangeList,
    OwnPage,
    ReadOnlyAdmin,
    actor_of,
    column,
    operator,
    read_only,
)
from scheduler.models import MAX_REASON, Node, NodeState
from scheduler.selectors import NO_FIGURES, nodes_figures, with_failed_share
from scheduler.services.nodes.acts import nodes_quarantine, nodes_release

MOST = 500
"""Maximum number of nodes of one act: its question sends a field for each."""
STATES = {"open": "success", "suspect": "warning", "quarantined": "danger"}
FAILING = {"most": "danger", "many": "warning", "few": "success"}
MOST_FAIL, MANY_FAIL = 0.5, 0.2
"""The parts of failed attempts from which on the list shows them in another colour."""


class QuarantineForm(forms.Form):
    """The reason of a quarantine."""

    reason = forms.CharField(
        max_length=MAX_REASON,
        error_messages={"required": "Say why it is in quarantine."},
        help_text="shown to cluster admins only",
        widget=UnfoldAdminTextInputWidget,
    )


class NodeStateFilter(DropdownFilter):  # type: ignore[misc]  # the theme is untyped
    """Filters by what a node gets."""

    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(state.value, state.value) for state in NodeState]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return the nodes in this state; unknown words filter nothing."""
        known = self.value() in NodeState.values
        return queryset.filter(NodeState(self.value()).condition) if known else queryset


class NodeChangeList(OperatorChangeList):
    """The list. It reads how attempts ended on all nodes of a page in one statement."""

    def get_results(self, request: HttpRequest) -> None:
        """Read the page, and attach the figures of its nodes."""
        super().get_results(request)
        nodes: list[Any] = list(self.result_list)  # type: ignore[has-type]  # the theme is untyped
        figures = nodes_figures(actor_of(request), nodes)
        for node in nodes:
            node.figures = figures.get(node.pk, NO_FIGURES)
        self.result_list = nodes


@admin.register(Node)
class NodeAdmin(OwnPage, ReadOnlyAdmin):
    """The nodes of all executors."""

    list_display = (
        *("address", "node_state", "present", "failed"),
        *("until", "reason", "quarantine_reason"),
    )
    list_filter = (NodeStateFilter, ("executor", AutocompleteSelectFilter))
    list_select_related = joined = ("executor",)
    search_fields = ("address__startswith",)
    actions: Any = ("quarantine", "release")

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> Any:
        return NodeChangeList

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the nodes with the part of attempts that failed there."""
        return with_failed_share(super().get_queryset(request))

    def get_ordering(self, request: HttpRequest) -> tuple[Any, ...]:
        """Return the order of the list: the largest part of failed attempts first."""
        return (F("failed_share").desc(), "address")

    def get_urls(self) -> list[URLPattern]:
        """Add the address to which the buttons of a node post."""
        view = self.admin_site.admin_view(self.act_view)
        acting = path("<int:node_id>/act/", view, name="scheduler_node_act")
        found: list[URLPattern] = super().get_urls()
        return [acting, *found]

    def show(self, request: HttpRequest, object_id: str | None) -> HttpResponse:
        """Return a read-only page of the node."""
        read_only(request, object_id)
        return self._page(request, str(object_id), QuarantineForm())

    def act_view(self, request: HttpRequest, node_id: int) -> HttpResponse:
        """Do what the pressed button says, and show the page again."""
        form = QuarantineForm(request.POST)
        do = request.POST.get("do") if request.method == "POST" else None
        if do == "quarantine" and not form.is_valid():
            return self._page(request, str(node_id), form)
        if self.get_object(request, str(node_id)) is None:
            return self.missing(request, node_id)
        if do == "quarantine":
            self._quarantine(request, [node_id], form)
        elif do == "release":
            self._release(request, [node_id])
        else:
            messages.error(request, "A node can be quarantined or released.")
        return HttpResponseRedirect(reverse("admin:scheduler_node_change", args=[node_id]))

    @admin.action(description="Quarantine", permissions=["view"])
    def quarantine(self, request: HttpRequest, rows: QuerySet[Any]) -> HttpResponse | None:
        """Ask for a reason; then put the chosen nodes into quarantine."""
        chosen = self._chosen(request, rows)
        confirmed = "confirmed" in request.POST
        form = QuarantineForm(request.POST if confirmed else None)
        if not chosen:
            return None
        if not form.is_valid():
            title = "Quarantine nodes"
            return self.render(request, "quarantine_confirm", title, chosen=chosen, form=form)
        self._quarantine(request, [node.pk for node in chosen], form)
        return None

    @admin.action(description="Release", permissions=["view"])
    def release(self, request: HttpRequest, rows: QuerySet[Any]) -> None:
        """End the quarantine and the suspicion of the chosen nodes."""
        self._release(request, [node.pk for node in self._chosen(request, rows)])

    def _chosen(self, request: HttpRequest, rows: QuerySet[Any]) -> list[Any]:
        """Return the chosen nodes; none, with a message, if they are too many for one act."""
        chosen = list(rows.order_by("address")[: MOST + 1])
        if len(chosen) <= MOST:
            return chosen
        text = f"More than {MOST} nodes were chosen. Nothing was done: choose fewer."
        messages.error(request, text)
        return []

    def _quarantine(self, request: HttpRequest, nodes: list[int], form: QuarantineForm) -> None:
        reason, by = form.cleaned_data["reason"], operator(request)
        done = nodes_quarantine(nodes, reason=reason, by=by)
        messages.success(request, f"{_nodes(done)} put into quarantine. What runs there goes on.")

    def _release(self, request: HttpRequest, nodes: list[int]) -> None:
        done = nodes_release(nodes, by=operator(request))
        messages.success(request, f"{_nodes(done)} released. Counts begin anew.")

    def _page(self, request: HttpRequest, key: str, form: QuarantineForm) -> HttpResponse:
        node = self.get_object(request, key)
        if node is None:
            return self.missing(request, key)
        state = node.state.value
        return self.render(
            request,
            "node",
            str(node),
            original=node,
            state=state,
            state_label=STATES[state],
            figures=nodes_figures(actor_of(request), [node]).get(node.pk, NO_FIGURES),
            releasable=bool(node.quarantined_at or node.suspected_until),
            audit_url=self.audit_url(node),
            form=form,
        )

    @column("state", label=STATES)
    def node_state(self, node: Node) -> str:
        return str(node.state.value)

    @column("failed", ordering="failed_share", label=FAILING)
    def failed(self, node: Any) -> tuple[str, str] | str:
        found = node.figures
        if not found.attempts:
            return "-"
        share = found.failures / found.attempts
        kind = "most" if share >= MOST_FAIL else "many" if share >= MANY_FAIL else "few"
        return kind, f"{found.failures} of {found.attempts} ({share:.0%})"

    @column("suspect until")
    def until(self, node: Node) -> str:
        return "" if node.suspected_until is None else f"{node.suspected_until:%Y-%m-%d %H:%M} UTC"


def _nodes(number: int) -> str:
    return f"{number} {'node' if number == 1 else 'nodes'}"
