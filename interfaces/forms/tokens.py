"""What every form of tokens checks, as REST does."""

from datetime import datetime, timedelta
from typing import Any

from django.core.exceptions import ValidationError
from django.utils import timezone

from interfaces.requests.bodies import MAX_SECONDS, one_line


class TokenChecks:
    """A mixin for forms with the fields `name` and `expires_at`."""

    cleaned_data: dict[str, Any]

    def clean_name(self) -> str:
        """Return the name if the API would accept it."""
        try:
            return one_line(self.cleaned_data["name"])
        except ValueError as error:
            raise ValidationError(f"It {error}.") from None

    def clean_expires_at(self) -> datetime | None:
        """Return the end, which is in the next ten years."""
        wanted: datetime | None = self.cleaned_data["expires_at"]
        if wanted is None:
            return None
        now = timezone.now()
        if wanted <= now:
            raise ValidationError("This time is in the past.")
        if wanted > now + timedelta(seconds=MAX_SECONDS):
            raise ValidationError("It must be within ten years, or empty for never.")
        return wanted
