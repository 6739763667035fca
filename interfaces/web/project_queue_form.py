"""The form of a queue of a project."""

from typing import Any

from django import forms
from django.core.validators import RegexValidator

from interfaces.forms.json_settings import BREAKER, BUDGET
from interfaces.forms.queues import LIMITS, TIMES, QueueTexts, policies_offered, texts_of
from sessions_app.core.errors import InvalidInput
from sessions_app.models import Project, Queue
from sessions_app.models.tenants import LABEL_PATTERN, NAME_LENGTH
from sessions_app.services.resources.policy_names import FIELD
from sessions_app.services.write.records import cordon_check

FIELDS = (
    *("priority_factor", "is_default", "cordoned", "cordon_reason"),
    *(FIELD, LIMITS, TIMES, BREAKER, BUDGET),
)


class QueueForm(QueueTexts):
    """All that can be changed of a queue; the name only of a new one."""

    name = forms.CharField(
        label="Name",
        max_length=NAME_LENGTH,
        validators=[
            RegexValidator(
                LABEL_PATTERN, "Up to 63 lower-case letters, digits and '-', with no '-' at an end."
            )
        ],
    )
    priority_factor = forms.FloatField(
        label="Priority factor",
        min_value=1e-9,
        max_value=1e9,
        widget=forms.TextInput,
        help_text="a lower factor gives a higher priority",
    )
    is_default = forms.BooleanField(
        label="Default queue",
        required=False,
        help_text="gets the sessions that name no queue; replaces the present default queue",
    )
    cordoned = forms.BooleanField(
        label="Cordoned", required=False, help_text="accepts sessions, but does not start them"
    )
    cordon_reason = forms.CharField(
        label="Reason of the cordon",
        required=False,
        max_length=256,
        help_text="shown to users whose sessions wait",
    )
    field_order = (
        *("name", "priority_factor", LIMITS, TIMES, FIELD, BREAKER, BUDGET),
        *("is_default", "cordoned"),
    )

    def __init__(self, project: Project, queue: Queue | None, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.project, self.queue = project, queue
        self.fields[FIELD].label, self.fields[LIMITS].label = "Retry policies", "Limits"
        self.fields[TIMES].label = "Time limits"
        self.fields[BREAKER].label, self.fields[BUDGET].label = "Breaker", "Retry budget"
        self.fields[FIELD].help_text += f"; {policies_offered(project)}"
        if queue is not None:
            del self.fields["name"]

    def clean(self) -> dict[str, Any]:
        """Check the cordon, the policies, and that the project keeps a default queue."""
        cleaned = self.cleaned_data
        self.read_policies(self.project)
        try:
            reason = cleaned.get("cordon_reason") or ""
            cordon_check(cordoned=bool(cleaned.get("cordoned")), reason=reason)
        except InvalidInput as error:
            for name, texts in error.errors.items():
                self.add_error(name, [*texts])
        if self.queue is not None and self.queue.is_default and not cleaned.get("is_default"):
            self.add_error("is_default", "Make another queue the default instead.")
        return cleaned


def stored(queue: Queue | None) -> dict[str, Any]:
    """Return the initial values of the form."""
    if queue is None:
        return {"priority_factor": "1"}
    plain = {name: getattr(queue, name) for name in FIELDS[:4]}
    return {**plain, "priority_factor": f"{queue.priority_factor:g}", **texts_of(queue)}


def give(form: QueueForm, queue: Queue) -> list[str]:
    """Write the fields of a valid form into the queue. Return the names of those that changed."""
    for name in FIELDS:
        setattr(queue, name, form.cleaned_data[name])
    if not queue.cordoned:
        queue.cordon_reason = ""
    changed = {*form.changed_data} & {*FIELDS}
    # A cordon ends with its reason.
    return sorted(changed | ({"cordon_reason"} if "cordoned" in changed else set()))
