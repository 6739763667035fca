"""Follows the first recipe: a field of the inline policy, in a copy of the tree.

    python -m tests.recipes.field

The field `retry_on_signals` says whether a chain is retried after an exit code over 128.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.mutants.planting import Edit, plant
from tests.mutants.run import copied_tree
from tests.prepared import GIVEN, prepare
from tests.recipes.pages import recipes

RECIPE = "a field of the inline policy"
FIELD, CAMEL, OPTION = "retry_on_signals", "retryOnSignals", "--retry-on-signals"
EDITS = (
    Edit(
        "retry.policies.inline:InlinePolicy",
        "emit_retry_events: Annotated[",
        'retry_on_signals: Annotated[StrictBool, Meaning("whether signals are retried")] = True\n'
        "    emit_retry_events: Annotated[",
    ),
    Edit(
        "retry.engine.decide:_exit_code",
        "denied = code in case.policy.no_retry_on_exit_codes",
        "denied = code in case.policy.no_retry_on_exit_codes or (\n"
        "        code > 128 and not case.policy.retry_on_signals\n    )",
    ),
    Edit(
        "tests.unit.retry.test_policy:test_the_shipped_policy_retries_nothing",
        '"emit_retry_events": True,',
        '"retry_on_signals": True, "emit_retry_events": True,',
    ),
    Edit(
        "tests.unit.retry.test_decide:test_exit_codes_filter_failures_only",
        'assert decision.reason == ("inline_retry" if retried else "exit_code_excluded")',
        'assert decision.reason == ("inline_retry" if retried else "exit_code_excluded")\n\n\n'
        "def test_signals_may_be_final() -> None:\n"
        "    signalled = decided(exited(143), max_retries=1, retry_on_signals=False)\n"
        "    assert signalled.reason == 'exit_code_excluded'\n"
        "    exited_itself = decided(exited(1), max_retries=1, retry_on_signals=False)\n"
        "    assert exited_itself.reason == 'inline_retry'\n",
    ),
    Edit("tests.unit.retry.model:SHIPPED", '"jitter": ', '"retry_on_signals": True, "jitter": '),
    Edit(
        "tests.unit.retry.model:by_inline",
        "code in refused or",
        "code in refused or (code > 128 and not inline['retry_on_signals']) or",
    ),
    Edit(
        "tests.unit.retry.worlds:inline_fields",
        "retry_delay=seconds,",
        "retry_delay=seconds, retry_on_signals=st.booleans(),",
    ),
)
"""What a person writes into modules."""
PAGE = "docs/retries.md"
BEFORE = "| field of `retry_policy` |"
SENTENCE = "Without `retry_on_signals` a run that a signal ended is final.\n\n"

GENERATED = """
import django, os
os.environ["DJANGO_SETTINGS_MODULE"] = "reprise.settings"
django.setup()
from django.core.management import call_command
call_command("spectacular", validate=True, fail_on_warn=True, file="docs/openapi.yaml")
call_command("graphql_schema", "--file", "docs/schema.graphql")
"""
WRITING = (("-c", GENERATED), ("tools/write_tables.py",))
"""`make schema`, in fewer processes."""
UNIT, INTEGRATION = "tests/unit", "tests/integration"
TYPED = (
    *("retry", "tools/write_tables.py", "client/reprise_client/cli/spec.py"),
    *(f"{UNIT}/retry/test_policy.py", f"{UNIT}/retry/test_decide.py"),
)
DECIDED = (
    *(f"{UNIT}/retry/test_{name}.py" for name in ("policy", "decide", "docs", "model")),
    f"{UNIT}/client/test_session_commands.py::test_every_field_of_the_inline_policy_is_an_option",
)
EFFECTIVE = "test_each_field_shows_what_is_in_effect_and_which_layer_says_so"
ASKED = (
    f"{INTEGRATION}/test_graphql_round_trip.py",
    f"{INTEGRATION}/test_rest_bad_input.py::test_each_field_of_a_policy_is_checked[{FIELD}]",
    f"{INTEGRATION}/test_admin_retry_config.py::{EFFECTIVE}",
)
TESTS = ("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist")
CHECKS = (
    (*TESTS, *ASKED),
    (*TESTS, "--hypothesis-profile=few examples", *DECIDED),
    ("-m", "mypy", "--cache-dir", "var/types", *TYPED),
)
"""Types, and the narrow tests: over REST, GraphQL, pages of operators and the command, too."""
AT_ONCE = 2


class Failed(Exception):
    """The recipe does not lead where it should."""


def follow(prepared: Path | None = None) -> None:
    """Follow the recipe in a copy; raises `Failed`."""
    named = {line.path for line in recipes()[RECIPE]}
    with copied_tree() as tree, TemporaryDirectory(prefix="reprise-recipe-") as scratch:
        before = dict(_files(tree))
        plant(tree, EDITS)
        page = tree / PAGE
        page.write_text(page.read_text().replace(BEFORE, SENTENCE + BEFORE, 1))
        _run(tree, WRITING, DATABASE_URL="none")
        after = dict(_files(tree))
        changed = {name for name, text in after.items() if before.get(name) != text}
        if changed != named:
            raise Failed(f"the recipe names {named - changed} in vain, and not {changed - named}")
        _is_documented(tree, before, after)
        _run(tree, CHECKS, **{GIVEN: str(prepared or prepare(Path(scratch)))})


def _files(tree: Path) -> Iterator[tuple[str, bytes]]:
    """Give the files of a tree with what is in them, but for those that commands leave behind."""
    for path in tree.rglob("*"):
        name = path.relative_to(tree)
        left = "__pycache__" in name.parts or name.parts[0] == "var"
        if not left and path.is_file():
            yield str(name), path.read_bytes()


def _is_documented(tree: Path, before: Mapping[str, bytes], after: Mapping[str, bytes]) -> None:
    """Look for the field in what the doors say of themselves."""
    documents = {
        "docs/openapi.yaml": f"        {FIELD}:",
        "docs/schema.graphql": f"  {CAMEL}: Boolean",
        PAGE: f"| `{FIELD}` | `true` |",
    }
    for name, line in documents.items():
        if line in before[name].decode() or f"\n{line}" not in after[name].decode():
            raise Failed(f"{name} has no new line {line!r}")
    command = "from reprise_client.cli.main import main; main()"
    words = [sys.executable, "-c", command, "run", "--help"]
    done = subprocess.run(words, cwd=tree, env=_environ(tree), capture_output=True, text=True)
    if OPTION not in done.stdout:
        raise Failed(f"`reprise run --help` has no {OPTION}: {done.stdout}{done.stderr}")


def _run(tree: Path, commands: tuple[tuple[str, ...], ...], **environ: str) -> None:
    """Run Python with each line of words, some at once; raises `Failed` with what one said."""

    def run(words: tuple[str, ...]) -> None:
        done = subprocess.run(
            [sys.executable, *words],
            cwd=tree,
            env=_environ(tree) | environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode:
            raise Failed(f"{' '.join(words)}: {done.stdout}")

    with ThreadPoolExecutor(AT_ONCE) as pool:
        for _ in pool.map(run, commands):
            pass


def _environ(tree: Path) -> dict[str, str]:
    ours = {"PYTHONPATH": f"{tree}{os.pathsep}{tree / 'client'}", "COLUMNS": "200"}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return {**kept, **ours, "PYTHONDONTWRITEBYTECODE": "1"}


if __name__ == "__main__":
    began = time.monotonic()
    follow()
    sys.stdout.write(f"the recipe holds ({time.monotonic() - began:.0f} s)\n")
