"""Ports for programs that must be told one."""

import random
import socket
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port() -> int:
    """Return a port of loopback on which nobody listens.

    It is below those that the system gives to connections: one of these may be taken again before
    the program listens.
    """
    end = int(_RANGE.read_text().split()[0])
    while True:
        port = random.randrange(end // 2, end)
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port
