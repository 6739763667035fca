"""The pages of API tokens: created and shown once, or revoked."""

from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from interfaces.admin.base import OperatorForm, RecordAdmin, column, operator
from interfaces.admin.cells import coming, past
from interfaces.forms.tokens import TokenChecks
from sessions_app.models import ApiToken
from sessions_app.services.access import unisolated
from sessions_app.services.access.tokens import token_create, token_made, token_revoke

_SHOWN = "reprise_shown_once"


class TokenForm(TokenChecks, OperatorForm):
    """The form of a token: its bearer, and its restrictions."""

    refusals: ClassVar = {"token_one_bearer": ("user", "Give either a user or an executor.")}

    class Meta:
        help_texts = {
            "name": "what it is for",
            "executor_name": "the executor whose agent uses the token; the token can do nothing "
            "else",
            "project": "the only project that the token may use; empty: all projects of the user",
            "expires_at": "empty: never",
        }

    def clean(self) -> dict[str, Any] | None:
        """Check that an executor's token has no restrictions."""
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if cleaned.get("executor_name") and (cleaned.get("project") or cleaned.get("read_only")):
            raise forms.ValidationError("The token of an executor cannot be restricted.")
        return cleaned


class ShowsToken(RecordAdmin):
    """A mixin that shows a new token once, on the page that answers the form.

    A page after a redirect would have to get it from a cookie.
    """

    def show_once(self, request: HttpRequest, secret: str) -> None:
        """Keep the new token for the answer to this request."""
        setattr(request, _SHOWN, secret)

    def response_add(self, request: HttpRequest, obj: Any, post_url_continue: Any = None) -> Any:
        """Show the new token. No cache stores the pages of the admin."""
        secret = getattr(request, _SHOWN, None)
        if secret is None:
            return super().response_add(request, obj, post_url_continue)
        url = reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_changelist")
        context = {"token": secret, "ends": getattr(obj, "expires_at", None), "list_url": url}
        return self.render(request, "token", f"Token of {obj}", **context)


@admin.register(ApiToken)
class ApiTokenAdmin(ShowsToken):
    """The tokens. They never change: revoke one and create another."""

    form = TokenForm
    list_display = ("name", "prefix", "bearer", "project", "read_only", "expires", "used")
    joined = ("user", "project__domain")
    search_fields = ("prefix__startswith", "name__startswith", "user__username__startswith")
    list_filter = ("read_only",)
    ordering = ("-pk",)
    autocomplete_fields = ("user", "project")
    fields = ("name", "user", "executor_name", "project", "read_only", "expires_at")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def store(self, request: HttpRequest, record: Any, form: Any) -> None:
        """Create the token and show it this once."""
        secret = token_create(
            name=record.name,
            user=record.user,
            executor_name=record.executor_name,
            project=record.project,
            read_only=record.read_only,
            expires_at=record.expires_at,
            by=operator(request),
        )
        made = token_made(secret)
        record.pk, record.prefix = made.pk, made.prefix
        self.show_once(request, secret)
        for text in unisolated.warnings():
            messages.warning(request, text)

    def audited_as(self, record: Any) -> tuple[str, str]:
        """Return the type and the id of a token in the audit log."""
        return "token", record.prefix

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        """Revoke the token by its service."""
        token_revoke(prefix=obj.prefix, by=operator(request))

    @column("bearer")
    def bearer(self, token: ApiToken) -> str:
        return token.user.username if token.user else f"executor {token.executor_name}"

    @column("expires")
    def expires(self, token: ApiToken) -> str:
        if token.expires_at is None:
            return "never"
        return (
            past(token.expires_at)
            if token.expires_at < timezone.now()
            else coming(token.expires_at)
        )

    @column("last used")
    def used(self, token: ApiToken) -> str:
        return past(token.last_used_at)
