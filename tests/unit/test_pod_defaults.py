"""What pods get where their session says nothing: its form, how it is merged, and the plan."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.podspec.pod_defaults import completed, default_problem, own_refused, placing_of
from base.podspec.refusals import REFUSED
from scheduler.core.below import below_of
from scheduler.core.fit import Ask, Room
from scheduler.core.fit_words import never_words
from scheduler.core.node_rules import node_rules

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NFS = {"volumes": [{"name": "data", "nfs": {"server": "files", "path": "/"}}]}


def terms(value: str) -> dict[str, Any]:
    wanted = {"key": "zone", "operator": "In", "values": [value]}
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}}}


@pytest.mark.parametrize(
    ("defaults", "why"),
    [
        ({}, None),
        ({"tolerations": [{"key": "gpu", "operator": "Exists"}]}, None),
        ({"spec": {"runtimeClassName": "gvisor"}, "metadata": {"labels": {"a": "b"}}}, None),
        ([], "must be an object, such as a pod's specification"),
        ({"containers": []}, "containers: is no field of pod defaults, which are affinity,"),
        ({"spec": {"hostNetwork": True}}, "spec.hostNetwork: is no field of pod defaults"),
        ({"spec": {}, "metadata": {"name": "x"}}, "metadata.name: is no field of pod defaults"),
        ({"tolerations": {}}, "tolerations: must be a list of objects"),
        ({"tolerations": [{"operator": "Exists"}]}, "tolerations[0].key: must be given here"),
        ({"metadata": {"labels": {"reprise.dev/root": "x"}}}, "metadata.labels[reprise.dev/root]:"),
        ({"nodeSelector": {"gpu": True}}, "nodeSelector.gpu: must be text; in YAML, put it in"),
        ({"imagePullSecrets": ["key"]}, "imagePullSecrets[0]: must be an object with the name"),
        ({"imagePullSecrets": [{}]}, "imagePullSecrets[0]: must be an object with the name of"),
        ({"volumes": [{"emptyDir": {}}]}, "volumes[0].name: must be given"),
        ({"affinity": {"nodeAffinity": []}}, "affinity.nodeAffinity: must be an object"),
        ({"metadata": {"annotations": {"a": "b" * 70_000}}}, "must have at most 65536 bytes"),
        (NFS, "volumes[0].nfs: is refused here"),
    ],
)
def test_pod_defaults_are_checked(defaults: Any, why: str | None) -> None:
    told = default_problem(defaults)
    assert told is None if why is None else (told or "").startswith(why), told


def test_the_administrator_of_an_executor_may_offer_any_volume() -> None:
    assert default_problem(NFS, own_refused(REFUSED)) is None
    assert default_problem({"tolerations": [{}]}, own_refused(REFUSED)) is not None


def test_what_a_session_says_itself_wins() -> None:
    own = {
        "nodeSelector": {"disk": "ssd"},
        "affinity": terms("a"),
        "tolerations": [{"key": "gpu", "effect": "NoSchedule", "value": "mine"}],
        "securityContext": {"runAsUser": 7},
        "runtimeClassName": "runc",
        "volumes": [{"name": "data", "emptyDir": {}}],
        "containers": [{"name": "main"}],
    }
    below = {
        "metadata": {"labels": {"team": "x"}, "annotations": {"a": "below"}},
        "spec": {
            "nodeSelector": {"disk": "tape", "pool": "batch"},
            "affinity": {**terms("b"), "podAntiAffinity": {"x": []}},
            "tolerations": [
                {"key": "gpu", "effect": "NoSchedule", "operator": "Exists"},
                {"key": "batch", "operator": "Exists"},
            ],
            "securityContext": {"runAsUser": 8, "runAsGroup": 8},
            "runtimeClassName": "gvisor",
            "imagePullSecrets": [{"name": "key"}],
            "volumes": [{"name": "data", "claim": {}}, {"name": "more", "emptyDir": {}}],
        },
    }
    assert completed({"metadata": {"annotations": {"a": "own"}}, "spec": own}, below) == {
        "metadata": {"labels": {"team": "x"}, "annotations": {"a": "own"}},
        "spec": {
            "nodeSelector": {"disk": "ssd", "pool": "batch"},
            "affinity": {**terms("a"), "podAntiAffinity": {"x": []}},
            "tolerations": [*own["tolerations"], {"key": "batch", "operator": "Exists"}],
            "securityContext": {"runAsUser": 7, "runAsGroup": 8},
            "runtimeClassName": "runc",
            "imagePullSecrets": [{"name": "key"}],
            "volumes": [{"name": "data", "emptyDir": {}}, {"name": "more", "emptyDir": {}}],
            "containers": [{"name": "main"}],
        },
    }


parts = st.fixed_dictionaries(
    {},
    optional={
        "nodeSelector": st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy")),
        "affinity": st.sampled_from([terms("a"), terms("b"), {"podAffinity": {}}, {}]),
        "tolerations": st.lists(
            st.fixed_dictionaries({"key": st.sampled_from("ab"), "operator": st.just("Exists")})
        ),
    },
)
nodes = st.fixed_dictionaries(
    {
        "labels": st.fixed_dictionaries(
            {"a": st.sampled_from("xy"), "b": st.sampled_from("xy"), "zone": st.sampled_from("ab")}
        ),
        "taints": st.lists(
            st.fixed_dictionaries({"key": st.sampled_from("abc"), "effect": st.just("NoSchedule")})
        ),
    }
)


@given(parts, parts, parts, nodes)
def test_the_plan_knows_the_pod_that_is_made(
    own: Any, project: Any, executor: Any, at: Any
) -> None:
    pod = completed(completed(own, project), executor)
    below = below_of(placing_of(executor), tolerations=False)
    text = json.dumps(placing_of(own)) if placing_of(own) else ""
    more = json.dumps(placing_of(project)) if placing_of(project) else ""
    planned = below.under(more).ask(Ask({}, rules=node_rules(own)), text)
    assert planned.rules.refusal(at) == node_rules(pod).refusal(at)


def test_extended_resources_bring_tolerations_where_the_cluster_adds_them() -> None:
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    held = {"cpu": "8", "nvidia.com/gpu": "4"}
    room = Room([{"name": "g", "allocatable": held, "taints": [taint]}], ())
    ask = Ask({"nvidia.com/gpu": Decimal(1)})
    assert room.never(ask) is not None
    added = below_of({}, tolerations=True)
    assert room.never(added.ask(ask, "")) is None
    # Equal sessions get the same rules, which rooms remember.
    assert added.ask(ask, "").rules is added.ask(ask, "").rules
    # Not for what asks for none, nor for another effect or resource.
    assert room.never(added.ask(Ask({"cpu": Decimal(1)}), "")) is not None
    evicting = {"name": "g", "allocatable": held, "taints": [{**taint, "effect": "NoExecute"}]}
    assert Room([evicting], ()).never(added.ask(ask, "")) is not None


def node(name: str, cpu: str = "4", labels: Any = None, taint: str = "", **more: str) -> Any:
    taints = [{"key": taint, "effect": "NoSchedule"}] if taint else []
    amounts = {"cpu": cpu, **more}
    return {"name": name, "allocatable": amounts, "labels": labels or {}, "taints": taints}


GPU = {"nvidia.com/gpu": "1"}


ON_TAPE = {"nodeSelector": {"disk": "tape"}}
TAINTED = "has the taint x, which it does not tolerate"


@pytest.mark.parametrize(
    ("nodes", "asked", "pod_spec", "most", "nearest"),
    [
        (
            [node("a"), node("b"), node("g", taint="nvidia.com/gpu", **GPU)],
            *(GPU, {}, "2 of 3 nodes have too little nvidia.com/gpu; the nearest, node g, "),
            "has the taint nvidia.com/gpu, which it does not tolerate",
        ),
        (
            [node("a", taint="x"), node("b", taint="x"), node("c", "1", {"disk": "tape"})],
            *({"cpu": "2"}, ON_TAPE),
            "2 of 3 nodes have the taint x, which it does not tolerate; the nearest, node c, ",
            "has 1 of the 2 cpu that it needs",
        ),
        (
            [node("a"), node("b"), node("c", "1", {"disk": "tape"})],
            *({"cpu": "2"}, ON_TAPE, "2 of 3 nodes have no label disk=tape; the nearest, node c, "),
            "has 1 of the 2 cpu that it needs",
        ),
        (
            [node("a", labels={"zone": "a"}, taint="x"), node("b", labels={"zone": "b"})],
            *({}, {"affinity": terms("a")}),
            "1 of 2 nodes does not match its node affinity; the nearest, node a, ",
            TAINTED,
        ),
        (
            [node("a", taint="x")],
            *({}, ON_TAPE, "its only one, node a, "),
            f"has no label disk=tape and {TAINTED}",
        ),
    ],
)
def test_words_name_what_most_nodes_lack_and_what_the_nearest_one_lacks(
    nodes: Any, asked: dict[str, str], pod_spec: Any, most: str, nearest: str
) -> None:
    amounts = {name: Decimal(each) for name, each in asked.items()}
    misfit = Room(nodes, ()).explained(Ask(amounts, rules=node_rules(pod_spec)))
    assert misfit is not None
    assert never_words(misfit, asked) == f"no node has all that it needs: {most}{nearest}"


def test_what_all_nodes_lack_is_said_in_short() -> None:
    ask = Ask({}, rules=node_rules({"nodeSelector": {"disk": "ssd"}}))
    misfit = Room([node("a"), node("b")], ()).explained(ask)
    assert misfit is not None
    assert never_words(misfit, {}) == "no node has the label disk=ssd"


def test_a_template_can_be_the_nearest_node() -> None:
    gpu = {"name": "gpu", "resources": {"cpu": "8", **GPU}, "labels": {}, "max": 2,
           "taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]}  # fmt: skip
    misfit = Room([node("a")], (), [gpu]).explained(Ask({"nvidia.com/gpu": Decimal(1)}))
    assert misfit is not None
    told = never_words(misfit, GPU)
    assert "the nearest, a node of template gpu, has the taint nvidia.com/gpu" in told


def test_of_several_labels_the_one_that_all_nodes_lack_is_named() -> None:
    nodes = [node("a"), node("b", labels={"pool": "x"})]
    ask = Ask({}, rules=node_rules({"nodeSelector": {"pool": "x", "zone": "far"}}))
    misfit = Room(nodes, ()).explained(ask)
    assert misfit is not None
    assert never_words(misfit, {}) == "no node has the label zone=far"
