"""Errors that keep standalone from running, as one line for people."""


class StandaloneError(Exception):
    """An error in one clear line: what is wrong, where, and what to do."""


class TakenError(StandaloneError):
    """Another process uses the data directory."""
