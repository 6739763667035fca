"""Reports as calls."""

from datetime import datetime
from typing import Any

from reprise_client.calls import Calls, present
from reprise_client.models import RetryReport
from reprise_client.transport import decoded

_PATH = "/reports/retries/"


class ReportCalls(Calls):
    """The calls of reports. They change nothing."""

    def retry_report(
        self,
        *,
        by: str = "cause",
        project: str | None = None,
        all_projects: bool = False,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        **filters: str | None,
    ) -> RetryReport:
        """Return what the retries of a time were worth: by default of the last 30 days.

        `by` is `cause`, `rule`, `policy`, `queue`, `owner`, `image`, `node`, `signature` or `day`.
        Without `project` the report is about the client's, with `all_projects` about all that one
        may see. `filters` are values of all but `day`: only attempts with all of them count, and
        the chains that have one.
        """
        asked = {"project": project, "by": by, "since": since, "until": until, **filters}
        return self._get(RetryReport, _PATH, self._asked(asked, all_projects))

    def retry_report_csv(self, *, all_projects: bool = False, **asked: Any) -> str:
        """Return the same as CSV; `asked` are the other arguments of `retry_report`."""
        params = self._asked(asked, all_projects)
        response = self._transport.exchange("GET", _PATH, params=params, accept="text/csv")
        if response.is_error:
            decoded(response)
        return response.text

    def _asked(self, asked: dict[str, Any], all_projects: bool) -> dict[str, Any]:
        chosen = None if all_projects else asked.get("project") or self.project
        return present({**asked, "project": chosen})
