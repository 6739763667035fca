from typing import Any

import pytest
from reprise_client.cli.rule_words import backoff_words, matcher_words, rule_label, rule_words

from retry.policies.documents import Rule

EXIT = {"action": "Retry", "onExitCodes": {"operator": "In", "values": [137, 143]}}


@pytest.mark.parametrize(
    ("rule", "policy", "words"),
    [
        (EXIT, {}, "Retry on exit code 137 or 143, as often as the cluster allows"),
        (
            {**EXIT, "containerName": "main", "includeInitContainers": True, "retryLimit": 2},
            {"retryLimit": 5},
            "Retry on exit code 137 or 143 of container main (init containers, too), at most twice",
        ),
        (
            {"action": "Retry", "onConditions": ["Preempted", "Evicted", "OOMKilled"]},
            {"retryLimit": 1, "antiAffinity": {"mode": "node"}},
            (
                "Retry on condition Preempted, Evicted or OOMKilled, at most once, "
                "not on the node where it failed"
            ),
        ),
        (
            {
                "action": "Retry",
                "onFailureCategory": ["cuda_error"],
                "onTerminationMessage": {"pattern": "NCCL"},
                "retryLimit": 0,
                "antiAffinity": {"mode": "none"},
                "backoff": {},
                "resources": {"memory": {"factor": 1.5, "max": "64Gi"}},
            },
            {"antiAffinity": {"mode": "node"}},
            (
                "Retry on category cuda_error and a termination message with /NCCL/, never, "
                "as its limit is 0, after 0s, 2 times longer each time, at most 10m, "
                "with 1.5 times the memory up to 64Gi"
            ),
        ),
        (
            {**EXIT, "retryLimit": 3, "retryWindow": "24h", "stopAfterSame": 2},
            {},
            (
                "Retry on exit code 137 or 143, at most 3 times in 24h, "
                "not after 2 equal failures in a row"
            ),
        ),
        (
            {**EXIT, "retryLimit": 3, "resetOnProgress": True},
            {},
            "Retry on exit code 137 or 143, at most 3 times, counting anew after progress",
        ),
        (
            {**EXIT, "placement": {"after": 1, "nodeSelector": {"a": "b"}}, "retryLimit": 2},
            {},
            "Retry on exit code 137 or 143, at most twice, from retry 2 on at nodes with a=b",
        ),
        (
            {"action": "Fail", "onSignatures": ["0123456789ab", "ba9876543210"]},
            {},
            "Fail on signature 0123456789ab or ba9876543210",
        ),
        (
            {"action": "Fail", "onExitCodes": {"operator": "NotIn", "values": [1]}},
            {"retryLimit": 5},
            "Fail on an exit code other than 0 or 1",
        ),
    ],
)
def test_a_rule_in_words(rule: dict[str, Any], policy: dict[str, Any], words: str) -> None:
    assert rule_words(rule, policy) == words


def test_a_matcher_of_a_category_in_words() -> None:
    matcher = {"onSignatureTitle": {"pattern": "^KeyError"}, "onConditions": ["OOMKilled"]}
    words = "condition OOMKilled and a signature with /^KeyError/ in its title"
    assert matcher_words(matcher) == words


@pytest.mark.parametrize(
    ("backoff", "words"),
    [
        ({"initialDelay": "10s", "multiplier": 1, "maxDelay": "1m"}, "after 10s, at most 1m"),
        (
            {"initialDelay": "10s", "jitterRatio": 0.1},
            "after 10s, 2 times longer each time, at most 10m, with deterministic jitter",
        ),
        (
            {"jitter": "none", "multiplier": 1.5},
            "after 0s, 1.5 times longer each time, at most 10m",
        ),
    ],
)
def test_a_backoff_in_words(backoff: dict[str, Any], words: str) -> None:
    assert backoff_words(backoff) == words


@pytest.mark.parametrize(
    "rule",
    [
        EXIT,
        {**EXIT, "name": "killed"},
        {**EXIT, "containerName": "main", "retryLimit": 3, "includeInitContainers": True},
        {"action": "Fail", "onTerminationMessage": {"pattern": "größe"}, "onCauses": ["unknown"]},
    ],
)
def test_a_rule_is_called_as_the_engine_calls_it(rule: dict[str, Any]) -> None:
    assert rule_label(rule) == Rule.model_validate(rule).counter
