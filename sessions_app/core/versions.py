"""Versions of configuration records: a caller can state which version it read. Pure."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from sessions_app.core.errors import Outdated


def version_of(*facts: Any) -> str:
    """Return a short text that changes when any of the values (JSON values, times) changes."""
    text = json.dumps(facts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Expected:
    """The versions that a caller agrees to overwrite; None: any, if the record exists."""

    versions: frozenset[str] | None

    def check(self, found: str | None) -> None:
        """Raise `Outdated` unless the record has such a version; None: it does not exist."""
        if found is None:
            raise Outdated("it no longer exists: read it again before you change it")
        if self.versions is not None and found not in self.versions:
            raise Outdated("somebody else has changed it since you read it: read it again")
