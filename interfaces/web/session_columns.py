"""The columns of the list of sessions that people choose from."""

from typing import Literal, get_args

from interfaces.web.parts import Choice, Column

Name = Literal["cause", "next", "executor", "job_set", "priority", "started", "progress"]
NAMES: tuple[Name, ...] = get_args(Name)
USUAL: tuple[Name, ...] = ("cause", "next")
_LABELS: dict[Name, str] = {
    "cause": "Cause",
    "next": "What comes next",
    "executor": "Executor / node",
    "job_set": "Job set",
    "priority": "Priority",
    "started": "Started",
    "progress": "Progress",
}
CHOICES = [Choice(name, _LABELS[name]) for name in NAMES]


def columns_of(value: object) -> object:
    """Return names with commas between them as a tuple, in the order of the list."""
    if not isinstance(value, str):
        return value
    sent = value.split(",")
    known = [name for name in NAMES if name in sent]
    return (*known, *(name for name in sent if name not in NAMES))


def columns(chosen: tuple[Name, ...]) -> list[Column]:
    """Return the chosen columns."""
    return [Column(_LABELS[name], "number" if name == "priority" else "") for name in chosen]
