"""The context for showing a decision, on its own page and on its session's page."""

from dataclasses import dataclass
from typing import Any

from django.urls import reverse

from interfaces.render.session_render import decision_json
from sessions_app.models import RetryDecision, Session
from sessions_app.selectors.policies import revisions_used
from sessions_app.selectors.resource_changes import resources_granted


@dataclass(frozen=True, slots=True)
class UsedRevision:
    """A revision of a policy that was used. `url` is empty if the revision is deleted."""

    name: str
    number: int | None
    url: str


def decision_context(session: Session, decision: RetryDecision) -> dict[str, Any]:
    """Return the decision as in the API, its revisions, and what the next attempt was granted."""
    return {
        "decision": decision_json(session, decision),
        "revisions": used_revisions(session, decision),
        "granted": resources_granted([session]).get(session.pk, ""),
    }


def used_revisions(session: Session, decision: RetryDecision) -> list[UsedRevision]:
    """Return the revisions of the policies that decided, in order.

    It takes one query, or none without policies.
    """
    used: dict[str, int | None] = decision.policy_revisions
    names = [*(name for name in session.retry_policies if name in used)]
    names += [name for name in used if name not in names]
    urls = _urls(session, decision) if used else {}
    return [UsedRevision(name, used[name], urls.get(name, "")) for name in names]


def _urls(session: Session, decision: RetryDecision) -> dict[str, str]:
    found = revisions_used(session.project, decision)
    page = "admin:sessions_app_retrypolicy_revision"
    return {
        name: reverse(page, args=[policy_id, number])
        for name, policy_id, number in found.values_list("policy__name", "policy_id", "revision")
    }
