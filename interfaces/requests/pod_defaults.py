"""The pod defaults of a project, as somebody gives them."""

from typing import Any

from django.conf import settings

from base.podspec.pod_defaults import default_problem


def pod_defaults(value: dict[str, Any]) -> dict[str, Any] | None:
    """Return the pod defaults; None if they are empty. Raises `ValueError`, which names the field.

    Fields that sessions may not use are refused here, too.
    """
    if wrong := default_problem(value, settings.POD_FIELDS_REFUSED):
        raise ValueError(wrong)
    return value or None
