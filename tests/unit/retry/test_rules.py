"""Policy documents and categories: what is taken, what is refused, and where the fault is."""

from copy import deepcopy
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from interfaces.http.problems import field_errors
from retry.evidence.causes import NEVER_CAUSES, RULE_CONDITIONS, RetryCause
from retry.policies.categories import FailureCategory
from retry.policies.documents import Part, PolicyDocument
from retry.policies.fields import CONDITIONS
from retry.policies.inline import STORED
from retry.policies.matching import compile_category, compile_policy
from retry.policies.unreachable_rules import unreachable_rules
from tests.unit.retry import worlds
from tests.unit.retry.named import as_document, read
from tests.unit.retry.strategies import json_values

RULE: dict[str, Any] = {
    "name": "everything",
    "action": "Retry",
    "containerName": "main",
    "includeInitContainers": True,
    "onConditions": ["Preempted", "Evicted", "OOMKilled", "DeadlineExceeded", "Unschedulable"],
    "onExitCodes": {"operator": "NotIn", "values": [1, 255]},
    "onTerminationMessage": {"pattern": "(?i)transient"},
    "onFailureCategory": ["cuda_error"],
    "onCauses": ["image_pull_failure"],
    "onSignatures": ["0123456789ab"],
    "retryLimit": 3,
    "backoff": {
        "initialDelay": "10s",
        "maxDelay": "5m",
        "multiplier": 1.5,
        "jitter": "random",
        "jitterRatio": 0.5,
    },
    "antiAffinity": {"mode": "node"},
    "resources": {"memory": {"factor": 1.5, "max": "64Gi"}},
}
WHOLE: dict[str, Any] = {
    "apiVersion": "reprise/v1",
    "kind": "RetryPolicy",
    "metadata": {"name": "ml-training", "domain": "acme", "project": "ml"},
    "spec": {
        "retryLimit": 5,
        "defaultAction": "Fail",
        "backoff": {"initialDelay": "0s"},
        "antiAffinity": {"mode": "none"},
        "rules": [{"action": "Fail", "onCauses": ["unknown"]}, RULE],
    },
}
# The places of a document, in the words of the paths that errors give.
SPEC, SECOND = "spec", "spec.rules[1]"
ABSENT = object()


def spot(document: Any, path: str) -> tuple[Any, Any]:
    """The holder and the key of what a path names."""
    *way, last = [
        int(part) if part.isdigit() else part
        for part in path.replace("[", ".").replace("]", "").split(".")
    ]
    for part in way:
        document = document[part]
    return document, last


def changed(path: str, value: Any) -> dict[str, Any]:
    document = deepcopy(WHOLE)
    holder, key = spot(document, path)
    if value is ABSENT:
        del holder[key]
    else:
        holder[key] = value
    return document


def faults(document: Any) -> dict[str, list[str]]:
    with pytest.raises(ValidationError) as refused:
        PolicyDocument.model_validate(document)
    return field_errors(refused.value)


LIMITS = "must be between 0 and 1000"
WHOLE_NUMBER = "must be a whole number"
CODES = "must be between 1 and 255"
DURATION = "must be a duration like 500ms, 30s or 1h30m"
LABEL = "must be an RFC 1123 label: 1 to 63 of a-z, 0-9 and '-', no '-' at an end"
PLAIN = "must be a name of 1 to 63 characters without '/'"
SIGNATURE = "must be a failure's signature: 12 hex digits, as 0123456789ab"
NEEDS_A_MATCHER = (
    "needs a matcher, at least one of: onConditions, onExitCodes, onTerminationMessage"
)
NOT_TEXTS = [7, True, ["a"], {}]


def at(path: str, words: str, *values: Any) -> list[tuple[str, Any, str]]:
    return [(path, value, words) for value in values]


ONE_FAULT: list[tuple[str, Any, str]] = [
    *at(
        "apiVersion",
        "must be 'reprise/v1', or a version of armadaproject.io",
        *("reprise/v2", "", 1),
    ),
    *at("apiVersion", "is required", ABSENT),
    *at("kind", "must be 'RetryPolicy'", "Queue", "retrypolicy"),
    *at("metadata", "must be an object", "ml", 7, []),
    *at("metadata", "is required", ABSENT),
    *at(
        "metadata.name", LABEL, "", "A", "a_b", "-a", "a-", "a.b", "a" * 64, "ä", "a\n", *NOT_TEXTS
    ),
    *at("metadata.name", "is required", ABSENT),
    *at("metadata.name", "must not be one of: inline, manual, simulate", "inline", "manual"),
    *at("metadata.name", "must not be one of: inline, manual, simulate", "simulate"),
    *at("metadata.domain", LABEL, "A", "a/b", 7),
    *at("metadata.project", LABEL, "A", "a/b", ["a"]),
    *at("metadata.labels", "is not a known field", {}),
    *at("spec", "must be an object", "x", None, [], 0),
    *at("spec", "is required", ABSENT),
    *at("status", "is not a known field", {}),
    *at("spec.retryLimit", LIMITS, -1, 1001, 10**30),
    *at("spec.retryLimit", WHOLE_NUMBER, 1.5, "5", True, [5], float("nan")),
    *at("spec.retrylimit", "is not a known field", 5),
    *at("spec.retry_limit", "is not a known field", 5),
    *at("spec.parkFor", "must be at most 8760h (365 days)", "8760h1s", "99999h"),
    *at("spec.parkFor", "must be longer than 0s", "0s"),
    *at("spec.defaultAction", "must be one of: Retry, Fail", "fail", "", "Ignore", *NOT_TEXTS),
    *at("spec.backoff", "must be an object", "10s", 10),
    *at("spec.antiAffinity", "must be an object", "node"),
    *at("spec.antiAffinity.mode", "must be one of: none, node", "zone", "Node", True),
    *at("spec.antiAffinity.mode", "is required", ABSENT),
    *at("spec.rules", "must be a list", {}, "x", 7),
    *at("spec.rules", "must have 0 to 100 items, not 101", [RULE] * 101),
    *at("spec.rules[1]", "must be an object", "x", None, [], 7),
    *at(f"{SECOND}.name", PLAIN, "", "a/b", " a", "a ", "a\x00", "a\nb", "\ud800", "a" * 64, 7, []),
    *at(f"{SECOND}.name", "must not be 'default': that stands for the defaultAction", "default"),
    *at(f"{SECOND}.action", "must be one of: Retry, Fail", "retry", "Ignore", True, None),
    *at(f"{SECOND}.action", "is required", ABSENT),
    *at(f"{SECOND}.containerName", PLAIN, "", "a" * 64, 7, True),
    *at(f"{SECOND}.onConditions", "must be a list", "Evicted", {}, 7),
    *at(f"{SECOND}.onConditions", "must have 1 to 100 items, not 0", []),
    *at(f"{SECOND}.onConditions", "must have 1 to 100 items, not 101", ["Evicted"] * 101),
    *at(
        f"{SECOND}.onConditions[0]",
        "must be one of: OOMKilled, Evicted, Preempted, DeadlineExceeded, Unschedulable",
        "evicted",
        "",
        "NodeLost",
        *NOT_TEXTS,
        None,
    ),
    *at(f"{SECOND}.onExitCodes", "must be an object", [137], 137),
    *at(f"{SECOND}.onExitCodes.operator", "must be one of: In, NotIn", "in", "Not", 1, None),
    *at(f"{SECOND}.onExitCodes.operator", "is required", ABSENT),
    *at(f"{SECOND}.onExitCodes.values", "must be a list", 137, "137", {}, None),
    *at(f"{SECOND}.onExitCodes.values", "must have 1 to 255 items, not 0", []),
    *at(f"{SECOND}.onExitCodes.values", "must have 1 to 255 items, not 256", [1] * 256),
    *at(f"{SECOND}.onExitCodes.values", "is required", ABSENT),
    *at(f"{SECOND}.onExitCodes.values[0]", CODES, 0, -1, 256),
    *at(f"{SECOND}.onExitCodes.values[1]", WHOLE_NUMBER, "1", 1.5, True, None, []),
    *at(f"{SECOND}.onTerminationMessage", "must be an object", "x", []),
    *at(f"{SECOND}.onTerminationMessage.pattern", "must be text", 7, None, []),
    *at(f"{SECOND}.onTerminationMessage.pattern", "is required", ABSENT),
    *at(f"{SECOND}.onTerminationMessage.pattern", "must have at most 1,024 characters", "a" * 1025),
    *at(f"{SECOND}.onPodMessage", "is not a known field", {"pattern": "x"}),
    *at(f"{SECOND}.onSignatureTitle", "is not a known field", {"pattern": "x"}),
    *at(f"{SECOND}.onFailureCategory", "must be a list", "cuda_error"),
    *at(f"{SECOND}.onFailureCategory", "must have 1 to 100 items, not 0", []),
    *at(f"{SECOND}.onFailureCategory[0]", PLAIN, "", "a/b", 7, None),
    *at(f"{SECOND}.onCauses", "must be a list", "unknown"),
    *at(f"{SECOND}.onSignatures", "must have 1 to 100 items, not 0", []),
    *at(f"{SECOND}.onSignatures[0]", SIGNATURE, "", "0123456789a", "0123456789AB", 7, None),
    *at(f"{SECOND}.onCauses", "must have 1 to 100 items, not 0", []),
    *at(f"{SECOND}.retryLimit", LIMITS, -1, 1001),
    *at(f"{SECOND}.retryLimit", WHOLE_NUMBER, "3", 3.5, False),
    *at(f"{SECOND}.backoff.initialDelay", DURATION, "", "10", "1d", "-1s", "1 s", "s", 10, True),
    *at(
        f"{SECOND}.backoff.initialDelay",
        "must be at most 2^63 - 1 nanoseconds, some 292 years",
        "9223372037s",
    ),
    *at(f"{SECOND}.backoff.maxDelay", DURATION, "inf", 0),
    *at(f"{SECOND}.backoff.maxDelay", "must be longer than 0s", "0", "0s", "0h0m"),
    *at(f"{SECOND}.backoff.multiplier", "must be greater than 0", 0, -1, -0.5),
    *at(f"{SECOND}.backoff.multiplier", "must be a finite number", float("inf"), float("nan")),
    *at(f"{SECOND}.backoff.multiplier", "must be a finite number", 10**400),
    *at(f"{SECOND}.backoff.multiplier", "must be a number", "2", True, []),
    *at(f"{SECOND}.backoff.jitter", "must be one of: none, deterministic, random", "some", 1, True),
    *at(f"{SECOND}.backoff.jitterRatio", "must be between 0 and 1", -0.1, 1.1),
    *at(f"{SECOND}.backoff.jitterRatio", "must be a number", "0.5", False),
    *at(f"{SECOND}.backoff.delay", "is not a known field", "1s"),
    *at(f"{SECOND}.resources", "must be an object", "2Gi"),
    *at(f"{SECOND}.resources.cpu", "is not a known field", {"factor": 2}),
    *at(f"{SECOND}.resources.memory", "must be an object", 2, None),
    *at(f"{SECOND}.resources.memory", "is required", ABSENT),
    *at(f"{SECOND}.resources.memory.factor", "must be greater than 1", 1, 1.0, 0.5),
    *at(f"{SECOND}.resources.memory.factor", "must be greater than 0", 0, -2),
    *at(f"{SECOND}.resources.memory.factor", "must be a number", "1.5", True, None),
    *at(f"{SECOND}.resources.memory.factor", "is required", ABSENT),
    *at(f"{SECOND}.resources.memory.max", "must be more than 0", 0, "0Gi"),
    *at(
        f"{SECOND}.resources.memory.max",
        "an amount of a resource must not be negative",
        -1,
        "-1Gi",
    ),
    *at(
        f"{SECOND}.resources.memory.max",
        "'64 Gi' is not a quantity like 500m, 2 or 1.5Gi; did you mean 64Gi?",
        "64 Gi",
    ),
    *at(f"{SECOND}.resources.memory.max", "0.5 is less than 1Mi; did you mean 0.5Gi?", "0.5", 0.5),
    *at(
        f"{SECOND}.onTerminationMessage.pattern",
        "must not be empty: it would match every text",
        "",
    ),
    *at(f"{SECOND}.resources.memory.max", "a quantity must be less than 2^63", 2**63, "8Ei"),
]


@pytest.mark.parametrize(("path", "value", "words"), ONE_FAULT)
def test_a_fault_is_told_at_its_path(path: str, value: Any, words: str) -> None:
    assert faults(changed(path, value)) == {path: [words]}


def test_a_project_needs_its_domain() -> None:
    assert faults(changed("metadata.domain", ABSENT)) == {
        "metadata.project": ["requires the domain"]
    }


@pytest.mark.parametrize("name", ["includeInitContainers"])
@pytest.mark.parametrize("value", ["yes", 1, 0, "true", []])
def test_a_flag_is_true_or_false(name: str, value: Any) -> None:
    assert faults(changed(f"{SECOND}.{name}", value)).keys() == {f"{SECOND}.{name}"}


@pytest.mark.parametrize("cause", sorted(NEVER_CAUSES))
def test_causes_without_retries_cannot_be_asked_for(cause: str) -> None:
    (words,) = faults(changed(f"{SECOND}.onCauses[0]", cause))[f"{SECOND}.onCauses[0]"]
    assert words.startswith(f"{cause} can never be retried; it must be one of: agent_transient, ")


@pytest.mark.parametrize("value", ["", "oops", 7, None, True, []])
def test_an_unknown_cause_is_answered_with_those_there_are(value: Any) -> None:
    (words,) = faults(changed(f"{SECOND}.onCauses[0]", value))[f"{SECOND}.onCauses[0]"]
    named = set(words.removeprefix("must be one of: ").split(", "))
    assert named == set(RetryCause) - NEVER_CAUSES


def test_a_stored_policy_may_park_for_longer_than_is_allowed_now() -> None:
    for stored, kept in (("8760h", "8760h"), ("99999h", "8760h")):
        document = PolicyDocument.model_validate(changed("spec.parkFor", stored), context=STORED)
        assert document.document()["spec"]["parkFor"] == kept


def test_the_conditions_are_those_that_facts_give() -> None:
    assert set(CONDITIONS) == RULE_CONDITIONS


@pytest.mark.parametrize(
    "rule",
    [
        {"action": "Retry"},
        {"action": "Fail", "containerName": "main", "includeInitContainers": True},
        {"action": "Retry", "onConditions": None, "retryLimit": 3},
    ],
)
def test_a_rule_without_a_matcher_is_refused(rule: dict[str, Any]) -> None:
    assert faults(as_document(rule)) == {
        "spec.rules[0]": [f"{NEEDS_A_MATCHER}, onFailureCategory, onCauses, onSignatures"]
    }


def test_a_rules_name_is_there_once() -> None:
    rules = [{"name": name, "action": "Fail", "onCauses": ["unknown"]} for name in "abaca"]
    again = ["is the name of an earlier rule"]
    assert faults(as_document(*rules)) == {
        "spec.rules[2].name": again,
        "spec.rules[4].name": again,
    }


def test_all_faults_are_told_at_once() -> None:
    document = changed("spec.retryLimit", -1)
    document["spec"]["rules"][0]["onCauses"] = ["unknown", "nonsense"]
    document["spec"]["rules"][1]["retrylimit"] = 3
    document["metadata"]["name"] = "ML"
    assert faults(document).keys() == {
        "metadata.name",
        "spec.retryLimit",
        "spec.rules[0].onCauses[1]",
        "spec.rules[1].retrylimit",
    }


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("metadata.name", ["a", "0", "a-b", "a" * 63, "9-9"]),
        ("spec.retryLimit", [0, 1, 1000, None, ABSENT]),
        ("spec.defaultAction", ["Retry", "Fail", None, ABSENT]),
        ("spec.rules", [[], None, ABSENT, [RULE], [{**RULE, "name": None}] * 100]),
        (f"{SECOND}.name", ["a", "a b", "Ä", "a" * 63, "Default", None, ABSENT]),
        (f"{SECOND}.onExitCodes.values", [[1], [255], list(range(1, 256)), [7, 7]]),
        (f"{SECOND}.onTerminationMessage.pattern", ["a", "a" * 1024, "ä" * 1024, "\\pL+"]),
        (f"{SECOND}.onCauses", [sorted(set(RetryCause) - NEVER_CAUSES), ["OOM_KILLED"]]),
        (f"{SECOND}.backoff", [{}, None, ABSENT]),
        (f"{SECOND}.backoff.initialDelay", ["0", "0s", "500ms", "1h30m", "2562047h"]),
        (f"{SECOND}.backoff.maxDelay", ["1ns", "48h", None]),
        (f"{SECOND}.backoff.multiplier", [5e-324, 1, 1e308]),
        (f"{SECOND}.backoff.jitter", ["none", "deterministic", "random", "RANDOM"]),
        (f"{SECOND}.backoff.jitterRatio", [0, 1, 0.5]),
        (f"{SECOND}.resources.memory.factor", [1.0000001, 2, 1e308]),
        (f"{SECOND}.resources.memory.max", ["1Mi", 2**20, "7Ei", 2**63 - 1, None]),
    ],
)
def test_values_at_their_bounds_are_taken(path: str, values: list[Any]) -> None:
    for value in values:
        document = PolicyDocument.model_validate(changed(path, value))
        compile_policy(document, revision=1)
        unreachable_rules(document)


_Part = TypeVar("_Part", bound=Part)

# Never anything but a refusal, and what is taken is given back.

KEYS = (
    *("apiVersion", "kind", "metadata", "spec", "name", "domain", "project", "retryLimit"),
    *("defaultAction", "backoff", "antiAffinity", "rules", "mode", "action", "containerName"),
    *("onConditions", "onExitCodes", "onTerminationMessage", "onFailureCategory", "onCauses"),
    *("onSignatures", "onSignatureTitle"),
    *("operator", "values", "pattern", "resources", "memory", "factor", "max", "initialDelay"),
    *("maxDelay", "multiplier", "jitter", "jitterRatio", "includeInitContainers", "matchers"),
)
WORDS = ("Retry", "Fail", "In", "NotIn", "node", "none", "Evicted", "OOMKilled", "10s", "1Gi", "a")
anything = st.recursive(
    json_values | st.sampled_from(WORDS),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)
    ),
    max_leaves=15,
)
PATHS = sorted({path for path, _, _ in ONE_FAULT if not path.endswith(("labels", "status"))})


def accepted(kind: type[_Part], value: Any) -> _Part | None:
    """Return what was read; None if it was refused, with words for each fault."""
    try:
        return kind.model_validate(value)
    except ValidationError as refused:
        errors = field_errors(refused)
    assert errors
    assert all(path and all(words) for path, words in errors.items())
    return None


@settings(max_examples=settings().max_examples * 3, deadline=None)
@given(path=st.sampled_from(["", *PATHS]), value=anything)
def test_any_json_is_read_or_refused(path: str, value: Any) -> None:
    document = changed(path, value) if path else value
    found = accepted(PolicyDocument, document)
    if found is not None:
        compile_policy(found, revision=None)
        assert PolicyDocument.model_validate(found.document()) == found


@given(anything, st.booleans())
def test_any_json_is_a_category_or_refused(value: Any, whole: bool) -> None:
    document = value if whole else {"name": "it", "matchers": [value]}
    found = accepted(FailureCategory, document)
    if found is not None:
        compile_category(found)
        assert FailureCategory.model_validate(found.document()) == found


@given(worlds.documents("p"))
def test_a_document_is_given_back_as_it_was_written(document: dict[str, Any]) -> None:
    found = PolicyDocument.model_validate(document)
    once = found.document()
    assert PolicyDocument.model_validate(once) == found
    assert PolicyDocument.model_validate(once).document() == once
    assert without_nulls(document) == once


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value


def test_nulls_count_as_absent() -> None:
    found = read({"action": "Retry", "onCauses": ["unknown"], "backoff": None}, retryLimit=None)
    assert found.document() == as_document({"action": "Retry", "onCauses": ["unknown"]})


MATCHER: dict[str, Any] = {"onExitCodes": {"operator": "In", "values": [1]}}


@pytest.mark.parametrize(
    ("document", "path", "words"),
    [
        ({"matchers": [MATCHER]}, "name", "is required"),
        ({"name": "a/b", "matchers": [MATCHER]}, "name", PLAIN),
        ({"name": "a"}, "matchers", "is required"),
        ({"name": "a", "matchers": []}, "matchers", "must have 1 to 100 items, not 0"),
        ({"name": "a", "matchers": MATCHER}, "matchers", "must be a list"),
        (
            {"name": "a", "matchers": [MATCHER, {"containerName": "x"}]},
            "matchers[1]",
            f"{NEEDS_A_MATCHER}, onPodMessage, onSignatureTitle",
        ),
        (
            {"name": "a", "matchers": [{**MATCHER, "onCauses": ["unknown"]}]},
            "matchers[0].onCauses",
            "is not a known field",
        ),
        (
            {"name": "a", "matchers": [{"onPodMessage": {"pattern": "("}}]},
            "matchers[0].onPodMessage.pattern",
            "is not an RE2 regular expression: missing ): (",
        ),
        (
            {"name": "a", "matchers": [{"onSignatureTitle": {"pattern": "a" * 1025}}]},
            "matchers[0].onSignatureTitle.pattern",
            "must have at most 1,024 characters",
        ),
    ],
)
def test_a_fault_of_a_category_is_told_at_its_path(
    document: dict[str, Any], path: str, words: str
) -> None:
    with pytest.raises(ValidationError) as refused:
        FailureCategory.model_validate(document)
    assert field_errors(refused.value) == {path: [words]}
