"""The newest sessions that failed alike, on the page of their failure."""

from interfaces.web.parts import Column, Empty, Listing
from interfaces.web.project_frame import Place
from sessions_app.selectors.session_pages import Place as Start
from sessions_app.selectors.session_pages import SessionsWanted, sessions_page
from sessions_app.selectors.session_rows import images_of

SHOWN = 10


def newest_sessions(place: Place, signature: str) -> Listing:
    """Return the newest sessions with a signature that the visitor may see. Two statements."""
    wanted = SessionsWanted(project=place.project.address, signature=signature)
    found = sessions_page(place.actor, wanted, Start(SHOWN))
    images = images_of(found)
    return Listing(
        "The newest sessions that failed so",
        [
            Column("Session", "name"),
            Column("Attempt", "number"),
            Column("Status", "status"),
            *(Column(label, "more") for label in ("Executor / node", "Image", "Queue")),
            Column("Ended", "age"),
        ],
        "projects/failure_session_row.html",
        [
            {"id": each.pk, "name": each.name, "session": each, "image": images[each.pk]}
            for each in found
        ],
        Empty(
            "No session has this signature now.",
            "Sessions are archived some time after they ended.",
        ),
    )
