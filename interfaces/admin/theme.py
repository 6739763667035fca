"""The theme's controls in place of Django's, for forms that other pages show, too."""

from typing import Any, TypeVar

from django import forms
from unfold.widgets import (
    INPUT_CLASSES,
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanWidget,
)

_WIDGETS: dict[type[forms.Widget], Any] = {
    forms.TextInput: UnfoldAdminTextInputWidget,
    forms.NumberInput: UnfoldAdminIntegerFieldWidget,
    forms.Textarea: UnfoldAdminTextareaWidget,
    forms.Select: UnfoldAdminSelectWidget,
    forms.CheckboxInput: UnfoldBooleanWidget,
    forms.CheckboxSelectMultiple: UnfoldAdminCheckboxSelectMultipleWidget,
}
Form = TypeVar("Form", bound=forms.BaseForm)


def themed(form: Form) -> Form:
    """Return the form with the theme's controls."""
    for field in form.fields.values():
        field.widget = themed_widget(field.widget)
    return form


def themed_widget(widget: forms.Widget) -> forms.Widget:
    """Return the theme's control of this kind; one of another kind stays."""
    if isinstance(widget, forms.DateTimeInput):
        # The theme has none for the format of the browsers' own calendar.
        widget.attrs["class"] = " ".join(INPUT_CLASSES)
    kind = _WIDGETS.get(type(widget))
    if kind is None:
        return widget
    made: forms.Widget = kind(widget.attrs)
    made.is_required = widget.is_required
    if isinstance(widget, forms.Select | forms.CheckboxSelectMultiple):
        made.choices = widget.choices  # type: ignore[attr-defined]  # as that of the field
    return made
