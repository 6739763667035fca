"""Which sessions of a project made room for others, and for which of them others did."""

from django.http import HttpRequest, HttpResponse

from scheduler.selectors import preemptions_listed
from scheduler.web.preemption_list import preemptions_listing
from sessions_app.authorization import Action
from sessions_app.web.parts import Empty
from sessions_app.web.project_frame import Place, of_project, part

PAGE = 20
NOBODY = Empty("Nobody made room in the last 30 days.", "No session stopped for another one.")


@of_project(Action.QUEUE_READ, methods=("GET", "HEAD"))
def preemptions(request: HttpRequest, place: Place) -> HttpResponse:
    """List the preemptions of the last 30 days, newest first: `?before=` is the id of the last."""
    rows = preemptions_listed(place.actor, place.project).order_by("-pk")
    before = request.GET.get("before", "")
    if before.isascii() and before.isdigit() and len(before) < 19:
        rows = rows.filter(pk__lt=int(before))
    found = list(rows[: PAGE + 1])
    address = place.address("project-queue-preemptions")
    more = f"{address}?before={found[PAGE - 1].pk}" if len(found) > PAGE else ""
    pages = {"first": address if before else "", "next": more}
    listing = preemptions_listing(found[:PAGE], NOBODY, **pages)
    return part(request, place, "preemptions", title="Who made room", list=listing)
