"""Warnings about policies that are valid, but hardly mean what they say."""

from typing import Any

import pytest
from pydantic import ValidationError

from interfaces.http.problems import field_errors
from retry.policies.documents import PolicyDocument
from retry.policies.doubts import document_doubts, policy_doubts
from retry.policies.inline import InlinePolicy

RULE: dict[str, Any] = {"action": "Retry", "onCauses": ["unknown"]}


def document(version: str = "reprise/v1", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": version,
        "kind": "RetryPolicy",
        "metadata": {"name": "ml"},
        "spec": {"rules": [RULE], **spec},
    }


def doubts(**spec: Any) -> tuple[str, ...]:
    return document_doubts(PolicyDocument.model_validate(document(**spec)))


@pytest.mark.parametrize(
    ("backoff", "found"),
    [
        ({"initialDelay": "5m", "maxDelay": "5m", "multiplier": 1}, ()),
        (
            {"initialDelay": "10m", "maxDelay": "5m"},
            ("initialDelay is 10 min, above maxDelay: every retry waits 5 min",),
        ),
        # The longest delay is ten minutes unless the policy says otherwise.
        (
            {"initialDelay": "20m"},
            ("initialDelay is 20 min, above maxDelay: every retry waits 10 min",),
        ),
        (
            {"initialDelay": "1s", "multiplier": 0.5},
            ("multiplier is 0.5, below 1: every delay is shorter than the one before",),
        ),
    ],
)
def test_delays_that_cannot_be_meant(backoff: dict[str, Any], found: tuple[str, ...]) -> None:
    assert doubts(backoff=backoff) == tuple(f"spec.backoff.{each}" for each in found)
    ruled = doubts(rules=[{**RULE, "backoff": backoff}])
    assert ruled == tuple(f"spec.rules[0].backoff.{each}" for each in found)


def test_delays_of_an_inline_policy() -> None:
    def told(asked: dict[str, Any], **inherited: Any) -> tuple[str, ...]:
        policy = InlinePolicy.model_validate({**inherited, **asked})
        return policy_doubts(policy, InlinePolicy.model_validate(asked))

    assert told({"retry_delay": 3600}) == ()
    words = "is 2 h, above max_retry_delay: every retry waits 1 h"
    assert told({"retry_delay": 7200}) == (f"retry_policy.retry_delay {words}",)
    assert told({"retry_delay": 7200, "max_retry_delay": None}) == ()
    shrinking = {"backoff": "exponential", "backoff_multiplier": 0.5}
    (shrinks,) = told(shrinking)
    assert shrinks.startswith("retry_policy.backoff_multiplier is 0.5, below 1")
    assert told({"backoff_multiplier": 0.5}) == ()  # the delay is fixed
    # Who says nothing of delays cannot mend those that a project has.
    assert told({"max_retries": 2}, **shrinking) == ()


@pytest.mark.parametrize(
    ("pattern", "every"), [(".*", True), ("a*", True), ("(|x)", True), (".", False), ("^$x", False)]
)
def test_a_pattern_that_matches_every_text(pattern: str, every: bool) -> None:
    found = doubts(rules=[{"action": "Retry", "onTerminationMessage": {"pattern": pattern}}])
    path = "spec.rules[0].onTerminationMessage.pattern"
    assert found == ((f"{path} matches every text, also an empty one",) if every else ())


def test_an_empty_pattern_is_refused() -> None:
    rules = [{"action": "Retry", "onTerminationMessage": {"pattern": ""}}]
    with pytest.raises(ValidationError) as caught:
        PolicyDocument.model_validate(document(rules=rules))
    assert field_errors(caught.value) == {
        "spec.rules[0].onTerminationMessage.pattern": [
            "must not be empty: it would match every text"
        ]
    }


class TestArmada:
    """Documents of Armada have the same form, and may have more fields."""

    @pytest.mark.parametrize("version", ["v1", "v2", "v1beta1", "v1alpha2"])
    def test_any_version_is_read(self, version: str) -> None:
        read = PolicyDocument.model_validate(document(f"armadaproject.io/{version}"))
        assert read.document()["apiVersion"] == "reprise/v1"
        assert document_doubts(read) == ()

    @pytest.mark.parametrize("version", ["armadaproject.io", "armadaproject.io/", "other.io/v1", 1])
    def test_no_other_version(self, version: Any) -> None:
        with pytest.raises(ValidationError) as caught:
            PolicyDocument.model_validate(document(version))
        assert field_errors(caught.value) == {
            "apiVersion": ["must be 'reprise/v1', or a version of armadaproject.io"]
        }

    def test_unknown_fields_are_left_out_with_a_warning(self) -> None:
        rule = {
            "action": "Fail",
            "onExitCodes": {"operator": "In", "values": [1], "weight": 2},
            "note": "x",
        }
        sent = document("armadaproject.io/v1beta1", rules=[RULE, rule], owner={"team": "ml"})
        sent |= {"comment": "hers"}
        sent["metadata"] |= {"labels": {}}
        read = PolicyDocument.model_validate(sent)
        names = (
            "comment",
            "metadata.labels",
            "spec.owner",
            "spec.rules[1].note",
            "spec.rules[1].onExitCodes.weight",
        )
        told = sorted(document_doubts(read))
        assert told == [f"{each} is not known here and is ignored" for each in names]
        # What is stored is a document of ours, with nothing to warn of.
        assert document_doubts(PolicyDocument.model_validate(read.document())) == ()
        assert sent["spec"]["owner"] == {"team": "ml"}

    def test_what_is_wrong_beside_them_is_refused(self) -> None:
        sent = document("armadaproject.io/v1beta1", owner="ml", retryLimit="many")
        with pytest.raises(ValidationError) as caught:
            PolicyDocument.model_validate(sent)
        assert list(field_errors(caught.value)) == ["spec.retryLimit"]

    def test_our_own_documents_stay_strict(self) -> None:
        with pytest.raises(ValidationError) as caught:
            PolicyDocument.model_validate(document(owner="ml"))
        assert field_errors(caught.value) == {"spec.owner": ["is not a known field"]}
