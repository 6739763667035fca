"""The file of node templates that an agent reads at its start."""

import json
from pathlib import Path
from typing import Any

import pytest

from base.podspec.node_templates import NodeTemplate
from executor.config import TOKEN_VARIABLE, parse
from tests.executor_fake import FakeServer
from tests.unit.executor.conftest import AgentProcess

GPU = {"name": "gpu", "resources": {"cpu": "8"}, "labels": {"pool": "gpu"}, "max": 2}


def read(path: Path) -> list[NodeTemplate]:
    options = ("--name", "one", "--url", "http://127.0.0.1:1", "--state-dir", "state")
    given = (*options, "--node-templates", str(path))
    return parse(given, {TOKEN_VARIABLE: "secret"}).node_templates


def test_the_file_is_a_list_of_templates(tmp_path: Path) -> None:
    file = tmp_path / "templates.json"
    file.write_text(json.dumps([GPU]))
    assert read(file) == [{**GPU, "taints": []}]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "No such file or directory"),
        ("[", "Expecting value"),
        (json.dumps(GPU), "must be a list of at most 50 node templates"),
        (json.dumps([{**GPU, "max": 0}]), "0.max: must be a whole number from 1 to 1000"),
        (json.dumps([GPU, {**GPU, "name": "b", "lables": {}}]), "1.lables: no field of a template"),
    ],
)
def test_an_agent_with_a_bad_file_does_not_start(
    tmp_path: Path, capsys: Any, text: str | None, why: str
) -> None:
    file = tmp_path / "templates.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(SystemExit) as ended:
        read(file)
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert "argument --node-templates: " in told
    assert why in told
    assert str(file) in told


def test_an_agent_tells_its_templates_with_its_nodes(
    server: FakeServer, idle_agent: AgentProcess, tmp_path: Path
) -> None:
    file = tmp_path / "templates.json"
    file.write_text(json.dumps([GPU]))
    idle_agent.start("--driver", "simulated", "--speed", "10", "--node-templates", str(file))
    session = server.submit("true", node_labels={"pool": "gpu"})
    server.wait_settled(session)
    assert session.final["node"] == "gpu-0"
    first = next(body for verb, body in server.calls if verb == "lease")
    assert first["node_templates"] == [{**GPU, "taints": []}]
