"""Characters that people do not see, or that change the order in which they read the others.

With them two names can look alike, and a line can be read in another order than it is written.
"""

import re

CONTROLS = r"\x00-\x1f\x7f-\x9f"
INVISIBLE = (
    r"\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    r"\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
)
FURTHER = "\U000e0000-\U000e0fff"
"""Those beyond U+FFFF, which the patterns of OpenAPI documents cannot name."""
UNSEEN = "must not contain control, invisible or direction-changing characters"
_ANY = re.compile(f"[{CONTROLS}{INVISIBLE}{FURTHER}]")
# One set of characters, which is searched fast: most texts have none of them.
_MARKED = re.compile(rf"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f{INVISIBLE}{FURTHER}]")
# Joiners belong to the writing of many languages and to emoji; beside ASCII they only hide.
_JOINER = re.compile(r"[^\x00-\x7f][\u200c\u200d][^\x00-\x7f]")


def has_unseen(text: str) -> bool:
    """Return whether a text has any of these characters."""
    return _ANY.search(text) is not None


def may_need_marks(text: str) -> bool:
    """Return False if `marked` would change nothing of a text."""
    return _MARKED.search(text) is not None


def marked(text: str, form: str = "<U+{:04X}>") -> str:
    """Return the text with the code of each such character in its place, in a form.

    Line ends and tabs stay, and so do joiners between characters that are not ASCII.
    """

    def code(found: "re.Match[str]") -> str:
        joins = _JOINER.match(text, found.start() - 1) if found.start() else None
        return found[0] if joins else form.format(ord(found[0]))

    return _MARKED.sub(code, text)
