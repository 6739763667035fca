"""What a submission would become: the session is made, looked at and undone again."""

from dataclasses import dataclass

from django.db import transaction

from retry.policies.inline import InlinePolicy
from retry.policies.merge import Layer, Merged, MergedBounds, merge
from sessions_app.in_force.layers import bound_layers, policy_layers
from sessions_app.models import Session
from sessions_app.selectors.why_pending import WhyPending, why_pending
from sessions_app.services.sessions.submission import Placed
from sessions_app.services.sessions.submit import session_submit


@dataclass(frozen=True, slots=True)
class Preview:
    """The session as it would be at its first moment."""

    created: bool
    """False: its `creation_id` belongs to a session that exists, which is the one shown."""
    session: Session
    merged: Merged
    """The inline policy of its chain, with the layer of each field."""
    bounds: MergedBounds
    policies: tuple[str, ...]
    """Names of the policies that decide, in order."""
    warnings: tuple[str, ...]
    waits: WhyPending | None
    """What it would wait for; None without a scheduler."""


def session_preview(placed: Placed) -> Preview:
    """Return what `session_submit` would make now. Raises what that raises.

    Its own code runs, in a transaction that is rolled back: no rule has to be written twice. The
    rows that are left dead are those of one submission. No hint is sent, since nothing commits.
    """
    with transaction.atomic():
        made = session_submit(placed)
        rows = Session.objects.select_related("spec", "queue", "project__domain")
        session = rows.get(pk=made.session_id)
        waits = why_pending(session, at_once=True)
        transaction.set_rollback(True)
    project = session.project
    return Preview(
        created=made.created,
        session=session,
        merged=_merged(placed, policy_layers(project)),
        bounds=bound_layers(project),
        policies=tuple(session.retry_policies),
        warnings=made.warnings,
        waits=waits,
    )


def _merged(placed: Placed, layers: list[tuple[Layer, InlinePolicy]]) -> Merged:
    return merge([*layers, (Layer.SESSION, placed.submission.retry_policy)])
