"""The `mounts` of a session: what a container finds at a path."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from base.podspec.quantity import parse_resource

SOURCES = ("empty_dir", "config_map", "secret", "claim")
_OTHERS = frozenset({"path", "read_only", "sub_path"})
_EMPTY_DIR = {"size_limit": "sizeLimit", "medium": "medium"}
_LONGEST_NAME = 253
_LONGEST_PATH = 4096


@dataclass(frozen=True)
class Mount:
    """A mount. `volume` is the source as in a Kubernetes volume, without its name."""

    path: str
    volume: Mapping[str, Any]
    read_only: bool = False
    sub_path: str = ""


def read_mount(raw: object) -> Mount:
    """Return the mount in `{"path", one of SOURCES, "read_only", "sub_path"}`. Raises `ValueError`.

    A `config_map`, `secret` or `claim` (of a persistent volume) is the name of one in the project's
    namespace. An `empty_dir` is `{}`, or has `size_limit` and `medium` ("Memory").
    """
    if not isinstance(raw, Mapping):
        raise ValueError("must be an object")
    named = [source for source in SOURCES if source in raw]
    if len(named) != 1:
        raise ValueError(f"must have exactly one of {', '.join(SOURCES)}")
    source = named[0]
    if unknown := sorted(map(str, raw.keys() - _OTHERS - {source})):
        raise ValueError(f"unknown: {', '.join(unknown)}")
    read_only = raw.get("read_only", False)
    if not isinstance(read_only, bool):
        raise ValueError("read_only must be true or false")
    return Mount(_path(raw.get("path")), _volume(source, raw[source]), read_only, _sub_path(raw))


def _path(path: object) -> str:
    if not isinstance(path, str) or not path.startswith("/") or len(path) > _LONGEST_PATH:
        raise ValueError("path must be absolute, such as /data")
    if ":" in path or "\x00" in path:
        raise ValueError("path must not contain ':' or NUL")
    return path


def _sub_path(raw: Mapping[str, Any]) -> str:
    path = raw.get("sub_path", "")
    if not isinstance(path, str) or path.startswith("/") or ".." in path.split("/"):
        raise ValueError("sub_path must be relative, without '..'")
    return path


def _volume(source: str, value: object) -> dict[str, Any]:
    if source == "empty_dir":
        return {"emptyDir": _empty_dir(value)}
    if not isinstance(value, str) or not value or len(value) > _LONGEST_NAME:
        raise ValueError(f"{source} must be a name")
    if source == "config_map":
        return {"configMap": {"name": value}}
    if source == "secret":
        return {"secret": {"secretName": value}}
    return {"persistentVolumeClaim": {"claimName": value}}


def _empty_dir(value: object) -> dict[str, str]:
    if not isinstance(value, Mapping) or value.keys() - _EMPTY_DIR.keys():
        raise ValueError("empty_dir must be {}, or have size_limit and medium")
    if not all(isinstance(each, str) for each in value.values()):
        raise ValueError("size_limit and medium of empty_dir must be text")
    if "size_limit" in value:
        parse_resource(value["size_limit"])
    return {_EMPTY_DIR[name]: text for name, text in value.items()}
