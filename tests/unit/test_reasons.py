"""Every reason has words, and the pages and the command give one and the same answer."""

from reprise_client.cli import reasons as command

from retry.engine.reasons import REASONS
from retry.explain.reasons import reason_words


def test_the_command_says_what_the_pages_say() -> None:
    clauses = {**command.RETRY_REASONS, **command.REFUSALS}
    assert clauses == {name: reason_words(name) for name in REASONS}
    assert command.REFUSALS.keys() >= command.SPENT


def test_every_reason_has_words_of_its_own() -> None:
    clauses = [reason.clause for reason in REASONS.values()]
    assert all(clauses)
    assert len(set(clauses)) == len(clauses)


def test_a_reason_of_another_version_is_said_as_it_is() -> None:
    assert reason_words("brand_new") == "brand new"
