"""What history does not show of breakers and shared budgets, and what is assumed instead. Pure."""

BESIDE_OTHERS = (
    "Nothing is counted before the window.\n"
    "A retry that a breaker held takes the place of the first attempt of its chain that had not"
    " failed with the same signature by then. Those that had are spared.\n"
    "A probe goes as that attempt went. If its chain made none, the probe fails while other chains"
    " fail so within the breaker's window, and else succeeds.\n"
    "Verdicts come without delay, and storm limits are left out."
).splitlines()


def counted(scope: str) -> str:
    """Return that the rules of the cluster, or of a domain, count."""
    return (
        f"Rules of the {scope} count the chains of all its projects, so all of them are decided"
        " anew, each under its present policies. Only the effect on this project is shown."
    )


def unseen(scope: str) -> str:
    """Return that rules of the cluster, or of a domain, count more than the reader sees."""
    return f"{_RULES[scope]} left out: chains count that you may not see."


def too_many(scope: str, most: int) -> str:
    """Return that the cluster, or a domain, has more terminations than one simulation takes."""
    return (
        f"{_RULES[scope]} left out: the window has more than {most:,} terminations of the {scope}."
        " Choose a shorter window to have them counted."
    )


_RULES = {
    "cluster": "Breakers and shared budgets of the cluster are",
    "domain": "The shared budget of the domain is",
}
