"""Calls about job sets: what a project has submitted under one name, followed as one."""

from collections.abc import Iterator
from typing import Any

from reprise_client.calls import Calls, part, present
from reprise_client.models import Event, JobSet
from reprise_client.streams import EventReader


class JobSetCalls(Calls):
    """A job set is one project's: the one that a call names, or the client's."""

    def job_sets(self, *, project: str | None = None) -> Iterator[JobSet]:
        """All job sets, page by page; without a project those of all that one may see."""
        return self._pages(JobSet, "/job-sets/", present({"project": project or self.project}))

    def job_set_events(
        self, name: str, *, project: str | None = None, after: str | None = None
    ) -> Iterator[Event]:
        """What happened so far to all its sessions, oldest first, from behind a `cursor` on."""
        path, params = self._job_set(name, project)
        return self._pages(Event, path, {**params, "after": after})

    def follow_job_set(
        self, name: str, *, project: str | None = None, after: str | None = None
    ) -> Iterator[Event]:
        """The events as they happen, without end, each once; outages of the server are sat out."""
        path, params = self._job_set(name, project)
        reader = EventReader(self._transport, path, after=after, place="cursor", params=params)
        return reader.endless()

    def _job_set(self, name: str, project: str | None) -> tuple[str, dict[str, Any]]:
        path = f"/job-sets/{part(name)}/events/"
        return path, present({"project": project or self.project})
