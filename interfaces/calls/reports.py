"""The operation on reports."""

from interfaces.requests.reports import ReportQuery
from sessions_app.authorization import Actor
from sessions_app.locks import database_now
from sessions_app.selectors.reports import Report, retry_report
from sessions_app.selectors.sessions import projects_visible


def retries(actor: Actor, asked: ReportQuery) -> Report:
    """Return what retries were worth, in the asked project or in all that the actor may see."""
    wanted = asked.wanted(database_now())
    return retry_report(projects_visible(actor, asked.project), wanted)
