"""Runs that were killed: the cause or the signal says why, not what they happened to print last."""

import pytest

from retry.evidence.ended import Ended
from retry.evidence.termination import ContainerFacts, Termination
from retry.signatures.signature import Signature, signature

IMAGE, COMMAND = "registry.example.com/team/train:7", ["python", "train.py"]


def contained(code: int, reason: str = "Error") -> Termination:
    return Termination(containers=(ContainerFacts(name="main", exit_code=code, reason=reason),))


# The same end, as several drivers and clusters tell it.
ENDS = {
    "oom_killed": (
        contained(137, "OOMKilled"),
        contained(1, "OOMKilled"),
        Termination(exit_code=137, conditions=("OOMKilled",)),
    ),
    "deadline_exceeded": (
        *(
            Termination(exit_code=code, reason="DeadlineExceeded")
            for code in (0, 1, 137, 143, None)
        ),
        Termination(exit_code=143, reason="DeadlineExceeded", containers=contained(143).containers),
    ),
    "limit_exceeded": tuple(
        Termination(exit_code=code, reason="Evicted", message="exceeds the limit")
        for code in (137, 143, None)
    ),
    "SIGKILL": (Termination(exit_code=137), Termination(exit_code=-9), contained(137)),
    "SIGSEGV": (Termination(exit_code=139), Termination(exit_code=-11), contained(139)),
    "SIGTERM": (Termination(exit_code=143), Termination(exit_code=-15), contained(143)),
    "SIGBUS": (Termination(exit_code=135), contained(135)),
    "SIGFPE": (Termination(exit_code=136), contained(136)),
    "SIGILL": (Termination(exit_code=132), contained(132)),
}
LAST_WORDS = (
    "",
    "\n\n",
    "step 120 of 9000, loss=0.345\n",
    "Epoch 3:  45%|####5     | 451/1000 [03:12<04:01,  2.27it/s, loss=0.345]",
    "\r 12%|#         | 60/500\r 13%|#         | 65/500",
    "2024-01-02 03:04:05,123 INFO  reader - 120 rows of /data/a/part-7.parquet\n",
    "wrote checkpoint /scratch/run7/ckpt_000120.pt\n",
    "expected 12 shards, found 12\nrows dropped as invalid: 3\n",
    "cache: part-7 not found, downloading it\n",
    "will exit when the patience of 5 epochs is used up\n",
    '{"level":"info","msg":"flushed 120 records","took":"12ms"}\n',
    "WARNING: the queue is 90 % full\n",
    "=== phase 2: aggregate ===\n",
    "received SIGTERM, shutting down\n",
    "Terminated\n",
    "/job/run.sh: line 3:    77 Killed                  python train.py\n",
    "/job/run.sh: line 9:   812 Segmentation fault      (core dumped) ./solve -n 4\n",
    "make: *** [Makefile:12: train] Killed\n",
    "train: task failed\n",
    "srun: error: node17: task 3: Killed\n",
    (
        'Traceback (most recent call last):\n  File "/a/train.py", line 31, in step\n    wait()\n'
        "KeyboardInterrupt\n"
    ),
)
# Errors that say more than the end: each its own failure, whatever came before and after them.
ERRORS = (
    (
        'Exception in thread "main" java.lang.OutOfMemoryError: Java heap space\n'
        "\tat org.example.Join.build(Join.java:120)\n"
    ),
    (
        'Traceback (most recent call last):\n  File "/a/train.py", line 31, in step\n    go()\n'
        "RuntimeError: the ring has a hole\n"
    ),
    "fatal error: cannot allocate 512 MiB for the index\n",
    "ERROR: connection to the broker was refused\n",
    "panic: ring is empty\n\ngoroutine 1 [running]:\nmain.next(0x12)\n\t/src/ring.go:12 +0x1d\n",
    (
        "Fatal Python error: Segmentation fault\n\nThread 0x07f1 (most recent call first):\n"
        '  File "/a/load.py", line 7 in decode\n'
    ),
)


def told(end: Termination, output: str) -> Signature:
    return signature(Ended(end), output, image=IMAGE, command=COMMAND)


@pytest.mark.parametrize("name", ENDS)
def test_the_last_words_do_not_matter(name: str) -> None:
    found = {told(end, output) for end in ENDS[name] for output in LAST_WORDS}
    assert {each.title for each in found} == {f"{name} (registry.example.com/team/train, python)"}
    assert len({each.key for each in found}) == 1


def test_the_last_words_in_a_termination_message_do_not_matter_either() -> None:
    """With `FallbackToLogsOnError` it is the end of the output."""
    ends = [Termination(exit_code=137, message=words) for words in LAST_WORDS]
    assert len({told(end, "epoch 7\n").key for end in ends}) == 1


def test_ends_programs_and_images_differ() -> None:
    ends = [told(ends[0], "step 3\n").key for ends in ENDS.values()]
    others = [
        signature(Ended(Termination(exit_code=137)), "step 3\n", image=image, command=command).key
        for image, command in ((IMAGE, ["sh"]), ("other:1", COMMAND), ("", []))
    ]
    assert len({*ends, *others}) == len(ENDS) + 3


@pytest.mark.parametrize("name", ENDS)
def test_an_error_is_a_failure_of_its_own(name: str) -> None:
    def key(end: Termination, error: str, words: str = "") -> str:
        return told(end, f"step 3\n{error}{words}").key

    keys = {error: {key(end, error) for end in ENDS[name]} for error in ERRORS}
    assert {error: len(found) for error, found in keys.items()} == dict.fromkeys(ERRORS, 1)
    none = {told(ENDS[name][0], "").key}
    assert len(set.union(none, *keys.values())) == len(ERRORS) + 1
    after = "/job/run.sh: line 3:    77 Killed                  python train.py\n"
    assert {key(ENDS[name][0], error, after) for error in ERRORS} == set.union(*keys.values())


def test_the_cluster_says_which_limit_it_was() -> None:
    def limited(message: str, output: str) -> Signature:
        end = Termination(exit_code=137, reason="Evicted", pod_message=message)
        return told(end, output)

    disk = "Pod ephemeral local storage usage exceeds the total limit of containers {}Gi."
    volume = 'Usage of EmptyDir volume "scratch" exceeds the limit "{}Gi".'
    found = [
        {limited(text.format(n), words).key for n in (1, 20) for words in LAST_WORDS}
        for text in (disk, volume)
    ]
    assert [len(keys) for keys in found] == [1, 1]
    assert found[0] != found[1]


def test_such_a_failure_may_open_a_breaker_and_other_ends_without_a_text_may_not() -> None:
    assert not told(Termination(exit_code=137), "step 3\n").generic
    assert told(Termination(exit_code=1), "Killed\n").generic
    # A program that aborts says why itself.
    aborted = [told(Termination(exit_code=134), f"{each} is broken\n").title for each in "ab"]
    assert aborted == ["a is broken", "b is broken"]
