"""Tests of the pods that sessions become."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reprise_client.wire import LeaseKey

from base.podspec.specification import REFUSED
from executor.drivers.kubernetes import pod_names
from executor.drivers.kubernetes.pod_manifest import (
    ManifestError,
    headless_service,
    manifests,
    problem_of,
    secret,
)
from executor.drivers.kubernetes.pod_merge import literal
from executor.drivers.protocol import Order
from executor.runs import RunFiles
from tests.quantities import AMOUNTS

KEY = LeaseKey("22222222-2222-4333-8444-555555555555", 41)
ROOT = "11111111-2222-4333-8444-555555555555"
ENVIRON = {
    "REPRISE_SESSION_ID": KEY.session_id,
    "REPRISE_ROOT_SESSION_ID": ROOT,
    "REPRISE_ATTEMPT": "0",
    "REPRISE_PROJECT": "acme/work",
    "REPRISE_QUEUE": "fast",
    "REPRISE_JOB_SET": "",
}
OWNER = {"metadata": {"name": "first", "uid": "u-1"}}
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def order(*, attempt: int = 0, avoid_node: str = "", **spec: Any) -> Order:
    spec = {"name": "train", "image": "i:1", "command": ["a", "b"], **spec}
    environ = {**ENVIRON, "REPRISE_ATTEMPT": str(attempt)}
    files = RunFiles(KEY, Path("/nonexistent"))
    return Order(KEY, spec, environ, files, avoid_node)  # type: ignore[arg-type]


def pods(given: Order, **options: Any) -> list[Any]:
    return manifests(given, executor="east 1", namespace="reprise-acme--work", **options)


def pod(**spec: Any) -> Any:
    (made,) = pods(order(**spec))
    return made


def main(**spec: Any) -> Any:
    (container,) = pod(**spec)["spec"]["containers"]
    return container


def variables(container: Any) -> dict[str, Any]:
    names = [each["name"] for each in container["env"]]
    assert len(names) == len(set(names))
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in container["env"]}


def test_the_first_attempt_and_its_retries_have_names_of_their_own() -> None:
    assert pod_names.pod_name(ROOT, 0, 0) == f"reprise-{ROOT}-0"
    assert pod_names.pod_name(ROOT, 3, 0) == f"reprise-{ROOT}-3"
    assert pod_names.pod_name(ROOT, 3, 12) == f"reprise-{ROOT}-3-12"
    longest = pod_names.pod_name(ROOT, 9_999, 1_000_000)
    assert LABEL.fullmatch(longest)
    (made,) = pods(order(attempt=2))
    assert made["metadata"]["name"] == f"reprise-{ROOT}-0-2"


def test_a_plain_session() -> None:
    plain = order(environ={"A": "1"}, batch_timeout=59.5, termination_grace_period=10.2)
    (made,) = pods(plain, security="off")
    metadata = made["metadata"]
    assert (made["apiVersion"], made["kind"]) == ("v1", "Pod")
    assert metadata["namespace"] == "reprise-acme--work"
    assert metadata["finalizers"] == ["reprise.dev/evidence"]
    assert metadata["labels"] == {
        "reprise.dev/session": KEY.session_id,
        "reprise.dev/fencing-token": "41",
        "reprise.dev/root": ROOT,
        "reprise.dev/attempt": "0",
        "reprise.dev/rank": "0",
        "reprise.dev/executor": pod_names.label_value("east 1"),
        "reprise.dev/project": "acme.work",
        "reprise.dev/queue": "fast",
        "reprise.dev/job-set": "",
    }
    assert metadata["annotations"] == {
        "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
        "karpenter.sh/do-not-disrupt": "true",
        "reprise.dev/executor": "east 1",
        "reprise.dev/project": "acme/work",
        "reprise.dev/queue": "fast",
        "reprise.dev/job-set": "",
        "reprise.dev/name": "train",
        "reprise.dev/labels": "{}",
    }
    (container,) = made["spec"].pop("containers")
    assert made["spec"] == {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 11,
        "activeDeadlineSeconds": 60,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
    }
    assert variables(container) == {
        "A": "1",
        **ENVIRON,
        "REPRISE_RANK": "0",
        "REPRISE_CLUSTER_SIZE": "1",
        "REPRISE_RANK0_HOST": "localhost",
        "REPRISE_TERMINATION_LOG": "/dev/termination-log",
    }
    del container["env"]
    assert container == {"name": "main", "image": "i:1", "command": ["a", "b"]}


def test_times_are_whole_seconds_and_never_none() -> None:
    spec = pod(termination_grace_period=0.0, batch_timeout=None)["spec"]
    assert spec["terminationGracePeriodSeconds"] == 1
    assert "activeDeadlineSeconds" not in spec
    assert pod(batch_timeout=0.2)["spec"]["activeDeadlineSeconds"] == 1


def test_nobody_overrides_what_reprise_says() -> None:
    mine = {"name": "REPRISE_ATTEMPT", "value": "9"}
    spec = {
        "restartPolicy": "Always",
        "activeDeadlineSeconds": 5,
        "containers": [{"env": [mine, {"name": "B", "value": "2"}], "restartPolicy": "Always"}],
    }
    metadata = {
        "name": "mine",
        "finalizers": ["mine/mine"],
        "ownerReferences": [{"kind": "Job", "name": "mine"}],
        "labels": {"reprise.dev/session": "x", "team": "t"},
        "annotations": {
            "reprise.dev/name": "x",
            "note": "n",
            "karpenter.sh/do-not-disrupt": "false",
        },
    }
    given = order(
        environ={"REPRISE_RANK": "7", "REPRISE_SIMULATE": "{}"},
        batch_timeout=60,
        pod_spec={"metadata": metadata, "spec": spec},
        labels={"reprise.dev/rank": "8", "stage": "x"},
    )
    # What would not be heard is refused; where an operator lets it pass, it is not heard.
    with pytest.raises(ManifestError, match=r"metadata\.name: is refused here"):
        pods(given)
    (made,) = pods(given, refused=[path for path in REFUSED if not path.startswith("metadata.")])
    assert "ownerReferences" not in made["metadata"]
    (container,) = made["spec"]["containers"]
    environ = variables(container)
    assert (environ["REPRISE_ATTEMPT"], environ["REPRISE_RANK"]) == ("0", "0")
    assert (environ["B"], environ["REPRISE_SIMULATE"]) == ("2", "{}")
    assert "restartPolicy" not in container
    assert made["spec"]["restartPolicy"] == "Never"
    assert made["spec"]["activeDeadlineSeconds"] == 60
    assert made["metadata"]["name"] == f"reprise-{ROOT}-0"
    assert made["metadata"]["finalizers"] == [pod_names.FINALIZER]
    labels, annotations = made["metadata"]["labels"], made["metadata"]["annotations"]
    assert labels["reprise.dev/session"] == KEY.session_id
    assert (labels["team"], labels["stage"], labels["reprise.dev/rank"]) == ("t", "x", "0")
    assert (annotations["reprise.dev/name"], annotations["note"]) == ("train", "n")
    assert annotations["karpenter.sh/do-not-disrupt"] == "false"


def test_nothing_in_a_pod_runs_again_but_a_sidecar() -> None:
    rules = [{"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}]
    again = {"restartPolicy": "OnFailure", "restartPolicyRules": rules}
    sidecar = {"name": "proxy", "restartPolicy": "Always"}
    made = pod(
        pod_spec={
            "containers": [{"name": "main", **again}, {"name": "helper", **again}],
            "initContainers": [{"name": "first", **again}, sidecar],
        }
    )
    spec = made["spec"]
    every = [*spec["containers"], *spec["initContainers"]]
    assert not any("restartPolicyRules" in each for each in every)
    kept = {each["name"]: each["restartPolicy"] for each in every if "restartPolicy" in each}
    assert kept == {"proxy": "Always"}


def test_the_rest_of_a_pod_spec_stays() -> None:
    given = {
        "imagePullSecrets": [{"name": "registry"}],
        "serviceAccountName": "runner",
        "automountServiceAccountToken": True,
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "runtimeClassName": "gvisor",
        "nodeSelector": {"gpu": "a100"},
        "securityContext": {"runAsUser": 1000},
        "initContainers": [{"name": "prep", "image": "p"}],
    }
    (made,) = pods(order(pod_spec=given), security="off")
    spec = made["spec"]
    assert {name: spec[name] for name in given if name != "initContainers"} == {
        name: value for name, value in given.items() if name != "initContainers"
    }
    (prep,) = spec["initContainers"]
    assert variables(prep)["REPRISE_ATTEMPT"] == "0"
    assert given["initContainers"] == [{"name": "prep", "image": "p"}]


@pytest.mark.parametrize(
    ("names", "runs"),
    [(["side", "main"], "main"), (["work", "side"], "work"), (["main", "side"], "main")],
)
def test_the_container_that_runs_it(names: list[str], runs: str) -> None:
    containers = [{"name": name, "image": name, "args": ["x"]} for name in names]
    made = pod(image="", pod_spec={"containers": containers}, environ={"A": "1"})
    for container in made["spec"]["containers"]:
        its_own = container["name"] == runs
        assert container["image"] == container["name"]
        assert container.get("command") == (["a", "b"] if its_own else None)
        assert container.get("args") == (None if its_own else ["x"])
        assert ("A" in variables(container)) is its_own
        assert variables(container)["REPRISE_RANK"] == "0"


def test_without_a_command_the_images_own_runs() -> None:
    assert "command" not in main(command=[])
    container = {"command": ["own"], "args": ["arg"], "image": "theirs"}
    kept = main(command=[], pod_spec={"containers": [container]})
    assert (kept["command"], kept["args"], kept["image"]) == (["own"], ["arg"], "i:1")


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("echo $HOME", "echo $HOME"),
        ("echo $(date)", "echo $$(date)"),
        ("kill $$", "kill $$$"),
        ("$$(A) 5$", "$$$$(A) 5$"),
    ],
)
def test_text_of_a_session_is_literal(text: str, sent: str) -> None:
    assert literal(text) == sent
    container = main(command=["sh", "-c", text], environ={"A": text})
    assert (container["command"][2], variables(container)["A"]) == (sent, sent)


def expand(text: str) -> str:
    """As a kubelet does it, where no variable is defined."""
    done, at = "", 0
    while at < len(text):
        pair = text[at : at + 2]
        if pair == "$$":
            done, at = done + "$", at + 2
        elif pair == "$(" and ")" in text[at:]:
            end = text.index(")", at) + 1
            done, at = done + "?" + text[at:end], end
        else:
            done, at = done + text[at], at + 1
    return done


@given(st.text("$()Ax ", max_size=12))
def test_the_cluster_gives_back_what_was_said(text: str) -> None:
    assert expand(literal(text)) == text


def test_ports_have_numbers() -> None:
    declared = [{"name": "api", "containerPort": 20_001}]
    made = main(
        ports=["web", "api", "a-very-long-name-of-a-port"],
        pod_spec={"containers": [{"ports": declared}]},
    )
    ports = {key: value for key, value in variables(made).items() if "PORT" in key}
    assert ports == {
        "REPRISE_PORT_WEB": "20000",
        "REPRISE_PORT_API": "20001",
        "REPRISE_PORT_A_VERY_LONG_NAME_OF_A_PORT": "20002",
    }
    assert made["ports"] == [
        {"name": "api", "containerPort": 20_001},
        {"name": "web", "containerPort": 20_000},
        {"containerPort": 20_002},
    ]


def test_the_termination_log_is_where_the_container_says() -> None:
    own = {"containers": [{"terminationMessagePath": "/tmp/said"}]}
    assert variables(main(pod_spec=own))["REPRISE_TERMINATION_LOG"] == "/tmp/said"


GPU = "nvidia.com/gpu"


@pytest.mark.parametrize(
    ("resources", "requests", "limits"),
    [
        ({"cpu": "500m", GPU: 2}, {"cpu": "500m", GPU: "2"}, {"cpu": "500m", GPU: "2"}),
        ({"requests": {"cpu": 1}}, {"cpu": "1"}, None),
        ({"limits": {"memory": "1Gi"}}, None, {"memory": "1Gi"}),
        ({"requests": {GPU: "1"}}, {GPU: "1"}, {GPU: "1"}),
        ({"requests": {GPU: "1"}, "limits": {GPU: "2"}}, {GPU: "2"}, {GPU: "2"}),
        ({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}, {"cpu": "1"}, {"cpu": "2"}),
    ],
)
def test_resources(resources: Any, requests: Any, limits: Any) -> None:
    made = main(resources=resources)["resources"]
    assert (made.get("requests"), made.get("limits")) == (requests, limits)


@pytest.mark.parametrize("text", AMOUNTS)
def test_amounts_stay_as_they_are_written(text: str) -> None:
    assert main(resources={"cpu": text})["resources"]["requests"] == {"cpu": text}


def test_resources_of_the_session_win_one_by_one() -> None:
    own = {"requests": {"cpu": "1", "memory": "1Gi"}, "claims": [{"name": "c"}]}
    made = main(resources={"memory": "2Gi"}, pod_spec={"containers": [{"resources": own}]})
    assert made["resources"] == {
        "requests": {"cpu": "1", "memory": "2Gi"},
        "limits": {"memory": "2Gi"},
        "claims": [{"name": "c"}],
    }


def test_mounts_become_volumes() -> None:
    theirs = {
        "volumes": [{"name": "v", "emptyDir": {}}],
        "containers": [
            {"volumeMounts": [{"name": "v", "mountPath": path} for path in ("/a", "/b")]}
        ],
    }
    made = pod(
        mounts=[
            {"path": "/a", "empty_dir": {"size_limit": "1Gi", "medium": "Memory"}},
            {"path": "/c", "config_map": "settings", "read_only": True},
            {"path": "/d", "secret": "key", "sub_path": "x/y"},
            {"path": "/e", "claim": "data"},
        ],
        pod_spec=theirs,
    )
    assert made["spec"]["volumes"] == [
        {"name": "v", "emptyDir": {}},
        {"name": "reprise-mount-0", "emptyDir": {"sizeLimit": "1Gi", "medium": "Memory"}},
        {"name": "reprise-mount-1", "configMap": {"name": "settings"}},
        {"name": "reprise-mount-2", "secret": {"secretName": "key"}},
        {"name": "reprise-mount-3", "persistentVolumeClaim": {"claimName": "data"}},
    ]
    assert made["spec"]["containers"][0]["volumeMounts"] == [
        {"name": "v", "mountPath": "/b"},
        {"name": "reprise-mount-0", "mountPath": "/a"},
        {"name": "reprise-mount-1", "mountPath": "/c", "readOnly": True},
        {"name": "reprise-mount-2", "mountPath": "/d", "subPath": "x/y"},
        {"name": "reprise-mount-3", "mountPath": "/e"},
    ]


NOT_N1 = {"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize(
    ("terms", "merged"),
    [
        (None, [{"matchFields": [NOT_N1]}]),
        ([], [{"matchFields": [NOT_N1]}]),
        (
            [{"matchExpressions": [{"key": "a"}]}, {"matchFields": [{"key": "b"}]}, {}],
            [
                {"matchExpressions": [{"key": "a"}], "matchFields": [NOT_N1]},
                {"matchFields": [{"key": "b"}, NOT_N1]},
                {},
            ],
        ),
    ],
)
def test_the_avoided_node_is_forbidden_beside_what_else_is_asked(terms: Any, merged: Any) -> None:
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}
    affinity: Any = {"nodeAffinity": preferred, "podAffinity": {"x": 1}}
    if terms is not None:
        affinity["nodeAffinity"] = {**preferred, REQUIRED: {"nodeSelectorTerms": terms}}
    (made,) = pods(order(avoid_node="n1", pod_spec={"affinity": affinity}))
    assert made["spec"]["affinity"] == {
        "podAffinity": {"x": 1},
        "nodeAffinity": {**preferred, REQUIRED: {"nodeSelectorTerms": merged}},
    }
    assert "affinity" not in pod()["spec"]


def test_nodes_that_are_left_out_are_forbidden_one_by_one() -> None:
    (made,) = pods(replace(order(avoid_node="n1"), avoid_nodes=("n3", "n1")))
    terms = made["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    # The API takes one name a rule.
    rules = [{"key": "metadata.name", "operator": "NotIn", "values": [n]} for n in ("n1", "n3")]
    assert terms == [{"matchFields": rules}]


def test_labels_of_a_template_join_the_users_selector() -> None:
    asked = order(pod_spec={"nodeSelector": {"disk": "ssd"}})
    (made,) = pods(replace(asked, node_labels={"pool": "gpu"}, avoid_nodes=("n1",)))
    assert made["spec"]["nodeSelector"] == {"disk": "ssd", "pool": "gpu"}
    assert "affinity" in made["spec"]
    # Of a template without labels there is nothing to say.
    (made,) = pods(order())
    assert "nodeSelector" not in made["spec"]


def test_each_rank_is_bound_to_its_node_beside_what_else_is_asked() -> None:
    terms = [{"matchExpressions": [{"key": "a"}]}, {"matchFields": [{"key": "b"}]}]
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}
    given = order(avoid_node="n9", cluster_size=2, pod_spec={"affinity": affinity})
    made = pods(replace(given, nodes=("n1", "n2")))
    for each, name in zip(made, ("n1", "n2"), strict=True):
        rule = {"key": "metadata.name", "operator": "In", "values": [name]}
        assert each["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"] == [
            {"matchExpressions": [{"key": "a"}], "matchFields": [rule]},
            {"matchFields": [{"key": "b"}, rule]},
        ]


def test_ranks_find_each_other() -> None:
    given = order(cluster_size=3, attempt=1)
    made = pods(given)
    assert [each["metadata"]["name"] for each in made] == [
        f"reprise-{ROOT}-{n}-1" for n in range(3)
    ]
    owner = {"metadata": {"name": made[0]["metadata"]["name"], "uid": "u"}}
    service: Any = headless_service(given, executor="e", namespace="ns", owner=owner)
    assert LABEL.fullmatch(service["metadata"]["name"])
    for rank, each in enumerate(made):
        environ = variables(each["spec"]["containers"][0])
        assert (environ["REPRISE_RANK"], environ["REPRISE_CLUSTER_SIZE"]) == (str(rank), "3")
        assert each["metadata"]["labels"]["reprise.dev/rank"] == str(rank)
        assert each["spec"]["hostname"] == f"rank-{rank}"
        assert each["spec"]["subdomain"] == service["metadata"]["name"]
        host = f"rank-0.{service['metadata']['name']}.reprise-acme--work.svc"
        assert environ["REPRISE_RANK0_HOST"] == host
        assert service["spec"]["selector"].items() <= each["metadata"]["labels"].items()
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert service["metadata"]["ownerReferences"][0]["uid"] == "u"
    # Another lease of the same attempt shares no name with this one.
    other = pod_names.service_name(ROOT, given.key.fencing_token + 1)
    assert other != service["metadata"]["name"]
    assert not {"hostname", "subdomain"} & pod()["spec"].keys()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"image": ""}, "image: a pod needs an image"),
        ({"image": "", "pod_spec": {"containers": []}}, "image: a pod needs an image"),
        ({"mounts": [{"path": "/a", "empty_dir": {}}, {"path": "b"}]}, "mounts.1: must have"),
        ({"pod_spec": {"containers": ["x"]}}, "pod_spec.containers: must be a list of objects"),
        ({"pod_spec": {"spec": {"hostPID": True}}}, "pod_spec.spec.hostPID: is refused here"),
    ],
)
def test_impossible_pods_say_why(spec: Any, message: str) -> None:
    given = order(**spec)
    with pytest.raises(ManifestError) as caught:
        pods(given)
    assert str(caught.value).startswith(message)
    assert problem_of(given.spec) == str(caught.value)
    assert problem_of(order().spec) is None


def test_operators_choose_the_refused_fields() -> None:
    given = order(pod_spec={"hostPID": True, "runtimeClassName": "gvisor"})
    assert pods(given, refused=[path for path in REFUSED if path != "hostPID"])
    with pytest.raises(ManifestError, match="runtimeClassName"):
        pods(given, refused=["runtimeClassName"])


class TestNamespaces:
    TEMPLATE = pod_names.NAMESPACE_TEMPLATE

    def test_usual_names_are_readable(self) -> None:
        assert pod_names.namespace(self.TEMPLATE, "default/default") == "reprise-default--default"
        assert pod_names.namespace("{project}-jobs", "a/b") == "a--b-jobs"

    def test_names_that_could_be_confused_are_not(self) -> None:
        projects = ["a--b/c", "a/b--c", "a-b/c", "a/b-c", "a---b/c", "a/b---c", "a-/b"]
        projects += [f"{'x' * 63}/{'y' * n}" for n in (61, 62, 63)]
        names = {pod_names.namespace(self.TEMPLATE, each) for each in projects}
        assert len(names) == len(projects)
        assert all(LABEL.fullmatch(name) for name in names)

    @given(
        st.lists(
            st.from_regex(r"[ab]([-ab]{0,61}[ab])?/[ab]([-ab]{0,61}[ab])?", fullmatch=True),
            unique=True,
            max_size=8,
        ),
        st.sampled_from([TEMPLATE, "{project}", f"{'p' * 15}-{{project}}-{'s' * 13}"]),
    )
    def test_no_two_projects_share_one(self, projects: list[str], template: str) -> None:
        pod_names.check_template(template)
        names = [pod_names.namespace(template, each) for each in projects]
        assert len(set(names)) == len(projects)
        assert all(LABEL.fullmatch(name) for name in names)

    @pytest.mark.parametrize(
        "template",
        ["", "reprise", "{project}{project}", "R-{project}", "a--{project}", "-{project}",
         "{project}.x", "{domain}-{project}", "p" * 31 + "{project}"],
    )  # fmt: skip
    def test_other_templates_are_refused(self, template: str) -> None:
        with pytest.raises(ValueError, match="must"):
            pod_names.check_template(template)


class TestLabels:
    @given(st.text(max_size=80))
    def test_any_text_becomes_a_value(self, text: str) -> None:
        value = pod_names.label_value(text)
        assert re.fullmatch(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?", value)
        assert len(value) <= 63
        assert (value == text) is (pod_names.label_value(value) == text)

    def test_different_texts_have_different_values(self) -> None:
        texts = ["a b", "a/b", "a-b", "-a-b", "é", "ü", "x" * 63, "x" * 64, "x" * 65]
        assert len({pod_names.label_value(each) for each in texts}) == len(texts)
        assert pod_names.project_label("a/b-c") != pod_names.project_label("a-b/c")

    @pytest.mark.parametrize(
        ("key", "value", "stays"),
        [
            ("team", "x", True),
            ("example.com/team", "", True),
            ("reprise.dev/rank", "1", False),
            ("a b", "x", False),
            ("Example.com/x", "x", False),
            ("/x", "x", False),
            ("example.com/", "x", False),
            ("a" * 64, "x", False),
            ("team", "a b", False),
            ("team", "x" * 64, False),
            ("team", "é", False),
        ],
    )
    def test_labels_of_users(self, key: str, value: str, stays: bool) -> None:
        assert (pod_names.users_labels({key: value}) == {key: value}) is stays
        metadata = pod(labels={key: value})["metadata"]
        assert (metadata["labels"].get(key) == value) is stays
        assert json.loads(metadata["annotations"]["reprise.dev/labels"]) == {key: value}


def test_secrets_are_named_and_never_told() -> None:
    given = replace(
        order(environ={"PLAIN": "p"}, cluster_size=2),
        secrets={"TOKEN": "s3cret$(HOME)", "odd name": "", "REPRISE_QUEUE": "mine"},
    )
    first, second = pods(given)
    body = secret(given, executor="east 1", namespace="ns", owner=OWNER)
    assert body["stringData"] == {
        "variable-0": "s3cret$(HOME)",
        "variable-1": "",
        "variable-2": "mine",
    }
    assert body["immutable"] is True
    assert body["metadata"]["namespace"] == "ns"
    assert body["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Pod", "name": "first", "uid": "u-1"}
    ]
    assert "s3cret" not in json.dumps([first, second])
    for made in (first, second):
        environ = variables(made["spec"]["containers"][0])
        source = {"name": body["metadata"]["name"], "key": "variable-0"}
        assert environ["TOKEN"] == {"secretKeyRef": source}
        assert environ["odd name"]["secretKeyRef"]["key"] == "variable-1"
        assert environ["PLAIN"] == "p"
        # Nothing that a user says overrides these.
        assert environ["REPRISE_QUEUE"] == "fast"
    # Of the first it is to be known that its Secret is still to come.
    assert [pod_names.awaits_secret(made) for made in (first, second, pod())] == [
        True,
        False,
        False,
    ]


def test_the_defaults_of_a_project_are_between_the_session_and_the_executor() -> None:
    projects = {"metadata": {"labels": {"a": "project", "b": "project"}},
                "spec": {"nodeSelector": {"x": "project", "y": "project"}}}  # fmt: skip
    executors = {"metadata": {"labels": {"b": "executor", "c": "executor"}},
                 "spec": {"nodeSelector": {"y": "executor", "z": "executor"}}}  # fmt: skip
    asked = replace(order(pod_spec={"nodeSelector": {"x": "own"}}), pod_defaults=projects)
    (made,) = pods(asked, defaults=executors)
    assert made["spec"]["nodeSelector"] == {"x": "own", "y": "project", "z": "executor"}
    labels = made["metadata"]["labels"]
    assert [labels[name] for name in "abc"] == ["project", "project", "executor"]


def test_defaults_of_a_project_that_the_executor_refuses_end_its_sessions() -> None:
    asked = replace(order(), pod_defaults={"runtimeClassName": "gvisor"})
    with pytest.raises(ManifestError) as refused:
        pods(asked, refused=[*REFUSED, "runtimeClassName"])
    told = "pod_defaults of its project: runtimeClassName: is refused here"
    assert str(refused.value) == told
    # Its own may have what it refuses to others.
    (made,) = pods(order(), refused=["runtimeClassName"], defaults={"runtimeClassName": "gvisor"})
    assert made["spec"]["runtimeClassName"] == "gvisor"
