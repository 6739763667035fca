"""The overview of present activity, as a call and its answer."""

from reprise_client.calls import Calls, present
from reprise_client.models import Overview


class OverviewCalls(Calls):
    """The call for the overview."""

    def overview(self, *, project: str | None = None) -> Overview:
        """Return the overview of a project, or of everything that the user may see."""
        return self._get(Overview, "/overview/", present({"project": project}))
