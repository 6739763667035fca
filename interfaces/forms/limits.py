"""A form field for a limit of retries."""

from typing import Any

from django import forms

from retry.policies.limits import UNLIMITED


class LimitField(forms.IntegerField):
    """A number of retries, or the word for no limit. Its value is a `Limit`; None if empty."""

    def to_python(self, value: Any) -> Any:
        """Return the number; the word as it is."""
        return UNLIMITED if str(value).strip() == UNLIMITED else super().to_python(value)

    def run_validators(self, value: Any) -> None:
        """Check that the number is one of those that are allowed."""
        if value != UNLIMITED:
            super().run_validators(value)
