"""What a process keeps of the configuration, as long as its version is the same."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from threading import Lock
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")

VERSION = "(SELECT version::text FROM sessions_app_configversion WHERE id = 1)"
"""SQL of the version, as the transaction sees it: whoever reads it together with the configuration
may keep both. Null before the first change."""


class Kept(Generic[Key, Value]):
    """The values that were used last, at most `size`."""

    def __init__(self, size: int):
        self._size = size
        self._values: OrderedDict[Key, Value] = OrderedDict()
        self._lock = Lock()

    def of(self, keys: Iterable[Key]) -> dict[Key, Value]:
        """Return the values of those keys that are there."""
        with self._lock:
            found = {key: self._values[key] for key in keys if key in self._values}
            for key in found:
                self._values.move_to_end(key)
        return found

    def keep(self, values: Mapping[Key, Value]) -> None:
        """Keep further values, and drop those that nobody used for longest."""
        with self._lock:
            self._values.update(values)
            while len(self._values) > self._size:
                self._values.popitem(last=False)
