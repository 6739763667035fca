"""What a schedule submits for one of its times."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from sessions_app.authorization import Action, Actor, permitted
from sessions_app.core.cadence import OF_SCHEDULES, written
from sessions_app.core.dependencies import Wanted
from sessions_app.core.errors import Conflict, DomainError, InvalidInput
from sessions_app.models import Queue, Schedule
from sessions_app.services.schedules.templates import template_read
from sessions_app.services.sessions.submission import Placed

TIME_VARIABLE = "REPRISE_SCHEDULED_TIME"


class Maker:
    """What makes the chains of one schedule, checked once for all of its times."""

    def __init__(
        self,
        schedule: Schedule,
        owners: Mapping[int, Actor],
        queues: Mapping[tuple[int, str], Queue],
    ) -> None:
        """Raises `DomainError` if the schedule cannot make a chain any more."""
        owner = owners.get(schedule.owner_id or 0)
        place = schedule.project.address
        if owner is None or owner.user is None:
            raise Conflict(_nobodys("its owner is gone or may not sign in"))
        if not permitted(owner, Action.SESSION_CREATE, project=schedule.project):
            raise Conflict(_nobodys(f"{owner.name} may not create sessions in {place}"))
        queue = queues.get((schedule.project_id, schedule.queue))
        if queue is None:
            why = f"no queue {schedule.queue}" if schedule.queue else "no default queue"
            raise InvalidInput({"queue": [f"{why} in project {place}"]})
        self._schedule, self._queue, self._owner_id = schedule, queue, owner.user.pk
        self._submission = template_read(schedule.template)

    def placed(self, time: datetime, *, more: str = "", after: Sequence[UUID] = ()) -> Placed:
        """Return the submission for a time; `more` ends the id of one that is made by hand.

        It begins `after` the chains with these roots have ended.
        """
        environ = {**self._submission.spec["environ"], TIME_VARIABLE: written(time)}
        submission = replace(
            self._submission,
            creation_id=f"{OF_SCHEDULES}{self._schedule.pk}:{written(time)}{more}",
            spec={**self._submission.spec, "environ": environ},
            schedule=str(self._schedule),
            depends_on=tuple(Wanted(str(root), "ended") for root in after),
        )
        return Placed(self._queue, self._owner_id, submission)


def _nobodys(why: str) -> str:
    return f"{why}; whoever changes the schedule becomes its owner"


def says(error: DomainError) -> str:
    """Return a refusal in short, as it is stored."""
    return error.detail[:300]
