"""The table of roles that people read is the one that decides."""

from pathlib import Path

from sessions_app.authorization import RANK, RULES, Rule, Scope
from sessions_app.models.tenants import Role

TENANTS = Path(__file__).parents[2] / "docs" / "tenants.md"
HEAD = "| what | " + " | ".join([*Role.values, "cluster admin"]) + " |"
OF_THE_PLACE = {Role.MAINTAINER: "of a project", Role.DOMAIN_ADMIN: "of a domain, too"}


def cell(rule: Rule, role: Role) -> str:
    """Return what a role gives of an action."""
    if rule.scope is Scope.SELF:
        return "x"
    if rule.scope is Scope.ANYWHERE and rule.role is None:
        return OF_THE_PLACE.get(role, "")
    if rule.role is not None and RANK[role] >= RANK[rule.role]:
        return "x"
    return "own" if rule.own is not None and RANK[role] >= RANK[rule.own] else ""


def table() -> list[str]:
    """The lines of the table, action by action."""
    lines = [HEAD, "| --- " * (len(RANK) + 2) + "|"]
    for action, rule in RULES.items():
        if rule.scope is not Scope.EXECUTOR:
            cells = [*(cell(rule, role) for role in RANK), "x"]
            lines.append(f"| `{action}` | " + " | ".join(cells) + " |")
    return lines


def test_the_table_of_roles_is_the_one_that_decides() -> None:
    lines = TENANTS.read_text().splitlines()
    start = lines.index(HEAD)
    documented = lines[start : lines.index("", start)]
    assert documented == table(), "the table of docs/tenants.md has to be:\n" + "\n".join(table())
