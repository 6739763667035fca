"""The way to reach a cluster, and the files that tell it."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

AUTHORITY_OF_PODS = Path("/var/run/secrets/kubernetes.io/serviceaccount/ca.crt")
USUAL = Path("~/.kube/config")
_NAMES = frozenset({"certificate-authority", "client-certificate", "client-key", "tokenFile"})
"""The fields of a kubeconfig that name files."""

State = tuple[tuple[int, int, int] | None, ...]


@dataclass(frozen=True)
class Access:
    """The way to reach the cluster: a kubeconfig (None: the usual one) or the service account of
    the own pod."""

    kubeconfig: Path | None = None
    context: str | None = None
    in_cluster: bool = False

    def files(self) -> list[Path]:
        """Return the files that tell the address, the authority and the credentials.

        The token of a pod is left out: the client itself reads it again every minute. Raises
        `OSError`, `ValueError` and `yaml.YAMLError`.
        """
        if self.in_cluster:
            return [AUTHORITY_OF_PODS]
        found = []
        for path in self._kubeconfigs():
            found.append(path)
            if path.exists():
                named = _named_in(yaml.safe_load(path.read_text("utf-8")))
                found += [path.parent / each for each in named]
        return found

    def _kubeconfigs(self) -> list[Path]:
        if self.kubeconfig is not None:
            return [self.kubeconfig]
        named = os.environ.get("KUBECONFIG", "").split(os.pathsep)
        return [Path(each).expanduser() for each in named if each] or [USUAL.expanduser()]


def state_of(files: list[Path]) -> State:
    """Return what changes with the content of these files; None stands for a file that is not
    there."""
    return tuple(map(_state, files))


def _state(path: Path) -> tuple[int, int, int] | None:
    # The link is followed: mounted files are replaced by turning a link of a directory above.
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _named_in(config: Any) -> Iterator[str]:
    if isinstance(config, Mapping):
        for name, value in config.items():
            if name in _NAMES and isinstance(value, str):
                yield value
            else:
                yield from _named_in(value)
    elif isinstance(config, list):
        for each in config:
            yield from _named_in(each)
