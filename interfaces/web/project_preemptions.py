"""Which sessions of a project made room for others, for which of them others did, and for which
nodes are kept free."""

from django.http import HttpRequest, HttpResponse

from interfaces.web.parts import Empty
from interfaces.web.project_frame import Place, of_project, part
from interfaces.web.room_lists import preemptions_listing, reservations_listing
from scheduler.selectors import preemptions_listed, reservations_of
from sessions_app.authorization import Action

PAGE = 20
NOTHING = Empty("No node is kept free.")
NOBODY = Empty("Nobody made room in the last 30 days.", "No session stopped for another one.")


@of_project(Action.QUEUE_READ, methods=("GET", "HEAD"))
def preemptions(request: HttpRequest, place: Place) -> HttpResponse:
    """List the preemptions of the last 30 days, newest first: `?before=` is the id of the last.

    Before them stand the nodes that are kept free for sessions of the project, if there are any.
    """
    rows = preemptions_listed(place.actor, place.project).order_by("-pk")
    before = request.GET.get("before", "")
    if before.isascii() and before.isdigit() and len(before) < 19:
        rows = rows.filter(pk__lt=int(before))
    found = list(rows[: PAGE + 1])
    address = place.address("project-queue-preemptions")
    more = f"{address}?before={found[PAGE - 1].pk}" if len(found) > PAGE else ""
    pages = {"first": address if before else "", "next": more}
    kept = reservations_listing(reservations_of(place.project)[:PAGE], NOTHING)
    made = preemptions_listing(found[:PAGE], NOBODY, **pages)
    return part(request, place, "preemptions", title="Who made room", kept=kept, made=made)
