"""A clock that is wrong, for processes of Python that a test starts."""

import json
from pathlib import Path

SKEWED = Path(__file__).parent / "skewed"


class SkewedClock:
    """Kept in `path`; what `set` says holds at once in all processes started with `environ`.

    Not libfaketime: what Debian 12 has of it breaks every `time.sleep` of Python.
    """

    def __init__(self, path: Path):
        self._path = path
        self.environ = {"PYTHONPATH": str(SKEWED), "SKEWED_CLOCK": str(path)}
        self.set()

    def set(self, *, wall: float = 0.0, boot: float = 0.0) -> None:
        """Set the clocks this number of seconds ahead."""
        draft = self._path.with_suffix(".new")
        draft.write_text(json.dumps({"wall": wall, "boot": boot}))
        draft.replace(self._path)
