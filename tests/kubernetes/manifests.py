"""The files of deploy/kubernetes, and what kubectl makes of them."""

import json
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import unavailable
from tests.waiting import PATIENCE_SECONDS

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "deploy" / "kubernetes"
EXECUTOR_RBAC = "executor/rbac.yaml"
CREATE_NAMESPACES_RBAC = "components/create-namespaces/rbac.yaml"
OLD_BUT_ABLE = 21
"""Minor version of the first kubectl whose kustomize knows components, and directories as
resources. Debian 12's is older."""

Object = dict[str, Any]


def documents(path: str) -> list[Object]:
    """Those of one file, by its path below deploy/kubernetes."""
    return list(yaml.safe_load_all((MANIFESTS / path).read_text()))


def kustomizations() -> list[str]:
    found = MANIFESTS.rglob("kustomization.yaml")
    return sorted(str(path.parent.relative_to(MANIFESTS)) for path in found)


def kubectl(*words: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
    program = shutil.which("kubectl")
    if program is None:
        unavailable("no kubectl: apt-get install kubernetes-client")
    return subprocess.run(
        [str(program), *words],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )


@cache
def rendered(path: str) -> tuple[Object, ...]:
    """The objects of a kustomization, as `kubectl kustomize` makes them."""
    if _composes(path) and _minor() < OLD_BUT_ABLE:
        pytest.skip(f"kubectl 1.{OLD_BUT_ABLE} or newer is needed for {path}")
    done = kubectl("kustomize", str(MANIFESTS / path))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return tuple(yaml.safe_load_all(done.stdout))


def objects(path: str, kind: str) -> dict[str, Object]:
    """Those of one kind, by name."""
    return {each["metadata"]["name"]: each for each in rendered(path) if each["kind"] == kind}


def granted(path: str) -> set[tuple[str, str, str]]:
    """Return the rights in the roles of a file: role, resource and verb."""
    return {
        (each["metadata"]["name"], resource, verb)
        for each in documents(path)
        for rule in each.get("rules", ())
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def pods_of(objects: tuple[Object, ...]) -> list[Object]:
    """A pod for each template among them."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**each["metadata"], "labels": template["metadata"]["labels"]},
            "spec": template["spec"],
        }
        for each in objects
        if (template := (each.get("spec") or {}).get("template"))
    ]


def _composes(path: str) -> bool:
    (kustomization,) = documents(f"{path}/kustomization.yaml")
    others = any((MANIFESTS / path / each).is_dir() for each in kustomization["resources"])
    return kustomization["kind"] == "Component" or others


@cache
def _minor() -> int:
    parsed = json.loads(kubectl("version", "--client", "-o", "json").stdout)
    return int(parsed["clientVersion"]["minor"].rstrip("+"))
