"""The fields of a run in log lines: its session, its chain and the token of its lease."""

import logging

from reprise_client.wire import Lease, LeaseKey

ROOT = "REPRISE_ROOT_SESSION_ID"


class RunLines(logging.Filter):
    """Adds the fields to each log line that has the key of a lease among its arguments."""

    def __init__(self) -> None:
        super().__init__()
        self._roots: dict[LeaseKey, str] = {}

    def remember(self, key: LeaseKey, lease: Lease) -> None:
        """Remember the chain of the run. Runs that an earlier agent started have no chain here."""
        if root := lease["environ"].get(ROOT):
            self._roots[key] = root

    def forget(self, key: LeaseKey) -> None:
        """Forget the run, which is over."""
        self._roots.pop(key, None)

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the fields and let the line pass. `logging` calls this for each line."""
        for named in record.args if isinstance(record.args, tuple) else ():
            if isinstance(named, LeaseKey):
                record.session_id = named.session_id
                record.fencing_token = named.fencing_token
                if (root := self._roots.get(named)) is not None:
                    record.root_session_id = root
        return True


run_lines = RunLines()
