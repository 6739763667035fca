"""The configuration file and the environment: which server, with which token.

The file is `$REPRISE_CONFIG`, else `$XDG_CONFIG_HOME/reprise/config.yaml`:

    current: production
    contexts:
      production: {url: "https://reprise.example", token: "...", project: "research/vision"}
"""

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from reprise_client.errors import ConfigError


@dataclass(frozen=True)
class Context:
    """A server and a user's token for it. `project` (`domain/name`) is the default of all calls."""

    url: str
    token: str = field(repr=False)
    project: str | None = None


@dataclass(frozen=True)
class Config:
    """The content of the file. `current` names one of `contexts`."""

    contexts: Mapping[str, Context] = field(default_factory=dict)
    current: str | None = None

    def with_context(self, name: str, context: Context) -> "Config":
        """Return a configuration with `name` added or replaced, and made the current context."""
        return Config({**self.contexts, name: context}, current=name)

    def using(self, name: str) -> "Config":
        """Return a configuration with another current context.

        Raises `ConfigError` if it is unknown.
        """
        self.named(name)
        return replace(self, current=name)

    def named(self, name: str) -> Context:
        if name not in self.contexts:
            known = ", ".join(sorted(self.contexts)) or "none yet"
            raise ConfigError(f"there is no context {name!r} (known: {known})")
        return self.contexts[name]


def config_path(environ: Mapping[str, str]) -> Path:
    if named := environ.get("REPRISE_CONFIG"):
        return Path(named)
    base = environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "reprise" / "config.yaml"


def load(path: Path) -> Config:
    """Return the configuration, empty if there is no file.

    Raises `ConfigError` if it is invalid.
    """
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Config()
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error
    return _config({} if data is None else data, path)


def _config(data: Any, path: Path) -> Config:
    try:
        contexts = {str(name): _context(item) for name, item in data.get("contexts", {}).items()}
        current = data.get("current")
    except (AttributeError, KeyError, TypeError) as error:
        raise _unfit(path) from error
    if current is not None and not isinstance(current, str):
        raise _unfit(path)
    return Config(contexts, current=current)


def _unfit(path: Path) -> ConfigError:
    return ConfigError(
        f"{path} is not a configuration of reprise: move it away and run `reprise login URL`"
    )


def _context(item: Mapping[str, Any]) -> Context:
    project = item.get("project")
    return Context(str(item["url"]), str(item["token"]), None if project is None else str(project))


def save(config: Config, path: Path) -> None:
    """Replace the file in one step; only its owner may read it."""
    data = {
        "current": config.current,
        "contexts": {name: vars(context) for name, context in config.contexts.items()},
    }
    target = path.resolve()  # a symbolic link stays one
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _replace(target, yaml.safe_dump(data, sort_keys=False))
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error}") from error


def _replace(target: Path, text: str) -> None:
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=target.name)  # made with mode 0600
    written = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(handle)
        written.replace(target)
    except BaseException:
        written.unlink(missing_ok=True)
        raise


def chosen(config: Config, name: str | None, environ: Mapping[str, str]) -> Context:
    """Return the context for a call.

    A `name` given for this call wins, then `REPRISE_URL`, `REPRISE_TOKEN` and `REPRISE_PROJECT`,
    then the current context. Raises `ConfigError` if that leaves no server or no token.
    """
    if name is not None:
        return config.named(name)
    saved = config.named(config.current) if config.current is not None else Context("", "")
    url = environ.get("REPRISE_URL") or saved.url
    if url.rstrip("/") != saved.url:
        saved = Context("", "")  # a token is only sent to its own server
    token = environ.get("REPRISE_TOKEN") or saved.token
    if not url:
        raise ConfigError("no server is known; run `reprise login URL`, or set REPRISE_URL")
    if not token:
        raise ConfigError(f"no token for {url}; run `reprise login {url}`, or set REPRISE_TOKEN")
    return Context(url, token, environ.get("REPRISE_PROJECT") or saved.project)
