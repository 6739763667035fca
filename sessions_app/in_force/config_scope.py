"""The scope of a configuration: the cluster, a domain or a project."""

from dataclasses import dataclass
from typing import Any

from sessions_app.models import Domain, Project


@dataclass(frozen=True, slots=True)
class ConfigScope:
    """The cluster (both None), a domain, or a project."""

    domain: Domain | None = None
    project: Project | None = None

    @property
    def name(self) -> str:
        """Return `cluster`, the domain's name, or `domain/project`."""
        if self.project is not None:
            return self.project.address
        return "cluster" if self.domain is None else self.domain.name

    @property
    def key(self) -> dict[str, Any]:
        """Return the filter that finds the scope's row."""
        return {"domain": self.domain, "project": self.project}

    @property
    def budget_key(self) -> str:
        """Return the key of its shared budget."""
        if self.project is not None:
            return f"project:{self.project.pk}"
        return "cluster" if self.domain is None else f"domain:{self.domain.pk}"
