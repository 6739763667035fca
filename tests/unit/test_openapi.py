"""The OpenAPI document is one that generators make a good client of."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from retry.engine.reasons import REASONS
from retry.evidence.causes import RetryCause
from sessions_app.core.states import RetryState, Status
from sessions_app.models.retries import DECISION_STATES

METHODS = {"get", "put", "post", "patch", "delete"}


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    path = Path(__file__).parents[2] / "docs" / "openapi.yaml"
    loaded: dict[str, Any] = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)
    return loaded


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method in METHODS & methods.keys():
            yield f"{method.upper()} {path}", methods[method]


def test_each_operation_has_a_name_a_tag_and_a_description(document: dict[str, Any]) -> None:
    found = dict(operations(document))
    assert found
    for where, operation in found.items():
        assert re.fullmatch(r"[a-z][a-z0-9_]*", operation["operationId"]), where
        assert len(operation["tags"]) == 1, where
        assert operation.get("description"), where
        assert any(status.startswith("2") for status in operation["responses"]), where
    names = Counter(operation["operationId"] for operation in found.values())
    assert not [name for name, count in names.items() if count > 1]


def test_bodies_are_of_types_that_generators_send(document: dict[str, Any]) -> None:
    """One that openapi-python-client does not know makes it leave out the operation's body."""
    bodies = {
        where: set(operation["requestBody"]["content"])
        for where, operation in operations(document)
        if "requestBody" in operation
    }
    assert bodies
    assert not {where: types for where, types in bodies.items() if types != {"application/json"}}
    yaml_too = "may also be YAML"
    found = [where for where, each in operations(document) if yaml_too in each["description"]]
    assert "PUT /api/v2/retry-policies/{name}/" in found


def test_answers_with_a_body_are_no_204(document: dict[str, Any]) -> None:
    for where, operation in operations(document):
        assert not operation["responses"].get("204", {}).get("content"), where


def test_bodies_and_answers_are_named_components(document: dict[str, Any]) -> None:
    components = document["components"]["schemas"]
    assert all(re.fullmatch(r"[A-Z][A-Za-z0-9]*", name) for name in components)
    for where, operation in operations(document):
        bodies = [operation.get("requestBody", {}), *operation["responses"].values()]
        for schema in (
            media["schema"] for each in bodies for media in each.get("content", {}).values()
        ):
            inline = schema.get("type") == "object" and schema.get("properties")
            assert not inline, where


def test_nothing_makes_a_generator_leave_it_out(document: dict[str, Any]) -> None:
    for name, schema in document["components"]["schemas"].items():
        assert "title" not in schema, name
        for field, described in schema.get("properties", {}).items():
            assert not isinstance(described.get("default"), dict), f"{name}.{field}"


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    components = document["components"]["schemas"]
    found = set(re.findall(r"#/components/schemas/([A-Za-z0-9]+)", yaml.dump(document)))
    assert found <= components.keys()
    assert not components.keys() - found, "nothing refers to these"


WORDS = {
    "Session.status": Status,
    "Session.retry_cause": RetryCause,
    "ListedSession.status": Status,
    "SessionRetryState.state": RetryState,
    "SessionRetryState.reason": REASONS,
    "Attempt.status": Status,
    "Attempt.cause": RetryCause,
    "Attempt.retry_state": RetryState,
    "Decision.cause": RetryCause,
    "Decision.reason": REASONS,
    "Decision.state": DECISION_STATES,
    "SimulatedAttempt.cause": RetryCause,
    "SimulatedAttempt.reason": REASONS,
    "ExecutorLease.status": Status,
}


def test_answers_say_which_statuses_causes_reasons_and_states_there_are(
    document: dict[str, Any],
) -> None:
    schemas = document["components"]["schemas"]
    for place, words in WORDS.items():
        answer, _, field = place.partition(".")
        schema = schemas[answer]["properties"][field]
        name = schema.get("anyOf", [schema])[0]["$ref"].rpartition("/")[2]
        assert schemas[name]["enum"] == [*words], place
