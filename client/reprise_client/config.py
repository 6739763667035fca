"""Which server, with which token: the configuration file and the environment.

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
    """One server as one user sees it; `project` (`domain/name`) is the default of all calls."""

    url: str
    token: str = field(repr=False)
    project: str | None = None


@dataclass(frozen=True)
class Config:
    """What the file says; `current` names one of `contexts`."""

    contexts: Mapping[str, Context] = field(default_factory=dict)
    current: str | None = None

    def with_context(self, name: str, context: Context) -> "Config":
        """With `name` added or replaced, and made the current one."""
        return Config({**self.contexts, name: context}, current=name)

    def using(self, name: str) -> "Config":
        """With another current context; raises `ConfigError` if there is none of that name."""
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
    """An empty configuration if there is no file; `ConfigError` if it cannot be understood."""
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
    """Writes the file anew, readable by its owner only; a reader sees the old or the new one."""
    data = {
        "current": config.current,
        "contexts": {name: vars(context) for name, context in config.contexts.items()},
    }
    target = path.resolve()  # a link stays a link
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
    """The context that a call uses.

    A `name` given for this call wins, then `REPRISE_URL`, `REPRISE_TOKEN` and `REPRISE_PROJECT`,
    then the current context. Raises `ConfigError` if that leaves no server or no token.
    """
    if name is not None:
        return config.named(name)
    saved = config.named(config.current) if config.current is not None else Context("", "")
    url = environ.get("REPRISE_URL") or saved.url
    if url.rstrip("/") != saved.url:
        saved = Context("", "")  # a token is never sent to another server than its own
    token = environ.get("REPRISE_TOKEN") or saved.token
    if not url:
        raise ConfigError("no server is known; run `reprise login URL`, or set REPRISE_URL")
    if not token:
        raise ConfigError(f"no token for {url}; run `reprise login {url}`, or set REPRISE_TOKEN")
    return Context(url, token, environ.get("REPRISE_PROJECT") or saved.project)
