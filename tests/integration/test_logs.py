"""The log store: output comes in pieces, is kept once and up to its cap."""

import base64
from typing import Any

import pytest

from sessions_app.models import LogChunk, Project, Session
from tests import factories
from tests.agent import Agent, Api, agent, running
from tests.factories import project, submit


@pytest.fixture
def session(played: Agent) -> Session:
    return running(played, submit(project()))


@pytest.fixture
def api() -> Api:
    return Api(factories.token(factories.user(superuser=True)))


def send(played: Agent, session: Session, *pieces: tuple[int, bytes], token: int = 0) -> list[Any]:
    token = token or played.tokens.get(session.pk) or Session.objects.get().fencing_token or 0
    chunks = [
        {"session_id": str(session.pk), "fencing_token": token, "offset": offset,
         "data": base64.b64encode(data).decode()}
        for offset, data in pieces
    ]  # fmt: skip
    answers = played.ask("logs", {"chunks": chunks})["chunks"]
    return [(each["next_offset"], each["full"], each["outcome"]) for each in answers]


def read(api: Api, session: Session, query: str = "") -> bytes:
    response = api.get(f"sessions/{session.pk}/logs/{query}")
    assert response.status_code == 200
    assert response["Content-Type"] == "text/plain; charset=utf-8"
    return b"".join(response.streaming_content)


def test_a_log_without_output_is_empty(api: Api, session: Session) -> None:
    assert read(api, session) == read(api, session, "?tail=3") == b""


def test_pieces_become_one_stream(api: Api, played: Agent, session: Session) -> None:
    odd = bytes(range(256))
    assert send(played, session, (0, b"ab"), (2, odd)) == [
        (2, False, "applied"),
        (258, False, "applied"),
    ]
    assert send(played, session, (258, b"")) == [(258, False, "applied")]
    assert read(api, session) == b"ab" + odd


@pytest.mark.parametrize(
    ("pieces", "whole"),
    [
        ([(0, b"abc"), (0, b"abc")], b"abc"),
        ([(0, b"abc"), (1, b"bcd")], b"abcd"),
        ([(0, b"abc"), (0, b"ab")], b"abc"),
        ([(0, b"abc"), (3, b"d"), (2, b"cde")], b"abcde"),
        ([(0, b"abc"), (5, b"x")], b"abc"),
        ([(4, b"x")], b""),
    ],
    ids=["twice", "overlapping", "inside", "over both", "after a gap", "before anything"],
)
def test_nothing_is_kept_twice_and_no_gap_is_left(
    api: Api, played: Agent, session: Session, pieces: list[tuple[int, bytes]], whole: bytes
) -> None:
    together = send(played, session, *pieces)
    assert together[-1] == (len(whole), False, "applied")
    assert read(api, session) == whole
    LogChunk.objects.all().delete()
    for piece in pieces:
        (last,) = send(played, session, piece)
    assert last == (len(whole), False, "applied")
    assert read(api, session) == whole


def test_a_log_ends_at_its_cap(api: Api, played: Agent, session: Session, settings: Any) -> None:
    settings.REPRISE = {**settings.REPRISE, "log_cap_bytes": 5}
    assert send(played, session, (0, b"abc")) == [(3, False, "applied")]
    assert send(played, session, (3, b"defg"), (5, b"h")) == [(5, True, "applied")] * 2
    assert read(api, session) == b"abcde"


def test_the_end_of_a_long_output_follows_its_beginning(
    api: Api, played: Agent, session: Session, settings: Any
) -> None:
    settings.REPRISE = {**settings.REPRISE, "log_cap_bytes": 5, "log_tail_bytes": 8}

    def tail(offset: int, data: bytes) -> Any:
        chunk = {
            "session_id": str(session.pk), "fencing_token": played.tokens[session.pk],
            "offset": offset, "data": base64.b64encode(data).decode(), "tail": True,
        }  # fmt: skip
        (answer,) = played.ask("logs", {"chunks": [chunk]})["chunks"]
        return answer

    assert send(played, session, (0, b"abc")) == [(3, False, "applied")]
    first = tail(5, b"zz")
    assert (first["next_offset"], first["full"], first["tail_bytes"]) == (3, False, 0)
    send(played, session, (3, b"defgh"))
    assert (before := read(api, session)) == b"abcde"
    answer = tail(5, b"..ij")
    assert (answer["next_offset"], answer["tail_from"], answer["tail_bytes"]) == (9, 5, 8)
    # Sent once more by an agent that died, and with more than there is room for.
    assert tail(5, b"..ij")["next_offset"] == 9
    assert tail(9, b"klmnop")["next_offset"] == 13
    assert tail(13, b"q")["next_offset"] == 13
    assert send(played, session, (13, b"r")) == [(13, True, "applied")]
    assert read(api, session) == b"abcde..ijklmn"
    # Who has read the beginning goes on from there.
    assert read(api, session, f"?offset={len(before)}") == b"..ijklmn"
    played.fail(session.pk)
    assert read(api, session) == b"abcde..ijklmn"


def test_an_old_token_is_stale(played: Agent, session: Session, api: Api) -> None:
    assert send(played, session, (0, b"x"), token=9999)[0][2] == "stale"
    thief = agent()
    assert send(thief, session, (0, b"x"), token=played.tokens[session.pk])[0][2] == "stale"
    assert read(api, session) == b""


def test_output_may_come_after_the_end(api: Api, played: Agent, session: Session) -> None:
    played.fail(session.pk)
    assert send(played, session, (0, b"last words")) == [(10, False, "applied")]
    assert read(api, session) == b"last words"


def test_output_may_come_from_an_agent_that_was_replaced(
    api: Api, played: Agent, session: Session
) -> None:
    """A success was told before the log store took what the run wrote."""
    played.succeed(session.pk)
    Agent(played.executor, incarnation=2).lease(state_id="another")
    report = played.call("reports", {"reports": []})
    assert report.json()["current_incarnation"] == 2
    assert send(played, session, (0, b"last words")) == [(10, False, "applied")]
    # What counts under no lease it is refused, as all else.
    wrong = {"session_id": str(session.pk), "fencing_token": 9999, "offset": 0, "data": "YQ=="}
    assert played.call("logs", {"chunks": [wrong]}).status_code == 409
    assert read(api, session) == b"last words"


def test_output_of_many_sessions_comes_in_one_call(played: Agent, session: Session) -> None:
    other = running(played, submit(Project.objects.get()))
    chunks = [
        {"session_id": str(each.pk), "fencing_token": played.tokens[each.pk], "offset": 0,
         "data": "YQ=="}
        for each in (session, other, session)
    ]  # fmt: skip
    answers = played.ask("logs", {"chunks": chunks})["chunks"]
    assert [each["next_offset"] for each in answers] == [1, 1, 1]
    assert LogChunk.objects.count() == 2


LINES = b"one\ntwo\n\nfour\nfi\xc3\xa9ve"


@pytest.mark.parametrize("end", [b"", b"\n"])
@pytest.mark.parametrize("size", [1, 4, 100])
@pytest.mark.parametrize("tail", range(8))
def test_the_tail_is_the_last_lines(
    api: Api, played: Agent, session: Session, tail: int, size: int, end: bytes
) -> None:
    whole = LINES + end
    pieces = [(at, whole[at : at + size]) for at in range(0, len(whole), size)]
    send(played, session, *pieces)
    lines = whole.splitlines(keepends=True)
    assert read(api, session, f"?tail={tail}") == b"".join(lines[len(lines) - min(tail, 5) :])


@pytest.mark.parametrize("offset", [0, 1, 4, 21, 22, 500])
def test_a_log_is_read_from_an_offset(
    api: Api, played: Agent, session: Session, offset: int
) -> None:
    send(played, session, *[(at, LINES[at : at + 4]) for at in range(0, len(LINES), 4)])
    response = api.get(f"sessions/{session.pk}/logs/?offset={offset}")
    assert b"".join(response.streaming_content) == LINES[offset:]
    assert response["X-Reprise-Log-Offset"] == str(offset)


def test_a_long_log_is_read_in_pieces(api: Api, played: Agent, session: Session) -> None:
    whole = b"".join(b"%06d\n" % n for n in range(200))
    for start in range(0, len(whole), 64 * 7):
        part = whole[start : start + 64 * 7]
        send(played, session, *[(start + at, part[at : at + 7]) for at in range(0, len(part), 7)])
    assert LogChunk.objects.count() == 200
    assert read(api, session) == whole
    assert read(api, session, "?tail=150") == whole[-150 * 7 :]
