"""What people do at the end of the storm, about the chains that wait for them."""

from collections.abc import Collection, Iterator, Sequence
from uuid import UUID

from reprise.scale.judgement import Waiting
from reprise.scale.plan import Plan
from sessions_app.selectors.breakers import breakers_open
from sessions_app.services.breakers.acts import breaker_close
from sessions_app.services.breakers.sweep import MOST_OPEN
from sessions_app.services.chains.manual_retry import sessions_retry
from sessions_app.services.chains.parked import chains_give_up
from sessions_app.services.sessions.cancel import chains_cancel

BATCH = 500


def chains_decide(waiting: Sequence[Waiting], plan: Plan, *, by: str) -> None:
    """Retry chains whose image is mended; give up other parked ones, and cancel other held ones.

    A chain that has gone on by itself is refused, and may wait again later.
    """
    for image in sorted({each.image for each in waiting}):
        of_image = [each for each in waiting if each.image == image]
        if changes := plan.mended(image):
            for roots in _batches(of_image):
                sessions_retry(roots, by=by, changes=changes)
            continue
        for roots in _batches([each for each in of_image if each.parked]):
            chains_give_up(roots, by=by)
        # A shared budget would hold them for an hour.
        for roots in _batches([each for each in of_image if not each.parked]):
            chains_cancel(list(roots.values()), by=by)


def breakers_end(projects: Collection[int], *, by: str) -> None:
    """Close the open breakers of projects: what they were open for is mended."""
    for breaker in breakers_open(MOST_OPEN):
        if breaker.project_id in projects:
            breaker_close(breaker.pk, reason="the image is mended", mute=False, by=by)


def _batches(waiting: Sequence[Waiting]) -> Iterator[dict[UUID, UUID]]:
    """Yield the newest attempts with their roots, some at a time."""
    for begin in range(0, len(waiting), BATCH):
        yield {each.session_id: each.root_id for each in waiting[begin : begin + BATCH]}
