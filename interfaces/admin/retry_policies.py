"""The pages of named retry policies: a YAML document, its revisions and what each changed."""

from typing import Any

from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils.safestring import SafeString
from unfold.contrib.filters.admin import AutocompleteSelectFilter

from interfaces.admin.base import OperatorAdmin, OwnPage, actor_of, column, operator
from interfaces.admin.cells import change_url, folded, link, past
from interfaces.admin.policy_list import NAMED, LevelFilter, PolicyChangeList, StateFilter
from interfaces.admin.simulation import simulate_page
from interfaces.admin.theme import themed
from interfaces.forms.policy_document import EXAMPLE, PolicyForm
from interfaces.forms.revisions import difference
from interfaces.forms.yaml_text import as_yaml
from interfaces.render.policy_render import revision_json
from sessions_app.authorization import Action
from sessions_app.core.errors import Conflict, InvalidInput, NotFound
from sessions_app.in_force.config_scope import ConfigScope
from sessions_app.in_force.policy_uses import policies_uses
from sessions_app.models import RetryPolicy, RetryPolicyRevision
from sessions_app.selectors.policies import queues_naming, reading_of
from sessions_app.selectors.sessions import domain_get, project_get
from sessions_app.services.resources.policies import Applied, Deleted, policy_apply, policy_delete

SHOWN = 50
"""Most revisions that the page of a policy lists."""


@admin.register(RetryPolicy)
class RetryPolicyAdmin(OwnPage, OperatorAdmin):
    """The named policies. A policy is its document; the rest of its page is derived."""

    list_display = ("name", "of", "state", "numbered", "rules", "used_by", "changed")
    joined = ("domain", "project__domain")
    list_filter = (
        StateFilter,
        LevelFilter,
        ("domain", AutocompleteSelectFilter),
        ("project", AutocompleteSelectFilter),
    )
    search_fields = ("name__startswith",)
    ordering = ("name", "pk")
    list_before_template = "admin/policies_note.html"

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> Any:
        return PolicyChangeList

    def get_urls(self) -> list[URLPattern]:
        """Add the pages of revisions and of the simulation."""
        view = self.admin_site.admin_view
        own = [
            path("simulate/", view(self.simulate_view), name="sessions_app_retrypolicy_simulate"),
            path(
                "<int:policy_id>/revisions/<int:number>/",
                view(self.revision_view),
                name="sessions_app_retrypolicy_revision",
            ),
        ]
        found: list[URLPattern] = super().get_urls()
        return [*own, *found]

    def show(self, request: HttpRequest, object_id: str | None) -> HttpResponse:
        """Return the page with the document's form and the related data."""
        policy = None if object_id is None else self.get_object(request, object_id)
        if object_id is not None and policy is None:
            return self.missing(request, object_id)
        sent = request.POST if request.method == "POST" else None
        form = themed(PolicyForm(sent, initial=_initial(request, policy)))
        if form.is_bound and form.is_valid():
            was = policy.revision if policy else None
            made = _apply(request, form, policy)
            if made is not None:
                return _applied(request, made, was)
        return self._page(request, policy, form)

    def _page(
        self, request: HttpRequest, policy: RetryPolicy | None, form: PolicyForm
    ) -> HttpResponse:
        if policy is None:
            return self.page(request, "retry_policy", None, "Retry policy: a new one", form=form)
        revisions = list(policy.revisions.order_by("-revision")[: SHOWN + 1])
        return self.page(
            request,
            "retry_policy",
            policy,
            f"Retry policy: {policy}",
            form=form,
            current=revisions[0],
            warnings=reading_of(revisions[0]).warnings,
            revisions=revisions[:SHOWN],
            older=revisions[SHOWN:],
            places=_places(policy),
        )

    def revision_view(self, request: HttpRequest, policy_id: int, number: int) -> HttpResponse:
        """Return the page of one revision and of what it changed."""
        policy = self.get_object(request, str(policy_id))
        found = (
            policy.revisions.filter(revision__in=(number - 1, number, number + 1)) if policy else ()
        )
        near = {revision.revision: revision for revision in found}
        if policy is None or number not in near:
            return self.missing(request, policy_id)
        before = _text(near[number - 1]) if number - 1 in near else ""
        text = _text(near[number])
        return self.page(
            request,
            "retry_policy_revision",
            policy,
            f"Retry policy: {policy}, revision {number}",
            revision=near[number],
            warnings=reading_of(near[number]).warnings,
            text=text,
            difference=difference(before, text) if before else None,
            earlier=near.get(number - 1),
            later=near.get(number + 1),
        )

    def delete_view(
        self,
        request: HttpRequest,
        object_id: str,
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Return the page that says where the policy is used, or delete it."""
        policy = self.get_object(request, object_id)
        if policy is None:
            return self.missing(request, object_id)
        if request.method == "POST":
            return self._delete(request, policy)
        title = f"Delete the retry policy {policy}?"
        return self.page(request, "retry_policy_delete", policy, title, places=_places(policy))

    def _delete(self, request: HttpRequest, policy: RetryPolicy) -> HttpResponse:
        scope = ConfigScope(policy.domain, policy.project)
        try:
            outcome = policy_delete(policy.name, scope, by=operator(request))
        except (Conflict, NotFound) as error:
            messages.error(request, f"{error.title}: {error.detail}.")
            return HttpResponseRedirect(request.get_full_path())
        messages.success(request, _OUTCOMES[outcome].format(policy=policy))
        return HttpResponseRedirect(reverse("admin:sessions_app_retrypolicy_changelist"))

    def simulate_view(self, request: HttpRequest) -> HttpResponse:
        """Return the page that says what a draft would have decided."""
        asked = request.GET.get("policy", "")
        policy = self.get_object(request, asked) if asked else None
        draft = _text(_current(policy)) if policy else EXAMPLE
        context = simulate_page(request, self.admin_site, draft, policy)
        title = "Simulate a policy on past sessions"
        return self.page(request, "simulate", None, title, based_on=policy, **context)

    def page(
        self,
        request: HttpRequest,
        name: str,
        policy: RetryPolicy | None,
        title: str,
        **context: Any,
    ) -> HttpResponse:
        """Return a page made with one of the templates of this file."""
        shared = {
            "original": policy,
            "list_url": reverse("admin:sessions_app_retrypolicy_changelist"),
            "audit_url": self.audit_url(policy) if policy else "",
            "media": self.media,
        }
        return self.render(request, name, title, **{**shared, **context})

    @column("scope")
    def of(self, policy: RetryPolicy) -> str:
        return policy.scope

    @column("state", label={"in force": "success", "archived": "warning"})
    def state(self, policy: RetryPolicy) -> str:
        return "in force" if policy.archived_at is None else "archived"

    @column("revision")
    def numbered(self, policy: RetryPolicy) -> int:
        return policy.revision

    @column("rules")
    def rules(self, policy: Any) -> int:
        return int(policy.details.rules)

    @column("used by")
    def used_by(self, policy: Any) -> SafeString | str:
        return folded(policy.details.places, NAMED)

    @column("changed")
    def changed(self, policy: Any) -> str:
        return past(policy.details.revision.created_at)


_OUTCOMES = {
    Deleted.DELETED: "The retry policy {policy} is deleted.",
    Deleted.ARCHIVED: "The retry policy {policy} is archived: unfinished chains name it still, and "
    "it goes on deciding for them.",
}


def _current(policy: RetryPolicy) -> RetryPolicyRevision:
    return policy.revisions.get(revision=policy.revision)


def _text(revision: RetryPolicyRevision) -> str:
    return as_yaml(revision_json(revision)["document"])


def _initial(request: HttpRequest, policy: RetryPolicy | None) -> dict[str, Any]:
    """Return the form's values: the policy, the old revision in the address, or the example."""
    if policy is None:
        return {"text": EXAMPLE}
    asked = request.GET.get("revision", "")
    old = None
    if asked.isascii() and asked.isdigit() and len(asked) < 10:
        old = policy.revisions.filter(revision=int(asked)).first()
    return {"text": _text(old or _current(policy)), "revision": policy.revision}


def _places(policy: RetryPolicy) -> list[SafeString]:
    """Return links to the places that use a policy."""
    uses = policies_uses([policy])[policy.pk]
    known = {str(queue): queue.pk for queue in queues_naming(policy)}
    places = [
        link(change_url("queue", known[address]), f"queue {address}")
        for address in uses.queues
        if address in known
    ]
    if uses.default:
        url = f"{reverse('admin:sessions_app_retrysettings_add')}?cluster=1"
        places.insert(0, link(url, "the cluster's default policy"))
    return places


def _apply(request: HttpRequest, form: PolicyForm, policy: RetryPolicy | None) -> Applied | None:
    """Apply the form. Return what was applied, or None if the form has the reason for a refusal."""
    document = form.document
    try:
        if policy is None:
            scope = _scope_named(request, document.metadata.domain, document.metadata.project)
            return policy_apply(document, scope, by=operator(request), create=True)
        if document.metadata.name != policy.name:
            raise InvalidInput({"metadata.name": [f"must stay {policy.name!r}"]})
        return policy_apply(
            document,
            ConfigScope(policy.domain, policy.project),
            by=operator(request),
            revision=form.cleaned_data["revision"],
        )
    except (InvalidInput, Conflict) as error:
        if policy is not None:
            policy.refresh_from_db()
        form.refuse(error, policy.revision if policy else None)
    return None


def _scope_named(request: HttpRequest, domain: str | None, project: str | None) -> ConfigScope:
    """Return the scope that a document names.

    Raises `InvalidInput` with the field if the scope does not exist.
    """
    actor, action = actor_of(request), Action.POLICY_WRITE
    try:
        if project is not None:
            return ConfigScope(project=project_get(actor, domain or "", project, action))
        return ConfigScope(domain=domain_get(actor, domain, action)) if domain else ConfigScope()
    except NotFound as error:
        field = "metadata.domain" if project is None else "metadata.project"
        raise InvalidInput({field: [error.detail]}) from None


def _applied(request: HttpRequest, made: Applied, was: int | None) -> HttpResponse:
    policy, number = made.policy, made.revision.revision
    if number == was:
        messages.info(request, f"Nothing was changed: revision {number} has the same text.")
    else:
        messages.success(request, f"Revision {number} of {policy} decides from now on.")
    return HttpResponseRedirect(change_url("retrypolicy", policy.pk))
