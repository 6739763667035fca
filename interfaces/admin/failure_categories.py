"""The pages of failure categories: named kinds of failures, tried in order."""

from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from pydantic import ValidationError
from unfold.widgets import UnfoldAdminIntegerFieldWidget

from interfaces.admin.base import OperatorForm, RecordAdmin, column, operator
from interfaces.admin.cells import past
from interfaces.admin.theme import themed_widget
from interfaces.forms.yaml_text import YamlField, as_yaml
from interfaces.http.documents import yaml_value
from interfaces.http.parsing import checked
from interfaces.http.policy_text import refusal
from interfaces.http.problems import field_errors
from retry.policies.categories import FailureCategory as CategoryDocument
from sessions_app.core.errors import InvalidInput
from sessions_app.models import FailureCategory
from sessions_app.services.resources.categories import (
    category_change,
    category_create,
    category_delete,
)

EXAMPLE = """\
# One matcher must match. All fields of that matcher must match.
- onTerminationMessage: {pattern: "CUDA error|NCCL"}
- onExitCodes: {operator: In, values: [97]}
  containerName: main
"""
FIELD = "matchers"


class CategoryForm(OperatorForm):
    """The form of a category. After `is_valid`, `document` is the category."""

    position = forms.IntegerField(
        required=False,
        min_value=-(2**31),
        max_value=2**31 - 1,
        widget=UnfoldAdminIntegerFieldWidget,
        help_text="categories are tried from the lowest position; the first that matches is used; "
        "empty: last",
    )
    matchers = YamlField(
        rows=14,
        help_text="A list of matchers. Each has onConditions, onExitCodes, onTerminationMessage, "
        "onPodMessage or onSignatureTitle. With containerName it looks at that container only. "
        "Comments are not kept.",
    )

    document: CategoryDocument

    class Meta:
        help_texts: ClassVar = {
            "name": "the name that onFailureCategory of rules and the messages of workloads use"
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields[FIELD].widget = themed_widget(self.fields[FIELD].widget)
        self.initial[FIELD] = _text(self.instance) if self.instance.pk else EXAMPLE

    def clean(self) -> dict[str, Any] | None:
        """Check the matchers as the API does, and keep the position if none is given."""
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        name = self.instance.name if self.instance.pk else cleaned.get("name")
        if FIELD in cleaned and name is not None:
            self._read(name, cleaned[FIELD])
        if cleaned.get("position") is None and self.instance.pk:
            cleaned["position"] = self.instance.position
        return cleaned

    def _read(self, name: str, text: str) -> None:
        try:
            sent = checked({"name": name, FIELD: yaml_value(text.encode())})
            self.document = CategoryDocument.model_validate(sent)
        except InvalidInput as error:
            self.add_error(FIELD, refusal(text, error.errors, inside=FIELD))
        except ValidationError as error:
            errors = field_errors(error)
            if (faults := errors.pop("name", None)) and "name" in self.fields:
                self.add_error("name", faults)
            if errors:
                self.add_error(FIELD, refusal(text, errors, inside=FIELD))
        else:
            self.cleaned_data[FIELD] = self.document.document()[FIELD]


def _text(category: FailureCategory) -> str:
    """Return the matchers as YAML, with the keys in their usual order."""
    stored = {"name": category.name, FIELD: category.matchers}
    return as_yaml(CategoryDocument.model_validate(stored).document()[FIELD])


@admin.register(FailureCategory)
class FailureCategoryAdmin(RecordAdmin):
    """The categories in their order.

    Names cannot change, because rules and workloads refer to them.
    """

    form = CategoryForm
    list_display = ("name", "position", "known_by", "changed")
    search_fields = ("name__startswith",)
    ordering = ("position", "name")
    fields = ("name", "position", "matchers")
    fixed_fields = ("name",)

    def store(self, request: HttpRequest, record: Any, form: Any) -> None:
        position, by = form.cleaned_data.get("position"), operator(request)
        if record.pk is None:
            record.pk = category_create(form.document, position=position, by=by).pk
        else:
            category_change(record.name, document=form.document, position=position, by=by)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        """Delete the category. Rules that ask for it no longer match."""
        category_delete(obj.name, by=operator(request))

    @column("known by")
    def known_by(self, category: FailureCategory) -> str:
        matchers = [_matcher(each) for each in category.matchers]
        return " or ".join(matchers)[:200]

    @column("changed", ordering="updated_at")
    def changed(self, category: FailureCategory) -> str:
        return past(category.updated_at)


_WORDS = {
    "onConditions": "condition",
    "onExitCodes": "exit code",
    "onTerminationMessage": "message",
    "onPodMessage": "pod message",
    "onSignatureTitle": "signature title",
    "containerName": "container",
}


def _matcher(matcher: dict[str, Any]) -> str:
    return ", ".join(
        f"{_WORDS[name]} {_shown(matcher[name])}" for name in _WORDS if name in matcher
    )


def _shown(value: Any) -> str:
    if isinstance(value, dict) and "pattern" in value:
        return f"/{value['pattern']}/"
    if isinstance(value, dict):
        among = "" if value["operator"] == "In" else "not "
        return f"{among}{', '.join(str(code) for code in value['values'])}"
    return ", ".join(value) if isinstance(value, list) else str(value)
