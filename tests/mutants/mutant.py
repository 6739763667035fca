"""A planted bug, and who has to find it."""

from dataclasses import dataclass

from tests.mutants.planting import Edit


@dataclass(frozen=True)
class Mutant:
    """A bug by name, and who has to find it: each of `tests` together, and the `judge` of faults
    if it is one that the judge must see by itself."""

    name: str
    edits: tuple[Edit, ...]
    tests: tuple[str, ...]
    judge: bool = False


def integration(*tests: str) -> tuple[str, ...]:
    """Tests below tests/integration, without what the names of their files begin with."""
    return tuple(f"tests/integration/test_{test}" for test in tests)


def unit(*tests: str) -> tuple[str, ...]:
    """Tests below tests/unit."""
    return tuple(f"tests/unit/{test}" for test in tests)
