"""Another attempt of a chain with something changed: the form beside the button that retries."""

import re
import shlex
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods
from pydantic import ValidationError

from interfaces.forms.yaml_text import MappingField
from interfaces.http.policy_text import refusal
from interfaces.http.problems import field_errors
from interfaces.requests.bodies import MAX_REASON, SessionRetry
from interfaces.web.form_fields import shown_field
from interfaces.web.fragments import fragment, session_or_404
from interfaces.web.parts import Field
from interfaces.web.visitor import visitor
from sessions_app.authorization import Action, permitted, require_user
from sessions_app.core.errors import DomainError, InvalidInput
from sessions_app.models import Session
from sessions_app.selectors.sessions import session_get
from sessions_app.services.chains.downstream import (
    Retried,
    downstream_allowed,
    downstream_words,
    session_retry_downstream,
)

LONGEST = 200_000
"""Most characters of a command, and of all variables."""
TITLE = "Retry with changes"
_LINES = forms.Textarea
_DOCUMENTS = ("retry_policy", "pod_spec")
_DEEPER = re.compile(r"[.\[]")


class RetryChangesForm(forms.Form):
    """What the next attempt runs instead. What is not changed here stays as it is.

    After `is_valid`, `asked` are the changes in the form of the service.
    """

    image = forms.CharField(label="Image", required=False, max_length=512)
    priority = forms.IntegerField(label="Priority", widget=forms.NumberInput)
    batch_timeout = forms.FloatField(
        label="Run limit",
        required=False,
        widget=forms.TextInput,
        help_text="in seconds; empty: no limit",
    )
    command = forms.CharField(
        label="Command",
        required=False,
        max_length=LONGEST,
        widget=_LINES,
        help_text="as in a shell, with quotes around what has spaces",
    )
    resources = forms.CharField(
        label="Resources",
        required=False,
        max_length=10_000,
        widget=_LINES,
        help_text="only those that change, one a line: memory=8Gi",
    )
    environ = forms.CharField(
        label="Variables",
        required=False,
        max_length=LONGEST,
        strip=False,
        widget=_LINES,
        help_text="only those that change, one a line: NAME=value; NAME alone removes it",
    )
    secret_environ = forms.CharField(
        label="Secret variables",
        required=False,
        max_length=LONGEST,
        strip=False,
        widget=_LINES,
        help_text="one a line: NAME=value; they are yours then, and nobody is shown the values",
    )
    retry_policy = MappingField(
        rows=3,
        label="Retry policy",
        required=False,
        help_text="as YAML, only the fields that change: max_retries: 5",
    )
    pod_spec = MappingField(
        rows=3,
        label="Pod specification",
        required=False,
        help_text="as YAML; it replaces that of the session as a whole",
    )
    reason = forms.CharField(
        label="Reason",
        required=False,
        max_length=MAX_REASON,
        help_text="for everybody who looks at the attempt",
    )
    downstream = forms.BooleanField(label="Retry downstream, too", required=False)

    asked: dict[str, Any]

    def __init__(self, found: Session, sent: QueryDict | None, *, values: bool) -> None:
        """Take what was sent. With `values` the visitor may see what is set in the pod."""
        present = _present(found) | ({"pod_spec": found.spec.pod_spec} if values else {})
        super().__init__(sent, initial=present)
        down = downstream_words(found.root_id)
        self.fields["downstream"].help_text = f"{down}, without these changes"
        if not down:
            del self.fields["downstream"]

    def clean_command(self) -> list[str]:
        """Split the command into its words."""
        try:
            return shlex.split(self.cleaned_data["command"])
        except ValueError as error:
            raise forms.ValidationError("A quote has no end.") from error

    def clean_resources(self) -> dict[str, str]:
        """Read the amounts."""
        return {name: amount for name, amount in self._pairs("resources") if amount is not None}

    def clean_environ(self) -> dict[str, str | None]:
        """Read the variables; None removes one."""
        return dict(self._pairs("environ"))

    def clean_secret_environ(self) -> dict[str, str]:
        """Read the secret variables."""
        pairs = self._pairs("secret_environ")
        return {name: value for name, value in pairs if value is not None}

    def _pairs(self, field: str) -> list[tuple[str, str | None]]:
        pairs: list[tuple[str, str | None]] = []
        for line in self.cleaned_data[field].splitlines():
            name, given, value = line.partition("=")
            if not line.strip():
                continue
            if field == "resources" and not given:
                raise forms.ValidationError(f"{line.strip()[:40]} needs an amount: memory=8Gi.")
            if field == "secret_environ" and not given:
                # The line is not repeated here, because it may be a secret.
                raise forms.ValidationError("Each line needs a name and a value: NAME=value.")
            plain = value.strip() if field == "resources" else value
            pairs.append((name.strip(), plain if given else None))
        return pairs

    def clean(self) -> None:
        """Check what is asked for, as a call of the API is checked."""
        # The other fields are checked, too, so that all mistakes are told at once.
        right = [name for name in self.changed_data if name not in self.errors]
        changed = {name: self.cleaned_data.get(name) for name in right}
        reason = changed.pop("reason", "")
        changed.pop("downstream", None)
        try:
            body = SessionRetry.model_validate({"changes": changed, "reason": reason})
        except ValidationError as error:
            for path, texts in field_errors(error).items():
                self.refuse(path, texts)
            return
        self.asked = body.asked()

    def refuse(self, path: str, texts: Sequence[str]) -> None:
        """Say what is wrong at the field of a path such as `changes.environ`, or for the whole."""
        inner = path.removeprefix("changes.")
        field = _DEEPER.split(inner, maxsplit=1)[0]
        if field in _DOCUMENTS:
            text = self.data.get(field, "")
            self.add_error(field, refusal(text, {inner: texts}, inside=field))
        else:
            self.add_error(field if field in self.fields else None, " ".join(texts))

    def shown(self) -> list[Field]:
        """Return the fields as the page shows them."""
        wide = {"command", "environ", "secret_environ", *_DOCUMENTS}
        # A secret that was sent is not shown again.
        hidden: dict[str, dict[str, Any]] = {"secret_environ": {"value": ""}}
        return [
            shown_field(bound, wide=bound.name in wide, rows=4, **hidden.get(bound.name, {}))
            for bound in self
        ]


def _present(found: Session) -> dict[str, Any]:
    spec = found.spec
    return {
        "image": spec.image,
        "command": shlex.join(spec.command or []),
        "priority": found.priority,
        "batch_timeout": spec.batch_timeout,
    }


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
@never_cache
def retry_changes(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Show the form; a POST retries the session, and shows the new attempt."""
    found = session_or_404(request, session_id)
    sent = request.POST if request.method == "POST" else None
    values = permitted(visitor(request), Action.SESSION_VALUES, project=found.project)
    form = RetryChangesForm(found, sent, values=values)
    if form.is_bound and form.is_valid():
        made = _retry(request, form, session_id)
        if made is not None:
            messages.success(request, made.words)
            return _show(request, made.child_id or session_id)
    context = {
        "title": TITLE,
        "others_secrets": _others_secrets(found, request),
        "fields": form.shown(),
        "refused": " ".join(str(each) for each in form.non_field_errors()),
    }
    status = 400 if form.is_bound else 200
    return fragment(request, "retry_changes", found, context, status)


def _others_secrets(found: Session, request: HttpRequest) -> str:
    """Return the names of its secrets that somebody else gave than the visitor; "" for none."""
    by = found.spec.secrets_by or found.owner_id
    return (
        "" if by == require_user(visitor(request)).pk else ", ".join(found.spec.secret_names or ())
    )


def _retry(request: HttpRequest, form: RetryChangesForm, session_id: UUID) -> Retried | None:
    """Return what was retried; None if it was refused, which the form then says."""
    actor = visitor(request)
    try:
        found = session_get(actor, session_id, Action.SESSION_RETRY)
        also = form.cleaned_data.get("downstream")
        down = downstream_allowed(actor, [found.root_id]) if also else {}
        return session_retry_downstream(
            session_id, found.root_id, down, by=actor.name, changes=form.asked
        )
    except InvalidInput as error:
        for name, texts in error.errors.items():
            form.refuse(name, texts)
    except DomainError as error:
        form.refuse("", [f"{error.title}: {error.detail}."])
    return None


def _show(request: HttpRequest, child: UUID) -> HttpResponse:
    if request.headers.get("HX-Request") == "true":
        return HttpResponse(headers={"HX-Redirect": reverse("session", args=[child])})
    return redirect("session", child)
