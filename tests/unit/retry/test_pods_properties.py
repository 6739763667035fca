import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from retry.evidence.causes import RULE_CONDITIONS, RetryCause, classify, rule_conditions
from retry.evidence.ended import Ended
from retry.evidence.termination import Termination, termination_from_pod
from tests.unit.retry.recorded import NAMES, recorded
from tests.unit.retry.strategies import WORDS, json_values

KEYS = (
    "metadata",
    "deletionTimestamp",
    "generation",
    "spec",
    "nodeName",
    "status",
    "phase",
    "reason",
    "message",
    "observedGeneration",
    "conditions",
    "type",
    "initContainerStatuses",
    "containerStatuses",
    "name",
    "state",
    "lastState",
    "waiting",
    "running",
    "terminated",
    "exitCode",
    "finishedAt",
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | WORDS
    | st.sampled_from(("True", "False", "Failed", "Succeeded", "PodScheduled", "\x00", "\ud800"))
)
podlike = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYS), inner, min_size=1, max_size=6)
    ),
    max_leaves=30,
)


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every place in a JSON value: what holds it, and under which key or index."""
    keys = list(value) if isinstance(value, dict) else range(len(value))
    places = [(value, key) for key in keys]
    for key in keys:
        if isinstance(value[key], dict | list):
            places += _places(value[key])
    return places


@st.composite
def damaged_pods(draw: st.DrawFn) -> Any:
    """A recorded pod of which some parts are gone or are something else."""
    pod = recorded(draw(st.sampled_from(NAMES)))
    for _ in range(draw(st.integers(1, 4))):
        holder, key = draw(st.sampled_from(_places(pod) or [({"": 0}, "")]))
        if draw(st.booleans()):
            del holder[key]
        else:
            holder[key] = draw(podlike | json_values)
    return pod


def _check(pod: Any) -> None:
    for ours in (False, True):
        termination = termination_from_pod(pod, deleted_by_us=ours)
        assert classify(termination) in RetryCause
        assert rule_conditions(termination) <= RULE_CONDITIONS
        stored = json.loads(json.dumps(termination.to_json(), allow_nan=False))
        again = Termination.from_json(stored)
        assert again == termination
        assert classify(again) is classify(termination)
        assert Ended(again).exit_code == Ended(termination).exit_code
    assert Termination.from_json({"pod": pod}) == termination_from_pod(pod)


@given(podlike)
def test_any_json_is_read_as_a_pod(pod: Any) -> None:
    _check(pod)


@given(damaged_pods())
def test_a_damaged_pod_is_read(pod: Any) -> None:
    _check(pod)


@given(podlike, json_values)
def test_any_json_is_read_beside_other_facts(pod: Any, beside: Any) -> None:
    stated = {**beside, "pod": pod} if isinstance(beside, dict) else {"pod": pod}
    assert classify(Termination.from_json(stated)) in RetryCause


@given(st.sampled_from(NAMES), st.data())
def test_the_order_of_what_a_pod_lists_decides_nothing(name: str, data: st.DataObject) -> None:
    pod = recorded(name)
    expected = classify(termination_from_pod(pod))
    for key in ("conditions", "initContainerStatuses", "containerStatuses"):
        if key in pod["status"]:
            pod["status"][key] = data.draw(st.permutations(pod["status"][key]))
    assert classify(termination_from_pod(pod)) is expected
