"""A rule made of a failure: in the policy of the project for known failures, or in a new one."""

from interfaces.forms.policy_document import policy_of_failure, with_rule_of_failure
from interfaces.forms.yaml_text import as_yaml
from interfaces.web.project_frame import Place
from sessions_app.authorization import Action
from sessions_app.core.errors import NotFound
from sessions_app.locks import database_now
from sessions_app.models import RetryPolicy
from sessions_app.selectors.failures import FailuresWanted, failure_found
from sessions_app.selectors.policies import policies_in_scope

KNOWN = "known-failures"
"""The policy of a project to which such rules are added."""


def policy_of_known_failures(place: Place) -> RetryPolicy | None:
    """Return the project's own policy for known failures; None if it has none."""
    return policies_in_scope(place.project).filter(name=KNOWN, project=place.project).first()


def new_policy_text(place: Place, signature: str) -> str:
    """Return a new policy with a rule for a failure, as YAML."""
    # A name of the domain or of the cluster cannot be taken again.
    taken = policies_in_scope(place.project).filter(name=KNOWN).exists()
    return policy_of_failure(
        f"failure-{signature}" if taken else KNOWN, signature, _title(place, signature)
    )


def _title(place: Place, signature: str) -> str:
    if not place.may(Action.FAILURE_READ):
        return ""
    wanted = FailuresWanted.of(database_now(), key=signature)
    try:
        return failure_found(place.project, wanted).title
    except NotFound:
        return ""


def text_with_rule(document: dict[str, object], signature: str) -> str:
    """Return the document of a policy with a rule for a failure, as YAML."""
    return as_yaml(with_rule_of_failure(document, signature))
