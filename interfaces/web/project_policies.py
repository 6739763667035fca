"""The named policies of a project: list, editor, revisions with what each changed, deletion."""

import re
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect

from interfaces.forms.policy_document import EXAMPLE, PolicyForm
from interfaces.forms.policy_rules import may_be_retried, policy_for
from interfaces.forms.revisions import difference
from interfaces.forms.yaml_text import as_yaml
from interfaces.render.policy_render import revision_json
from interfaces.web.failure_rules import (
    new_policy_text,
    policy_of_known_failures,
    text_with_rule,
)
from interfaces.web.parts import Column, Confirm, Empty, Listing
from interfaces.web.project_draft import draft_checked, draft_tried
from interfaces.web.project_frame import Place, of_project, page, question
from interfaces.web.project_rules import draft_rules, text_field
from retry.policies.fields import SIGNATURE
from sessions_app.authorization import Action
from sessions_app.core.errors import Conflict, InvalidInput, NotFound
from sessions_app.in_force.config_scope import ConfigScope
from sessions_app.in_force.policy_uses import policies_uses
from sessions_app.models import RetryPolicy, RetryPolicyRevision
from sessions_app.selectors.policies import (
    policies_in_scope,
    policy_get,
    queues_visible,
    reading_of,
    revisions_current,
    revisions_of,
)
from sessions_app.selectors.sessions import session_get
from sessions_app.services.resources.policies import (
    Applied,
    Deleted,
    policy_apply,
    policy_delete,
)

PAGE = 100
"""Most policies of a page of the list."""
MOST_REVISION = 2**31 - 1
"""As many as the column can number."""
SHOWN = 20
"""Most revisions that the page of a policy lists."""


@of_project(Action.PROJECT_READ, methods=("GET", "HEAD"))
def policies(request: HttpRequest, place: Place) -> HttpResponse:
    """List the policies that sessions of the project can name; `?after=` is the last name before.

    A name is unique in the reach of a project.
    """
    rows = policies_in_scope(place.project).select_related("domain", "project__domain")
    after = request.GET.get("after", "")
    found = list(rows.filter(name__gt=after.replace("\0", ""))[: PAGE + 1])
    shown = found[:PAGE]
    revisions = revisions_current(shown)
    queues = queues_visible(place.actor).filter(project=place.project)
    uses = policies_uses(shown, queues) if shown else {}
    listing = Listing(
        "Retry policies",
        [
            Column("Policy", "name"),
            Column("Scope", "more"),
            Column("Rules", "more"),
            Column("Named by", "more"),
            Column("Changed", "age"),
        ],
        "projects/policy_row.html",
        [_row(place, each, revisions[each.pk], uses[each.pk]) for each in shown],
        Empty("There are no policies yet.", "Sessions are retried as the defaults say."),
        first="?" if after else "",
        next=f"?after={shown[-1].name}" if len(found) > PAGE else "",
    )
    may_write = place.may(Action.POLICY_WRITE)
    new = place.address("project-policy-new")
    return page(request, place, "policies", list=listing, changes=may_write, new=new)


def _row(
    place: Place, policy: RetryPolicy, revision: RetryPolicyRevision, uses: Any
) -> dict[str, Any]:
    return {
        "id": policy.pk,
        "name": policy.name,
        "address": policy_address(place, policy),
        "scope": policy.scope,
        "rules": len(reading_of(revision).document.spec.rules or ()),
        "warnings": len(reading_of(revision).warnings),
        "queues": [queue.rpartition("/")[2] for queue in uses.queues],
        "default": uses.default,
        "at": revision.created_at,
        "by": revision.created_by,
    }


def policy_address(place: Place, policy: RetryPolicy) -> str:
    level = "project" if policy.project_id else "domain" if policy.domain_id else "cluster"
    query = "" if level == "project" else f"?of={level}"
    return place.address("project-policy", policy.name) + query


@of_project(Action.POLICY_WRITE)
def policy_new(request: HttpRequest, place: Place) -> HttpResponse:
    """Show the editor with an example, or create the policy.

    A rule for a failure, which `?signature=` names, goes into the policy for known failures if the
    project has one.
    """
    signature = _signature(request)
    known = policy_of_known_failures(place) if signature and request.method == "GET" else None
    if known is not None:
        messages.info(request, "A rule for this failure is in the text: saved, it decides.")
        return redirect(f"{policy_address(place, known)}?{urlencode({'signature': signature})}")
    return _editor(request, place, None)


@of_project(Action.PROJECT_READ)
def policy(request: HttpRequest, place: Place, name: str) -> HttpResponse:
    """Show the editor of a policy. Those of the domain and the cluster can be tried, not saved."""
    return _editor(request, place, policy_found(request, place, name))


def policy_found(request: HttpRequest, place: Place, name: str) -> RetryPolicy:
    """Return the policy, of the scope that `?of=` says. Raises `NotFound`."""
    domain = place.project.domain.name
    scopes: dict[str, tuple[str | None, str | None]] = {
        "domain": (domain, None),
        "cluster": (None, None),
    }
    scope = scopes.get(request.GET.get("of", ""), (domain, place.project.name))
    return policy_get(place.actor, name, *scope)


def _editor(request: HttpRequest, place: Place, found: RetryPolicy | None) -> HttpResponse:
    own = found is None or found.project_id == place.project.pk
    sent = request.POST if request.method == "POST" else None
    if sent is not None and "rule" in sent:
        # Without JavaScript a button of the rules leads here.
        drawn = draft_rules(sent)
        revision = _number(sent.get("revision", "")) or None
        form = PolicyForm(initial={"text": drawn.text, "revision": revision})
    else:
        form = PolicyForm(sent, initial=_initial(request, place, found))
        drawn = draft_rules({"text": form["text"].value() or ""})
    context: dict[str, Any] = {"rules": drawn}
    if form.is_bound and request.POST.get("act") == "check":
        # Without JavaScript both parts come with the page.
        name = found.name if found else ""
        context["checked"] = draft_checked(place, request.POST, name)
        context["tried"] = draft_tried(place, request.POST)
    elif form.is_bound:
        place.require(Action.POLICY_WRITE)
        if not own:
            raise Http404
        made = _apply(place, form, found) if form.is_valid() else None
        if made is not None:
            _say(request, made, found.revision if found else None)
            return redirect(place.address("project-policy", made.policy.name))
    changes = own and place.may(Action.POLICY_WRITE)
    status = 400 if form.errors and "checked" not in context else 200
    context |= _around(place, found, form) | {"changes": changes}
    return page(request, place, "policy", status, **context)


def _signature(request: HttpRequest) -> str:
    """Return the signature in the address; "" if it is none."""
    signature = request.GET.get("signature", "")
    return signature if re.fullmatch(SIGNATURE, signature) else ""


def _initial(request: HttpRequest, place: Place, found: RetryPolicy | None) -> dict[str, Any]:
    """Return the form's values: the policy, the old revision in the address, or an example.

    A new one begins with a rule for the failure of the session that `?for=` names, or for the one
    with the `?signature=`; that one's rule also comes before those of a policy.
    """
    signature = _signature(request)
    if found is None:
        if signature:
            return {"text": new_policy_text(place, signature)}
        return {"text": _for_a_failure(place, request.GET.get("for", "")) or EXAMPLE}
    number = _number(request.GET.get("revision", ""))
    old = revisions_of(found).filter(revision__in=(number, found.revision)).order_by("revision")
    chosen = {each.revision: each for each in old}
    shown = chosen.get(number, chosen[found.revision])
    document = revision_json(shown)["document"]
    text = text_with_rule(document, signature) if signature else as_yaml(document)
    return {"text": text, "revision": found.revision}


def _for_a_failure(place: Place, session_id: str) -> str:
    try:
        failed = session_get(place.actor, UUID(session_id))
    except (ValueError, NotFound):
        return ""
    if failed.project_id != place.project.pk or not may_be_retried(failed.retry_cause):
        return ""
    project = place.project
    return policy_for(failed.retry_cause, failed.exit_code, project.domain.name, project.name)


def _number(text: str) -> int:
    """Return the number of a revision; 0 if the text is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def text_of(revision: RetryPolicyRevision) -> str:
    """Return the document of a revision as YAML."""
    return as_yaml(revision_json(revision)["document"])


def _around(place: Place, found: RetryPolicy | None, form: PolicyForm) -> dict[str, Any]:
    """Return what the page of a policy has around its text."""
    text = form["text"]
    error = " ".join(str(each) for each in text.errors)
    field = text_field(str(text.value() or ""), error, str(text.field.help_text))
    errors = [str(each) for each in form.non_field_errors()]
    context: dict[str, Any] = {
        "policy": found,
        "field": field,
        "revision": form["revision"].value() or "",
        "refused": errors,
        "rules_address": place.address("project-draft-rules"),
        "check_address": place.address("project-draft-check"),
        "history_address": place.address("project-draft-history"),
        "list_address": place.address("project-policies"),
    }
    if found is None:
        return context
    revisions = list(revisions_of(found).order_by("-revision")[: SHOWN + 1])
    queues = queues_visible(place.actor).filter(project=place.project)
    uses = policies_uses([found], queues)[found.pk]
    named = {queue.rpartition("/")[2] for queue in uses.queues}
    others = queues.exclude(name__in=named).order_by("name").values_list("name", flat=True)
    return context | {
        "revisions": revisions[:SHOWN],
        "older": revisions[SHOWN:],
        "uses": uses,
        "named_by": [(name, place.address("project-queue", name)) for name in sorted(named)],
        "offered": list(others[:SHOWN]) if place.may(Action.QUEUE_WRITE) else [],
        "warnings": reading_of(revisions[0]).warnings,
    }


def _apply(place: Place, form: PolicyForm, found: RetryPolicy | None) -> Applied | None:
    """Apply the form. Return what was applied, or None if the form has the reason against it."""
    scope, by = ConfigScope(project=place.project), place.actor.name
    try:
        if found is None:
            return policy_apply(form.document, scope, by=by, create=True)
        if form.document.metadata.name != found.name:
            raise InvalidInput({"metadata.name": [f"must stay {found.name!r}"]})
        revision = form.cleaned_data["revision"]
        return policy_apply(form.document, scope, by=by, revision=revision)
    except (InvalidInput, Conflict) as error:
        if found is not None:
            found.refresh_from_db()
        form.refuse(error, found.revision if found else None)
    return None


def _say(request: HttpRequest, made: Applied, was: int | None) -> None:
    number = made.revision.revision
    if number == was:
        messages.info(request, f"Nothing was changed: revision {number} has the same text.")
    else:
        text = f"Revision {number} of {made.policy.name} decides from now on"
        where = "for chains that name it, by their queue or by themselves."
        messages.success(request, f"{text}, {where}")
    for warning in made.ignored:
        messages.warning(request, f"{warning}.")


@of_project(Action.PROJECT_READ)
def revision(request: HttpRequest, place: Place, name: str, number: int) -> HttpResponse:
    """Show one revision and what it changed; a POST restores it as a new revision."""
    found = policy_found(request, place, name)
    own = found.project_id == place.project.pk
    if number >= MOST_REVISION:
        raise Http404
    near = revisions_of(found).filter(revision__in=(number - 1, number, number + 1))
    known = {each.revision: each for each in near}
    if number not in known or (request.method == "POST" and not own):
        raise Http404
    if request.method == "POST":
        place.require(Action.POLICY_WRITE)
        return _restore(request, place, found, known[number])
    text = text_of(known[number])
    before = text_of(known[number - 1]) if number - 1 in known else ""
    return page(
        request,
        place,
        "revision",
        policy=found,
        revision=known[number],
        text=text,
        difference=difference(before, text) if before else None,
        earlier=known.get(number - 1),
        later=known.get(number + 1),
        scope_query=policy_address(place, found).partition("?")[2],
        restores=own and number != found.revision and place.may(Action.POLICY_WRITE),
    )


def _restore(
    request: HttpRequest, place: Place, found: RetryPolicy, old: RetryPolicyRevision
) -> HttpResponse:
    scope = ConfigScope(project=place.project)
    seen = request.POST.get("seen", "")
    try:
        made = policy_apply(
            reading_of(old).document,
            scope,
            by=place.actor.name,
            revision=_number(seen),
        )
    except (Conflict, InvalidInput) as error:
        messages.error(request, f"Not restored: {error}.")
        return redirect(place.address("project-policy-revision", found.name, old.revision))
    _say(request, made, found.revision)
    return redirect(place.address("project-policy", found.name))


@of_project(Action.POLICY_WRITE)
def delete(request: HttpRequest, place: Place, name: str) -> HttpResponse:
    """Ask before a policy of the project is deleted, or delete it."""
    found = policy_get(place.actor, name, place.project.domain.name, place.project.name)

    def do() -> str:
        outcome = policy_delete(name, ConfigScope(project=place.project), by=place.actor.name)
        done = "deleted" if outcome is Deleted.DELETED else "archived: chains still name it"
        return f"The retry policy {name} is {done}."

    places = [f"queue {queue}" for queue in policies_uses([found])[found.pk].queues]
    back = place.address("project-policy", name)
    text = (
        "New chains cannot use it, and its name is free again. If unfinished chains use it, it is "
        "archived: it goes on deciding for them. Its revisions are deleted, too."
    )
    confirm = Confirm(
        f"Delete the retry policy {name}" if not places else f"{name} is in use",
        text if not places else "It can be deleted when no queue names it.",
        "Yes, delete it",
        place.address("project-policy-delete", name),
        back,
        tone="danger",
        facts=[("named by", each) for each in places],
        possible=not places,
    )
    return question(request, place, confirm, do, place.address("project-policies"))
