"""Many large bodies at once through the proxy, and what they cost."""

import re
import socket
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.acceptance.slow_calls import PATIENCE

MANY = 16
MIB = 1024 * 1024
SIZE = 60 * MIB
CALL = (
    "POST /api/v2/retry-policies/simulate/ HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    "Content-Type: application/json\r\n"
)


def memory(pid: int) -> int:
    """Return the most bytes of memory that a process has had."""
    text = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"^VmHWM:\s+(\d+) kB$", text, re.MULTILINE)
    assert found
    return int(found[1]) * 1024


def simulations(port: int, secret: str = "", *, chunked: bool = False) -> Counter[str]:
    """Send sixteen simulations of 60 MiB at the same time; the status of each answer.

    `cut` is one that did not read its answer before the proxy closed the connection.
    """
    head = CALL + (f"Authorization: Bearer {secret}\r\n" if secret else "")
    length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {SIZE}"

    def one(_: int) -> str:
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as connection:
            try:
                connection.sendall(f"{head}{length}\r\n\r\n".encode())
                for _ in range(SIZE // MIB):
                    piece = b"%x\r\n%s\r\n" % (MIB, b" " * MIB) if chunked else b" " * MIB
                    connection.sendall(piece)
                if chunked:
                    connection.sendall(b"0\r\n\r\n")
                return connection.recv(12).decode()[-3:]
            except ConnectionError:
                return "cut"

    with ThreadPoolExecutor(MANY) as pool:
        return Counter(pool.map(one, range(MANY)))
