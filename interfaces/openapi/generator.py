"""The OpenAPI document: pydantic models as schemas, and problem details for every operation."""

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter
from pydantic import BaseModel

PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "errors"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "errors": {
            "type": "object",
            "additionalProperties": {"type": "array", "items": {"type": "string"}},
        },
    },
}
_EVERYWHERE = {"400", "401", "403", "404", "406", "413", "415", "429", "503"}
_OF_WRITES = {"409"}
_METHODS = {"get", "put", "patch", "post", "delete"}


class RepriseSchema(AutoSchema):
    """Takes the tag of an operation from the first part of its path."""

    def get_summary(self) -> str:
        """Return the first sentence of the description, which lists of operations show."""
        sentence, _, _ = " ".join(self.get_description().split()).partition(". ")
        return sentence.rstrip(".")

    def get_tags(self) -> list[str]:
        parts = [part for part in self.path.split("/") if part and "{" not in part]
        return [parts[2] if len(parts) > 2 else "reprise"]


class BearerToken(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """Describes the only way to authenticate."""

    target_class = "interfaces.http.authentication.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer"}


def query_parameters(model: type[BaseModel]) -> list[OpenApiParameter]:
    """Return the fields of a pydantic model as query parameters."""
    document = model.model_json_schema()
    definitions = document.get("$defs", {})
    return [
        OpenApiParameter(name, _inlined(schema, definitions), OpenApiParameter.QUERY)
        for name, schema in document["properties"].items()
    ]


_KEPT = {
    *("type", "format", "enum", "pattern", "minLength", "maxLength"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
}


def _inlined(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    options = [option for option in schema.get("anyOf", [schema]) if option.get("type") != "null"]
    chosen = options[0]
    if "$ref" in chosen:
        chosen = definitions[chosen["$ref"].rsplit("/", 1)[1]]
    kept = {key: value for key, value in chosen.items() if key in _KEPT}
    return {**kept, "enum": [chosen["const"]]} if "const" in chosen else kept


def _for_generators(schema: Any) -> None:
    """Remove what client generators cannot handle, and what has no meaning.

    They name classes by titles, which pydantic makes of field names, and skip those whose name is
    taken. They also skip fields with an object as default.
    """
    if isinstance(schema, list):
        for part in schema:
            _for_generators(part)
    if not isinstance(schema, dict):
        return
    schema.pop("title", None)
    if isinstance(schema.get("default"), dict):
        del schema["default"]
    for key, part in schema.items():
        _for_generators(list(part.values()) if key == "properties" else part)


_YAML = "application/yaml"


def _leave_out_yaml(operation: dict[str, Any]) -> None:
    """Describe YAML bodies in words, because client generators skip operations that have them.

    The generated clients send JSON, which is the same document and valid YAML.
    """
    content = operation.get("requestBody", {}).get("content", {})
    if content.pop(_YAML, None) is not None:
        note = "The body may also be YAML, with the `Content-Type` `application/yaml`."
        operation["description"] = f"{operation.get('description', '')}\n\n{note}".strip()


def add_problem_responses(result: dict[str, Any], **_kwargs: Any) -> dict[str, Any]:
    """Add problem details as the error answers of every operation."""
    schemas = result["components"].setdefault("schemas", {})
    _for_generators(list(schemas.values()))
    schemas["Problem"] = PROBLEM
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for path in result["paths"].values():
        for method in _METHODS & path.keys():
            _leave_out_yaml(path[method])
            wanted = _EVERYWHERE | (_OF_WRITES if method != "get" else set())
            if any(each["name"] == "If-Match" for each in path[method].get("parameters", ())):
                wanted |= {"412"}
            for status in sorted(wanted - path[method]["responses"].keys()):
                path[method]["responses"][status] = {"description": "Problem", "content": content}
    return result
