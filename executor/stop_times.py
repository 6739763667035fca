"""Until when an agent that was asked to stop may go on."""

from dataclasses import dataclass

STOP_SECONDS = 4.5
HAND_OVER_SECONDS = 2.0


@dataclass
class StopTimes:
    """By the boot's clock: when the stop began, and when the runs had ended; None: not yet."""

    began: float | None = None
    ended: float | None = None

    def by(self) -> float:
        """Return when the agent ends whatever has not ended."""
        latest = (self.began or 0.0) + STOP_SECONDS
        return latest if self.ended is None else min(latest, self.ended + HAND_OVER_SECONDS)
