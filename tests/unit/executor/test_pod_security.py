"""The security context that pods get where nobody has said one."""

from typing import Any

import pytest

from executor.drivers.kubernetes.pod_manifest import problem_of
from tests.kubernetes.pod_security import restricted_problems
from tests.unit.executor.test_pod_manifest import order, pods

DEFAULT = {"runAsNonRoot": True, "runAsUser": 1000, "runAsGroup": 1000}
RIGHTS = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
HELPERS = {"initContainers": [{"name": "prep", "image": "p"}],
           "containers": [{"name": "main"}, {"name": "aside", "image": "a"}]}  # fmt: skip


def spec_of(pod_spec: Any, security: str = "restricted") -> Any:
    (made,) = pods(order(pod_spec=pod_spec), security=security)
    return made["spec"]


def contexts(pod_spec: Any) -> tuple[Any, Any]:
    spec = spec_of(pod_spec)
    return spec["securityContext"], spec["containers"][0]["securityContext"]


@pytest.mark.parametrize(
    "pod_spec",
    [
        {},
        HELPERS,
        {"securityContext": {"runAsUser": 7}},
        {"securityContext": {"runAsNonRoot": True}},
        {"securityContext": {"fsGroup": 5}},
        {"containers": [{"name": "main", "securityContext": {"runAsUser": 7}}]},
        {"containers": [{"name": "main", "securityContext": {"readOnlyRootFilesystem": True}}]},
        {"spec": {"securityContext": None, "containers": [{"securityContext": None}]}},
    ],
)
def test_pods_meet_the_standard(pod_spec: Any) -> None:
    assert restricted_problems(spec_of(pod_spec)) == []


def test_what_a_plain_pod_gets() -> None:
    outer, inner = contexts({})
    assert outer == {
        "seccompProfile": {"type": "RuntimeDefault"},
        "fsGroup": 1000,
        "fsGroupChangePolicy": "OnRootMismatch",
    }
    assert inner == {**RIGHTS, **DEFAULT}


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ({"runAsUser": 7}, {**RIGHTS, "runAsNonRoot": True, "runAsUser": 7}),
        ({"runAsNonRoot": True}, {**RIGHTS, "runAsNonRoot": True}),
        ({"runAsGroup": 5}, {**RIGHTS, **DEFAULT, "runAsGroup": 5}),
        ({"runAsUser": 0}, {"runAsUser": 0}),
        ({"runAsNonRoot": False}, {"runAsNonRoot": False}),
        ({"privileged": True, "runAsUser": 0}, {"privileged": True, "runAsUser": 0}),
        ({"capabilities": {"drop": []}}, {**RIGHTS, **DEFAULT, "capabilities": {"drop": []}}),
    ],
)
def test_what_a_session_says_wins(given: Any, made: Any) -> None:
    containers = [{"name": "main", "securityContext": given}]
    spec: Any = {"pod_spec": {"containers": containers}}
    (pod,) = pods(order(**spec), refused=())
    assert pod["spec"]["containers"][0]["securityContext"] == made
    assert containers == [{"name": "main", "securityContext": given}]


def test_who_runs_may_be_said_for_the_pod() -> None:
    outer, inner = contexts({"securityContext": {"runAsUser": 0}})
    assert outer == {"runAsUser": 0, "seccompProfile": {"type": "RuntimeDefault"}}
    assert inner == {}
    outer, inner = contexts({"securityContext": {"runAsGroup": 5, "fsGroup": 6}})
    assert outer["fsGroup"] == 6
    assert inner["runAsGroup"] == 5


def test_it_can_be_switched_off_and_windows_has_none() -> None:
    for spec in (
        spec_of({}, "off"),
        spec_of({"os": {"name": "windows"}}),
        spec_of({"nodeSelector": {"kubernetes.io/os": "windows"}}),
    ):
        assert "securityContext" not in spec
        assert "securityContext" not in spec["containers"][0]


@pytest.mark.parametrize("field", ["securityContext", "os", "nodeSelector"])
def test_what_is_read_must_be_an_object(field: str) -> None:
    spec: Any = {"image": "i", "pod_spec": {field: "x"}}
    assert problem_of(spec) == f"pod_spec.{field}: must be an object"
    spec = {"image": "i", "pod_spec": {"containers": [{"securityContext": []}]}}
    assert problem_of(spec) == "pod_spec.containers[0].securityContext: must be an object"
