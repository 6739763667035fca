"""Versions of configuration records: who changes one can say which version they have read. Pure."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from sessions_app.core.errors import Outdated


def version_of(*facts: Any) -> str:
    """A short text that is another one whenever the facts (JSON values, times) are others."""
    told = json.dumps(facts, sort_keys=True, default=str)
    return hashlib.sha256(told.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Expected:
    """The versions that somebody is ready to overwrite; None: any, if the record is there."""

    versions: frozenset[str] | None

    def check(self, found: str | None) -> None:
        """Raise `Outdated` unless the record is at such a version; None: it is not there."""
        if found is None:
            raise Outdated("it is not there any more: read it again before you change it")
        if self.versions is not None and found not in self.versions:
            raise Outdated("somebody else has changed it since you read it: read it again")
