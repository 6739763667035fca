"""Fields of forms for settings that are a small JSON object: breakers and shared retry budgets."""

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.forms.fields import InvalidJSONInput
from pydantic import BaseModel
from pydantic import ValidationError as InvalidValue

from retry.breakers import BreakerRule
from retry.policies.inline import error_texts
from retry.policies.shared_budget import SharedBudget

LONGEST = 500
"""Characters of such a text; longer ones are not parsed."""
BREAKER, BUDGET = "breaker", "retry_budget"


class ObjectField(forms.JSONField):
    """A JSON object that a model checks; it fills in the fields that are left out. Empty: none."""

    def __init__(self, model: type[BaseModel], **more: Any) -> None:
        self.model = model
        super().__init__(required=False, **more)

    def prepare_value(self, value: Any) -> Any:
        return "" if value is None else super().prepare_value(value)

    def bound_data(self, data: Any, initial: Any) -> Any:
        # Deep nesting is an error of the parser that Django does not catch.
        if isinstance(data, str) and len(data) > LONGEST:
            return InvalidJSONInput(data)
        return super().bound_data(data, initial)

    def to_python(self, value: Any) -> Any:
        if isinstance(value, str) and len(value) > LONGEST:
            raise ValidationError(f"is longer than {LONGEST} characters")
        return super().to_python(value)

    def clean(self, value: Any) -> dict[str, Any] | None:
        """Return all fields of the object. Raises `ValidationError` that names the wrong ones."""
        found = super().clean(value)
        if found is None:
            return None
        try:
            return self.model.model_validate(found).model_dump(mode="json")
        except InvalidValue as error:
            texts = error_texts(error).items()
            raise ValidationError(
                [f"{name}: {text}" if name else text for name, each in texts for text in each]
            ) from None


def breaker_field(**more: Any) -> ObjectField:
    """Return the field of a `BreakerRule`."""
    return ObjectField(
        BreakerRule,
        help_text="when retries wait because many chains fail alike, such as "
        '{"chains": 20, "window": 600, "probe_after": 60}, times in seconds; empty: none of its '
        "own",
        **more,
    )


def budget_field(**more: Any) -> ObjectField:
    """Return the field of a `SharedBudget`."""
    return ObjectField(
        SharedBudget,
        help_text='the retry budget that all its chains share, such as {"ratio": 0.2, '
        '"burst": 50, "window": 3600, "over": "postpone", "platform": false}; empty: none',
        **more,
    )
