"""Checks what holds of every answer of /graphql/, whatever was sent."""

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from django.db import connection
from graphql import (
    GraphQLSchema,
    OperationDefinitionNode,
    Visitor,
    build_schema,
    execute_sync,
    parse,
    validate,
    visit,
)

from tests.agent import Api
from tests.fuzz.graphql_cases import REFUSALS, Case, replaced
from tests.graphs import ADDRESS
from tests.people import database_digest

DOCS = Path(__file__).parents[2] / "docs"
CODES = {
    *re.findall(
        r"`([A-Z_]+)`",
        re.search(r"Codes: (.*?)\. A", (DOCS / "graphql.md").read_text(), re.DOTALL)[1],  # type: ignore[index]
    )
}
"""As docs/graphql.md tells them."""
MOST = {"statements": 200, "calls": 2_000_000}
"""What one call may cost at most: calls of functions are the same on any machine."""


def schema_of_docs() -> GraphQLSchema:
    """The schema that is committed."""
    return build_schema((DOCS / "schema.graphql").read_text())


def _of_answers() -> GraphQLSchema:
    """The same without arguments, whose scalars say whether a value of an answer is one."""
    schema = schema_of_docs()
    for kind in schema.type_map.values():
        for each in getattr(kind, "fields", {}).values():
            if hasattr(each, "args"):
                each.args = {}
    scalars: Any = schema.type_map
    scalars["DateTime"].serialize = lambda value: datetime.fromisoformat(value) and value
    scalars["UUID"].serialize = lambda value: str(UUID(value))
    scalars["BigInt"].serialize = lambda value: value if -(2**63) <= value < 2**63 else None
    return schema


@contextmanager
def _counted() -> Iterator[Counter[str]]:
    """Count the functions that are called within, and the statements that are sent."""
    found: Counter[str] = Counter()

    def count(_frame: Any, event: str, _argument: Any) -> None:
        if event == "call":
            found["calls"] += 1

    def send(execute: Any, *arguments: Any) -> Any:
        found["statements"] += 1
        return execute(*arguments)

    before = sys.getprofile()
    with connection.execute_wrapper(send):
        sys.setprofile(count)
        try:
            yield found
        finally:
            sys.setprofile(before)


@dataclass
class Judge:
    """Sends calls with one token and keeps what is wrong with their answers."""

    api: Api
    failures: dict[str, str] = field(default_factory=dict)
    codes: Counter[str] = field(default_factory=Counter)
    worked: set[str] = field(default_factory=set)
    _schema: GraphQLSchema = field(default_factory=schema_of_docs)
    _answers: GraphQLSchema = field(default_factory=_of_answers)

    def __post_init__(self) -> None:
        self.api.http.raise_request_exception = False
        self._before = database_digest()

    def call(self, case: Case) -> None:
        """One call, as it should be made."""
        body = json.dumps(
            {"query": case.query, "variables": case.variables, "operationName": case.operation}
        ).encode()
        answer = self.send(body, case)
        if answer is not None and answer.get("data") and "errors" not in answer:
            for name, payload in answer["data"].items():
                if not (isinstance(payload, dict) and payload.get(REFUSALS)):
                    self.worked.add(name)

    def send(self, body: bytes, case: Case | None = None, **options: Any) -> dict[str, Any] | None:
        """Any body at all; what comes back as JSON."""
        with _counted() as work:
            response = self.api.post(ADDRESS, body, **options)
        shown = f"{case or body[:2000]!r}\n{options or ''}{response.content[:2000]!r}"
        answer: Any = None
        try:
            answer = json.loads(response.content)
            found = list(self._wrong(response, answer, case))
            found += [f"more than {most:,} {of}" for of, most in MOST.items() if work[of] > most]
        except (ValueError, UnicodeDecodeError) as error:
            found = [f"is no JSON: {error}"]
        for each in found:
            self.failures.setdefault(each[:150], shown)
        return answer if isinstance(answer, dict) else None

    def _wrong(self, response: Any, answer: Any, case: Case | None) -> Iterator[str]:
        if response.status_code >= 500:
            yield f"status {response.status_code}"
        if response["Content-Type"] == "application/problem+json":
            if answer.get("status") != response.status_code or not answer.get("detail"):
                yield "is no problem"
            self.codes[f"problem {response.status_code}"] += 1
        elif response.status_code not in {200, 400} or not answer.keys() <= {"data", "errors"}:
            yield f"is no answer: {response.status_code} {sorted(answer)}"
        else:
            yield from self._errors(answer)
            if ("data" in answer) != (response.status_code == 200):
                yield "the status tells another story than the data"
        yield from self._changes(answer)
        if case is not None and "data" in answer:
            yield from self._against_schema(answer, case)

    def _errors(self, answer: dict[str, Any]) -> Iterator[str]:
        for error in answer.get("errors", ()):
            extensions = error.get("extensions", {})
            code = extensions.get("code")
            self.codes[str(code)] += 1
            if code not in CODES or code == "INTERNAL":
                yield f"code {code} at {error.get('path', error.get('message'))}"
            if not error.get("message") or not isinstance(extensions.get("status"), int):
                yield f"an error says too little: {error}"
            if not isinstance(extensions.get("errors"), dict):
                yield f"an error has no fields: {error}"
            if error.get("path") and not _is_null(answer.get("data"), error["path"]):
                yield f"what failed is not null: {error['path']}"
        if not answer.get("errors", True) or not (answer.get("data") or answer.get("errors")):
            yield "errors are empty, or missing"

    def _changes(self, answer: dict[str, Any]) -> Iterator[str]:
        """Only a mutation that has no errors changes anything."""
        after = database_digest()
        before, self._before = self._before, after
        payloads = (answer.get("data") or {}).values()
        if after == before or any(
            isinstance(each, dict) and each.get(REFUSALS) == [] for each in payloads
        ):
            return
        changed = sorted(table for table in after if after[table] != before[table])
        yield f"a refusal or a query changed {changed}"

    def _against_schema(self, answer: dict[str, Any], case: Case) -> Iterator[str]:
        """Check that the document and its answer fit the schema."""
        document = parse(case.query)
        for wrong in validate(self._schema, document):
            # Enumerations are read in any case, and as texts.
            if "enum" not in wrong.message:
                yield f"what does not fit the schema ran: {wrong.message}"
        # Introspection tells of the arguments, too, which are left out here.
        if answer["data"] and "__schema" not in case.query:
            result = execute_sync(
                self._answers,
                visit(document, _NoVariables()),
                answer["data"],
                operation_name=case.operation,
                field_resolver=lambda source, info: source[info.path.key],
                type_resolver=lambda source, *_: source["__typename"],
            )
            if result.errors:
                yield f"does not fit the schema: {result.errors[0].message}"
            elif result.data != answer["data"]:
                yield "has what was not asked for"


class _NoVariables(Visitor):
    """Validation without variables: an answer has the same form without them."""

    def enter_operation_definition(self, node: OperationDefinitionNode, *_: Any) -> Any:
        return replaced(node, variable_definitions=())


def _is_null(data: Any, path: list[Any]) -> bool:
    for step in path:
        if data is None:
            return True
        data = data[step]
    return data is None
