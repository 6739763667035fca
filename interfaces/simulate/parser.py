"""Reads the body of a simulation strictly and without holding all of it.

Each termination is checked as it arrives. Only what the engine reads is kept.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import IO, Any, TypeVar

from pydantic import BaseModel, ValidationError
from rest_framework.parsers import BaseParser

from interfaces.http.json_reader import InvalidJSONError, JSONReader, TooDeepError
from interfaces.http.parsing import BODY, BodyTooLarge, checked, parse_facts
from interfaces.http.problems import field_errors
from interfaces.simulate.body import (
    MAX_CATEGORIES,
    ChainHead,
    DraftSettings,
    GivenTermination,
    HistoryWindow,
    SimulateBody,
)
from retry.engine.decision import SpentBudget
from retry.evidence.ended import Ended
from retry.evidence.termination import Termination
from retry.policies.categories import FailureCategory
from retry.policies.documents import MAX_POLICIES, PolicyDocument
from retry.policies.inline import InlinePolicy
from retry.policies.limits import limit_of
from retry.policies.matching import CompiledCategory, NamedPolicy, compile_category, compile_policy
from retry.policies.shared_budget import WhenOver
from retry.signatures.signature import signature
from retry.simulate import Draft, Ending, Past, Verdict, made_up_id
from sessions_app.core.errors import DomainError, InvalidInput, TooLarge
from sessions_app.services.chains.simulate import MAX_TERMINATIONS

BODY_LIMIT_BYTES = 64 * 1024 * 1024
MAX_ERRORS = 100
"""Most wrong fields that an error names."""
_PARTS = "send them in parts and add up the answers"

_INSTEAD = {
    "breaker": "give breaker_open in a termination",
    "retry_budget": "give budget_spent in a termination",
}

Model = TypeVar("Model", bound=BaseModel)
Errors = dict[str, list[str]]


@dataclass(frozen=True, slots=True)
class SimulateCall:
    """The draft to try, and what to try it on: given chains or a project's history."""

    draft: Draft
    chains: list[Past] | None
    history: HistoryWindow | None


class SimulateParser(BaseParser):
    """Parses the JSON body as a `SimulateCall`, named `call`.

    Raises `InvalidInput`, `BodyTooLarge`, and `TooLarge` for more terminations than one call takes.
    """

    media_type = "application/json"

    def parse(
        self,
        stream: IO[bytes],
        media_type: str | None = None,
        parser_context: Any = None,
    ) -> dict[str, SimulateCall]:
        length = (parser_context or {})["request"].META.get("CONTENT_LENGTH")
        reader = JSONReader(stream, BODY_LIMIT_BYTES)
        try:
            if length and int(length) > BODY_LIMIT_BYTES:
                raise BodyTooLarge(f"the body is over the limit of {BODY_LIMIT_BYTES} bytes")
            return {"call": _Call(reader).read()}
        except (DomainError, BodyTooLarge):
            reader.drain()
            raise


def read_call(body: bytes) -> SimulateCall:
    """Return the call in a JSON body that is in memory already. Raises the parser's errors."""
    return _Call(JSONReader(BytesIO(body), BODY_LIMIT_BYTES)).read()


class _Call:
    """Walks through the body and collects the errors by field, so that all are reported at once."""

    def __init__(self, reader: JSONReader):
        self._reader = reader
        self._path = BODY
        self._errors: Errors = {}
        self._members: dict[str, Any] = {}
        self._chains: list[Past] | None = None
        self._terminations = 0

    def read(self) -> SimulateCall:
        with self._readable():
            self._walk()
        documents = _Documents(self._members, self._errors)
        documents.unknown()
        call = SimulateCall(documents.draft(), self._chains, documents.history())
        if self._chains is not None:
            documents.only_for_history(call.draft)
        if (self._chains is None) == (self._members.get("history") is None):
            field = "chains" if self._chains is None else "history"
            self._note({field: ["give exactly one of chains and history"]})
        if self._errors:
            raise InvalidInput(self._errors)
        return call

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except InvalidJSONError as error:
            raise InvalidInput({BODY: [str(error)]}) from None
        except TooDeepError:
            raise InvalidInput({self._path: ["is nested too deeply"]}) from None

    def _walk(self) -> None:
        if not self._reader.next_is("{"):
            raise InvalidInput({BODY: ["must be a JSON object"]})
        for name in self._reader.members():
            self._path = name
            if name in self._members:
                raise InvalidInput({name: ["is repeated"]})
            if name == "chains":
                self._members[name] = ...
                self._read_chains()
            else:
                self._members[name] = self._document(name)
        self._reader.end()

    def _document(self, name: str) -> Any:
        """Return a value without repeated keys; None if it holds what no field may."""
        value = self._reader.value(strict=True)
        return value if self._may_be_given(name, value) else None

    def _may_be_given(self, path: str, value: Any) -> bool:
        try:
            checked({path: value})
        except InvalidInput as error:
            self._note(error.errors)
            return False
        return True

    def _read_chains(self) -> None:
        if not self._reader.next_is("["):
            if self._reader.value() is not None:
                self._note({"chains": ["must be a list"]})
            return
        self._chains = []
        for position in self._reader.items():
            if position >= MAX_TERMINATIONS:
                raise TooLarge(f"more than {MAX_TERMINATIONS:,} chains in one call; {_PARTS}")
            self._chains.append(self._chain(position))

    def _chain(self, position: int) -> Past:
        path = f"chains[{position}]"
        if not self._reader.next_is("{"):
            self._reader.value()
            self._note({path: ["must be an object"]})
            return _NO_CHAIN
        head: dict[str, Any] = {}
        endings: list[Ending] = []
        for name in self._reader.members():
            self._path = f"{path}.{name}"
            if name == "terminations":
                endings = self._endings(position)
            else:
                head[name] = self._reader.value()
        try:
            chain = ChainHead.model_validate(head if self._may_be_given(path, head) else {})
        except ValidationError as error:
            self._note(field_errors(error, path))
            return _NO_CHAIN
        return Past(chain.session_type, chain.resources, endings)

    def _endings(self, chain: int) -> list[Ending]:
        path = f"chains[{chain}].terminations"
        if not self._reader.next_is("["):
            self._reader.value()
            self._note({path: ["must be a list"]})
            return []
        endings = []
        for position in self._reader.items():
            self._terminations += 1
            if self._terminations > MAX_TERMINATIONS:
                raise TooLarge(f"more than {MAX_TERMINATIONS:,} terminations in one call; {_PARTS}")
            self._path = f"{path}[{position}]"
            ending = self._ending(self._reader.value(), chain, position)
            if ending is not None:
                endings.append(ending)
        return endings

    def _ending(self, value: Any, chain: int, position: int) -> Ending | None:
        try:
            given = GivenTermination.model_validate(value)
        except ValidationError as error:
            if _NOT_TEXT in {item["type"] for item in error.errors(include_input=False)}:
                return self._ending(_storable(value), chain, position)
            self._note(field_errors(error, self._path))
            return None
        known = given.session_id
        termination = Termination.from_json(value)
        failed = termination.status == "error"
        failure = signature(Ended(termination), given.log_tail or "") if failed else None
        return Ending(
            termination,
            made_up_id(chain, position) if known is None else str(known),
            given.at,
            signature=failure.key if failure else "",
            title=failure.title if failure else "",
            advanced=bool(given.made_progress),
            verdict=_verdict(given),
        )

    def _note(self, errors: Errors) -> None:
        self._errors |= errors
        if len(self._errors) >= MAX_ERRORS:
            raise InvalidInput(dict(list(self._errors.items())[:MAX_ERRORS]))


def _verdict(given: GivenTermination) -> Verdict:
    """Return what other chains have brought about, as it was given: in the project of the chain."""
    return Verdict(
        breaker=_SPENT.level if given.breaker_open else "",
        spent=(_SPENT,) if given.budget_spent is WhenOver.FAIL else (),
        postponing=_SPENT if given.budget_spent is WhenOver.POSTPONE else None,
    )


_SPENT = SpentBudget("project", platform=False)
_NO_CHAIN = Past("batch", {}, ())
_NOT_TEXT = "string_unicode"


def _storable(value: Any) -> Any:
    """Return facts with unstorable text replaced: they are free text, so they are not refused."""
    try:
        return parse_facts(json.dumps({"it": value}).encode())["it"]
    except RecursionError:
        raise TooDeepError from None


class _Documents:
    """The document parts of the body, each checked with its path. Absent parts are None."""

    def __init__(self, members: Mapping[str, Any], errors: Errors):
        self._members = members
        self._errors = errors

    def draft(self) -> Draft:
        settings = self._one("settings", DraftSettings) or DraftSettings()
        limited = "global_max_retries" in settings.model_fields_set
        return Draft(
            named=self._policies(),
            policy=self._one("retry_policy", InlinePolicy),
            categories=self._categories(),
            enabled=settings.enabled,
            global_max_retries=limit_of(settings.global_max_retries) if limited else None,
            shared=settings.shared,
        )

    def _policies(self) -> tuple[NamedPolicy, ...] | None:
        found = self._list("policies", PolicyDocument, MAX_POLICIES)
        if found is None:
            return None
        self._unique("policies", "metadata.name", [each.metadata.name for each in found])
        return tuple(compile_policy(each, revision=None) for each in found)

    def _categories(self) -> tuple[CompiledCategory, ...] | None:
        found = self._list("failure_categories", FailureCategory, MAX_CATEGORIES)
        if found is None:
            return None
        self._unique("failure_categories", "name", [each.name for each in found])
        return tuple(compile_category(each) for each in found)

    def only_for_history(self, draft: Draft) -> None:
        """Refuse what needs other chains: given chains have their own verdicts."""
        for name in draft.shared:
            self._errors[f"settings.{name}"] = [f"is for history; {_INSTEAD[name]}"]

    def history(self) -> HistoryWindow | None:
        window = self._one("history", HistoryWindow)
        if window is not None and window.until is not None and window.until <= window.since:
            self._errors["history.until"] = ["must be after since"]
        return window

    def unknown(self) -> None:
        for name in self._members.keys() - SimulateBody.model_fields.keys():
            self._errors[name] = ["is not a known field"]

    def _list(self, name: str, kind: type[Model], most: int) -> list[Model] | None:
        """Return the items; None if there is no list or an item is invalid."""
        values = self._members.get(name)
        if values is None:
            return None
        if not isinstance(values, list) or len(values) > most:
            self._errors[name] = [f"must be a list of at most {most} items"]
            return None
        read = [self._read(kind, each, f"{name}[{at}]") for at, each in enumerate(values)]
        found = [each for each in read if each is not None]
        return found if len(found) == len(read) else None

    def _one(self, name: str, kind: type[Model]) -> Model | None:
        value = self._members.get(name)
        return None if value is None else self._read(kind, value, name)

    def _read(self, kind: type[Model], value: Any, path: str) -> Model | None:
        if kind is PolicyDocument and isinstance(value, dict):
            # A policy may be sent back as the server shows it.
            value = {key: item for key, item in value.items() if key != "status"}
        try:
            return kind.model_validate(value)
        except ValidationError as error:
            self._errors |= field_errors(error, path)
            return None

    def _unique(self, name: str, key: str, names: Sequence[str]) -> None:
        for at, each in enumerate(names):
            if each in names[:at]:
                self._errors[f"{name}[{at}].{key}"] = ["is the name of an earlier one, too"]
