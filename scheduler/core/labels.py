"""The labels of an executor as a line of text. Pure."""

from collections.abc import Mapping

from pydantic import TypeAdapter, ValidationError

from retry.policies.fields import Labels

_LABELS: TypeAdapter[dict[str, str]] = TypeAdapter(Labels)


def labels_text(labels: Mapping[str, str]) -> str:
    """Return `name=value, name=value`."""
    return ", ".join(f"{name}={value}" for name, value in labels.items())


def labels_read(text: str) -> dict[str, str]:
    """Return the labels in such a text. Raises `ValueError` with what is wrong."""
    found = {}
    for pair in filter(None, map(str.strip, text.split(","))):
        name, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"{pair}: write it as name=value")
        found[name.strip()] = value.strip()
    try:
        return _LABELS.validate_python(found)
    except ValidationError as error:
        raise ValueError("; ".join(str(each["msg"]) for each in error.errors())) from None
