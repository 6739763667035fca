"""Labels as Kubernetes has them, by name. Pure."""

import re

MAX_LABELS = 64
MAX_LABEL_NAME = 317
LABEL_VALUE = r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$"
LABEL_NAME = (
    r"^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
)
_NAME, _VALUE = re.compile(LABEL_NAME[1:-1]), re.compile(LABEL_VALUE[1:-1])


def read_labels(value: object) -> dict[str, str]:
    """Return labels, at most `MAX_LABELS`. Raises `ValueError`."""
    if not isinstance(value, dict) or len(value) > MAX_LABELS:
        raise ValueError(f"must be an object of at most {MAX_LABELS} labels")
    for name, text in value.items():
        if not isinstance(name, str) or len(name) > MAX_LABEL_NAME or not _NAME.fullmatch(name):
            raise ValueError(f"{name!r:.80} is not the name of a Kubernetes label")
        if not isinstance(text, str) or not _VALUE.fullmatch(text):
            raise ValueError(f"{name}: must be the value of a Kubernetes label, as text")
    return value
