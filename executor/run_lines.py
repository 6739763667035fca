"""What the log says of a run: its session, its chain and the token of its lease, in fields."""

import logging

from reprise_client.wire import Lease, LeaseKey

ROOT = "REPRISE_ROOT_SESSION_ID"


class RunLines(logging.Filter):
    """Adds the fields to each line that names the key of a lease."""

    def __init__(self) -> None:
        super().__init__()
        self._roots: dict[LeaseKey, str] = {}

    def remember(self, key: LeaseKey, lease: Lease) -> None:
        """Of which chain the run is; one that an earlier agent began does not say."""
        if root := lease["environ"].get(ROOT):
            self._roots[key] = root

    def forget(self, key: LeaseKey) -> None:
        """The run is over."""
        self._roots.pop(key, None)

    def filter(self, record: logging.LogRecord) -> bool:
        """logging's hook; every line passes."""
        for named in record.args if isinstance(record.args, tuple) else ():
            if isinstance(named, LeaseKey):
                record.session_id = named.session_id
                record.fencing_token = named.fencing_token
                if (root := self._roots.get(named)) is not None:
                    record.root_session_id = root
        return True


run_lines = RunLines()
