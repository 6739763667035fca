"""The form of a named policy: a YAML document, read as in the API."""

from collections.abc import Mapping
from typing import Any

from django import forms
from django.http import QueryDict

from interfaces.forms.yaml_text import YamlField
from interfaces.http.policy_text import read_policy, refusal
from retry.policies.documents import PolicyDocument
from sessions_app.core.errors import Conflict, InvalidInput

EXAMPLE = """\
apiVersion: reprise/v1
kind: RetryPolicy
metadata:
  name: my-policy          # for the whole cluster; for one domain add `domain: acme`,
                           # for one project also `project: ml`
spec:
  retryLimit: 5            # for rules without a limit of their own
  backoff: {initialDelay: 10s, maxDelay: 5m, multiplier: 2.0}
  rules:                   # the first rule that matches decides
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
HELP = (
    "Unknown keys are errors. Comments are not kept. A saved document applies from the next "
    "failure on, also to running chains."
)


OF_A_FAILURE = """\
apiVersion: reprise/v1
kind: RetryPolicy
metadata: {name: NAME}
spec:
  rules:
    # TITLE
    - name: failure-SIGNATURE
      action: Fail             # or Retry, with a retryLimit
      onSignatures: ["SIGNATURE"]
"""


def policy_of_failure(name: str, signature: str, title: str) -> str:
    """Return a policy with a rule for a failure, as YAML; the title is a comment."""
    plain = "".join(each if each.isprintable() else " " for each in title)
    text = OF_A_FAILURE.replace("NAME", name).replace("SIGNATURE", signature)
    return text.replace("    # TITLE\n", f"    # {plain}\n" if plain else "")


def with_rule_of_failure(document: Mapping[str, Any], signature: str) -> dict[str, Any]:
    """Return the document of a policy with a rule for a failure before all others, unless it has
    one."""
    spec = document["spec"]
    rules = spec.get("rules") or []
    if any(signature in (rule.get("onSignatures") or ()) for rule in rules):
        return dict(document)
    rule = {"name": f"failure-{signature}", "action": "Fail", "onSignatures": [signature]}
    return {**document, "spec": {**spec, "rules": [rule, *rules]}}


class PolicyForm(forms.Form):
    """The form of a policy. After `is_valid`, `document` is the policy."""

    text = YamlField(
        rows=28,
        label="Document",
        help_text=HELP,
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
        self.add_error(None, f"{error.title}: {error.detail}. Save again to replace it.")
        self.data = self.data.copy()
        self.data["revision"] = str(revision)
