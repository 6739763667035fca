"""Tests of docs/graphql.md about mutations: its examples work, and its list is whole."""

import json
import re
from pathlib import Path
from typing import Any

from django.conf import settings

from reprise.graphql.schema import root_fields
from sessions_app.models import Project
from sessions_app.models.tenants import Role
from tests import factories
from tests.graphs import Graph

TEXT = (Path(settings.BASE_DIR) / "docs" / "graphql.md").read_text()
CHANGING = TEXT.partition("## Changing things")[2].partition("\n## ")[0]


def test_an_example_changes_what_it_says(at: Project) -> None:
    graph = Graph(factories.token(factories.user(project=at, role=Role.MAINTAINER)))
    session = factories.submit(at, job_set="night")
    factories.settle(factories.start(session))
    done: dict[str, Any] = {}
    for body in re.findall(r"<<'END'\n(.*?)\nEND", CHANGING, re.DOTALL):
        call = json.loads(body)
        data = graph.ask(call["query"], **call.get("variables", {}))
        assert all(payload["errors"] == [] for payload in data.values()), data
        done |= data
    assert done["createSession"]["session"]["status"] == "PENDING"
    assert done["applyRetryPolicy"]["retryPolicy"]["name"] == "memory"
    (outcome,) = done["retrySessions"]["results"]
    assert outcome["outcome"] == "retried"


def test_the_refusal_that_is_shown_is_the_real_one(at: Project) -> None:
    graph = Graph(factories.token(factories.user(project=at)))
    (shown,) = (json.loads(text) for text in re.findall(r"```json\n(.*?)```", CHANGING, re.DOTALL))
    query = """mutation($input: CreateSessionInput!) { createSession(input: $input) {
        created session { sessionId status } errors { field message code } } }"""
    given = {"project": "acme/work", "image": "x", "retryPolicy": {"maxRetries": -1}}
    assert graph.ask(query, input=given) == shown["data"]


def test_the_list_is_whole() -> None:
    listed = CHANGING.partition("| about | mutations |")[2].partition("\n\n")[0]
    assert sorted(re.findall(r"`(\w+)`", listed)) == root_fields()["Mutation"]
