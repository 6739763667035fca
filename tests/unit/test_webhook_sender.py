"""One attempt against receivers that are slow, endless, elsewhere, or behind TLS."""

import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sessions_app.webhooks import sender as webhook_sender
from sessions_app.webhooks.endpoints import secret_make
from sessions_app.webhooks.rules import Answer
from sessions_app.webhooks.sender import EXCERPT, LONGEST_ERROR, MOST_BYTES, Attempt, Message
from sessions_app.webhooks.url_guard import Guard
from tests.receiver import Receiver, Says, receiving
from tests.waiting import PATIENCE_SECONDS, until

LOCAL = Guard.of(["127.0.0.0/8"], [], http=True)
SECRET = secret_make()


def attempt(url: str, guard: Guard = LOCAL) -> Attempt:
    return Attempt(Message("evt_1", url, '{"a":"\u00fc"}', [SECRET]), guard)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


@pytest.fixture
def raw() -> Iterator[Callable[[Callable[[socket.socket], object]], str]]:
    """A server of one connection that does as it is told; its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve(talk: Callable[[socket.socket], object]) -> str:
            def run() -> None:
                peer, _ = listener.accept()
                with peer:
                    try:
                        talk(peer)
                    except OSError:
                        return  # the sender has gone

            threading.Thread(target=run, daemon=True).start()
            return f"http://127.0.0.1:{listener.getsockname()[1]}/"

        yield serve


def test_it_is_signed_over_the_bytes_that_come(receiver: Receiver) -> None:
    assert attempt(receiver.url).run().code == 204
    assert receiver.got[0].verified(SECRET) == {"a": "\u00fc"}


def test_of_an_answer_no_more_is_read_than_is_kept(
    raw: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = 0

    def talk(peer: socket.socket) -> None:
        nonlocal sent
        peer.recv(65536)
        peer.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            sent += peer.send(b"x" * 65536)

    answer = attempt(raw(talk)).run()
    assert (answer.code, answer.excerpt) == (200, "x" * EXCERPT)
    until(lambda: sent >= MOST_BYTES)
    assert sent < 100 * 1024 * 1024


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\n"])
def test_a_byte_at_a_time_does_not_prolong_it(
    raw: Any, monkeypatch: pytest.MonkeyPatch, head: bytes
) -> None:
    monkeypatch.setattr(webhook_sender, "TOTAL_SECONDS", 1.0)

    def talk(peer: socket.socket) -> None:
        peer.sendall(head)
        while True:
            peer.sendall(b"a")
            time.sleep(0.05)

    answer = attempt(raw(talk)).run()
    assert (answer.code, answer.error) == (None, "no answer within 1 s")


def test_a_hanging_delivery_can_be_cut_off(raw: Any) -> None:
    """As a handshake of TLS that never comes to an end."""
    connected = threading.Event()

    def talk(peer: socket.socket) -> None:
        connected.set()
        peer.recv(65536)
        time.sleep(60)

    slow = attempt(raw(talk))
    answers: list[Answer] = []
    thread = threading.Thread(target=lambda: answers.append(slow.run()))
    thread.start()
    assert connected.wait(PATIENCE_SECONDS)
    while thread.is_alive():
        slow.abort()
        thread.join(0.1)
    assert answers[0].code is None
    assert answers[0].latency_ms < 14_000


@pytest.mark.parametrize(
    "raw_answer",
    [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200\r\n" + b"a: b\r\n" * 100_000],
    # A test's name is in the environment of what is started meanwhile.
    ids=["nothing", "nonsense", "endless-headers"],
)
def test_a_malformed_answer_is_an_error_and_no_exception(raw: Any, raw_answer: bytes) -> None:
    def talk(peer: socket.socket) -> None:
        peer.recv(65536)
        peer.sendall(raw_answer)

    answer = attempt(raw(talk)).run()
    assert answer.code is None
    assert answer.error.startswith("no answer: ")


@pytest.mark.parametrize(
    ("code", "location", "address"),
    [
        (301, "https://hooks.example/b", "https://hooks.example/b"),
        (307, "/moved?to=1", "{here}/moved?to=1"),
        (308, "https://hooks.example/\x1b[2J\xa0b", "https://hooks.example/ [2J b"),
        (302, "https://hooks.example/" + "x" * 5_000, None),
    ],
)
def test_a_redirect_is_not_followed_and_names_the_address_to_use(
    receiver: Receiver, code: int, location: str, address: str | None
) -> None:
    receiver.answer = lambda _: Says(code, headers={"Location": location})
    answer = attempt(receiver.url).run()
    assert answer.code == code
    assert len(receiver.got) == 1
    assert len(answer.error) <= LONGEST_ERROR
    if address is not None:
        meant = address.format(here=receiver.url.removesuffix("/hook"))
        assert answer.error == f"redirects are not followed: use {meant}"


def test_a_redirect_to_nowhere_says_only_its_code(receiver: Receiver) -> None:
    receiver.answer = lambda _: Says(301)
    answer = attempt(receiver.url).run()
    assert (answer.code, answer.error) == (301, "")


def test_an_unsigned_delivery_is_an_error_and_no_exception(receiver: Receiver) -> None:
    message = Message("evt_1", receiver.url, "{}", ["whsec_a"])
    answer = Attempt(message, Guard.of(["127.0.0.0/8"], [], http=True)).run()
    assert (answer.code, answer.error) == (None, "not sent: Error")
    assert receiver.got == []


def test_nobody_there_is_an_error(receiver: Receiver) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert attempt(f"http://127.0.0.1:{port}/").run().error.startswith("no answer: ")
    unknown = attempt("https://nowhere.invalid/").run()
    assert (unknown.code, unknown.error[:11]) == (None, "no answer: ")


def test_a_body_that_breaks_off_is_an_answer(raw: Any) -> None:
    def talk(peer: socket.socket) -> None:
        peer.recv(65536)
        peer.sendall(b"HTTP/1.1 202 Accepted\r\ncontent-length: 10\r\n\r\nabc")

    assert attempt(raw(talk)).run().code == 202


def test_a_name_is_looked_up_once_and_stays_what_tls_and_host_say(
    receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = _behind_tls(receiver, tmp_path, monkeypatch)
    looked_up = []

    def look_up(host: str, port: int, **_: Any) -> list[Any]:
        looked_up.append(host)
        # The next one to ask would be led to somewhere else.
        address = "127.0.0.1" if len(looked_up) == 1 else "127.0.0.9"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    real = socket.getaddrinfo
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda host, port, *a, **k: (
            look_up(host, port) if host == "hooks.example" else real(host, port, *a, **k)
        ),
    )
    url = f"https://hooks.example:{receiver.port}/hook"
    receiver.answer = lambda _: Says(200)
    assert attempt(url).run().code == 200
    assert (looked_up, names) == (["hooks.example"], ["hooks.example"])
    assert receiver.got[0].headers["host"] == f"hooks.example:{receiver.port}"
    looked_up.clear()
    assert "may reach" in attempt(url, Guard()).run().error
    other = attempt(f"https://127.0.0.1:{receiver.port}/").run()
    assert "certificate" in other.error.lower()
    assert len(receiver.got) == 1


def _behind_tls(
    receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> list[str | None]:
    """Put a receiver behind a certificate for hooks.example; the names that senders ask for."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    subject = ["-subj", "/CN=hooks.example", "-addext", "subjectAltName=DNS:hooks.example"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*made, *subject, *files], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    names: list[str | None] = []
    context.sni_callback = lambda _socket, name, _context: names.append(name)
    server = receiver._server
    server.socket = context.wrap_socket(server.socket, server_side=True)
    trusted = ssl.create_default_context(cafile=str(certificate))
    monkeypatch.setattr(webhook_sender, "_tls", lambda: trusted)
    return names
