"""The exit-code rules of the inline policy, each with a process that really ends so."""

from typing import Any, NamedTuple

import pytest
from reprise_client import ApiError, Client

from tests.acceptance.running import ended, submit


class Rule(NamedTuple):
    """A policy, a script, and what comes of them."""

    policy: dict[str, Any]
    script: str
    exit_code: int
    retried: bool


LISTED = {"retry_on_exit_codes": [75, 137]}
BARRED = {"no_retry_on_exit_codes": [2, 143]}
RULES = {
    "without lists any failure is retried": Rule({}, "exit 1", 1, True),
    "the highest code is a failure": Rule({}, "exit 255", 255, True),
    "a listed code is retried": Rule(LISTED, "exit 75", 75, True),
    "an unlisted code is not": Rule(LISTED, "exit 76", 76, False),
    "a barred code is not retried": Rule(BARRED, "exit 2", 2, False),
    "any other code than a barred one is": Rule(BARRED, "exit 3", 3, True),
    "a code on both lists is barred": Rule(
        {"retry_on_exit_codes": [2], "no_retry_on_exit_codes": [2]}, "exit 2", 2, False
    ),
    "listed beside a barred one": Rule({**LISTED, **BARRED}, "exit 75", 75, True),
    "neither listed nor barred": Rule({**LISTED, **BARRED}, "exit 3", 3, False),
    "SIGKILL is 137, listed": Rule(LISTED, "kill -9 $$", 137, True),
    "SIGTERM is 143, unlisted": Rule(LISTED, "kill -15 $$", 143, False),
    "SIGTERM is 143, barred": Rule(BARRED, "kill -15 $$", 143, False),
    "SIGKILL is 137, not barred": Rule(BARRED, "kill -9 $$", 137, True),
}


@pytest.fixture(scope="module")
def sessions(standalone: Any) -> dict[str, str]:
    """All at once, so that they need not wait for each other."""
    return {
        name: submit(standalone.client, rule.script, policy={"max_retries": 1, **rule.policy})
        for name, rule in RULES.items()
    }


@pytest.mark.parametrize("name", RULES)
def test_rule(client: Client, sessions: dict[str, str], name: str) -> None:
    rule = RULES[name]
    attempts = ended(client, sessions[name])
    assert {each.exit_code for each in attempts} == {rule.exit_code}
    assert {each.cause for each in attempts} == {"kernel_nonzero_exit"}
    decision = client.decision(attempts[0].id)
    if rule.retried:
        assert len(attempts) == 2
        assert decision.action == "retry"
        assert client.decision(attempts[1].id).reason == "max_retries"
    else:
        assert len(attempts) == 1
        assert (decision.action, decision.reason) == ("fail", "exit_code_excluded")
        assert client.session(attempts[0].id).retry_state.state == "not_retried"


def test_success_is_never_decided(client: Client) -> None:
    policy = {"max_retries": 1, "retry_on_exit_codes": [1]}
    (attempt,) = ended(client, submit(client, "exit 0", policy=policy))
    assert (attempt.status, attempt.exit_code) == ("TERMINATED", 0)
    with pytest.raises(ApiError) as refusal:
        client.decision(attempt.id)
    assert refusal.value.status == 404


def test_a_program_that_is_not_there_has_no_exit_code(client: Client) -> None:
    """The lists are about codes: a start that failed has none, and is retried by its cause."""
    policy = {"max_retries": 1, "retry_delay": 0.2, "retry_on_exit_codes": [75]}
    command = ["no-such-program"]
    session = client.session_create(image="any", command=command, retry_policy=policy)
    attempts = ended(client, session.id)
    assert [(a.cause, a.exit_code) for a in attempts] == [("start_failure", None)] * 2
    assert "no-such-program" in (client.session(session.id).status_message or "")
