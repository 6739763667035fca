"""Dumps of many threads, as a report brings them: what failed is at their head."""

import pytest

from executor.failure_tail import text_of
from retry.evidence.ended import Ended
from retry.evidence.termination import Termination
from retry.signatures.signature import Signature, signature

FAULTS = ("the ring has a hole", "the ledger is locked", "no such shard")
GO = (
    "\ngoroutine {n} [select, {m} minutes]:\n"
    "main.(*Worker).errorLoop(0xc0{n:04x})\n\t/src/w.go:{m} +0x1d\n"
)
JAVA = (
    '"pool-{n}" #{n} prio=5 os_prio=0 tid=0x7f{n:04x} nid=0x{n:x} waiting on condition [0x7f]\n'
    "   java.lang.Thread.State: WAITING (parking)\n"
    "\tat org.example.ErrorQueue.take(ErrorQueue.java:{m})\n\t- locked <0x7f{n:04x}> (a b.C)\n\n"
)
NATIVE = "#{n}  0x00007f{n:06x} in walk (node=0x{n:x}) at tree.cc:{m}\n"
HEADS = {
    "go": ("panic: {fault}\n\ngoroutine 1 [running]:\nmain.next(0x1)\n\t/src/r.go:3 +0x1\n", GO),
    "java": (
        (
            "java.lang.IllegalStateException: {fault}\n\tat org.example.R.next(R.java:3)\n"
            "Full thread dump OpenJDK 64-Bit Server VM (17.0.9+9 mixed mode, sharing):\n\n"
        ),
        JAVA,
    ),
    "overflow": (
        "java.lang.StackOverflowError: {fault}\n",
        "\tat org.example.Tree.walk(Tree.java:{m})\n",
    ),
    "native": ("solver: fatal error: {fault}\n", NATIVE),
}


def told(kind: str, fault: str, run: int, threads: int = 300) -> Signature:
    head, thread = HEADS[kind]
    before = "".join(f"step {n}, loss=0.{run}\n" for n in range(1_000 * run))
    dump = "".join(thread.format(n=n, m=n * 7 % 60 + run) for n in range(threads * 3))
    output = (before + head.format(fault=fault) + dump).encode()
    return signature(Ended(Termination(exit_code=2)), text_of(output), image="a:1", command=["b"])


@pytest.mark.parametrize("kind", HEADS)
def test_faults_are_told_apart_and_runs_of_one_are_not(kind: str) -> None:
    keys = {fault: {told(kind, fault, run).key for run in range(1, 4)} for fault in FAULTS}
    assert {fault: len(found) for fault, found in keys.items()} == dict.fromkeys(FAULTS, 1)
    assert len(set.union(*keys.values())) == len(FAULTS)
    assert all(fault in told(kind, fault, 1).title for fault in FAULTS)


@pytest.mark.parametrize("thread", [GO, JAVA, NATIVE, HEADS["overflow"][1]])
def test_a_frame_alone_is_generic(thread: str) -> None:
    """As an agent sends it that looks for no head, or where the head is too far away."""
    output = "".join(thread.format(n=n, m=n % 60) for n in range(900))
    for cut in (0, 7, 40):
        found = signature(Ended(Termination(exit_code=2)), output[cut:], image="a:1", command=["b"])
        assert found.title == "exit code 2 (a, b)"
        assert found.generic
