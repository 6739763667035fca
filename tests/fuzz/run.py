"""One run of schemathesis over the REST API, in this process and with every check on."""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import patch

import schemathesis
import yaml
from schemathesis.config import SchemathesisConfig
from schemathesis.config._checks import (
    NEGATIVE_DATA_REJECTION_EXPECTED_STATUSES,
    POSITIVE_DATA_ACCEPTANCE_EXPECTED_STATUSES,
)
from schemathesis.engine import events, from_schema
from schemathesis.transport.wsgi import WSGITransport

from reprise.wsgi import application
from tests.fuzz.expected import EXPECTED
from tests.fuzz.records import World

DOCUMENT = Path(__file__).parents[2] / "docs" / "openapi.yaml"


@dataclass(frozen=True)
class Effort:
    """The effort of a run: so many random cases of each operation, or whatever fits into these
    seconds; of the cases at and past each bound one of `share`, chosen by the seed."""

    seed: int = 1
    examples: int = 1
    seconds: int | None = None
    share: int = 10
    only: str = ""


@dataclass
class Findings:
    """The findings of schemathesis, by operation and check, without those that were expected."""

    failures: dict[str, str] = field(default_factory=dict)
    expected: Counter[str] = field(default_factory=Counter)
    answers: Counter[int] = field(default_factory=Counter)
    succeeded: set[str] = field(default_factory=set)


def run(world: World, token: str, effort: Effort) -> Findings:
    """Every operation of the document, called with this token."""
    document = yaml.load(DOCUMENT.read_text(), Loader=yaml.CSafeLoader)  # a safe one
    _name_what_is_there(document, world)
    config = SchemathesisConfig.from_dict(_options(world, token, effort))
    schema: Any = schemathesis.openapi.from_dict(document, config=config)
    schema.app = _whole
    if effort.only:
        schema = schema.include(path_regex=effort.only)
    some = _share(schema.iter_coverage_cases, effort)
    found = Findings()
    with _without_sockets(), patch.object(schema, "iter_coverage_cases", some):
        for event in from_schema(schema).execute():
            _collect(event, found)
    return found


def _whole(environ: Any, start_response: Any) -> list[bytes]:
    """The application as a server calls it: an answer is closed, and with it the connection."""
    answer = application(environ, start_response)
    try:
        return list(answer)
    finally:
        answer.close()


def _share(cases: Callable[..., Iterator[Any]], effort: Effort) -> Callable[..., Iterator[Any]]:
    def some(*arguments: Any, **options: Any) -> Iterator[Any]:
        return islice(cases(*arguments, **options), effort.seed % effort.share, None, effort.share)

    return some


def _name_what_is_there(document: dict[str, Any], world: World) -> None:
    """Let the parameters of addresses be names of records, so that most calls find one."""
    for path, operations in document["paths"].items():
        for operation in operations.values():
            for parameter in operation.get("parameters", ()):
                if parameter["in"] != "path":
                    continue
                if names := world.names_in(path, parameter["name"]):
                    parameter["schema"] = {"type": parameter["schema"]["type"], "enum": names}


def _options(world: World, token: str, effort: Effort) -> dict[str, Any]:
    words = {name.replace(".", "_"): {"values": values} for name, values in world.words.items()}
    return {
        "seed": effort.seed,
        **({"max-time": effort.seconds} if effort.seconds else {}),
        "continue-on-failure": True,
        "headers": {"Authorization": f"Bearer {token}"},
        "generation": {"max-examples": effort.examples, "no-shrink": True, "database": "none"},
        "dictionaries": words,
        "parameters": {
            name: {"dictionary": name.replace(".", "_"), "probability": 0.7} for name in world.words
        },
        "checks": {
            # A made-up ETag is none of ours; a generated body can be over a limit.
            name: {"expected-statuses": [*statuses, "411", "412", "413"]}
            for name, statuses in (
                ("negative_data_rejection", NEGATIVE_DATA_REJECTION_EXPECTED_STATUSES),
                ("positive_data_acceptance", POSITIVE_DATA_ACCEPTANCE_EXPECTED_STATUSES),
            )
        },
        "output": {"sanitization": {"enabled": False}},
        "phases": {
            # What a refusal names would be taken for a constraint, and sent as `If-Match: 0`.
            "fuzzing": {"error-feedback": {"enabled": False}},
            "stateful": {"enabled": bool(effort.seconds)},
        },
    }


@contextmanager
def _without_sockets() -> Iterator[None]:
    """schemathesis 4.32 sends what it asks without a token with options that only sockets know."""
    plain = WSGITransport.send

    def send(self: WSGITransport, case: Any, **options: Any) -> Any:
        for name in ("max_redirects", "verify", "cert", "proxies"):
            options.pop(name, None)
        return plain(self, case, **options)

    with patch.object(WSGITransport, "send", send):
        yield


def _collect(event: Any, found: Findings) -> None:
    if isinstance(event, events.FatalError):
        raise event.exception
    if isinstance(event, events.NonFatalError):
        found.failures[f"{event.label}: {event.info.title}"] = repr(event.value)
    if not isinstance(event, events.ScenarioFinished):
        return
    for interaction in event.recorder.interactions.values():
        if interaction.response is not None:
            found.answers[interaction.response.status_code] += 1
            if interaction.response.status_code < 300:
                found.succeeded.add(str(event.label))
    for case, checks in event.recorder.checks.items():
        for check in checks:
            if check.failure_info is not None:
                _judge(event, case, check, found)


def _judge(event: events.ScenarioFinished, case: str, check: Any, found: Findings) -> None:
    interaction = event.recorder.interactions.get(case)
    answer = interaction.response if interaction else None
    text = answer.content.decode(errors="replace") if answer else ""
    failure = f"{event.label} {check.failure_info.failure.message} {text}"
    for name, form, _reason in EXPECTED:
        if name == check.name and re.search(form, failure):
            found.expected[form] += 1
            return
    found.failures.setdefault(
        f"{event.label}: {check.name}",
        f"{check.failure_info.failure.message}\n{check.failure_info.code_sample}\n{text[:1000]}",
    )


def asked() -> Effort:
    """A bounded part, or as much as the environment asks for: `FUZZ_SECONDS` and `FUZZ_SEED`, and
    `FUZZ_ONLY` with a pattern of the paths."""
    seed = int(os.environ.get("FUZZ_SEED") or 1)
    only = os.environ.get("FUZZ_ONLY", "")
    if seconds := int(os.environ.get("FUZZ_SECONDS") or 0):
        return Effort(seed, 50, seconds, 1, only)
    return Effort(seed, only=only)
