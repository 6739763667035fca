"""The environment of a local run: the session's variables, and few of the agent's own."""

import getpass
import os
import socket
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from typing import Any

from executor.drivers.protocol import Order
from executor.runs import RunFiles

INHERITED = ("LANG", "LC_ALL", "TZ")


def build(order: Order, agents: Mapping[str, str], user: int | None) -> dict[str, str]:
    """Return the environment; later sources win.

    The sources are a clean base, the spec's variables, secrets, the lease's variables, and this
    driver's own. `user` is the run's user, None for the agent's. Of the agent's variables only the
    search path, the locale and the time zone are passed on: the others may hold secrets of the
    server that started it.
    """
    return {
        **_base(order.files, agents, _user() if user is None else str(user)),
        **(order.spec.get("environ") or {}),
        **order.secrets,
        **order.environ,
        **_ports(order.spec.get("ports") or ()),
        "REPRISE_SESSION_ID": order.key.session_id,
        "REPRISE_TERMINATION_LOG": str(order.files.termination_log),
    }


def marks(files: RunFiles) -> frozenset[bytes]:
    """Return the variables that only this run's processes have, even among attempts and agents."""
    return frozenset(
        {
            b"REPRISE_SESSION_ID=" + os.fsencode(files.key.session_id),
            b"REPRISE_TERMINATION_LOG=" + os.fsencode(files.termination_log),
        }
    )


def _base(files: RunFiles, agents: Mapping[str, str], user: str) -> dict[str, str]:
    base = {
        "PATH": agents.get("PATH") or os.defpath,
        "HOME": str(files.work),
        "TMPDIR": str(files.tmp),
        "USER": user,
        "LOGNAME": user,
    }
    return base | {name: agents[name] for name in INHERITED if name in agents}


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _ports(ports: Iterable[Any]) -> dict[str, str]:
    """Return a free port for each name. Nothing reserves it until the session listens there."""
    names = [str(port.get("name") if isinstance(port, Mapping) else port) for port in ports]
    with ExitStack() as open_sockets:
        # All sockets are open at once, so that no two names get the same port.
        sockets = [open_sockets.enter_context(socket.socket()) for _ in names]
        for each in sockets:
            each.bind(("", 0))
        return {
            f"REPRISE_PORT_{name.upper().replace('-', '_')}": str(each.getsockname()[1])
            for name, each in zip(names, sockets, strict=True)
        }
