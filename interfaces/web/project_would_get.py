"""What a session would get here: a body of a submission is read, tried and undone."""

from typing import Any

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from pydantic import ValidationError

from interfaces.forms.defaults import shown
from interfaces.forms.yaml_text import LONGEST, as_yaml
from interfaces.http.documents import parse_yaml
from interfaces.http.policy_text import refusal
from interfaces.http.problems import field_errors
from interfaces.requests.bodies import SessionCreate
from interfaces.web.parts import Field
from interfaces.web.project_frame import Place, of_project, part
from retry.policies.inline import InlinePolicy
from retry.policies.merge import Layer, bounded
from sessions_app.authorization import Action, require_user
from sessions_app.core.errors import DomainError, InvalidInput
from sessions_app.in_force.retry_scope import strictest
from sessions_app.models import Queue
from sessions_app.selectors.policies import policies_in_scope, reading_of, revisions_current
from sessions_app.selectors.sessions import queue_resolve
from sessions_app.selectors.why_pending import Reason
from sessions_app.services.sessions.preview import Preview, session_preview
from sessions_app.services.sessions.submission import Placed

EXAMPLE = {
    "image": "busybox:1.36",
    "command": ["python", "train.py"],
    "resources": {"cpu": "2", "memory": "4Gi"},
    "retry_policy": {"max_retries": 3, "retry_delay": 30},
}


def would_get_form(text: str, error: str = "") -> Field:
    """Return the field for the body."""
    return Field(
        "body",
        "The body of a submission",
        text or as_yaml(EXAMPLE),
        "textarea",
        help="YAML or JSON, as in POST /sessions/. The project is this one. Nothing is submitted.",
        error=error,
        wide=True,
        rows=9,
        max_length=LONGEST,
    )


@of_project(Action.SESSION_CREATE)
def would_get(request: HttpRequest, place: Place) -> HttpResponse:
    """Show the form and, if it was sent, what the session would get."""
    text = request.POST.get("body", "")[:LONGEST]
    context: dict[str, Any] = {}
    error = ""
    if request.method == "POST":
        try:
            context = {"result": _result(place, text)}
        except InvalidInput as refused:
            error = " ".join(refusal(text, refused.errors).messages)
        except DomainError as refused:
            error = f"{refused.title}: {refused.detail}."
    return part(
        request,
        place,
        "would_get",
        title="What would my session get",
        would_get=would_get_form(text, error),
        would_get_address=place.address("project-would-get"),
        **context,
    )


def _result(place: Place, text: str) -> dict[str, Any]:
    asked = _asked(place, text)
    queue = queue_resolve(place.actor, asked.project, asked.queue, Action.SESSION_CREATE)
    with transaction.atomic():
        found = session_preview(Placed(queue, require_user(place.actor).pk, asked.submission()))
    return {
        "queue": queue,
        "exists": None if found.created else found.session,
        "lines": _lines(found),
        "policies": _policies(place, queue, asked, found),
        "waits": found.waits,
        "fits": found.waits is not None and found.waits.reason is Reason.POSITION,
        "warnings": [*found.warnings, *_warnings(place, found)],
    }


def _asked(place: Place, text: str) -> SessionCreate:
    """Return the body. Raises `InvalidInput` with the path of each error."""
    address = place.project.address
    sent = parse_yaml(text.encode())
    if sent.get("project", address) != address:
        raise InvalidInput({"project": [f"must be {address!r}, whose page this is, or left out"]})
    try:
        return SessionCreate.model_validate({**sent, "project": address})
    except ValidationError as error:
        raise InvalidInput(field_errors(error)) from None


def _lines(found: Preview) -> list[dict[str, Any]]:
    """Return each field of the merged policy, with its layer and what a bound makes of it."""
    values = found.merged.policy.model_dump(mode="json")
    steps = {step["field"]: step for step in bounded(found.merged.policy, found.bounds)[1]}
    return [
        {
            "name": name,
            "value": shown(values[name], empty="any" if name == "retry_on_exit_codes" else "none"),
            "layer": found.merged.source[name].value,
            "own": found.merged.source[name] is Layer.SESSION,
            "bound": steps.get(name),
        }
        for name in InlinePolicy.model_fields
    ]


def _policies(
    place: Place, queue: Queue, asked: SessionCreate, found: Preview
) -> list[dict[str, Any]]:
    """Return the named policies in the order of their rules, each with who named it."""
    in_scope = policies_in_scope(place.project).filter(name__in=found.policies)
    known = {policy.name: policy for policy in in_scope}
    revisions = revisions_current(list(known.values()))
    rows = []
    for name in found.policies:
        policy = known.get(name)
        reading = reading_of(revisions[policy.pk]) if policy else None
        by = "the session" if name in asked.retry_policies else "the cluster's default"
        rows.append(
            {
                "name": name,
                "policy": policy,
                "by": f"the queue {queue.name}" if name in queue.retry_policies else by,
                "rules": len(reading.document.spec.rules or ()) if reading else 0,
                "warnings": reading.warnings if reading else (),
            }
        )
    return rows


def _warnings(place: Place, found: Preview) -> list[str]:
    texts = []
    mode = strictest(project=place.project, domain=place.project.domain).value
    if mode != "on":
        texts.append(f"retries are {mode} here: a failed session is not retried now")
    if not found.session.spec.resources:
        texts.append("it asks for no resources, so it may be started on a full node")
    return texts
