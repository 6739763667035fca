"""The form of a named policy: a YAML document, read as in the API."""

from typing import Any

from django import forms
from django.http import QueryDict
from pydantic import ValidationError

from retry.policies.documents import PolicyDocument
from sessions_app.admin.yaml_text import YamlField, refusal
from sessions_app.api.http.documents import parse_yaml
from sessions_app.api.http.problems import field_errors
from sessions_app.core.errors import Conflict, InvalidInput

EXAMPLE = """\
apiVersion: reprise/v1
kind: RetryPolicy
metadata:
  name: my-policy          # of the whole cluster; with `domain: acme`, or that and
                           # `project: ml`, of that domain or project alone
spec:
  retryLimit: 5            # of each rule below that has none of its own
  backoff: {initialDelay: 10s, maxDelay: 5m, multiplier: 2.0}
  rules:                   # the first one that matches decides
    - name: preempted
      action: Retry
      onConditions: [Preempted, Evicted]
      antiAffinity: {mode: node}          # the next attempt avoids that node
    - name: out-of-memory
      action: Retry
      onConditions: [OOMKilled]
      retryLimit: 3
      resources: {memory: {factor: 1.5, max: 64Gi}}
    - name: bad-input
      action: Fail
      onExitCodes: {operator: In, values: [2, 65]}
    - name: transient
      action: Retry
      onTerminationMessage: {pattern: "TRANSIENT|connection reset"}
"""


def read_policy(text: str) -> PolicyDocument:
    """Return the policy in a text.

    Raises a form's `ValidationError` with the path and line of each error.
    """
    try:
        sent = parse_yaml(text.encode())
        # The output of `reprise get -o yaml` is valid input. Its status is ignored.
        sent.pop("status", None)
        return PolicyDocument.model_validate(sent)
    except InvalidInput as error:
        raise refusal(text, error.errors) from None
    except ValidationError as error:
        raise refusal(text, field_errors(error)) from None


class PolicyForm(forms.Form):
    """The form of a policy. After `is_valid`, `document` is the policy."""

    text = YamlField(
        rows=28,
        label="Document",
        help_text="Unknown keys are errors. Comments are not kept. What is saved decides from the "
        "next failure on, for chains that run already, too.",
    )
    # The revision that the user saw, so that no edit is overwritten unnoticed.
    revision = forms.IntegerField(
        min_value=1, max_value=2**31 - 1, required=False, widget=forms.HiddenInput
    )

    data: QueryDict
    document: PolicyDocument

    def clean_text(self) -> str:
        """Parse the document."""
        text: str = self.cleaned_data["text"]
        self.document = read_policy(text)
        return text

    def refuse(self, error: InvalidInput | Conflict, revision: int | None) -> None:
        """Show the service's refusal at the text, which stays as it was sent.

        If somebody has edited the policy meanwhile, saving again replaces that edit, which is
        `revision`.
        """
        text = self.cleaned_data["text"]
        if isinstance(error, InvalidInput):
            self.add_error("text", refusal(text, error.errors))
            return
        fields: Any = error.extra.get("errors")
        if fields:
            self.add_error("text", refusal(text, {path: [error.detail] for path in fields}))
            return
        self.add_error(None, f"{error.title}: {error.detail}. Save again to put yours over it.")
        self.data = self.data.copy()
        self.data["revision"] = str(revision)
