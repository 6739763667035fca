"""Which failures are the same one: on real outputs, by the rules, and on any text."""

import subprocess
import sys
from collections import Counter
from itertools import combinations
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retry.evidence.ended import Ended
from retry.evidence.termination import ContainerFacts, Termination
from retry.signatures.engine import SearchSet, compiled
from retry.signatures.masks import _STEPS, masked
from retry.signatures.signature import KEY_LENGTH, TITLE_LENGTH, Signature, signature
from tests.unit.retry.failures import Failure, failures

FAILED = Termination(exit_code=1)
FAILURES = failures()


IMAGE = "registry.example.com/team/job:7"


def signatures(failure: Failure) -> list[Signature]:
    return [
        signature(
            Ended(termination), output, image="registry.example.com/team/job:7", command=["run"]
        )
        for termination, output in failure.terminations()
    ]


def title(output: str, termination: Termination = FAILED) -> str:
    return signature(Ended(termination), output).title


def mask(text: str) -> str:
    return masked(text.encode()).decode()


# Real outputs.


def test_the_corpus_is_large_enough() -> None:
    assert len(FAILURES) >= 150
    assert len({failure.tool for failure in FAILURES}) >= 25
    assert all(len(failure.texts) >= 3 for failure in FAILURES)


def test_runs_that_fail_the_same_way_fall_together() -> None:
    apart, runs = [], 0
    for failure in FAILURES:
        keys = Counter(found.key for found in signatures(failure))
        runs += keys.total()
        if len(keys) > 1:
            apart.append((failure.name, keys.total() - keys.most_common(1)[0][1]))
    assert sum(count for _, count in apart) <= 0.01 * runs, apart


def test_different_failures_stay_apart() -> None:
    keys = {failure.name: signatures(failure)[0].key for failure in FAILURES}
    pairs = list(combinations(keys, 2))
    together = [pair for pair in pairs if keys[pair[0]] == keys[pair[1]]]
    assert len(together) <= 0.0001 * len(pairs), together
    assert len(set(keys.values())) >= 0.98 * len(keys), together


def test_failures_of_one_tool_stay_apart() -> None:
    keys = {failure.name: {found.key for found in signatures(failure)} for failure in FAILURES}
    pairs = [pair for pair in combinations(FAILURES, 2) if pair[0].tool == pair[1].tool]
    together = [(a.name, b.name) for a, b in pairs if keys[a.name] & keys[b.name]]
    assert len(together) <= 0.002 * len(pairs), together


@pytest.mark.parametrize(
    "after",
    [
        "\nreal\t1m2.345s\nuser\t0m1.2s\nsys\t0m0.3s\n",
        "Cleaning up temporary files...\nDone.\n",
        "Uploading logs to s3://bucket/run-17/log.txt ... done\n",
        "make: *** [Makefile:12: train] Error 1\n",
        "Finished at 2031-01-02 03:04:05, elapsed 12.3 s, exit code: 1\n",
    ],
)
def test_what_a_script_prints_at_the_end_changes_little(after: str) -> None:
    outputs = [each for failure in FAILURES for each in failure.terminations()[:1]]
    changed = [
        signature(Ended(termination), output).title
        for termination, output in outputs
        if signature(Ended(termination), output).key
        != signature(Ended(termination), f"{output.rstrip()}\n{after}").key
    ]
    assert len(changed) <= 0.02 * len(FAILURES), changed


def test_generic_texts_are_told() -> None:
    wrong = [each.name for each in FAILURES if signatures(each)[0].of_program is not each.generic]
    assert wrong == []


def test_another_process_gets_the_same_keys() -> None:
    found = [signatures(failure)[0].key for failure in FAILURES[::20]]
    code = (
        "from tests.unit.retry.test_signatures import FAILURES, signatures\n"
        "print(*[signatures(failure)[0].key for failure in FAILURES[::20]])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.split() == found


# Which text tells the failure.

TRACEBACK = """Traceback (most recent call last):
  File "/app/train.py", line 12, in main
    step(batch)
  File "/opt/lib/python3.11/site-packages/torch/nn/module.py", line 8, in forward
    raise ValueError("bad shape")
ValueError: bad shape
"""
TWO_RANKS = """[rank0]: Traceback (most recent call last):
[rank1]: step 3
[rank0]:   File "a.py", line 1, in f
[rank0]: KeyError: 3
"""


CHAIN = """Error: no config

Caused by:
    0: cannot read
    1: cannot open /etc/a.toml
    2: No such file (os error 2)
"""


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (TRACEBACK, "ValueError: bad shape (train:main)"),
        (f"{TRACEBACK}fatal: something else\n", "ValueError: bad shape (train:main)"),
        (
            f"{TRACEBACK}\nDuring handling of the above exception, another exception occurred:\n\n"
            + TRACEBACK.replace("bad shape", "worse"),
            "ValueError: worse (train:main)",
        ),
        # Two ranks print at the same time.
        (TWO_RANKS, "KeyError: # (a:f)"),
        # The head is cut off.
        (TRACEBACK.partition("\n")[2], "ValueError: bad shape (train:main)"),
        ("Exception ignored in: <function R.__del__>\n" + TRACEBACK + "fatal: x\n", "fatal: x"),
        (
            TRACEBACK + TRACEBACK.replace("ValueError: bad shape\n", "ChildFailedError:\n"),
            "ValueError: bad shape (train:main)",
        ),
        ("KeyError in cache\nRuntimeError: boom\nerror: later\n", "RuntimeError: boom"),
        ("error: first\nerror: second\n0 errors, 0 failed\nerror = 0.31\n", "error: second"),
        ("error: no such flag\nWARNING: cannot delete cache\n", "error: no such flag"),
        ("loading\nepoch 3\n", "epoch #"),
        ('error: bad row\n::reprise:: {"step": 3, "note": "error"}\n', "error: bad row"),
        ("error: bad row\n/bin/sh: line 1: 7 Killed  ./run\n", "error: bad row"),
        ("step 7\nmake: *** [Makefile:3: run] Error 1\n", "make: *** [Makefile:#: run] Error 1"),
        ("\x1b[31merror: red\x1b[0m\r\n", "error: red"),
        ("2031-01-02T03:04:05.678Z stderr F error: labelled\n", "error: labelled"),
        ("ok\n[rank3]: 7: (Actor pid=12, ip=10.0.0.1) error: x\n", "error: x"),
        # A line of lower rank stands far above the others.
        ("error: far above\n" + "fine\n" * 90, "error: far above"),
        ("FAIL tests/a.py\nfine\n", "fine"),
        # A chain of causes is told by its head and its last two causes.
        (CHAIN, "Error: no config: cannot open <path>.toml: No such file (os error 2)"),
        (
            f"{CHAIN}\nStack backtrace:\n   0: anyhow::error::x\n",
            "Error: no config: cannot open <path>.toml: No such file (os error 2)",
        ),
        (
            "Error: \n   0: no shard\n   1: timed out\n\nLocation:\n   a.rs:1\n",
            "no shard: timed out",
        ),
        (
            "error: a\n  Caused by: b\n  Caused by: c\n  Caused by: d failed\n",
            "error: a: c: d failed",
        ),
        ("error: a\n\nCaused by:\n  b\n\nCaused by:\n  c failed\n", "error: a: b: c failed"),
        (f"{CHAIN}\nfatal: later\n", "fatal: later"),
        ("rake aborted!\nerror: x\n\nCaused by:\nPG::Error: y\n", "PG::Error: y"),
        # A head that tells only the kind of the error takes the line below it.
        (
            "--> FOAM FATAL ERROR: (openfoam-2112)\nno field U\n    in file a.C at line 3.\n",
            "--> FOAM FATAL ERROR: (openfoam#) no field U",
        ),
        ("03:14:54    Compilation Error\n  no node x\n", "# Compilation Error no node x"),
        # What Node says below the frames of an error, and an exception that points above itself.
        (
            (
                "TypeError: fetch failed\n    at get (/app/a.mjs:3:1) {\n  [cause]: Error: read E\n"
                "      at TLSWrap.onRead (node:internal/streams:1:2) {\n    code: 'X'\n"
            ),
            "Error: read E (streams:TLSWrap.onRead)",
        ),
        (
            TRACEBACK + TRACEBACK.replace("bad shape\n", "not up. See root cause above.\n"),
            "ValueError: bad shape (train:main)",
        ),
        # An exception without a message has none below it either.
        (TRACEBACK.replace(": bad shape\n", "\nfine\n"), "ValueError (train:main)"),
        # Frames that a dying Python prints are no traceback, whatever follows them.
        (
            'Fatal Python error: Aborted\n\nThread 0x1:\n  File "a.py", line 1 in f\nDone.\n',
            "Fatal Python error: Aborted (a:f)",
        ),
        # What was tried again, what is said about errors at large, counts of them, and how a
        # script ended come after what tells the failure.
        (
            "disk quota exceeded\nerror: no answer, retrying in 3 s\nhost gone: invalid\n",
            "host gone: invalid",
        ),
        ("error: bad row\nHTTP errors are often intermittent\n", "error: bad row"),
        ("error: bad row\nSet X to print the stack trace of errors.\n", "error: bad row"),
        ("error: bad row\npack compiled with 2 errors in 31 ms\n", "error: bad row"),
        ("n1 : lost=1\nerror: bad row\nn1 : ok=1 changed=0 failed=1\n", "error: bad row"),
        ("/bin/sh: line 1: 7 Killed  ./run\nended after 3 s, exit code: 1\n", "Killed"),
        (
            "a.cu(3): error: no x\n1 error detected in the compilation of a.cu.\n",
            "a.cu(#): error: no x",
        ),
        ("cp: a: Is a directory\nDone.\n", "cp: a: Is a directory"),
        (
            "time step errors : sum local = 105551\nerror: bad row\nerrors : sum local = 3\n",
            "error: bad row",
        ),
        # Lines of `docker build` have the number of the step and a time.
        (
            (
                '#8 0.5 Traceback (most recent call last):\n#8 0.61   File "b.py", line 1, in f\n'
                "#8 0.7 KeyError: 'x'\nexecutor failed running [/bin/sh]: exit code: 1\n"
            ),
            "KeyError: 'x' (b:f)",
        ),
        (
            "--- FAIL: TestA (0.01s)\n    a_test.go:3: got 3, want 4\nFAIL\nFAIL\tx\t0.1s\n",
            "--- FAIL: TestA (#)",
        ),
        (
            "Error: not a FASTQ file\nterminate called after throwing an instance of 'int'\n",
            "Error: not a FASTQ file",
        ),
        (
            "app: head: empty list\nCallStack (from HasCallStack):\n  error, called at a.hs:1\n",
            "app: head: empty list",
        ),
        (
            "System.IO.IOException: x\n   at Interop.Do(A b)\n   at Acme.Run(A b) in a.cs\n",
            "System.IO.IOException: x (Acme.Run)",
        ),
        (
            "curl: (60) certificate has expired\n\ncurl failed to verify the legitimacy\n",
            "curl: (#) certificate has expired",
        ),
        (
            (
                "x.ValidationError: 1 validation error for C\nn\n  Field required [type=missing, "
                "input_value=3, input_type=int]\n    For further information visit https://x.y/z\n"
            ),
            "x.ValidationError: # validation error for C n Field required [type=missing]",
        ),
        # The reason stands above a line that has none, or that says the same and does not go on.
        ("fatal: no CA\nCMake Error at a (b):\n  Build of json failed: 2\n", "fatal: no CA"),
        (
            "error: mount: Permission denied\ntry 2\nFailed to mount /mnt/a.\n",
            "error: mount: Permission denied",
        ),
        (
            "error: tb: FIFO overflow\n%Error: tb:9: Verilog $stop\n",
            "error: tb: FIFO overflow",
        ),
        (
            "failed to connect: dial: i/o timeout\nfatal: terminal error: failed to connect\n",
            "failed to connect: dial: i/o timeout",
        ),
        ("error: bad row\n" + "fine\n" * 17 + "Failed to load a.\n", "Failed to load a."),
        # Lines of such words alone, between ornaments, and of what follows from a failure.
        ("error: bad row\nWorkflow failed.\nStep load (task-id 7) failed.\n", "error: bad row"),
        ("error: bad row\n------ Error Exit ------\n*** Fatal Exception ***\n", "error: bad row"),
        ("error: bad row\nThe run failed. Look at the error above.\n", "error: bad row"),
        ("error: bad row\nFor bug reports please send this error\n", "error: bad row"),
        ("a: error: bad row\na: warning: errors ignored on restore: 1\n", "a: error: bad row"),
        ("node17:7] error: bad row\n/lib/a.so(abort+0x2) [0x7f00aa]\n", "node#] error: bad row"),
        (
            (
                "  Warning  Failed   3s  kubelet  Error: no such file: /a\n"
                "  Warning  BackOff  2s  kubelet  Back-off restarting failed container main\n"
            ),
            "Warning Failed # kubelet Error: no such file: <path>",
        ),
        # The innermost frame of MPICH's stack.
        (
            (
                "Abort(7): Fatal error in PMPI_Init: error stack:\n"
                "MPII_Init_thread(263)..: \nfind_provider(170).....: OFI fi_getinfo() failure\n"
            ),
            "Abort(#): Fatal error in PMPI_Init: error stack: OFI fi_getinfo() failure",
        ),
        ("message: |\n    Input ecut is wrong\nsrc: a.F90\n", "message: | Input ecut is wrong"),
        ("2031-01-02 03:04:05.1 [7/load/3 (pid 9)] error: labelled\n", "error: labelled"),
        # A message that starts below `what()`, and the thread in which a dying Python was.
        (
            "terminate called after throwing an instance of 'a::B'\n  what():\n\nerror: bad row\n",
            "error: bad row",
        ),
        (
            (
                'Fatal Python error: Aborted\n\nThread 0x1:\n  File "a.py", line 1 in f\n\n'
                'Current thread 0x2:\n  File "b.py", line 1 in g\n'
            ),
            "Fatal Python error: Aborted (b:g)",
        ),
        # The error output that an exception quotes, unless that begins with other lines.
        (
            f"{TRACEBACK}stdout:\n\nstderr:\n\tcp: no a\n",
            "ValueError: bad shape cp: no a (train:main)",
        ),
        (f"{TRACEBACK}Stderr:\n- INFO: fine\n", "ValueError: bad shape (train:main)"),
    ],
)
def test_the_text_that_tells_the_failure(output: str, expected: str) -> None:
    assert title(output) == expected


def test_the_termination_message_goes_before_the_output() -> None:
    container = ContainerFacts(name="main", exit_code=1, message="bad input row 7")
    assert title("error: x", Termination(containers=(container,))) == "bad input row #"


def test_the_wishes_of_a_workload_tell_nothing() -> None:
    wishes = Termination(exit_code=1, message='{"reprise": {"retry": false}}')
    assert title("error: x", wishes) == "error: x"


def test_the_cluster_is_asked_last() -> None:
    said = Termination(exit_code=1, pod_message="Pod was active too long")
    assert (title("error: x", said), title("", said)) == ("error: x", "Pod was active too long")


# What is masked.


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id 0f8fad5b-d9cb-469f-a165-70867728950e gone", "id # gone"),
        ("at 2031-07-09 23:59:58,001 it failed", "at # it failed"),
        ("no route to 10.0.3.4:5432", "no route to #"),
        ("no route to [fe80::1%eth0]", "no route to [#]"),
        ("connect to db-3.prod.internal:5432 failed", "connect to # failed"),
        ("fault at 0x7f93 in deadbeef01", "fault at # in #"),
        ("cafe is a word", "cafe is a word"),
        ('column "a name that is quite long" is gone', 'column "#" is gone'),
        ("column 'short' is gone", "column 'short' is gone"),
        ("it can't open it, doesn't exist at all", "it can't open it, doesn't exist at all"),
        ("took 3.5 s,  12 MiB", "took # s, #"),
        ("cannot open /data/a b/../x.tar.gz", "cannot open <path> <path>.gz"),
        ("cannot open C:\\work\\run 7\\x.csv", "cannot open <path>.csv"),
        ("I/O error, and/or more", "I/O error, and/or more"),
        ("[Errno 28] No space left", "[Errno 28] No space left"),
        ("HTTP/1.1 403 Forbidden", "HTTP/1.1 403 Forbidden"),
        ("status code: 503", "status code: 503"),
        ("exit status 12345", "exit status #"),
        ("Xid (PCI:0000:3b:00): 79, GPU lost", "Xid (PCI:#): 79, GPU lost"),
        ("KeyError: 3", "KeyError: #"),
        ("error: 12:30:01 late", "error: # late"),
        ("ImportError: libhdf5.so.103: gone", "ImportError: libhdf#.so: gone"),
        ("cannot open /opt/lib/libhdf5.so.103", "cannot open <path>.so"),
        ("pymysql.err.OperationalError: x", "pymysql.err.OperationalError: x"),
        ("allocate 3743729664 bytes or 512 bytes", "allocate # or #"),
        ('refused: "the server cannot be reached"', 'refused: "the server cannot be reached"'),
        ('{"msg": "a name that is quite long"}', '{"msg": "a name that is quite long"}'),
        ("cannot open '/data/a b/x y.csv'", "cannot open '<path>.csv'"),
        ("cannot mount filer:/vol/a", "cannot mount #:<path>"),
        ("url: /a/b?token_of=hunter2", "url: <path>"),
        ("404 Client Error, 404 times", "404 Client Error, # times"),
        ("java.io.IOException: x", "java.io.IOException: x"),
        ("NoSuchKey: An error occurred (404) here", "NoSuchKey: An error occurred (404) here"),
        ("pod train-7f9c6d8b5-x2k4q is gone", "pod # is gone"),
        ("shape [3, 224, 224] is not [7]", "shape [#] is not [#]"),
        ("uses 1.2GB, 22kB", "uses #"),
        ("cannot open /data/a.bed. Stop.", "cannot open <path>.bed. Stop."),
        ("Query 20240102_030405_00012_abcde failed", "Query # failed"),
        ("ann@web: Permission denied (publickey)", "#: Permission denied (publickey)"),
        ("Process `A:B (sample 7)` failed", "Process `A:B #` failed"),
        ("denied: user 'ann' or user=ann", "denied: user '#' or user=#"),
        ("no such user: ann", "no such user: #"),
        ("the user is not known", "the user is not known"),
        ('container "main" in pod etl-main', 'container "#" in pod #'),
        ("lost tmp_3fa9c2d1 and tmp_deadbeef", "lost tmp_# and tmp_deadbeef"),
        ("a.go:2041:7: undefined", "a.go:#: undefined"),
        ("connect to fd00::7 failed", "connect to # failed"),
        ("lost db-1:443, not find_entry:1234", "lost #, not find_entry:#"),
        ("Failed host lookup: 'gpu-b-3'", "Failed host lookup: '#'"),
        (
            "Assertion `a >= 0 && a < n_classes` failed",
            "Assertion `a >= # && a < n_classes` failed",
        ),
        ("died with ret 256, return value: -9", "died with ret 256, return value: -9"),
        ("[ERROR GRT-0118] too full", "[ERROR GRT-0118] too full"),
        ("pod etl-skrm7gjbcp-lw6df is gone", "pod # is gone"),
        # A name as code has it stays, however long it is.
        (
            "Object 'WAREHOUSE.STAGING.ORDERS_RAW' is not there",
            "Object 'WAREHOUSE.STAGING.ORDERS_RAW' is not there",
        ),
        ("read A0123:45:HGVXLDSXX:1:1101:1234:5678 is bad", "read A# is bad"),
    ],
)
def test_what_varies_is_masked(text: str, expected: str) -> None:
    assert mask(text) == expected


def test_a_step_is_not_passed_over_where_it_finds_something() -> None:
    lines = {
        line for each in FAILURES for text in each.texts for line in text.encode().split(b"\n")
    }
    lines |= {masked(line) for line in lines} | {b"HTTP/1.1 403", b"error occurred 5", b"xid(a) 7"}
    for needed, pattern, _ in _STEPS:
        quick = compiled(needed)
        missed = [line for line in lines if pattern.search(line) and not quick.search(line)]
        assert missed == [], needed


def test_a_search_that_fails_finds_everything() -> None:
    several = SearchSet(["a", "b"])
    assert set(several.found(b"xb")) == {1, 2}
    several._set = SearchSet([])._set
    several._last = 2
    assert set(several.found(b"xb")) == {0, 1, 2}


@pytest.mark.parametrize(
    "text",
    [
        "cannot push to https://ann:hunter2@git.example.com/x",
        "cannot read s3://bucket/x?X-Amz-Signature=hunter2",
        "bad login ann:hunter2@db",
        "password=hunter2 refused",
        '{"api_key": "hunter2"} refused',
        "Authorization: Bearer hunter2",
        "AWS_SECRET_ACCESS_KEY=hunter2",
        "run --token hunter2 failed",
        "token hunter2 has expired",
        "secret: 'hunter2'",
        "SSHKey: hunter2",
    ],
)
def test_secrets_go(text: str) -> None:
    assert "hunter2" not in title(f"error: {text}")
    assert "hunter2" not in mask(text)


# What the key is of.


def test_the_key_is_of_cause_exit_code_and_text() -> None:
    found = signature(Ended(FAILED), "error: x")
    assert found.key != signature(Ended(Termination(exit_code=2)), "error: x").key
    assert found.key != signature(Ended(FAILED), "error: y").key
    oom = Termination(exit_code=1, conditions=("OOMKilled",))
    assert found.key != signature(Ended(oom), "error: x").key
    assert found.key == signature(Ended(FAILED), "error: x", image="a:1", command=["b"]).key


@pytest.mark.parametrize("output", ["", "Killed\n", "Terminated\n", "exit status 3\n"])
def test_a_generic_text_adds_the_image_and_the_command(output: str) -> None:
    def key(image: str, command: list[str]) -> str:
        found = signature(Ended(FAILED), output, image=image, command=command)
        assert found.generic
        return found.key

    image = "registry.example.com:5000/team/job"
    assert key(f"{image}:7", ["run", "a"]) == key(f"{image}@sha256:ab", ["run", "b"])
    assert key(image, ["run"]) != key(image, ["other"])
    assert key(image, ["run"]) != key("job", ["run"])


def test_a_platform_cause_is_of_cause_and_reason_only() -> None:
    def evicted(reason: str, code: int) -> Signature:
        termination = Termination(reason=reason, conditions=("Evicted",), exit_code=code)
        return signature(Ended(termination), f"error: {code}")

    assert evicted("Evicted", 1) == evicted("Evicted", 2)
    assert evicted("Evicted", 1) != evicted("TerminationByKubelet", 1)
    assert evicted("Evicted", 1).title == "evicted: Evicted"


# Any text.

PIECES = st.sampled_from(
    [
        "Traceback (most recent call last):\n",
        '  File "/a/b.py", line 3, in f\n',
        "ValueError: x\n",
        'Exception in thread "main" a.b.C: d\n',
        "\tat a.b.C.d(E.java:1)\n",
        "Caused by: a.B\n",
        "panic: x\n",
        "goroutine 1 [running]:\nmain.f(0x1)\n",
        "thread 'main' panicked at src/a.rs:1:2:\n",
        "terminate called after throwing an instance of 'x'\n",
        "npm ERR! code E404\n",
        "ChildFailedError: \n",
        "==========\n",
        "::reprise:: {}\n",
        "make: *** [x] Error 1\n",
        "[rank0]: ",
        "\x1b[3",
        "\ud800",
        "\x00",
        "«ß» ",
        "token=",
        "/",
        "'",
        '"',
        "1.2",
        ":",
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(PIECES, st.text(max_size=20)), max_size=40).map("".join))
def test_any_output_has_one_bounded_signature(output: str) -> None:
    found = signature(Ended(FAILED), output, image="a/b:c", command=["d"])
    assert found == signature(Ended(FAILED), output, image="a/b:c", command=["d"])
    assert len(found.key) == KEY_LENGTH
    assert 0 < len(found.title) <= TITLE_LENGTH
    assert found.title.isprintable() or any(ord(letter) > 126 for letter in found.title)


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=200))
def test_only_the_end_of_an_output_counts(output: str) -> None:
    assert signature(Ended(FAILED), "x" * 99 + output.rjust(16_384)) == signature(
        Ended(FAILED), output.rjust(16_384)
    )


@pytest.mark.parametrize(
    "unit",
    [
        "Traceback (most recent call last):\n",
        '  File "a.py", line 1, in x\n',
        "\tat a.b.c(D.java:1)\n",
        "goroutine 1 [running]:\n",
        "panic: x\n",
        "thread 'a' panicked at x\n",
        "terminate called after throwing an instance of 'x'\n",
        "npm ERR! code E1\n",
        "error = 0.3\n",
        "error: x\n",
        "a@",
        "/a",
        "'",
        '"a',
        "1 ",
        "a:",
        "[1] ",
        "token=",
        "\x1b[",
        "(pid=1",
        "(pid=1\n",
        "a:\nfailed x\n",
        "\n",
        "a_",
        "Task failed.\n",
        "error: a\nfailed\n",
        "[1] at a:1\n",
        "user=",
        "- ",
    ],
)
def test_no_output_takes_long(unit: str) -> None:
    def seconds(size: int) -> float:
        output = unit * (size // len(unit))
        started = process_time()
        signature(Ended(FAILED), output)
        return process_time() - started

    seconds(16_384)
    assert min(seconds(16_384) for _ in range(3)) < 0.1
