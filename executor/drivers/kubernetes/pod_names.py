"""The names, namespaces and labels of Reprise's pods."""

import hashlib
import re
from collections.abc import Mapping
from typing import Any

PREFIX = "reprise.dev/"
FINALIZER = f"{PREFIX}evidence"
"""The finalizer that keeps a pod until its end was read."""

AWAITS_SECRET = f"{PREFIX}awaits-secret"
"""The annotation of the first pod of a lease until the Secret of the lease exists."""

SESSION = f"{PREFIX}session"
ROOT = f"{PREFIX}root"
ATTEMPT = f"{PREFIX}attempt"
RANK = f"{PREFIX}rank"
TOKEN = f"{PREFIX}fencing-token"
EXECUTOR = f"{PREFIX}executor"
PROJECT = f"{PREFIX}project"
QUEUE = f"{PREFIX}queue"
JOB_SET = f"{PREFIX}job-set"
NAME = f"{PREFIX}name"
LABELS = f"{PREFIX}labels"

STAYS = {
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "karpenter.sh/do-not-disrupt": "true",
}
"""Annotations against autoscalers that would move a pod to another node: for a run that is its
end. The user's own values win."""

NAMESPACE_TEMPLATE = "reprise-{project}"
LONGEST = 63
_LONGEST_NAME = 253
_PLACE = "{project}"
_HASH = 20
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def pod_name(root_id: str, rank: int, attempt: int) -> str:
    """Return `reprise-<root>-<rank>`; a retry has `-<attempt>`, its `retry_count`, at the end."""
    return f"reprise-{root_id}-{rank}" + (f"-{attempt}" if attempt else "")


def service_name(root_id: str, fencing_token: int) -> str:
    """Return the name of a lease's headless Service, which is also that of its Secret.

    The name changes with each lease: the Service of an earlier lease may still exist until its
    owner is deleted.
    """
    return f"reprise-{root_id}-{fencing_token}"


def check_template(template: str) -> str:
    """Return the template of namespaces if it is valid. Raises `ValueError`."""
    fixed = template.replace(_PLACE, "x", 1)
    if template.count(_PLACE) != 1 or not _LABEL.fullmatch(fixed) or "--" in fixed:
        raise ValueError(f"must hold {_PLACE} once, else lower-case letters, digits and single '-'")
    if len(fixed) > LONGEST // 2:
        raise ValueError(f"must leave {LONGEST // 2} characters for {_PLACE}")
    return template


def check_name(name: str) -> str:
    """Return the name of an object of the cluster if it is valid. Raises `ValueError`."""
    if len(name) > _LONGEST_NAME or not _DOMAIN.fullmatch(name):
        raise ValueError(
            f"must be lower-case letters, digits, '-' and '.', at most {_LONGEST_NAME} characters"
        )
    return name


def namespace(template: str, project: str) -> str:
    """Return the namespace of a project (`domain/name`); no two projects have the same one.

    `{project}` becomes `<domain>--<name>`. Names that are long or contain `--` are cut and joined
    to a hash by `---`, which no other namespace contains.
    """
    domain, _, name = project.partition("/")
    plain = template.replace(_PLACE, f"{domain}--{name}")
    if "--" not in domain and "--" not in name and len(plain) <= LONGEST:
        return plain
    room = LONGEST - len(template) + len(_PLACE) - _HASH - len("---")
    readable = re.sub("-{2,}", "-", f"{domain}-{name}")[:room].strip("-")
    return template.replace(_PLACE, f"{readable}---{_digest(project)[:_HASH]}")


def label_value(text: str) -> str:
    """Return the text as a label value: unchanged if valid, else its valid characters and a
    hash."""
    if len(text) <= LONGEST and _VALUE.fullmatch(text):
        return text
    kept = re.sub(r"[^A-Za-z0-9_.]+", "-", text)[: LONGEST - 13].strip("-_.")
    return f"{kept}-{_digest(text)[:12]}".lstrip("-")


def project_label(project: str) -> str:
    """Return the label of a project as `domain.name`; no name contains a dot."""
    return label_value(project.replace("/", "."))


def users_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the session's labels that are valid for a pod and not Reprise's own."""
    return {key: value for key, value in labels.items() if _is_label(key, value)}


def _is_label(key: str, value: str) -> bool:
    domain, slash, name = key.rpartition("/")
    qualified = not slash or (len(domain) <= _LONGEST_NAME and _DOMAIN.fullmatch(domain))
    well_formed = qualified and name and len(name) <= LONGEST and _VALUE.fullmatch(name)
    fits = len(value) <= LONGEST and _VALUE.fullmatch(value)
    return bool(well_formed and fits) and not is_ours(key)


def awaits_secret(pod: Mapping[str, Any]) -> bool:
    """Return whether the pod still has the annotation that its Secret is awaited."""
    metadata = pod.get("metadata") or {}
    return AWAITS_SECRET in (metadata.get("annotations") or {})


def is_ours(key: str) -> bool:
    """Return whether only Reprise writes this label, annotation or finalizer."""
    return key.startswith(PREFIX)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
