"""Calls about job sets: the sessions that a project submitted under one name."""

from collections.abc import Iterator
from typing import Any

from reprise_client.calls import Calls, part, present
from reprise_client.models import Event, JobSet
from reprise_client.streams import EventReader


class JobSetCalls(Calls):
    """The calls about job sets.

    A job set belongs to one project: the given one, or the client's.
    """

    def job_sets(self, *, project: str | None = None) -> Iterator[JobSet]:
        """Yield all job sets of a project, or of all projects that the user may see."""
        return self._pages(JobSet, "/job-sets/", present({"project": project or self.project}))

    def job_set_events(
        self, name: str, *, project: str | None = None, after: str | None = None
    ) -> Iterator[Event]:
        """Yield the past events of all its sessions, oldest first; with `after` those after that
        `cursor`."""
        path, params = self._job_set(name, project)
        return self._pages(Event, path, {**params, "after": after})

    def follow_job_set(
        self, name: str, *, project: str | None = None, after: str | None = None
    ) -> Iterator[Event]:
        """Yield the events as they happen, for ever, each once.

        Outages of the server are tolerated.
        """
        path, params = self._job_set(name, project)
        reader = EventReader(self._transport, path, after=after, place="cursor", params=params)
        return reader.endless()

    def _job_set(self, name: str, project: str | None) -> tuple[str, dict[str, Any]]:
        path = f"/job-sets/{part(name)}/events/"
        return path, present({"project": project or self.project})
