from pathlib import Path

import pytest

from tests.prepared import ROOT
from tests.recipes.field import EDITS, PAGE, RECIPE, follow
from tests.recipes.pages import recipes

MOST = 10
"""Files that a field of the inline policy may touch."""


def test_there_is_a_recipe_for_each_kind_of_change() -> None:
    for kind in (
        *("field", "reason", "cause", "matcher", "plain kind", "endpoint", "driver"),
        "periodic task",
    ):
        assert any(kind in title for title in recipes()), kind


@pytest.mark.parametrize("title", recipes())
def test_files_of_recipes_exist(title: str) -> None:
    lines = recipes()[title]
    assert len({line.path for line in lines}) == len(lines) > 0
    for path, _ in lines:
        found = ROOT / path
        assert (found.parent if found.name == "NAME" else found).exists(), path


def test_a_field_touches_few_files_and_all_of_them_are_named() -> None:
    lines = recipes()[RECIPE]
    assert len(lines) <= MOST
    by_hand = {str(edit.path(Path())) for edit in EDITS} | {PAGE}
    assert by_hand == {line.path for line in lines if not line.written}
    for edit in EDITS:
        source = edit.path(ROOT).read_text()
        assert edit.applied(source) != source


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_field_is_there_everywhere_once_its_recipe_is_followed(prepared: Path) -> None:
    follow(prepared)
