"""Derives what the agent must report of a session from observations of its pods. Pure.

Observations come in any order. A resource version is no number, so it does not say which of two
observations is newer. But some facts of a pod never go back, and an observation in which one of
them did is an old one.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from reprise_client.wire import LeaseKey, Termination

from executor.drivers.kubernetes.pod_trim import Pod, trimmed
from executor.drivers.kubernetes.pod_words import (
    KUEUES,
    LAST,
    Probes,
    condition,
    containers,
    event_time,
    first_failed,
    messages,
    waiting,
)
from executor.drivers.protocol import Observation, facts

VANISHED_AFTER = 3
"""Lists in a row that lack a pod before it counts as gone."""
VANISHED = "PodVanished"

STEPS = ("PREPARING", "PULLING", "PREPARED", "CREATING", "RUNNING", "TERMINATING")
PREPARING, PULLING, PREPARED, CREATING, RUNNING, TERMINATING = range(len(STEPS))

_PHASES = {"Pending": 0, "Running": 1, "Unknown": 1, "Succeeded": 2, "Failed": 2}
_TERMINAL = frozenset({"Succeeded", "Failed"})
_CREATED_NOT = frozenset(
    {
        *("CreateContainerError", "CreateContainerConfigError", "StartError", "RunContainerError"),
        *("PreCreateHookError", "PreStartHookError", "PostStartHookError"),
        *("RROUnsupported", "ImageVolumeMountFailed"),
    }
)
_EVENT_STEPS = {"Pulled": PREPARED, "Created": CREATING}


class PodTracker:
    """The observations of the pod of one rank."""

    def __init__(self, name: str):
        self.name = name
        self.pod: Pod | None = None
        """The newest observation, trimmed."""
        self.end: Pod | None = None
        """The first observation with a terminal phase."""
        self.progress = PREPARING
        self.deleted_by_us = False
        self.began = False
        """A container was seen to have started."""
        self._gone = False
        self._missed = 0
        self.given_up = False
        """The pod outlasted its deletion: nobody saw it stop."""
        self._event: tuple[str, bool, str] = ("", False, "")
        self._probes = Probes()

    def see(self, pod: Pod) -> None:
        """Note a trimmed observation."""
        if self.pod is not None and _uid(pod) != _uid(self.pod):
            # Only one pod at a time can have a name. A pod with another uid means that ours has
            # gone.
            self._gone = True
            return
        self._missed = 0
        self.began = self.began or _began(pod)
        ends = self.end is None and _phase(pod) in _TERMINAL
        if not ends and self.pod is not None and _is_older(pod, self.pod):
            return
        self.pod = pod
        if ends:
            self.end = pod
        self.progress = max(self.progress, _progress(pod))

    def see_deleted(self, pod: Pod) -> None:
        """Note the last state of a pod that the API server has removed."""
        self.see(pod)
        self._gone = True

    def miss(self) -> None:
        """Note a complete list that lacks the pod."""
        self._missed += 1

    def hear(self, event: Mapping[str, Any]) -> None:
        """Note a core Event of the pod. The newest is kept, and why a container was killed."""
        self._probes.hear(event)
        time = event_time(event)
        if time < self._event[0]:
            return
        reason, message = (str(event.get(name) or "") for name in ("reason", "message"))
        self._event = time, event.get("type") == "Warning", f"{reason}: {message}"
        about = (event.get("involvedObject") or {}).get("fieldPath") or ""
        if reason in _EVENT_STEPS and about.startswith("spec.containers{"):
            self.progress = max(self.progress, _EVENT_STEPS[reason])

    def ask_to_delete(self) -> None:
        """Note that we ask for the deletion, unless somebody else has deleted the pod before."""
        if not self.terminating:
            self.deleted_by_us = True

    @property
    def over(self) -> bool:
        """Return whether nothing of the pod runs, as far as can be known."""
        return self.end is not None or self.gone or self.given_up

    @property
    def gone(self) -> bool:
        return self._gone or self._missed >= VANISHED_AFTER

    @property
    def failed(self) -> bool:
        return self.over and not self.succeeded

    @property
    def succeeded(self) -> bool:
        return self.end is not None and _phase(self.end) == "Succeeded"

    @property
    def terminating(self) -> bool:
        return self.pod is not None and "deletionTimestamp" in self.pod["metadata"]

    @property
    def in_trouble(self) -> bool:
        """Return whether the pod has failed, or somebody other than us is about to end it."""
        disturbed = self.pod is not None and any(
            condition(self.pod, kind) == "True" for kind in ("DisruptionTarget", KUEUES)
        )
        return self.failed or disturbed or (self.terminating and not self.deleted_by_us)

    @property
    def node(self) -> str:
        return str(self.pod["spec"].get("nodeName", "")) if self.pod is not None else ""

    @property
    def finished_at(self) -> str:
        """Return when its first container failed. Unknown times sort last."""
        failed = first_failed(self.end or self.pod)
        return failed[1] if failed else LAST

    def doing(self) -> str:
        """Return what the pod is doing or waiting for, in the cluster's words; "" if unknown."""
        message = next(messages(self.pod), "") if self.pod is not None else ""
        _, warning, event = self._event
        return message or (event if warning or self.progress < RUNNING else "")

    def last_words(self) -> str:
        """Return what the pod itself says of its end."""
        evidence = self.end or self.pod
        return next(messages(evidence), "") if evidence is not None else ""

    def termination(self) -> Termination:
        """Return the facts of the pod's end, or those known so far if it has none."""
        evidence = self.end or self.pod
        reason = VANISHED if self.end is None and not self.deleted_by_us and self.gone else ""
        found = facts(None, reason, node=self.node, pod_message=self._probes.why(evidence))
        if evidence is not None:
            found["pod"] = evidence
        if self.deleted_by_us:
            found["deleted_by_us"] = True
        if self.end is not None and _unfenced(self.end):
            found["unfenced"] = True
        return found


class SessionTracker:
    """The pods of one lease, by rank. Each method returns the new observations to report, in order.

    `see` takes an observation, `see_deleted` the end of a watch on a pod, and `relist` all existing
    pods. Call `relist` only after all pods were created. When one rank has failed, or after `stop`,
    the pods of `to_delete` must be deleted. The end comes when none of them is left.
    """

    def __init__(self, key: LeaseKey, names: Sequence[str]):
        self._key = key
        self._ranks = [PodTracker(name) for name in names]
        self._by_name = {rank.name: rank for rank in self._ranks}
        self._troubled: list[PodTracker] = []
        self._step = PREPARING
        self._last_sent: tuple[str, str, str] = (STEPS[PREPARING], "", "")
        self._shown = False
        self._stopped = False
        self._ended = False

    def see(self, pod: object) -> list[Observation]:
        """Note a pod of the session, from an ADDED or MODIFIED event or from the answer to a
        call."""
        return self._see([trimmed(pod)])

    def see_deleted(self, pod: object) -> list[Observation]:
        """Note a pod that a watch reports as DELETED."""
        kept = trimmed(pod)
        if rank := self._rank(kept):
            rank.see_deleted(kept)
        return self._news()

    def relist(self, pods: Iterable[object]) -> list[Observation]:
        """Note all pods of the session that exist."""
        present = [trimmed(pod) for pod in pods]
        names = {pod["metadata"].get("name") for pod in present}
        for rank in self._ranks:
            if rank.name not in names:
                rank.miss()
        return self._see(present)

    def hear(self, event: Mapping[str, Any]) -> list[Observation]:
        """Note a core Event about one of the pods."""
        about = event.get("involvedObject") or {}
        rank = self._by_name.get(about.get("name", ""))
        if rank and (rank.pod is None or about.get("uid") in {None, _uid(rank.pod)}):
            rank.hear(event)
        return self._news()

    def stop(self) -> list[Observation]:
        """Note that the session has to end, whatever its pods do."""
        self._stopped = True
        return self._news()

    def ask_to_delete(self, name: str) -> None:
        """Note that we are about to ask for the deletion of this pod."""
        self._by_name[name].ask_to_delete()

    def give_up(self, name: str) -> list[Observation]:
        """End the tracking of a pod that outlasts its deletion, whoever asked for that."""
        self._by_name[name].given_up = True
        return self._news()

    def is_over(self, name: str) -> bool:
        """Return whether nothing more is expected of this pod."""
        return self._by_name[name].over

    @property
    def ended(self) -> bool:
        return self._ended

    @property
    def to_delete(self) -> list[str]:
        """Return the names of the pods that must be deleted."""
        if not self._stopped and not self._failed():
            return []
        return [rank.name for rank in self._ranks if not rank.over]

    @property
    def unseen(self) -> list[str]:
        """Return the names of the pods that were never seen."""
        return [rank.name for rank in self._ranks if rank.pod is None]

    @property
    def began(self) -> bool:
        """Return whether a container of any pod was seen to have started."""
        return any(rank.began for rank in self._ranks)

    @property
    def unfenced(self) -> bool:
        """Return whether a pod counts as over although nobody saw it stop."""
        ends = (rank.end for rank in self._ranks if rank.end is not None)
        return any(rank.given_up for rank in self._ranks) or any(map(_unfenced, ends))

    @property
    def slowest(self) -> Pod | None:
        """Return the pod that the session waits for, as last seen; None if it does not exist."""
        return min(self._ranks, key=_haste).pod

    def _rank(self, pod: Pod) -> PodTracker | None:
        return self._by_name.get(pod["metadata"].get("name", ""))

    def _see(self, pods: Iterable[Pod]) -> list[Observation]:
        for pod in pods:
            if rank := self._rank(pod):
                rank.see(pod)
        return self._news()

    def _failed(self) -> bool:
        return any(rank.failed for rank in self._ranks)

    def _news(self) -> list[Observation]:
        if self._ended:
            return []
        new = [each for each in self._ranks if each.in_trouble and each not in self._troubled]
        # Of pods that ended in the same second, a deleted one may be the consequence of another.
        self._troubled += sorted(new, key=lambda rank: (rank.finished_at, rank.terminating))
        if all(rank.over for rank in self._ranks):
            self._ended = True
            return [self._end()]
        return self._middle()

    def _end(self) -> Observation:
        if all(rank.succeeded for rank in self._ranks):
            decisive = self._ranks[0]
        else:
            bad = (rank for rank in (*self._troubled, *self._ranks) if not rank.succeeded)
            decisive = next(bad)
        termination = decisive.termination()
        if any(rank.given_up for rank in self._ranks):
            termination["unfenced"] = True
        status = "TERMINATED" if decisive.succeeded else "ERROR"
        message = "" if decisive.succeeded else self._of_rank(decisive, decisive.last_words())
        if len(self._ranks) > 1 and not decisive.succeeded:
            termination["rank"] = self._ranks.index(decisive)
        return Observation(self._key, status, decisive.node, message, termination, self._stopped)

    def _middle(self) -> list[Observation]:
        ending = self._stopped or any(rank.failed or rank.terminating for rank in self._ranks)
        step = TERMINATING if ending else min(rank.progress for rank in self._ranks)
        self._step = max(self._step, step)
        subject = self._troubled[0] if self._troubled else min(self._ranks, key=_haste)
        state = STEPS[self._step], self._ranks[0].node, self._about(subject)
        # That the pods exist is reported even if there is nothing else to say of them.
        first_sight = not self._shown and self.slowest is not None
        if state == self._last_sent and not first_sight:
            return []
        self._last_sent = state
        self._shown = self._shown or first_sight
        status, node, message = state
        return [Observation(self._key, status, node, message)]

    def _about(self, rank: PodTracker) -> str:
        return self._of_rank(rank, rank.doing())

    def _of_rank(self, rank: PodTracker, words: str) -> str:
        number = self._ranks.index(rank)
        return f"rank {number}: {words}" if words and len(self._ranks) > 1 else words


def _haste(rank: PodTracker) -> int:
    return TERMINATING if rank.over else rank.progress


def _uid(pod: Pod) -> str:
    return str(pod["metadata"].get("uid", ""))


def _phase(pod: Pod) -> str:
    return str(pod["status"].get("phase", ""))


def _is_older(pod: Pod, known: Pod) -> bool:
    return any(now < before for now, before in zip(_lasting(pod), _lasting(known), strict=True))


def _lasting(pod: Pod) -> tuple[int, ...]:
    """Return the facts of a pod that never go back."""
    metadata, status = pod["metadata"], pod["status"]
    return (
        _number(metadata.get("generation")),
        "deletionTimestamp" in metadata,
        "nodeName" in pod["spec"],
        _PHASES.get(_phase(pod), 0),
        _number(status.get("observedGeneration")),
    )


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _progress(pod: Pod) -> int:
    if _phase(pod) in {"Running", *_TERMINAL}:
        return RUNNING
    statuses = pod["status"]["containerStatuses"]
    if any(waiting(each).get("reason") in _CREATED_NOT for each in statuses):
        return CREATING
    if statuses and all(each.get("imageID") for each in statuses):
        return PREPARED
    return PULLING if "nodeName" in pod["spec"] else PREPARING


def _began(pod: Pod) -> bool:
    """Return whether a container of the pod has started.

    A node that stops a pod before that gives its containers an end, but no start.
    """
    states = (each[name] for each in containers(pod) for name in ("state", "lastState"))
    return any("running" in each or "startedAt" in each.get("terminated", {}) for each in states)


def _unfenced(pod: Pod) -> bool:
    """Return whether the pod is marked as failed although no container was seen to stop.

    Its node is gone.
    """
    running = any("running" in container["state"] for container in containers(pod))
    return running and _phase(pod) == "Failed"
