"""One failure that is told in several ways, and names that tell only where it was.

Each step is as those of the masks, which come after these: what a text with it has in any case,
what is looked for, and what that becomes.
"""

from typing import Any

from retry.signatures.engine import Replace, compiled
from retry.signatures.replacements import MASK, always, name_only

_SIDE = r"(?:north|south|east|west|central)"
_COUNTRY = (
    r"(?:us|usgov|europe|asia|india|brazil|canada|china|france|germany|italy|israel|japan|korea"
    r"|mexico|norway|poland|qatar|spain|sweden|switzerland|uae|uk|africa|australia)"
)


def _task_of_slurm(match: Any) -> bytes:
    """Tell how a task ended, whichever tasks of whichever node it were."""
    return b"srun: error: #: task #: " + bytes(match.group(1))


def _cancelled_by_slurm(match: Any) -> bytes:
    """A job is cancelled with its steps, in any order."""
    return b"slurmstepd: error: *** CANCELLED" + bytes(match.group(1) or b"") + b" ***"


def _rejected_in_node(match: Any) -> bytes:
    """Tell with what a promise was rejected; the words before it are always the same."""
    return b"UnhandledPromiseRejection: " + bytes(match.group(1) or b"")


WORDINGS: tuple[tuple[str, Any, Replace], ...] = (
    (
        r"srun: error: ",
        compiled(r"srun: error: [^\s:]+: tasks? +[0-9,\[\]-]+: (.*?)(?: \(core dumped\))?$"),
        _task_of_slurm,
    ),
    (
        r"CANCELLED AT ",
        compiled(
            r"slurmstepd: error: \*\*\* (?:JOB|STEP) \S+ (?:STEPD TERMINATED )?ON \S+ CANCELLED AT"
            r" \S+( DUE TO .*)? \*\*\*"
        ),
        _cancelled_by_slurm,
    ),
    (
        r"oom[-_]kill event",
        compiled(r"Detected [0-9]+ oom[-_]kill event.*"),
        always(b"Detected oom_kill events"),
    ),
    (
        r"This error originated either by throwing inside of an async function",
        compiled(
            r"(?s)\[?UnhandledPromiseRejection: This error originated either by throwing inside of"
            r" an async function.*?\.catch\(\)\.(?: The promise rejected with the reason"
            r" \"(.*)\"\.?)?(?:\].*)?$"
        ),
        _rejected_in_node,
    ),
    (r"execve\(\): ", compiled(r"(execve\(\): )[^:]+"), name_only),
    (r"root project '", compiled(r"(root project )'[^']*'"), name_only),
    (
        r"\[[0-9]+\]: ",
        compiled(r"(\bpmixp_\w+: |\b(?:srun|slurmstepd): error: )[\w.-]+ \[[0-9]+\]"),
        name_only,
    ),
    # What grows while a program works: dots, and bars in brackets.
    (r"\.\.", compiled(r"\.{2,}"), always(b"...")),
    (r"\[[=#>.-]", compiled(r"\[[=#>.-][=#>. -]*\]"), always(b"[...]")),
    # Regions and zones of clouds: us-east-1a, europe-west4-b, westeurope2.
    (
        rf"{_SIDE}-?[0-9a-z]|{_COUNTRY}{_SIDE}",
        compiled(
            rf"\b[a-z]{{2,}}(?:-[a-z]+)?-{_SIDE}{{1,2}}-?[0-9]{{1,2}}(?:-?[a-z])?\b"
            rf"|\b{_SIDE}{{1,2}}{_COUNTRY}[0-9]?\b|\b{_COUNTRY}{_SIDE}{{1,2}}[0-9]?\b"
        ),
        always(MASK),
    ),
    (r"0000:[0-9a-f]", compiled(r"\b0000:[0-9a-f]{2}\b(?::[0-9a-f]{2}\b)?"), always(MASK)),
    (r"CUDA device ", compiled(r"(\bCUDA device )[0-9a-f]+\b"), name_only),
)
