"""Every table has an end: docs/operations.md names what bounds it, and the task that does it."""

import re
from collections import Counter
from pathlib import Path

from django.apps import apps

from reprise.beat.periodic import SWEEPS
from reprise.environment import Environment

DOCS = Path(__file__).parents[2] / "docs" / "operations.md"
ROW = re.compile(r"\| (`.*?) \| (.*?) \| (.*?) ?\|")


def rows() -> list[tuple[list[str], str, str]]:
    """The tables, what bounds them, and the task, of each row."""
    text = DOCS.read_text().split("### What bounds each table\n")[1].split("\n### ")[0]
    found = (ROW.fullmatch(line) for line in text.splitlines())
    return [(re.findall(r"`(\w+)`", each[1]), each[2], each[3]) for each in found if each]


def test_every_table_is_named_once() -> None:
    models = apps.get_models(include_auto_created=True)
    there = {each._meta.db_table for each in models if each._meta.managed}
    named = Counter(name for names, _, _ in rows() for name in names)
    assert [name for name, times in named.items() if times > 1] == []
    assert named.keys() == there | {"django_migrations"}


def test_tasks_and_settings_are_there() -> None:
    for _, bound, task in rows():
        assert bound
        assert task == "" or task in SWEEPS, task
        for name in re.findall(r"REPRISE_\w+", bound):
            assert hasattr(Environment, name.removeprefix("REPRISE_").lower()), name
