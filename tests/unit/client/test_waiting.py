import pytest
from reprise_client import ApiError, Client, Session, WaitTimeout

from tests.unit.client import answers
from tests.unit.client.answers import IDS
from tests.unit.client.server import FakeServer, problem


def at(attempt: int) -> str:
    return f"GET /sessions/{IDS[attempt]}/"


def test_waiting_goes_along_the_chain_to_its_end(server: FakeServer, client: Client) -> None:
    server.on(at(0), answers.session(), answers.failed(0), answers.retried(0))
    server.on(
        at(1), answers.session(attempt=1), answers.failed(1, state="held"), answers.retried(1)
    )
    server.on(at(2), answers.session("PENDING", attempt=2), answers.succeeded(2))
    seen: list[tuple[str, str, str]] = []

    def changed(session: Session) -> None:
        seen.append((session.id, session.status, session.retry_state.state))

    last = client.wait(IDS[0], on_change=changed, timeout=30)
    assert last.id == IDS[2]
    assert seen == [
        (IDS[0], "RUNNING", "none"),
        (IDS[0], "ERROR", "scheduled"),
        (IDS[0], "ERROR", "retried"),
        (IDS[1], "RUNNING", "none"),
        (IDS[1], "ERROR", "held"),
        (IDS[1], "ERROR", "retried"),
        (IDS[2], "PENDING", "none"),
        (IDS[2], "TERMINATED", "succeeded"),
    ]


def test_waiting_for_one_attempt_ends_with_it(server: FakeServer, client: Client) -> None:
    server.on(at(0), answers.session(), answers.failed(0))
    assert client.wait(IDS[0], chain=False).retry_waits
    assert {call.path for call in server.calls} == {f"/sessions/{IDS[0]}/"}


@pytest.mark.parametrize("state", ["exhausted", "not_retried", "cancelled"])
def test_a_chain_that_gave_up_is_over(server: FakeServer, client: Client, state: str) -> None:
    server.on(at(3), answers.failed(3, state=state))
    assert client.wait(IDS[3]).retry_state.state == state


def test_a_successor_is_found_in_the_chain_of_a_cancelled_parent(
    server: FakeServer, client: Client
) -> None:
    server.on(at(0), answers.failed(0, state="cancelled") | {"retry_chain": IDS[:2]})
    server.on(at(1), answers.succeeded(1))
    assert client.wait(IDS[0]).id == IDS[1]


def test_a_retry_that_waits_too_long_is_a_timeout(server: FakeServer, client: Client) -> None:
    server.on(at(0), answers.failed(0))
    with pytest.raises(WaitTimeout, match=f"{IDS[0]} has not ended after 0.3 s"):
        client.wait(IDS[0], timeout=0.3)


def test_an_outage_in_the_middle_is_sat_out(server: FakeServer, client: Client) -> None:
    server.on(at(0), answers.session(), problem(500, "Broken"), answers.succeeded())
    assert client.wait(IDS[0]).status == "TERMINATED"


def test_an_error_that_does_not_pass_ends_the_wait(server: FakeServer, client: Client) -> None:
    server.on(at(0), answers.session(), problem(403, "Refused"))
    with pytest.raises(ApiError, match="Refused"):
        client.wait(IDS[0])


def test_a_server_that_never_answered_is_not_waited_for(server: FakeServer, client: Client) -> None:
    server.on(at(0), problem(500, "Broken"), answers.succeeded())
    with pytest.raises(ApiError, match="Broken"):
        client.wait(IDS[0])
