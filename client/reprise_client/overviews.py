"""What goes on just now, as a call and its answer."""

from reprise_client.calls import Calls, present
from reprise_client.models import Overview


class OverviewCalls(Calls):
    """The call of who looks on."""

    def overview(self, *, project: str | None = None) -> Overview:
        """What goes on in a project, or in everything that one may see."""
        return self._get(Overview, "/overview/", present({"project": project}))
