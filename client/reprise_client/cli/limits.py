"""Limits of retries on the command line: a number, or the word for no limit."""

import typer

UNLIMITED = "unlimited"
METAVAR = f"N|{UNLIMITED}"


def limit(text: str) -> int | str:
    """Return the limit that a text says; the server knows how large a number may be."""
    if text == UNLIMITED:
        return text
    if text.isascii() and text.isdecimal():
        return int(text)
    raise typer.BadParameter(f"{text!r} is neither a number from 0 nor {UNLIMITED!r}")
