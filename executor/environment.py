"""The variables that the agent reads from its environment. Options on its command line win."""

from dataclasses import dataclass
from pathlib import Path

from base.loglines.lines import FORMAT, LEVEL
from base.variables.kinds import FLAG, PATHS, SECRET, Kind, choice
from base.variables.reading import variable

ON, PARTLY, OFF = "on", "partly", "off"


def _users(text: str) -> range:
    first, _, last = text.partition("-")
    if not (first.isdecimal() and last.isdecimal() and 0 < int(first) < int(last) < 2**32 - 1):
        raise ValueError(text)
    return range(int(first), int(last) + 1)


MODE = choice(ON, PARTLY, OFF)
USERS = Kind(_users, "two numbers, such as 70000-79999")


@dataclass(frozen=True, kw_only=True)
class Agent:
    """An executor's agent.

    Its options on the command line win over these variables.
    """

    executor_token: str = variable(
        SECRET, "", "the executor's token", absent="read from the file of `--token-file`"
    )
    isolate_runs: str = variable(
        MODE, ON, "whether the local driver isolates runs; `--isolate-runs`"
    )
    run_users: range = variable(
        USERS,
        # No distribution assigns these numbers.
        range(70000, 80000),
        "user ids of isolated runs if the agent is root; `--run-users`",
        absent="`70000-79999`",
    )
    local_paths: tuple[Path, ...] = variable(
        PATHS, (), "paths that isolated runs may read in addition to the system's programs"
    )
    local_writable: tuple[Path, ...] = variable(PATHS, (), "paths that isolated runs may write")
    production: bool = variable(FLAG, False, "whether log lines are JSON")
    log_format: str | None = variable(
        FORMAT, None, "format of log lines", absent="`json` in production, else `console`"
    )
    log_level: str = variable(LEVEL, "INFO", "lowest level that is logged")
