"""The field of a project's pod defaults, as YAML."""

from typing import Any

from django.core.exceptions import ValidationError

from interfaces.forms.yaml_text import MappingField
from interfaces.requests.pod_defaults import pod_defaults

PODS = "pod_defaults"
HELP = (
    "As in a pod_spec, but only tolerations, nodeSelector, affinity, securityContext,"
    " runtimeClassName, imagePullSecrets, volumes, and labels and annotations of the metadata."
    " What a session says itself wins. Empty: nothing."
)


class PodDefaultsField(MappingField):
    """Pod defaults; None without any text."""

    def __init__(self, *, rows: int = 6, **options: Any):
        super().__init__(rows=rows, required=False, help_text=HELP, **options)

    def clean(self, value: Any) -> Any:
        """Return the pod defaults. Raises `ValidationError` that names the wrong field."""
        if not (value or "").strip():
            return None
        found = super().clean(value)
        try:
            return pod_defaults(found)
        except ValueError as error:
            raise ValidationError(str(error)) from None
