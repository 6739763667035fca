"""The page of operators: what is wrong now, the switches, who makes room, which schedules fire
next, the last 24 hours."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from interfaces.requests.bodies import MAX_REASON
from interfaces.web.parts import Column, Empty, Field, Listing
from interfaces.web.visitor import visitor
from reprise.operations.acts import ACTS, CHAIN_ACTS, Wanted, chains_begin
from reprise.operations.charts import charts
from reprise.operations.overview import Operations, operations, trends
from reprise.operations.problems import Act, ActName, Problem, Severity, Switch, SwitchKind
from reprise.operations.questions import Question, question
from reprise.operations.room import room
from reprise.operations.timetable import timetable_lists
from sessions_app.authorization import Action, authorize
from sessions_app.core.errors import DomainError, InvalidInput, NotFound, NotPermitted

View = Callable[..., HttpResponse]
COLUMNS = [
    *(Column("Problem", "name"), Column("Severity", "status"), Column("For", "age")),
    Column("What helps", "comes"),
]
SWITCHES = [
    *(Column("Switch", "name"), Column("State", "status")),
    *(Column("Holds", "more number"), Column("Would hold", "more number")),
    Column("Move it", "comes"),
]
FINE = Empty("Nothing is wrong", "All parts work, and nothing is held.")
NONE = Empty("None of this kind", "There is nothing to hold.")
TITLES = {
    SwitchKind.RETRIES: "Retries",
    SwitchKind.EXECUTOR: "Executors",
    SwitchKind.QUEUE: "Queues",
}
_PERIODIC = ("Periodic tasks", "django_celery_beat_periodictask")
_EXECUTORS = ("Executors", "scheduler_executor")
_SWITCHES = ("Switches", "sessions_app_retrysettings")
_HEARTBEATS = ("Heartbeats", "reprise_heartbeat")
_LISTS = {
    "parked": ("Parked tasks", "reprise_parkedtask"),
    "late_delivery": ("Webhooks", "sessions_app_webhookendpoint"),
    "no_executor": _EXECUTORS,
    "project_trouble": _EXECUTORS,
    "queue_cordoned": ("Queues", "sessions_app_queue"),
    "executor": _EXECUTORS,
    "node": ("Nodes", "scheduler_node"),
    "breaker": ("Breakers", "sessions_app_breaker"),
    "periodic": _PERIODIC,
    "late": _PERIODIC,
    "storm": _SWITCHES,
    "retries": _SWITCHES,
    **dict.fromkeys(("no", "dead", "beat"), _HEARTBEATS),
}
"""The list of the admin that says more, by the kind or its first word."""


def for_operators(view: View) -> View:
    """Ask for a sign-in; answer 404 to whoever may not operate, since it is none of theirs."""

    @wraps(view)
    @login_required
    @never_cache
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            authorize(visitor(request), Action.OPERATIONS_READ)
            return view(request, *args, **kwargs)
        except (NotFound, NotPermitted) as error:
            raise Http404 from error

    return guarded


@require_safe
@for_operators
def page(request: HttpRequest, fragment: bool = False) -> HttpResponse:
    """Show the problems and the switches, or these alone as a fragment."""
    actor = visitor(request)
    seen = operations(actor)
    context = _now(seen)
    if fragment:
        return render(request, "operations/now.html", context)
    context |= room(actor, seen.at, seen.reservations) | timetable_lists(actor)
    context["charts"] = charts(trends(actor).hours)
    return render(request, "operations/page.html", context)


@require_safe
@for_operators
def making_room(request: HttpRequest) -> HttpResponse:
    """Show the nodes that are kept free and the last preemptions, as a fragment."""
    return render(request, "operations/room.html", room(visitor(request), timezone.now()))


@require_safe
@for_operators
def schedules(request: HttpRequest) -> HttpResponse:
    """Show the schedules that are paused and those that come next, as a fragment."""
    return render(request, "operations/timetable.html", timetable_lists(visitor(request)))


@require_safe
@for_operators
def past(request: HttpRequest) -> HttpResponse:
    """Show the last 24 hours as a fragment."""
    drawn = charts(trends(visitor(request)).hours)
    return render(request, "operations/trends.html", {"charts": drawn})


@require_http_methods(["GET", "HEAD", "POST"])
@for_operators
def act(request: HttpRequest, name: str) -> HttpResponse:
    """Ask before an act; do it at a POST, and go back to the page."""
    if name not in {*ACTS, *CHAIN_ACTS}:
        raise Http404
    given = {each: _text(request.POST, each) for each in ("reason", "burst")}
    wanted = Wanted(visitor(request), _text(request.GET, "of"), **given)
    asked, wrong = question(ActName(name), wanted, _address(Act(ActName(name), wanted.of))), ""
    if request.method == "POST":
        try:
            return _done(request, ActName(name), wanted)
        except InvalidInput as error:
            wrong = "; ".join(text for texts in error.errors.values() for text in texts)
        except DomainError as error:
            messages.error(request, f"Not done: {error.detail}.")
            return redirect("operations")
    context = {"confirm": asked.confirm, "sentences": asked.sentences}
    context["fields"] = _fields(asked, wanted, wrong)
    return render(request, "operations/act.html", context, status=400 if wrong else 200)


def _done(request: HttpRequest, name: ActName, wanted: Wanted) -> HttpResponse:
    """Act, and lead back to the page, or to the one that tells how far it is."""
    if name in CHAIN_ACTS:
        return redirect("many-sessions", chains_begin(name, wanted.actor).pk)
    messages.success(request, ACTS[name](wanted))
    return redirect("operations")


def _fields(asked: Question, wanted: Wanted, wrong: str) -> list[Field]:
    """Return the fields of what an act is given."""
    if asked.burst is not None:
        typed = wanted.burst if wrong else str(asked.burst)
        return [Field("burst", "Burst", typed, "number", error=wrong, required=True)]
    reason = Field(
        "reason",
        "Reason",
        wanted.reason,
        help="Shown to people whose sessions wait.",
        error=wrong,
        required=asked.needs_reason,
        max_length=MAX_REASON,
    )
    return [reason] if asked.asks_reason else []


def _text(given: QueryDict, name: str) -> str:
    return given.get(name, "").replace("\x00", "").strip()[:MAX_REASON]


def _now(seen: Operations) -> dict[str, Any]:
    rows = [_problem_row(each) for each in seen.problems]
    notices = [row for row in rows if row["problem"].severity is Severity.NOTICE]
    wrong = [row for row in rows if row not in notices]
    switches = [_switch_row(each) for each in seen.switches]
    return {
        "seen": seen,
        "now": seen.at,
        "problems": Listing("Problems", COLUMNS, "operations/problem.html", wrong, FINE),
        "notices": Listing("Notices", COLUMNS, "operations/problem.html", notices, FINE),
        "switches": [
            (title, Listing(title, SWITCHES, "operations/switch.html", of, NONE))
            for kind, title in TITLES.items()
            if (of := [row for row in switches if row["switch"].kind is kind])
        ],
    }


def _problem_row(problem: Problem) -> dict[str, Any]:
    acts = [(each.label, _address(each)) for each in problem.acts]
    place = _id("problem", problem.kind, problem.subject)
    return {"id": place, "problem": problem, "acts": acts, "link": _link(problem)}


def _switch_row(switch: Switch) -> dict[str, Any]:
    acts = [(each.label, _address(each)) for each in switch.acts]
    return {"id": _id(switch.kind, switch.name), "switch": switch, "acts": acts}


def _id(*parts: str) -> str:
    """Return the same id for the same row, in which no space may be."""
    return "-".join(parts).replace(" ", "-")


def _address(act: Act) -> str:
    address = reverse("operations-act", args=[act.name.value])
    return f"{address}?{urlencode({'of': act.of})}" if act.of else address


def _link(problem: Problem) -> tuple[str, str] | None:
    """Return where to look further, as a label and an address."""
    if problem.kind in {"oldest_waiting", "reservation"}:
        return ("Session", reverse("session", args=[problem.subject]))
    kind = problem.kind
    if kind == "parked_chains":
        return ("Parked chains", f"{reverse('home')}?{urlencode({'retry_state': 'parked'})}")
    if problem.form is not None:
        model, row = problem.form
        return (
            f"Form of {problem.subject}",
            reverse(f"admin:sessions_app_{model}_change", args=[row]),
        )
    label, name = _LISTS.get(kind) or _LISTS.get(kind.partition("_")[0]) or ("", "")
    return (label, reverse(f"admin:{name}_changelist")) if name else None
