"""The examples of docs/graphql.md work as they stand, and its figures are the real ones."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from interfaces.graphql import limits
from interfaces.http.paging import MAX_PAGE
from sessions_app.models import Project
from tests import factories
from tests.graphs import Graph

TEXT = (Path(settings.BASE_DIR) / "docs" / "graphql.md").read_text()


def calls() -> list[str]:
    """Return the calls of the examples: in a here-document, or behind `-d`."""
    found = []
    for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL):
        command, _, document = block.partition("<<'END'\n")
        words = shlex.split(command.replace("\\\n", " "))
        sent = words[words.index("-d") + 1]
        found.append(document.partition("\nEND")[0] if sent == "@-" else sent)
    return found


@pytest.mark.parametrize("body", calls())
def test_an_example_works(body: str, at: Project) -> None:
    session = factories.submit(at, name="train")
    factories.settle(factories.start(session))
    graph = Graph(factories.token(factories.user(project=at)))
    call: dict[str, Any] = json.loads(body)
    data = graph.ask(call["query"], **call.get("variables", {}))
    assert data
    if "sessions" in data:
        (edge,) = data["sessions"]["edges"]
        assert edge["node"]["name"] == "train"


def test_the_limits_are_those_that_are_told() -> None:
    table = TEXT.partition("## Limits")[2].partition("The cost is")[0]
    documented = {int(figure.replace(",", "")) for figure in re.findall(r"\| ([\d,]+) \|", table)}
    assert documented >= {
        limits.MAX_TOKENS,
        limits.MAX_COMMENTS,
        limits.MAX_FIELDS,
        limits.MAX_REPEATED,
        limits.MAX_DIGITS,
        limits.MAX_ALIASES,
        limits.MAX_ROOT_FIELDS,
        limits.MAX_DEPTH,
        limits.MAX_COST,
        MAX_PAGE,
    }
