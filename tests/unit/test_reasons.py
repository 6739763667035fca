"""The pages and the command give one and the same answer to the question why."""

from reprise_client.cli import words as command

from retry.explain.advice import REASONS
from retry.explain.reasons import WORDS, reason_words

GRANTS = {"rule_retry", "inline_retry", "default_retry"}


def test_the_command_says_what_the_pages_say() -> None:
    assert dict(command.REASONS) == dict(WORDS)


def test_every_refusal_has_words() -> None:
    assert set(WORDS) == set(REASONS) - GRANTS


def test_a_reason_of_another_version_is_said_as_it_is() -> None:
    assert reason_words("brand_new") == "brand new"
