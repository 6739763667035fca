"""Schedules as calls."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from reprise_client.calls import Calls, part, present
from reprise_client.models import Backfilled, NextTimes, Schedule, ScheduledSession


class ScheduleCalls(Calls):
    """The calls to create, show and change schedules, and to make their sessions by hand."""

    def schedules(self, **filters: Any) -> Iterator[Schedule]:
        """Yield the schedules that the user may see; `filters` are `project`, `name`, `paused`."""
        return self._pages(Schedule, "/schedules/", filters)

    def schedule(self, schedule_id: str) -> Schedule:
        return self._get(Schedule, _path(schedule_id))

    def schedule_create(self, name: str, template: Mapping[str, Any], /, **fields: Any) -> Schedule:
        """Create a schedule; `template` is the body of a submission.

        `fields` are the other fields of the API's body, such as `cron`, `time_zone` and `overlap`.
        Write `from` as `from_`.
        """
        body = {"name": name, "template": dict(template), **_sent(fields)}
        if self.project is not None:
            body.setdefault("project", self.project)
        return self._send(Schedule, "POST", "/schedules/", body)

    def schedule_put(self, schedule_id: str, /, **fields: Any) -> Schedule:
        """Replace all fields that can change. The caller becomes its owner."""
        return self._send(Schedule, "PUT", _path(schedule_id), _sent(fields), idempotent=True)

    def schedule_change(self, schedule_id: str, /, **fields: Any) -> Schedule:
        """Change the given fields. The caller becomes its owner."""
        return self._send(Schedule, "PATCH", _path(schedule_id), _sent(fields), idempotent=True)

    def schedule_delete(self, schedule_id: str) -> None:
        """Delete it; its sessions stay."""
        self._transport.request("DELETE", _path(schedule_id), idempotent=True)

    def schedule_pause(self, schedule_id: str, reason: str = "") -> Schedule:
        path = f"{_path(schedule_id)}pause/"
        return self._send(Schedule, "POST", path, {"reason": reason}, idempotent=True)

    def schedule_resume(self, schedule_id: str) -> Schedule:
        """Go on with the next time; times of the pause are not made up."""
        return self._send(Schedule, "POST", f"{_path(schedule_id)}resume/", {}, idempotent=True)

    def schedule_trigger(self, schedule_id: str) -> str:
        """Make one session now, also while it is paused. Return its id."""
        return self._send(ScheduledSession, "POST", f"{_path(schedule_id)}trigger/", {}).id

    def schedule_backfill(
        self, schedule_id: str, begin: datetime, end: datetime, *, dry_run: bool = False
    ) -> Backfilled:
        """Make the sessions of past times, both ends included, or only return the times."""
        body = {**present({"from": begin, "to": end}), "dry_run": dry_run}
        return self._send(Backfilled, "POST", f"{_path(schedule_id)}backfill/", body)

    def schedule_times(self, **fields: Any) -> list[datetime]:
        """Return the next times for `cron`, `time_zone`, `every`, `from_` and `until`."""
        path = "/schedules/preview/"
        return self._send(NextTimes, "POST", path, _sent(fields), idempotent=True).times


def _sent(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name.removesuffix("_"): each.isoformat() if isinstance(each, datetime) else each
        for name, each in fields.items()
    }


def _path(schedule_id: str) -> str:
    return f"/schedules/{part(schedule_id)}/"
