"""What keeps standalone from running, as one line for people."""


class StandaloneError(Exception):
    """One clear line: what is wrong, where, and what to do."""


class TakenError(StandaloneError):
    """Another process works on the data directory."""
