"""Lines that say that something failed, but neither what nor why. Others near them may tell."""

from retry.signatures.engine import compiled, simple

_VAGUE = frozenset(
    b"a an the this that these its it and or of to in into on at by for from with while than then "
    b"due as is are was were be been has have had will can must not when which where after before "
    b"during see above below previous here please check more detail details info information "
    b"err error errors fatal fail fails failed failing failure failures problem problems exception "
    b"exceptions warning warnings issue issues critical unknown unexpected some one all any first "
    b"last occurred encountered detected caught raised reported returned "
    b"task tasks job jobs step steps stage stages run runs running build process processes program "
    b"script scripts workflow pipeline command execution executing executed operation test tests "
    b"file files line name compiler log logs output message messages status code signal result "
    b"exit exits exited exiting abort aborts aborted aborting stop stopped stopping terminate "
    b"terminated terminating termination end ended cancel canceled cancelled shutting down "
    b"completed finished unsuccessful unsuccessfully now none nil null".split()
)
# `not a file` says something, although none of its words does.
_ANY = b"|".join(sorted(_VAGUE - {b"not", b"file", b"files", b"name"})).decode()
# One that ends with a colon tells what follows it.
_OF_VAGUE_WORDS = compiled(rf"(?i)^(?:\W|\b(?:{_ANY})\b)*\b(?:{_ANY})[^\w:]*$")
_LONGEST = 200
"""Bytes of a line of vague words at most, and those in which others have theirs."""
_NO_REASON = compiled(
    r"(?i)\b(?:(?:failed|unable) to \w+|could ?n[o']t start) [^:'\"]*$|^[^:]*\bfailed[.!]?$"
)
# Names of errors, such as ECONNRESET, :timeout and DEADLINE_EXCEEDED.
_CODE = compiled(r"\bE[A-Z]{3,}\b|(?:^|\s):[a-z]|\b[A-Z]+_[A-Z_]+\b")
_PATH = simple(r"[^\s/]*+/\S*+")
_WORD = simple(r"[A-Za-z]++")
_FEW = 1
"""Words that say something; a line with more of them is not vague."""
_MANY = 12
"""Spaces in a line that has more such words in any case."""


def of_vague_words(line: bytes) -> bool:
    """Return whether a line has vague words alone, such as `Task failed.`"""
    return len(line) <= _LONGEST and _OF_VAGUE_WORDS.search(line) is not None


def is_vague(line: bytes) -> bool:
    """Return whether a line tells no reason: it says only what failed, or has hardly a word."""
    if line.count(b" ") > _MANY:
        return False
    if _NO_REASON.search(line) is not None:
        return True
    if _CODE.search(line) is not None:
        return False
    before, colon, end = _PATH.sub(b" ", line[:_LONGEST]).rpartition(b": ")
    said = _telling_words(end)
    # What stands last, behind a colon, is the reason, be it one word.
    return len(said | _telling_words(before)) <= _FEW and not (colon and said)


def _telling_words(text: bytes) -> set[bytes]:
    return {word.lower() for word in _WORD.findall(text)} - _VAGUE
