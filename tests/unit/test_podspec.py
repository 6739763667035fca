"""Tests of what sessions may say of their pods."""

from typing import Any

import pytest

from base.podspec.mounts import Mount, read_mount
from base.podspec.specification import REFUSED, problem, refused_paths
from tests.unit.retry.recorded import NAMES, recorded


def _at(path: str, value: Any) -> Any:
    """A specification with the value at the path, after another one in each list."""
    step, _, rest = path.partition(".")
    inner = _at(rest, value) if rest else value
    return {step.removesuffix("[]"): [{}, inner] if step.endswith("[]") else inner}


SPECIAL = [rule for rule in REFUSED if rule.startswith("metadata.") or rule.endswith("=")]


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("rule", [rule for rule in REFUSED if rule not in SPECIAL])
def test_each_refused_field_is_named(rule: str, wrapped: bool) -> None:
    path, _, only = rule.partition("=")
    spec = _at(path, only.replace("*", "x") or True)
    place = ("spec." if wrapped else "") + path.replace("[]", "[1]")
    assert problem({"spec": spec} if wrapped else spec, [rule]) == f"{place}: is refused here"
    empty: tuple[Any, ...] = (None, False, [], {}, 0, "")
    for harmless in (f"not {only}", None) if only else empty:
        assert problem(_at(path, harmless), [rule]) is None


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("rule", [rule for rule in SPECIAL if "[" not in rule])
def test_fields_set_by_reprise_are_refused(rule: str, wrapped: bool) -> None:
    body: Any = {"spec": {}} if wrapped else {}
    assert problem({**body, **_at(rule, "x")}) == f"{rule}: is refused here"
    nothing: tuple[Any, ...] = (None, "", [])
    for harmless in nothing:
        assert problem({**body, **_at(rule, harmless)}) is None


@pytest.mark.parametrize("rule", [rule for rule in SPECIAL if "[" in rule and "=" not in rule])
def test_keys_of_annotations_and_labels_are_refused(rule: str) -> None:
    path, _, key = rule.removesuffix("]").partition("[")
    key = key.replace("*", "x")
    # Their value does not matter, not even an empty one.
    asked = {"metadata": {path.partition(".")[2]: {"mine": "x", key: ""}}, "spec": {}}
    assert problem(asked) == f"{path}[{key}]: is refused here"
    rules = refused_paths([rule])
    assert problem(asked, rules) is None


def test_a_toleration_names_what_it_tolerates() -> None:
    everything = {"tolerations": [{"key": "gpu", "operator": "Exists"}, {"operator": "Exists"}]}
    assert problem(everything) == "tolerations[1].key: must be given here"
    everything["tolerations"][1]["key"] = ""
    assert problem({"spec": everything}) == "spec.tolerations[1].key: must be given here"
    assert problem(everything, refused_paths(["tolerations[].key="])) is None
    del everything["tolerations"][1]
    assert problem(everything) is None


OF_SCHEDULING = {
    "priorityClassName": "high",
    "priority": 1000,
    "preemptionPolicy": "Never",
    "schedulerName": "default-scheduler",
    "schedulingGates": [{"name": "example.org/gate"}],
}


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("name", OF_SCHEDULING)
def test_who_goes_first_is_refused_unless_an_operator_allows_it(name: str, wrapped: bool) -> None:
    spec = {name: OF_SCHEDULING[name]}
    asked, place = ({"spec": spec}, f"spec.{name}") if wrapped else (spec, name)
    assert problem(asked) == f"{place}: is refused here"
    assert problem(asked, refused_paths([name])) is None


@pytest.mark.parametrize("name", ["high", "my-system-class", "System-x"])
def test_whoever_allows_priority_classes_does_not_allow_those_of_the_cluster(name: str) -> None:
    rules = refused_paths(["priorityClassName"])
    assert problem({"priorityClassName": name}, rules) is None
    systems = {"priorityClassName": "system-node-critical"}
    assert problem(systems, rules) == "priorityClassName: is refused here"
    both = refused_paths(["priorityClassName", "priorityClassName=system-*"])
    assert problem(systems, both) is None


@pytest.mark.parametrize(
    "spec",
    [
        {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]},
        {"hostNetwork": True},
        {"hostPID": True},
        {"hostIPC": True},
        {"containers": [{"securityContext": {"privileged": True}}]},
        {"initContainers": [{"securityContext": {"privileged": True}}]},
        {"containers": [{"ports": [{"containerPort": 1, "hostPort": 1}]}]},
        {"containers": [{"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}]},
        {"containers": [{"securityContext": {"procMount": "Unmasked"}}]},
        {"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}},
        {"securityContext": {"seccompProfile": {"type": "Unconfined"}}},
        {"nodeName": "n1"},
        {"priorityClassName": "system-node-critical"},
        {"containers": [{"livenessProbe": {"httpGet": {"host": "169.254.169.254"}}}]},
        {"initContainers": [{"startupProbe": {"tcpSocket": {"host": "10.0.0.1", "port": 1}}}]},
        {"containers": [{"lifecycle": {"preStop": {"httpGet": {"host": "kubernetes"}}}}]},
        {"securityContext": {"seLinuxOptions": {"type": "spc_t"}}},
        {"volumes": [{"name": "v", "gitRepo": {"repository": "https://example.org/x"}}]},
        {"volumes": [{"name": "v", "nfs": {"server": "10.0.0.1", "path": "/"}}]},
        {"volumes": [{"name": "v", "csi": {"driver": "example.org"}}]},
    ],
)
def test_fields_that_reach_beyond_the_pod_are_refused(spec: Any) -> None:
    message = problem(spec)
    assert message is not None
    assert message.endswith(": is refused here")


@pytest.mark.parametrize("name", NAMES)
def test_real_pods_are_well_formed(name: str) -> None:
    pod = recorded(name)
    # What the cluster sets, and the class of a pod whose recording is about preemption.
    for field in ("nodeName", *OF_SCHEDULING):
        pod["spec"].pop(field, None)
    assert problem(pod) == "metadata.name: is refused here"
    assert problem(pod["spec"]) is None


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"spec": 3}, "spec: must be an object"),
        ({"spec": {}, "metadata": []}, "metadata: must be an object"),
        ({"spec": {}, "metadata": {"labels": "x"}}, "metadata.labels: must be an object"),
        ({"containers": {}}, "containers: must be a list of objects"),
        ({"containers": [3]}, "containers: must be a list of objects"),
        ({"containers": [None]}, "containers: must be a list of objects"),
        ({"containers": [{}, {"env": "x"}]}, "containers[1].env: must be a list of objects"),
        ({"initContainers": [{"env": [1]}]}, "initContainers[0].env: must be a list of objects"),
        ({"containers": [{"resources": []}]}, "containers[0].resources: must be an object"),
        ({"affinity": "x"}, "affinity: must be an object"),
        ({"affinity": {"nodeAffinity": []}}, "affinity.nodeAffinity: must be an object"),
        ({"tolerations": {}}, "tolerations: must be a list of objects"),
        ({"volumes": "x"}, "volumes: must be a list of objects"),
    ],
)
def test_malformed_fields_are_named(spec: Any, message: str) -> None:
    assert problem(spec) == message


def test_empty_and_unknown_fields_are_left_to_the_cluster() -> None:
    assert problem({}) is None
    assert problem({"spec": None, "containers": None}) is None
    assert problem({"a": {"b": [1]}, "containers": [{"image": 3, "env": None}]}) is None


@pytest.mark.parametrize(
    ("rule", "value", "refused"),
    [("user=0", 0, True), ("user=0", 1, False), ("user=0", "0", True), ("user=true", True, True)],
)
def test_a_rule_may_name_any_value(rule: str, value: Any, refused: bool) -> None:
    assert (problem({"user": value}, [rule]) is not None) is refused


def test_an_operator_allows_and_refuses() -> None:
    paths = refused_paths(["hostNetwork"], ["runtimeClassName"])
    assert {*paths} == {*REFUSED} - {"hostNetwork"} | {"runtimeClassName"}
    with pytest.raises(ValueError, match="not refused by default: hostnetwork"):
        refused_paths(["hostnetwork"])


@pytest.mark.parametrize(
    ("raw", "mount"),
    [
        ({"path": "/a", "empty_dir": {}}, Mount("/a", {"emptyDir": {}})),
        (
            {"path": "/a", "empty_dir": {"size_limit": "1Gi", "medium": "Memory"}},
            Mount("/a", {"emptyDir": {"sizeLimit": "1Gi", "medium": "Memory"}}),
        ),
        ({"path": "/a", "config_map": "c"}, Mount("/a", {"configMap": {"name": "c"}})),
        (
            {"path": "/a", "secret": "s", "read_only": True, "sub_path": "b/c"},
            Mount("/a", {"secret": {"secretName": "s"}}, True, "b/c"),
        ),
        (
            {"path": "/a", "claim": "d"},
            Mount("/a", {"persistentVolumeClaim": {"claimName": "d"}}),
        ),
    ],
)
def test_mounts(raw: Any, mount: Mount) -> None:
    assert read_mount(raw) == mount


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (3, "must be an object"),
        ({"path": "/a"}, "must have exactly one of empty_dir, config_map, secret, claim"),
        ({"path": "/a", "secret": "s", "claim": "c"}, "must have exactly one of"),
        ({"path": "/a", "secret": "s", "mode": 1}, "unknown: mode"),
        ({"secret": "s"}, "path must be absolute"),
        ({"path": "a", "secret": "s"}, "path must be absolute"),
        ({"path": "/" + "a" * 4096, "secret": "s"}, "path must be absolute"),
        ({"path": "/a:b", "secret": "s"}, "path must not contain ':'"),
        ({"path": "/a\x00", "secret": "s"}, "path must not contain"),
        ({"path": "/a", "secret": ""}, "secret must be a name"),
        ({"path": "/a", "claim": {"name": "c"}}, "claim must be a name"),
        ({"path": "/a", "config_map": "c" * 254}, "config_map must be a name"),
        ({"path": "/a", "secret": "s", "read_only": "yes"}, "read_only must be true or false"),
        ({"path": "/a", "secret": "s", "sub_path": "/b"}, "sub_path must be relative"),
        ({"path": "/a", "secret": "s", "sub_path": "b/../c"}, "sub_path must be relative"),
        ({"path": "/a", "secret": "s", "sub_path": 3}, "sub_path must be relative"),
        ({"path": "/a", "empty_dir": "x"}, "empty_dir must be"),
        ({"path": "/a", "empty_dir": {"sizeLimit": "1Gi"}}, "empty_dir must be"),
        ({"path": "/a", "empty_dir": {"size_limit": 1}}, "size_limit and medium"),
    ],
)
def test_other_mounts_are_refused(raw: Any, message: str) -> None:
    with pytest.raises(ValueError, match="^" + message.replace("(", r"\(")):
        read_mount(raw)
