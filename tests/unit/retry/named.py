"""Named policies and categories in a line, so that a test names only what it is about."""

from typing import Any

from retry.policies.categories import FailureCategory
from retry.policies.documents import PolicyDocument
from retry.policies.matching import CompiledCategory, NamedPolicy, compile_category, compile_policy


def as_document(*rules: dict[str, Any], name: str = "infra", **spec: Any) -> dict[str, Any]:
    """A policy as its author writes it; keywords are fields of its `spec`."""
    return {
        "apiVersion": "reprise/v1",
        "kind": "RetryPolicy",
        "metadata": {"name": name},
        "spec": {**spec, **({"rules": list(rules)} if rules else {})},
    }


def read(*rules: dict[str, Any], **spec: Any) -> PolicyDocument:
    return PolicyDocument.model_validate(as_document(*rules, **spec))


def named(*rules: dict[str, Any], revision: int | None = 1, **spec: Any) -> NamedPolicy:
    return compile_policy(read(*rules, **spec), revision=revision)


def category(name: str, *matchers: dict[str, Any]) -> CompiledCategory:
    document = {"name": name, "matchers": list(matchers)}
    return compile_category(FailureCategory.model_validate(document))


def on_causes(action: str, *causes: str, **rule: Any) -> dict[str, Any]:
    """A rule that looks at the cause alone."""
    return {"action": action, "onCauses": list(causes), **rule}


FAILURES = ("kernel_nonzero_exit", "oom_killed", "unknown")
