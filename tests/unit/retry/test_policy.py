import json
from typing import Any

import pytest
from hypothesis import given
from pydantic import BaseModel, ValidationError

from retry.evidence.causes import FAILURE_CAUSES, NEVER_CAUSES, PLATFORM_CAUSES, RetryCause
from retry.policies.inline import (
    LONGEST_PARKED,
    BackoffStrategy,
    Bounds,
    InlinePolicy,
    JitterMode,
    dump_set,
    dump_stored,
    error_texts,
    parse_policy_json,
    whole,
)
from tests.unit.retry.model import SHIPPED
from tests.unit.retry.strategies import json_values, policies


def refusal(fields: object, model: type[BaseModel] = InlinePolicy) -> dict[str, list[str]]:
    with pytest.raises(ValidationError) as caught:
        model.model_validate(fields)
    return error_texts(caught.value)


def test_the_shipped_policy_retries_nothing() -> None:
    policy = InlinePolicy()
    assert policy.model_dump(mode="json") == {
        "max_retries": 0,
        "max_preemption_retries": None,
        "retry_window": None,
        "reset_on_progress": False,
        "stop_after_same": None,
        "retry_delay": 60.0,
        "backoff": "fixed",
        "backoff_multiplier": 2.0,
        "max_retry_delay": 3600.0,
        "jitter": "deterministic",
        "jitter_ratio": 0.25,
        "eligible_causes": sorted(FAILURE_CAUSES | PLATFORM_CAUSES),
        "retry_on_exit_codes": [],
        "no_retry_on_exit_codes": [],
        "max_chain_duration": None,
        "on_exhausted": "end",
        "park_for": 86400.0,
        "emit_retry_events": True,
    }
    assert policy.model_fields_set == set()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_retries", 0),
        ("max_retries", 1_000_000),
        ("max_preemption_retries", None),
        ("max_preemption_retries", 0),
        ("max_preemption_retries", 2_000_000),
        ("max_retries", "unlimited"),
        ("max_preemption_retries", "unlimited"),
        ("retry_window", None),
        ("retry_window", 86_400),
        ("reset_on_progress", True),
        ("stop_after_same", None),
        ("stop_after_same", 2),
        ("stop_after_same", 100),
        ("retry_delay", 5e-324),
        ("retry_delay", 1e308),
        ("retry_delay", 1),
        ("backoff_multiplier", 0.5),
        ("max_retry_delay", None),
        ("max_retry_delay", 1e9),
        ("jitter_ratio", 0),
        ("jitter_ratio", 1),
        ("retry_on_exit_codes", []),
        ("retry_on_exit_codes", [1, 255]),
        ("no_retry_on_exit_codes", [137]),
        ("max_chain_duration", None),
        ("max_chain_duration", 0.5),
        ("eligible_causes", []),
        ("eligible_causes", ["oom_killed", "preempted"]),
        ("on_exhausted", "park"),
        ("park_for", 1),
        ("park_for", 365 * 86_400),
        ("emit_retry_events", False),
    ],
)
def test_values_up_to_their_bounds_are_accepted_and_given_back(field: str, value: Any) -> None:
    for policy in (
        InlinePolicy.model_validate({field: value}),
        parse_policy_json(json.dumps({field: value})),
    ):
        assert dump_set(policy) == {field: value}
        assert policy.model_fields_set == {field}


LIMIT = 'must be a whole number from 0 to 1000000, or "unlimited"'


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("max_retries", -1, "must be between 0 and 1000000"),
        ("max_retries", 1_000_001, "must be between 0 and 1000000"),
        ("max_retries", 10**400, "must be between 0 and 1000000"),
        ("max_retries", True, LIMIT),
        ("max_retries", 1.5, LIMIT),
        ("max_retries", "3", LIMIT),
        ("max_retries", "infinite", LIMIT),
        ("max_retries", "", LIMIT),
        ("max_retries", ["unlimited"], LIMIT),
        ("max_retries", None, LIMIT),
        ("max_preemption_retries", "none", LIMIT.replace("1000000", "2147483647")),
        ("max_preemption_retries", -1, "must be between 0 and 2147483647"),
        ("max_preemption_retries", 10**400, "must be between 0 and 2147483647"),
        ("retry_window", 0, "must be greater than 0"),
        ("stop_after_same", 1, "must be between 2 and 100"),
        ("stop_after_same", 101, "must be between 2 and 100"),
        ("retry_delay", 0, "must be greater than 0"),
        ("retry_delay", -1.5, "must be greater than 0"),
        ("retry_delay", 10**400, "must be a finite number"),
        ("retry_delay", float("inf"), "must be a finite number"),
        ("retry_delay", float("nan"), "must be a finite number"),
        ("retry_delay", "60", "must be a number"),
        ("retry_delay", False, "must be a number"),
        ("retry_delay", None, "must be a number"),
        ("backoff_multiplier", 0, "must be greater than 0"),
        ("backoff_multiplier", float("nan"), "must be a finite number"),
        ("max_retry_delay", 0, "must be greater than 0"),
        ("max_retry_delay", float("inf"), "must be a finite number"),
        ("jitter_ratio", -0.1, "must be between 0 and 1"),
        ("jitter_ratio", 1.1, "must be between 0 and 1"),
        ("jitter_ratio", float("nan"), "must be a finite number"),
        ("max_chain_duration", 0, "must be greater than 0"),
        ("max_chain_duration", 10**400, "must be a finite number"),
        ("backoff", "linear", "must be one of: fixed, exponential"),
        ("backoff", 1, "must be one of: fixed, exponential"),
        ("backoff", None, "must be one of: fixed, exponential"),
        ("jitter", "full", "must be one of: none, deterministic, random"),
        ("jitter", None, "must be one of: none, deterministic, random"),
        ("retry_on_exit_codes", [0], "must be between 1 and 255"),
        ("retry_on_exit_codes", [256], "must be between 1 and 255"),
        ("retry_on_exit_codes", [True], "must be a whole number"),
        ("retry_on_exit_codes", ["1"], "must be a whole number"),
        ("no_retry_on_exit_codes", 137, "must be a list of exit codes"),
        ("no_retry_on_exit_codes", None, "must be a list of exit codes"),
        ("eligible_causes", "oom_killed", "must be a list of causes"),
        ("eligible_causes", None, "must be a list of causes"),
        ("eligible_causes", {"oom_killed": True}, "must be a list of causes"),
        ("on_exhausted", "stop", "must be one of: end, park"),
        ("park_for", 0, "must be greater than 0"),
        ("park_for", 365 * 86_400 + 1, "must be at most 31536000 seconds (365 days)"),
        ("park_for", 1e300, "must be at most 31536000 seconds (365 days)"),
        ("emit_retry_events", 1, "Input should be a valid boolean"),
        ("emit_retry_events", "true", "Input should be a valid boolean"),
        ("max_retrys", 1, "there is no field named max_retrys"),
    ],
)
def test_errors_name_their_field(field: str, value: Any, text: str) -> None:
    assert refusal({field: value}) == {field: [text]}


def test_a_stored_policy_may_park_for_longer_than_is_allowed_now() -> None:
    assert parse_policy_json('{"park_for": 1e300}').park_for == LONGEST_PARKED


@pytest.mark.parametrize("item", ["oom", 3, None, ["oom_killed"]])
def test_an_unknown_cause_gets_the_list_of_causes(item: object) -> None:
    (text,) = refusal({"eligible_causes": ["oom_killed", item]})["eligible_causes"]
    assert text.startswith("must be one of: preempted, ")
    assert text.endswith(", unknown")


@pytest.mark.parametrize("cause", sorted(NEVER_CAUSES))
def test_never_causes_cannot_be_opted_in(cause: str) -> None:
    for spelling in (cause, cause.upper()):
        assert refusal({"eligible_causes": ["oom_killed", spelling]}) == {
            "eligible_causes": [f"{cause} can never be retried"]
        }


def test_all_errors_are_told_at_once() -> None:
    assert set(refusal({"max_retries": -1, "jitter": "x", "nonsense": 1})) == {
        "max_retries",
        "jitter",
        "nonsense",
    }


@pytest.mark.parametrize("obj", [None, 1, "max_retries", ["max_retries"], {1: 2}])
def test_a_policy_is_an_object(obj: object) -> None:
    assert refusal(obj)


def test_names_are_read_in_any_case_and_written_in_lower_case() -> None:
    policy = InlinePolicy.model_validate(
        {"backoff": "EXPONENTIAL", "jitter": "Random", "eligible_causes": ["OOM_Killed", "UNKNOWN"]}
    )
    assert policy.backoff is BackoffStrategy.EXPONENTIAL
    assert policy.jitter is JitterMode.RANDOM
    assert policy.eligible_causes == {RetryCause.OOM_KILLED, RetryCause.UNKNOWN}
    assert dump_set(policy) == {
        "backoff": "exponential",
        "jitter": "random",
        "eligible_causes": ["oom_killed", "unknown"],
    }


def test_repeated_exit_codes_are_kept_once_in_order() -> None:
    assert InlinePolicy.model_validate({"retry_on_exit_codes": [9, 3, 9]}).retry_on_exit_codes == (
        9,
        3,
    )


def test_an_explicit_null_is_not_an_absent_field() -> None:
    policy = InlinePolicy.model_validate({"max_retry_delay": None})
    assert policy.model_fields_set == {"max_retry_delay"}
    assert dump_set(policy) == {"max_retry_delay": None}
    assert dump_set(InlinePolicy()) == {}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"retry_delay": NaN}',
        '{"retry_delay": 1e400}',
        '{"retry_delay": 1' + "0" * 400 + "}",
        '{"max_retries": 1' + "0" * 400 + "}",
        '{"max_retries": 1' + "0" * 5000 + "}",
        '{"max_retries": "1"}',
        '{"eligible_causes": ["user_cancelled"]}',
    ],
)
def test_a_stored_policy_is_validated_like_any_other(text: str) -> None:
    with pytest.raises(ValidationError):
        parse_policy_json(text)


def test_equal_stored_policies_are_read_once() -> None:
    text = '{"max_retries": 3, "eligible_causes": ["unknown"], "retry_on_exit_codes": [1]}'
    assert parse_policy_json(text) is parse_policy_json(str(text))
    assert parse_policy_json(text).max_retries == 3


def test_policies_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        InlinePolicy().max_retries = 5  # type: ignore[misc]


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("max_retries", 1_000_001, "must be between 0 and 1000000"),
        ("max_preemption_retries", "5", "must be a whole number"),
        ("max_retries", "unlimited", "must be a whole number"),
        ("max_chain_duration", 0, "must be greater than 0"),
        ("min_retry_delay", -1, "must not be negative"),
        ("min_retry_delay", float("inf"), "must be a finite number"),
        ("retry_delay", 1, "there is no field named retry_delay"),
    ],
)
def test_bounds_are_validated(field: str, value: Any, text: str) -> None:
    assert refusal({field: value}, Bounds) == {field: [text]}


def test_bounds_are_absent_unless_set() -> None:
    bounds = Bounds(max_retries=5, min_retry_delay=0)
    assert dump_set(bounds) == {"max_retries": 5, "min_retry_delay": 0.0}
    assert bounds.max_chain_duration is None


@given(policies())
def test_a_policy_survives_being_stored(policy: InlinePolicy) -> None:
    stored = parse_policy_json(json.dumps(dump_set(policy), allow_nan=False))
    assert stored == policy
    assert stored.model_fields_set == policy.model_fields_set


@given(policies())
def test_a_frozen_policy_is_stored_without_what_is_as_shipped(policy: InlinePolicy) -> None:
    text = dump_stored(policy)
    assert parse_policy_json(text) == policy
    assert whole(json.loads(text)) == policy.model_dump(mode="json")


def test_defaults_of_stored_policies_never_change() -> None:
    """A chain keeps its policy: another value here would change those that are stored.

    A new field needs no line: no stored policy was meant to have another value.
    """
    assert dump_stored(InlinePolicy()) == "{}"
    left_out = {**SHIPPED, "emit_retry_events": True}
    assert {name: whole({})[name] for name in left_out} == left_out


@given(json_values)
def test_any_json_is_a_policy_or_a_named_error(obj: Any) -> None:
    for field in InlinePolicy.model_fields:
        try:
            InlinePolicy.model_validate({field: obj})
        except ValidationError as error:
            texts = error_texts(error)
        else:
            continue
        assert list(texts) == [field]
        assert all(texts[field])
