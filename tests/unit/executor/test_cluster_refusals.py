"""Tests of how API servers of real clusters refuse, and whose fault it is."""

import asyncio
from typing import Any, cast

import pytest

from executor.drivers.kubernetes.api import Cluster
from executor.drivers.kubernetes.api_refusals import (
    ApiRefusal,
    Exists,
    Expired,
    Invalid,
    NamespaceTransient,
    NamespaceTrouble,
    NotThere,
    OwnTrouble,
    TooMany,
    Transient,
    refusal_of,
)
from executor.drivers.kubernetes.object_maker import MOST_REFUSED, Conditions, ObjectMaker

POD = 'pods "reprise-1-0" is forbidden: '


def status(code: int, message: str, reason: str = "Forbidden", **details: Any) -> dict[str, Any]:
    body = {"kind": "Status", "code": code, "message": message, "reason": reason}
    return {**body, "details": details}


@pytest.mark.parametrize(
    ("code", "message", "meaning"),
    [
        (400, "Pod in version v1 cannot be handled as a Pod", Invalid),
        (422, 'Pod "x" is invalid: spec.containers[0].image: Required value', Invalid),
        (413, "Request entity too large: limit is 3145728", Invalid),
        (500, "etcdserver: request is too large", Invalid),
        (500, "rpc error: trying to send message larger than max (4 vs. 2)", Invalid),
        (403, POD + 'violates PodSecurity "restricted:latest": seccompProfile', Invalid),
        (403, POD + "maximum cpu usage per Container is 1, but limit is 2", Invalid),
        (403, POD + "no PriorityClass with name high was found", Invalid),
        (403, POD + 'pod rejected: RuntimeClass "gvisor" not found', Invalid),
        (403, POD + "failed quota: q: must specify limits.cpu for: main", Invalid),
        (
            403,
            POD + "error looking up service account a/trainer: "
            'serviceaccount "trainer" not found',
            Invalid,
        ),
        (403, POD + "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no", Invalid),
        (401, POD + "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no", Invalid),
        (404, 'admission webhook "w.example.org" denied the request: no such team', Invalid),
        (409, 'admission webhook "w.example.org" denied the request: twice', Invalid),
        (401, "Unauthorized", OwnTrouble),
        (403, 'pods is forbidden: User "e" cannot create resource "pods"', NamespaceTrouble),
        (403, POD + "exceeded quota: q, requested: pods=1, used: pods=4", NamespaceTrouble),
        (403, POD + "unable to create new content in namespace a because it is being terminated",
         NamespaceTrouble),
        (403, POD + "status unknown for quota: q, resources: pods", NamespaceTransient),
        (
            403,
            POD + 'error looking up service account a/default: serviceaccount "default" not found',
            NamespaceTransient,
        ),
        (408, "Timeout: request did not complete", Transient),
        (429, "too many requests", TooMany),
        (500, 'failed calling webhook "w": Post "https://w": no route to host', NamespaceTransient),
        (500, "Internal error occurred: resource quota evaluation timed out", NamespaceTransient),
        (500, "etcdserver: no leader", Transient),
        (504, "Timeout: request did not complete within requested timeout", Transient),
        (410, "too old resource version", Expired),
        (504, "Timeout: Too large resource version: 9, current: 4", Expired),
    ],
)  # fmt: skip
def test_the_fault_of_a_refusal(code: int, message: str, meaning: type[ApiRefusal]) -> None:
    assert type(refusal_of(code, status(code, message), making=True)) is meaning


def test_a_namespace_that_is_not_there_is_told_from_an_object() -> None:
    answer = status(404, 'namespaces "a" not found', "NotFound", kind="namespaces")
    assert type(refusal_of(404, answer, making=True)) is NamespaceTrouble
    answer = status(404, 'pods "a" not found', "NotFound", kind="pods")
    assert type(refusal_of(404, answer)) is NotThere


def test_a_conflict_is_a_taken_name_only_if_it_says_so() -> None:
    """Pods that are made at one time write the status of one quota."""
    conflict = 'Operation cannot be fulfilled on resourcequotas "q": it has been modified'
    answer = status(409, conflict, "Conflict")
    assert type(refusal_of(409, answer, making=True)) is NamespaceTransient
    assert type(refusal_of(409, answer)) is Exists
    answer = status(409, 'pods "a" already exists', "AlreadyExists")
    assert type(refusal_of(409, answer, making=True)) is Exists


@pytest.mark.parametrize("code", [400, 401, 403, 404, 407])
def test_an_error_of_a_proxy_says_nothing_of_the_pod(code: int) -> None:
    text = {"message": "<html>denied by the proxy</html>"}
    assert type(refusal_of(code, text, making=True)) is OwnTrouble


class Played:
    """Answers of a cluster to what is made, in order: a refusal is raised. It is there for whoever
    asks after so many questions (`seen_after`)."""

    def __init__(
        self,
        *answers: ApiRefusal | None,
        namespaces: ApiRefusal | None = None,
        seen_after: int = 1 << 30,
    ):
        self.answers = list(answers)
        self.namespaces = namespaces
        self.seen_after = seen_after
        self.made: list[str] = []
        self.asked = 0

    async def create(self, path: str, body: Any) -> Any:
        self.made.append(path)
        answer = self.namespaces if path.endswith("/namespaces") else self.answers.pop(0)
        if answer is not None:
            raise answer
        return body

    async def call(self, _method: str, path: str) -> Any:
        self.asked += path == "/own"
        if self.asked > self.seen_after:
            return {"metadata": {"name": "late"}}
        raise NotThere(path)


def make(played: Played, settles_in: float = 60.0, **conditions: Any) -> Any:
    maker = ObjectMaker(
        cast("Cluster", played),
        asyncio.Semaphore(1),
        create_namespaces=True,
        settles_in=settles_in,
    )
    body = {"kind": "Pod", "metadata": {"name": "p", "namespace": "a"}}
    made = maker.make("/api/v1/namespaces/a/pods", "/own", body, Conditions(**conditions))
    return asyncio.run(made)


def test_it_is_tried_for_as_long_as_it_is_wanted() -> None:
    refused = [Transient("no leader", unsure=False)] * 5
    assert make(Played(*refused, None), rest=_at_once)["metadata"]["name"] == "p"
    with pytest.raises(TooMany):
        make(Played(*[TooMany("not now", unsure=False)] * MOST_REFUSED, None), rest=_at_once)
    with pytest.raises(Transient, match="no leader"):
        make(Played(*refused, None), settles_in=0.0, rest=_at_once)


def test_a_pod_that_is_made_after_all_is_not_missed() -> None:
    """An answer was lost, and a first look finds nothing: it may be under way still."""
    played = Played(Transient("no answer"), seen_after=2)
    wanted = iter((True, False))
    assert make(played, 6.0, wanted=wanted.__next__, rest=_at_once)["metadata"]["name"] == "late"
    assert played.asked == 3


def test_a_late_pod_is_counted_as_missing() -> None:
    played = Played(Transient("no answer"))
    wanted = iter((True, False))
    with pytest.raises(Transient, match="no answer"):
        make(played, 0.2, wanted=wanted.__next__, rest=_at_once)
    assert played.asked == 2


async def _at_once(_seconds: float) -> None:
    """It does not matter here how long one rests."""


def test_a_namespace_that_was_just_made_gets_its_account_a_moment_later() -> None:
    missing = NamespaceTrouble('namespaces "a" not found (404)')
    played = Played(missing, *[NamespaceTransient("no account yet")] * 2, None)
    assert make(played)["metadata"]["name"] == "p"
    assert played.made.count("/api/v1/namespaces") == 1


def test_sessions_of_a_new_project_may_make_its_namespace_at_one_time() -> None:
    missing = NamespaceTrouble('namespaces "a" not found (404)')
    assert make(Played(missing, None, namespaces=Exists("it is there")))


def test_a_namespace_that_does_not_come_is_tried_once() -> None:
    missing = NamespaceTrouble('namespaces "a" not found (404)')
    with pytest.raises(OwnTrouble):
        make(Played(missing, missing))


def test_rights_may_come_while_an_answer_that_was_lost_is_waited_for() -> None:
    """An API server that has just begun refuses everybody for a moment."""
    refused = OwnTrouble('User "reprise" cannot create resource "pods" (403)')
    played = Played(Transient("no answer"), refused, refused, None)
    assert make(played, rest=_at_once)["metadata"]["name"] == "p"
    with pytest.raises(OwnTrouble):
        make(Played(refused), rest=_at_once)
