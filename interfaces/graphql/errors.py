"""GraphQL errors: REST's problems in `extensions`, with a code for programs."""

import logging
import re
from collections.abc import Mapping
from typing import Any, TypeVar

from graphene.utils.str_converters import to_camel_case
from graphql import GraphQLError, GraphQLSyntaxError
from pydantic import BaseModel, ValidationError

from interfaces.http.problems import field_errors, problem_of
from sessions_app.core.errors import InvalidInput

Model = TypeVar("Model", bound=BaseModel)
logger = logging.getLogger(__name__)

_CODES = {
    400: "INVALID",
    401: "NOT_AUTHENTICATED",
    403: "NOT_PERMITTED",
    404: "NOT_FOUND",
    409: "CONFLICT",
    412: "OUTDATED",
    413: "TOO_LARGE",
    429: "THROTTLED",
    503: "UNAVAILABLE",
}
_USUAL = frozenset({"type", "title", "detail", "status", "errors", "code"})
_FIRST = re.compile(r"[^.\[]+")


class LimitExceeded(GraphQLError):
    """A document asks for more than one call may. It is refused before it runs."""

    def __init__(self, message: str):
        super().__init__(message, extensions=_extensions("TOO_COMPLEX", 400))


def error_json(error: GraphQLError | Exception) -> dict[str, Any]:
    """Return an error for an answer. An unexpected one is logged, and its text reveals nothing."""
    if not isinstance(error, GraphQLError):
        return _refusal(error)
    answer: dict[str, Any] = {"message": error.message}
    if error.locations:
        answer["locations"] = [place.formatted for place in error.locations]
    if error.path:
        answer["path"] = error.path
    original = error.original_error
    if original is None or isinstance(original, GraphQLError):  # a variable of the wrong type
        code = "SYNTAX" if isinstance(error, GraphQLSyntaxError) else "INVALID"
        return {**answer, "extensions": error.extensions or _extensions(code, 400)}
    return {**answer, **_refusal(original)}


def _refusal(error: Exception) -> dict[str, Any]:
    try:
        found = problem_of(error)
    except Exception:
        logger.exception("a resolver failed")
        text = "an error on our side; it was logged"
        return {"message": text, "extensions": _extensions("INTERNAL", 500)}
    status = found["status"]
    code = code_of(found)
    fields = {camel(name): texts for name, texts in found["errors"].items()}
    extra = {camel(name): value for name, value in extra_of(found).items()}
    return {
        "message": found["detail"],
        "extensions": {"code": code, "status": status, "errors": fields, **extra},
    }


def code_of(found: Mapping[str, Any]) -> str:
    """Return the code of a REST problem."""
    return str(found.get("code", "")).upper() or _CODES.get(found["status"], "INVALID")


def extra_of(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the extra members of a REST problem."""
    return {name: value for name, value in found.items() if name not in _USUAL}


def _extensions(code: str, status: int) -> dict[str, Any]:
    return {"code": code, "status": status, "errors": {}}


def camel(path: str) -> str:
    """Return a field's path with GraphQL's name. Names inside of JSON values stay REST's."""
    return _FIRST.sub(lambda name: str(to_camel_case(name[0])), path, count=1)


def read_input(model: type[Model], given: Mapping[str, Any], at: str = "") -> Model:
    """Return the input as a checked model; `at` is the argument that holds it.

    Raises `InvalidInput`, with the fields' GraphQL names.
    """
    try:
        return model.model_validate(dict(given))
    except ValidationError as error:
        found = {camel(name): texts for name, texts in field_errors(error).items()}
        prefix = f"{at}." if at else ""
        raise InvalidInput({f"{prefix}{name}": texts for name, texts in found.items()}) from None


def read_arguments(model: type[Model], asked: Mapping[str, Any]) -> Model:
    """Return the given arguments as a checked model; nulls count as absent."""
    return read_input(model, {name: each for name, each in asked.items() if each is not None})
