"""Generated chains for the comparison with the naive model, as plain JSON values."""

from typing import Any

from hypothesis import strategies as st

from tests.unit.retry.model_facts import Json

NAMES = ("main", "side", "setup")
CATEGORY_NAMES = ("cuda_error", "disk", "net")
CAUSES = (
    "preempted",
    "evicted",
    "agent_transient",
    "limit_exceeded",
    "deadline_exceeded",
    "oom_killed",
    "image_pull_failure",
    "start_failure",
    "scheduler_timeout",
    "kernel_nonzero_exit",
    "unknown",
)
SIGNATURES = ("0123456789ab", "ba9876543210", "000000000000")
CODES = (1, 2, 9, 137, 143, 255)
PATTERNS = (".*TRANSIENT.*", "^fatal", "a|b", "[0-9]+$", "ERR(OR)?:")
MESSAGES = (
    "",
    "",
    "TRANSIENT: try again",
    "fatal",
    "ERROR: 17",
    "fatal" + "x" * 5000,
    "x" * 5000 + " 17",
    '{"reprise": {"retry": false}}',
    '{"reprise": {"after": 120}}',
    '{"reprise": {"after": 1e9, "category": "disk"}}',
    '{"reprise": {"category": "nobody knows"}}',
    '{"reprise": {"category": "cuda_error", "retry": true}} ',
    '{"reprise": {"retry": "no", "category": "disk"}}',
    '{"reprise": {"retry": false, "more": 1}}',
    '{"reprise": {"retry": false, "after": -1}}',
    '{"reprise": {"retry": false, "after": Infinity}}',
    '{"reprise": {"retry": false}',
    '{"reprise": [false]}',
)
REASONS = (
    "",
    "",
    "",
    "",
    "Error",
    "OOMKilled",
    "Evicted",
    "NodeLost",
    "DeadlineExceeded",
    "ErrImagePull",
    "CrashLoopBackOff",
    "InvalidImageName",
)
CONDITIONS = ("OOMKilled", "Evicted", "Preempted", "DeadlineExceeded", "Unschedulable")
DURATIONS = ("0s", "1s", "500ms", "10s", "1m30s", "5m", "1h", "48h")


def some(values: Any, most: int = 3) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.sampled_from(values), min_size=1, max_size=most, unique=True)


def wide(values: Any) -> st.SearchStrategy[list[Any]]:
    """Most of the values, so that rules often match."""
    most = len(values)
    return st.lists(st.sampled_from(values), min_size=most // 2, max_size=most, unique=True)


def mapping(**optional: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    return st.fixed_dictionaries({}, optional=optional)


exit_codes = st.fixed_dictionaries(
    {"operator": st.sampled_from(("In", "NotIn")), "values": some(CODES)}
)
message_pattern = st.fixed_dictionaries({"pattern": st.sampled_from(PATTERNS)})
backoffs = st.none() | mapping(
    initialDelay=st.sampled_from(DURATIONS),
    maxDelay=st.sampled_from(DURATIONS[1:]),
    multiplier=st.sampled_from((0.5, 1, 2.0, 3)),
    jitter=st.sampled_from(("none", "deterministic", "random")),
    jitterRatio=st.sampled_from((0.0, 0.1, 1)),
)
avoidance = st.fixed_dictionaries({"mode": st.sampled_from(("none", "node"))})
growth = st.fixed_dictionaries(
    {
        "memory": st.fixed_dictionaries(
            {"factor": st.sampled_from((1.1, 1.5, 2, 3.3))},
            optional={"max": st.sampled_from(("1Gi", "3G", "64Gi"))},
        )
    }
)
places = st.builds(
    lambda after, place: after | place,
    st.fixed_dictionaries({}, optional={"after": st.integers(0, 2)}),
    st.sampled_from(
        (
            {"nodeSelector": {"capacity-type": "on-demand"}},
            {"executors": {"labels": {"zone": "b"}}},
            {"nodeSelector": {"gpu": "a"}, "executors": {"labels": {"zone": "c", "x/y": ""}}},
        )
    ),
)
limits = st.integers(0, 4)
matchers: dict[str, st.SearchStrategy[Any]] = {
    "onConditions": wide(CONDITIONS),
    "onExitCodes": exit_codes,
    "onTerminationMessage": message_pattern,
}


def given_matchers(known: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Json]:
    """One or two of the matchers."""
    return some(sorted(known), 2).flatmap(
        lambda names: st.fixed_dictionaries(
            {name: known[name] for name in names},
            optional={"containerName": st.sampled_from(NAMES)},
        )
    )


rules = st.builds(
    lambda base, matching: base | matching,
    st.fixed_dictionaries(
        {"action": st.sampled_from(("Retry", "Retry", "Retry", "Fail"))},
        optional={
            "includeInitContainers": st.booleans(),
            "retryLimit": limits,
            "retryWindow": st.sampled_from(("1m40s", "2h")),
            "stopAfterSame": st.sampled_from((2, 3)),
            "resetOnProgress": st.booleans(),
            "backoff": backoffs,
            "antiAffinity": avoidance,
            "resources": growth,
            "placement": places,
        },
    ),
    given_matchers(
        matchers
        | {
            "onFailureCategory": wide(CATEGORY_NAMES),
            "onCauses": wide(CAUSES),
            "onSignatures": wide(SIGNATURES),
        }
    ),
)


@st.composite
def documents(draw: st.DrawFn, name: str) -> Json:
    """A policy by this name; some of its rules have names."""
    chosen = draw(st.lists(rules, min_size=draw(st.sampled_from((2, 0))), max_size=5))
    for position, rule in enumerate(chosen):
        if draw(st.booleans()):
            rule["name"] = f"rule {position}"
    spec = draw(
        mapping(
            retryLimit=limits,
            defaultAction=st.sampled_from(("Retry", "Fail")),
            onExhausted=st.sampled_from(("End", "Park")),
            parkFor=st.sampled_from(("10s", "48h", "8760h")),
            backoff=backoffs,
            antiAffinity=avoidance,
        )
    )
    if chosen:
        spec["rules"] = chosen
    return {
        "apiVersion": "reprise/v1",
        "kind": "RetryPolicy",
        "metadata": {"name": name},
        "spec": spec,
    }


policy_lists = st.sampled_from((1, 0, 2, 2, 3)).flatmap(
    lambda count: st.tuples(*(documents(f"p{at}") for at in range(count))).map(list)
)

seconds = st.sampled_from((1.0, 0.001, 60.0, 3600.0, 1e9))
counts = st.sampled_from((1, 0, 2, 5, 100))
inline_limits = st.sampled_from((1, 0, 2, 5, 100, "unlimited"))
inline_fields = mapping(
    max_retries=inline_limits,
    max_preemption_retries=st.none() | inline_limits,
    retry_window=st.none() | st.sampled_from((100.0, 7200.0, 1e300)),
    reset_on_progress=st.booleans(),
    stop_after_same=st.none() | st.sampled_from((2, 3)),
    retry_delay=seconds,
    backoff=st.sampled_from(("fixed", "exponential")),
    backoff_multiplier=st.sampled_from((0.5, 1.0, 2.0, 10.0)),
    max_retry_delay=st.none() | seconds,
    jitter=st.sampled_from(("none", "deterministic", "random")),
    jitter_ratio=st.sampled_from((0.0, 0.25, 1.0)),
    eligible_causes=st.just(list(CAUSES)) | some(CAUSES, len(CAUSES)),
    retry_on_exit_codes=st.just([]) | some(CODES),
    no_retry_on_exit_codes=st.just([]) | some(CODES),
    max_chain_duration=st.none() | st.sampled_from((100.0, 7200.0, 1e9)),
    on_exhausted=st.sampled_from(("end", "park")),
    park_for=st.sampled_from((60.0, 31_536_000.0)),
)
layers = st.lists(inline_fields, max_size=3)
bounds = st.lists(
    mapping(
        max_retries=st.none() | counts,
        max_preemption_retries=st.none() | counts,
        max_chain_duration=st.none() | st.sampled_from((50.0, 5000.0)),
        min_retry_delay=st.none() | st.sampled_from((0.0, 30.0, 90_000.0)),
    ),
    max_size=2,
)
categories = st.lists(
    st.fixed_dictionaries(
        {
            "name": st.sampled_from(CATEGORY_NAMES),
            "matchers": st.lists(
                given_matchers(
                    matchers
                    | {"onPodMessage": message_pattern, "onSignatureTitle": message_pattern}
                ),
                min_size=1,
                max_size=2,
            ),
        }
    ),
    max_size=2,
    unique_by=lambda category: category["name"],
)

containers = st.fixed_dictionaries(
    {
        "name": st.sampled_from(NAMES),
        "init": st.booleans(),
        "exit_code": st.sampled_from((None, 0, *CODES)),
        "reason": st.sampled_from(("", "Error", "OOMKilled", "StartError")),
        "message": st.sampled_from(MESSAGES),
        "finished_at": st.sampled_from(("", "1", "2", "10")),
    }
)
ends = st.fixed_dictionaries(
    {
        "status": st.sampled_from(("error",) * 18 + ("cancelled", "terminated")),
        "exit_code": st.sampled_from((None, 0, *CODES)),
        "conditions": st.just([]) | st.just(["Preempted"]) | some(CONDITIONS, 2),
        "reason": st.sampled_from(REASONS),
        "message": st.sampled_from(MESSAGES),
        "pod_message": st.sampled_from(("", "TRANSIENT", "fatal")),
        "node": st.sampled_from(("", "n1", "n2")),
        "lease_expired": st.sampled_from((False, False, False, True)),
        "containers": st.just([]) | st.lists(containers, max_size=3),
    }
)

resources = st.sampled_from(
    (
        {},
        {"cpu": "1"},
        {"memory": "512Mi", "cpu": "1"},
        {"memory": "1G"},
        {"memory": 1_000_001},
        {"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi", "cpu": "2"}},
        {"limits": {"memory": "2Gi"}},
    )
)
