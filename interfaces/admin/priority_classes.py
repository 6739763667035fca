"""The pages of priority classes."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from interfaces.admin.base import OperatorForm, RecordAdmin, column, operator
from interfaces.admin.cells import past
from sessions_app.models import PriorityClass
from sessions_app.services.resources.priority_classes import (
    FIELDS,
    priority_class_change,
    priority_class_create,
    priority_class_delete,
)


class PriorityClassForm(OperatorForm):
    """The form of a class."""

    class Meta:
        model = PriorityClass
        fields = ("name", "value", *FIELDS)


@admin.register(PriorityClass)
class PriorityClassAdmin(RecordAdmin):
    """The classes by their value. Names and values cannot change, because sessions have them."""

    form = PriorityClassForm
    list_display = ("name", "value", "preemptible", "may_preempt", "protected_for", "changed")
    search_fields = ("name__startswith",)
    ordering = ("value",)
    fields = ("name", "value", *FIELDS)
    fixed_fields = ("name", "value")

    def store(self, request: HttpRequest, record: Any, form: Any) -> None:
        given = {each: form.cleaned_data[each] for each in FIELDS}
        given = {each: [] if value is None else value for each, value in given.items()}
        by = operator(request)
        if record.pk is None:
            record.pk = priority_class_create(record.name, record.value, given, by=by).pk
        else:
            priority_class_change(record.name, given, by=by)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        """Delete a class that nothing which waits or runs has."""
        priority_class_delete(obj.name, by=operator(request))

    @column("changed", ordering="updated_at")
    def changed(self, row: PriorityClass) -> str:
        return past(row.updated_at)
