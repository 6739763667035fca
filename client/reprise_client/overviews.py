"""The overview of present activity, as a call and its answer."""

from reprise_client.calls import Calls, present
from reprise_client.models import Operations, OperationsTrends, Overview


class OverviewCalls(Calls):
    """The calls for the overview, and for what operators are told."""

    def overview(self, *, project: str | None = None) -> Overview:
        """Return the overview of a project, or of everything that the user may see."""
        return self._get(Overview, "/overview/", present({"project": project}))

    def operations(self) -> Operations:
        """Return what is wrong now, and the switches. For cluster admins."""
        return self._get(Operations, "/operations/")

    def trends(self) -> OperationsTrends:
        """Return what happened in each of the last 24 hours. For cluster admins."""
        return self._get(OperationsTrends, "/operations/trends/")
