"""The form of records that can be cordoned."""

from typing import Any

from interfaces.admin.base import OperatorForm, add_errors
from sessions_app.core.errors import InvalidInput
from sessions_app.services.write.records import cordon_check


class CordonForm(OperatorForm):
    """A form that requires a reason for a cordon, as the service does."""

    def clean(self) -> dict[str, Any]:
        """Check the cordon and its reason."""
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        try:
            cordon_check(
                cordoned=bool(cleaned.get("cordoned")), reason=cleaned.get("cordon_reason") or ""
            )
        except InvalidInput as error:
            add_errors(self, error)
        return cleaned
