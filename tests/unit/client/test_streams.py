import json

import pytest
from reprise_client import ApiError, Client, InvalidAnswer

from tests.unit.client import answers
from tests.unit.client.answers import IDS
from tests.unit.client.server import FakeServer, Reply, problem

LOGS = f"/sessions/{IDS[0]}/logs/"
EVENTS = f"/sessions/{IDS[0]}/events/"


def offsets(server: FakeServer) -> list[dict[str, str]]:
    return [call.query for call in server.calls if call.path == LOGS]


def test_a_cut_log_is_taken_up_in_the_middle_of_a_character(
    server: FakeServer, client: Client
) -> None:
    text = "épochs: ∞\nend\n"
    content = text.encode()
    server.on(f"GET /sessions/{IDS[0]}/", answers.session(), answers.succeeded())
    server.on(
        f"GET {LOGS}",
        answers.log(content[:1], cut=True),
        answers.log(content[1:12], offset=1, cut=True),
        answers.log(content[12:], offset=12),
    )
    assert "".join(client.follow_logs(IDS[0])) == text
    assert [query["offset"] for query in offsets(server)] == ["0", "1", "12"]


def test_a_log_that_ends_before_its_session_is_asked_for_again(
    server: FakeServer, client: Client
) -> None:
    server.on(f"GET /sessions/{IDS[0]}/", answers.session(), answers.succeeded())
    server.on(f"GET {LOGS}", answers.log(b"one\n"), answers.log(b"two\n", offset=4))
    assert list(client.follow_logs(IDS[0])) == ["one\n", "two\n"]
    assert [query["offset"] for query in offsets(server)] == ["0", "4"]


def test_a_tail_is_resumed_by_offset(server: FakeServer, client: Client) -> None:
    server.on(f"GET /sessions/{IDS[0]}/", answers.succeeded())
    server.on(
        f"GET {LOGS}", answers.log(b"b", offset=100, cut=True), answers.log(b"c\n", offset=101)
    )
    assert "".join(client.follow_logs(IDS[0], tail=1)) == "bc\n"
    first, second = offsets(server)
    assert first == {"follow": "true", "tail": "1"}
    assert second == {"follow": "true", "offset": "101"}


def test_a_missing_log_is_no_cut(server: FakeServer, client: Client) -> None:
    server.on(f"GET /sessions/{IDS[0]}/", answers.succeeded())
    server.on(f"GET {LOGS}", problem(404, "Not found"))
    with pytest.raises(ApiError, match="Not found"):
        list(client.follow_logs(IDS[0]))
    assert server.count("GET", LOGS) == 1


def test_a_log_is_bytes_as_they_are(server: FakeServer, client: Client) -> None:
    server.on(f"GET {LOGS}", answers.log(b"\xff\x00raw", offset=7))
    assert client.logs(IDS[0], offset=7) == b"\xff\x00raw"
    assert offsets(server) == [{"offset": "7"}]


def sse(*numbers: int, cut: bool = False) -> Reply:
    lines = "".join(
        f"id: {number}\nevent: session.running\n"
        f"data: {json.dumps({'id': str(number), 'type': 'session.running'})}\n\n"
        for number in numbers
    )
    return Reply(f": hello\n\n{lines}".encode(), kind="text/event-stream", cut=cut)


def test_events_are_resumed_behind_the_last_one(server: FakeServer, client: Client) -> None:
    server.on(f"GET /sessions/{IDS[0]}/", answers.succeeded())
    server.on(f"GET {EVENTS}", sse(11, 12, cut=True), sse(13))
    assert [event.id for event in client.follow_events(IDS[0])] == ["11", "12", "13"]
    asked = [call.query for call in server.calls if call.path == EVENTS]
    assert asked == [{}, {"after": "12"}]


@pytest.mark.parametrize(
    "junk", [Reply({"results": []}), Reply(b"data: {\n\n", kind="text/event-stream")]
)
def test_a_stream_of_junk_is_an_invalid_answer(
    server: FakeServer, client: Client, junk: Reply
) -> None:
    server.on(f"GET /sessions/{IDS[0]}/", answers.succeeded())
    server.on(f"GET {EVENTS}", junk)
    with pytest.raises(InvalidAnswer):
        list(client.follow_events(IDS[0]))


SWEEP = "/job-sets/sweep/events/"


def places(*numbers: int, cut: bool = False) -> Reply:
    stream = "".join(
        f"id: 0-5-{number}\nevent: session.running\n"
        f"data: {json.dumps({'id': number, 'cursor': f'0-5-{number}', 'type': 'x'})}\n\n"
        for number in numbers
    )
    text = f"retry: 1000\n\n: ping\n\n{stream}"
    return Reply(text.encode(), kind="text/event-stream", cut=cut)


def test_a_job_set_is_followed_behind_its_last_cursor(server: FakeServer, client: Client) -> None:
    """Cut, or ended by a server that stops: it goes on."""
    server.on(f"GET {SWEEP}", places(1, 2, cut=True), problem(503, "Busy"), places(3), places(4))
    followed = client.follow_job_set("sweep", project="d/p", after="0-1-1")
    assert [next(followed).id for _ in range(4)] == [1, 2, 3, 4]
    asked = [call.query for call in server.calls]
    assert asked == [
        {"project": "d/p", "after": place} for place in ("0-1-1", "0-5-2", "0-5-2", "0-5-3")
    ]


def test_a_job_set_that_is_not_there_is_no_cut(server: FakeServer, client: Client) -> None:
    server.on(f"GET {SWEEP}", problem(404, "Not found"))
    with pytest.raises(ApiError, match="Not found"):
        next(client.follow_job_set("sweep"))
    assert server.count("GET", SWEEP) == 1
