"""Where the reason of a failure stands if the last or loudest line does not have it."""

import pytest

from retry.evidence.ended import Ended
from retry.evidence.termination import Termination
from retry.signatures.line_prefixes import Prefix
from retry.signatures.ranks import Rank, rank_of
from retry.signatures.signature import signature
from retry.signatures.vague_lines import is_advice, is_vague

FAILED = Termination(exit_code=1)
TRACEBACK = (
    "Traceback (most recent call last):",
    '  File "/srv/train.py", line 12, in main',
    "    load()",
    '  File "/srv/load.py", line 7, in load',
    "    raise ValueError(shape)",
    "ValueError: bad shape",
)


def told(output: str) -> str:
    return signature(Ended(FAILED), output).title


# Tracebacks in a log.


@pytest.mark.parametrize(
    "prefix",
    [
        "ERROR 05-07 02:14:{} [core.py:396] ",
        "Jan 28 04:19:{} ca0 job[6280]: ",
        "trainer/0 2024-05-01 10:02:{} ",
        "(Engine_0 pid=17374) ERROR 02:14:{} ",
        "[{}] INFO - ",
    ],
)
def test_a_traceback_is_read_although_the_time_before_its_lines_goes_on(prefix: str) -> None:
    lines = [prefix.format(59 + 50 * (at > 2)) + line for at, line in enumerate(TRACEBACK)]
    assert told("\n".join(lines)) == "ValueError: bad shape (load:load)"


@pytest.mark.parametrize(
    ("prefix", "line", "length"),
    [
        (b"", b"x", 0),
        (b"INFO ", b"INFO x", 5),
        (b"INFO ", b"WARN x", -1),
        (b"at 9:07 ", b"at 10:1 x", 8),
        (b"at 9:07 ", b"at :1 x", -1),
        (b"at 9:07 ", b"at 9:07", -1),
        (b"7 ", b"12 x", 3),
    ],
)
def test_numbers_of_a_prefix_may_be_others(prefix: bytes, line: bytes, length: int) -> None:
    assert Prefix(prefix).length_in(line) == length


# Notebooks.

NOTEBOOK = """Traceback (most recent call last):
  File "/opt/bin/papermill", line 8, in <module>
    sys.exit(papermill())
papermill.exceptions.PapermillExecutionError:
---------------------------------------------------------------------------
Exception encountered at "In [12]":
---------------------------------------------------------------------------
{name}                                  Traceback (most recent call last)
{frames}
{name}: {said}

"""
CELL = "Cell In[12], line 4\n----> 4 total(table)\n"


@pytest.mark.parametrize(
    ("frames", "place"),
    [
        (CELL, "cell:<module>"),
        ("Input In [3], in <cell line: 4>()\n----> 4 total(table)\n", "cell:<module>"),
        ("<ipython-input-3-0a1b2c> in total(table)\n----> 4 x\n", "cell:total"),
        (CELL + "\nFile ~/notes/sums.py:8, in total(table)\n", "sums:total"),
        (CELL + "\n/home/u/sums.py in total(table)\n", "sums:total"),
        (CELL + "\nFile /v/lib/python3.11/site-packages/pd/x.py:8, in at(key)\n", "cell:<module>"),
    ],
)
def test_the_exception_in_a_notebook_counts_with_its_place(frames: str, place: str) -> None:
    output = NOTEBOOK.format(name="KeyError", frames=frames, said="'sum'")
    assert told(output) == f"KeyError: 'sum' ({place})"


def test_two_exceptions_in_notebooks_are_two_failures() -> None:
    one, other = (
        signature(Ended(FAILED), NOTEBOOK.format(name=name, frames=CELL, said="x"))
        for name in ("KeyError", "IndexError")
    )
    assert one.key != other.key


def test_what_runs_a_notebook_counts_if_nothing_tells_what_happened_in_it() -> None:
    output = NOTEBOOK.partition("-----")[0]
    assert "PapermillExecutionError" in told(output)


def test_a_word_and_spaces_before_a_traceback_need_not_be_a_name() -> None:
    lines = [f"worker     {line}" for line in TRACEBACK]
    assert told("\n".join(lines)) == "ValueError: bad shape (load:load)"


# Exceptions that only tell an end.

ENDED = """Traceback (most recent call last):
  File "/srv/fit.py", line 9, in run
    next(batches)
{}
"""
ENDS = (
    "RuntimeError: worker (pid 77) exited unexpectedly",
    "RuntimeError: worker died unexpectedly.",
    "AirflowException: Bash command failed. The command returned a non-zero exit code 1.",
)


@pytest.mark.parametrize("end", ENDS)
def test_what_caused_an_end_counts_with_the_place_of_the_end(end: str) -> None:
    output = (
        "\n".join(TRACEBACK)
        + "\n\nThe above exception was the direct cause of the following exception:\n\n"
        + ENDED.format(end)
    )
    assert told(output) == "ValueError: bad shape (fit:run)"


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("before", ["INFO - {}", "{}"])
def test_the_traceback_before_an_end_counts(before: str, end: str) -> None:
    lines = [before.format(line) for line in TRACEBACK]
    output = "\n".join([*lines, ENDED.format(end), "ERROR - Failed to execute job 7 (ended)"])
    assert told(output) == "ValueError: bad shape (load:load)"


@pytest.mark.parametrize("end", ENDS)
def test_the_error_before_an_end_counts(end: str) -> None:
    assert told(f"error: disk is full\n{ENDED.format(end)}") == "error: disk is full"


def test_an_error_far_before_an_end_was_survived() -> None:
    output = "error: no map here\n" + "step\n" * 50 + ENDED.format(ENDS[0])
    assert told(output) == "RuntimeError: worker (pid #) exited unexpectedly (fit:run)"


@pytest.mark.parametrize("end", ENDS)
def test_an_end_counts_if_nothing_before_it_tells_more(end: str) -> None:
    after = "ERROR - Failed to execute job 7 for task pull"
    output = f"ERROR - Task failed with exception\n{ENDED.format(end)}{after}\n"
    assert told(output).endswith("(fit:run)")


def test_an_exception_that_says_why_something_ended_is_no_end_only() -> None:
    said = "ActorError: the actor died unexpectedly because its node ran out of memory"
    assert told("error: first\n" + ENDED.format(said)).startswith(said)


# Native stacks.

GFORTRAN = """Program received signal SIGFPE: Floating-point exception.

Backtrace for this error:
#0  0x1468dc74a27f in ???
#1  0x6747b5 in {}
\tat core.f90:864
"""
GDB = """Program received signal SIGSEGV, Segmentation fault.
#0  0x00007f in raise () from /lib64/libc.so.6
#1  0x0000000000401136 in {} (n=3) at beam.c:7
#2  0x0000000000401150 in main () at beam.c:12
"""
MPI = """[sun:7] *** Process received signal ***
[sun:7] Signal: Segmentation fault (11)
[sun:7] [ 0] /lib64/libpthread.so.0(+0xf630)[0x7f447e3c8250]
[sun:7] [ 1] /lib64/libc.so.6(memcpy+0x1d2)[0x7f447e3c8251]
[sun:7] [ 2] ./beam({}+0x1d2)[0x55ab13320a7f]
[sun:7] *** End of error message ***
"""
FOAM = """#0  Foam::error::printStack(Foam::Ostream&) at ??:?
#1  Foam::sigFpe::sigHandler(int) at ??:?
#2  ? in "/lib/libc.so.6"
#3  {}(Foam::Field<double>&) const at ??:?
#4  main in "/opt/bin/simpleFoam"
Floating point exception (core dumped)
"""


@pytest.mark.parametrize("stack", [GFORTRAN, GDB, MPI, FOAM])
def test_the_first_own_function_of_a_native_stack_is_the_place(stack: str) -> None:
    assert "(split_cells)" in told(stack.format("split_cells"))
    one, other = (signature(Ended(FAILED), stack.format(name)) for name in ("split", "join"))
    assert one.key != other.key


def test_a_native_stack_without_own_functions_gives_no_place() -> None:
    assert told(GFORTRAN.format("???")) == told(
        "Program received signal SIGFPE: Floating-point exception.\n"
    )


def test_a_native_stack_is_no_place_of_an_error_that_names_no_signal() -> None:
    assert told(GFORTRAN.format("f") + "error: disk is full\n") == "error: disk is full"


def test_a_signal_of_the_shell_stays_generic_with_a_place() -> None:
    assert signature(Ended(FAILED), FOAM.format("f")).generic


# Words in names.


@pytest.mark.parametrize(
    "line",
    [
        "ResolvePackageNotFound:",
        "reason ContainerNotFound",
        "NoSuchTable: parcels",
        "HeapOutOfBounds: 7",
        "code TooManyFiles",
        "Post::DepotClosed: no post today",
        "Failure in test unique_parcels",
    ],
)
def test_words_of_failure_count_within_names(line: str) -> None:
    assert rank_of(line.encode()) is Rank.WEAKER


@pytest.mark.parametrize(
    "line",
    [
        "isNotEmpty",
        "imagePullPolicy: IfNotPresent",
        "OutOfOrder: on",
        "notes: 7",
        "post::depot: opened",
        "Outlet: 7",
    ],
)
def test_other_names_do_not_count(line: str) -> None:
    assert rank_of(line.encode()) is Rank.NEVER


# Vague heads.


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (
            (
                "ssh: connect to host h port 22: Connection refused\n"
                "rsync error: unexplained error (code 255) at io.c(235) [sender=3.1.3]\n"
            ),
            "ssh: connect",
        ),
        ("error: linker `cc` not found\n  |\n  = note: No such file or directory\n", "error: lin"),
        ("fatal: no seat left\n1|x.cli|ERROR| Check stdout/stderr in /a/b.out\n", "fatal: no seat"),
        ("EXITING because of FATAL ERROR in reads: too short\n... FATAL ERROR, exiting\n", "EXIT"),
        (
            (
                "FATAL ERROR: Reached heap limit - JavaScript heap out of memory\n"
                " 1: 0xb090e0 node::Abort() [node]\n 2: 0xa1 node::OnFatalError(char) [node]\n"
            ),
            "FATAL ERROR: Reached heap limit",
        ),
        (
            (
                "Failed to execute goal test on project web: There are test failures.\n"
                "[ERROR] Tests run: 5, Failures: 1, Errors: 0, Skipped: 0\n"
            ),
            "Failed to execute goal test on project web",
        ),
    ],
)
def test_a_closing_line_yields_to_one_that_tells_more(output: str, expected: str) -> None:
    assert told(output).startswith(expected)


def test_a_note_counts_if_the_error_tells_less() -> None:
    output = "error: could not compile `beam`\n  = note: cannot find -lssl\n"
    assert told(output) == "= note: cannot find -lssl"


def test_counts_and_advice_tell_no_reason() -> None:
    assert is_vague(b"[ERROR] Tests run: 12, Failures: 1, Errors: 0, Skipped: 0")
    assert not is_vague(b"error: row 7: no seat left")
    assert is_advice(b"12:00|cli|ERROR| Check stdout/stderr in /a/b.out")
    assert not is_advice(b"12:00|cli|ERROR| disk is full")


# What a command wrote.

QUOTED = """Error executing process > 'SORT (s1)'

Caused by:
  Process `SORT (s1)` terminated with an error exit status (1)

Command error:
  [M::main] read 817 records
{}

Work dir:
  /data/4f
"""


@pytest.mark.parametrize("after", ["", "  [M::main] wrote 7 records\n", "  12% of 40 done\n"])
def test_the_last_word_of_a_quoted_output_is_the_reason(after: str) -> None:
    title = told(QUOTED.format(f"  pairs have other names\n{after}".rstrip("\n")))
    assert title.endswith("exit status (1): pairs have other names")


def test_quoted_progress_before_a_signal_is_no_reason() -> None:
    killed = "  wrote parts of the table\n  .command.sh: line 2: 77 Killed   sorter"
    assert "table" not in told(QUOTED.format(killed))


def test_an_output_is_quoted_below_other_heads_too() -> None:
    output = "Job failed: exit status 1\nstderr:\n  no seats in this train\n"
    assert told(output).endswith("exit status 1: no seats in this train")


# What belongs to a line.


def test_labels_below_an_error_of_a_compiler_belong_to_it() -> None:
    output = "[ERROR] /a/X.java:[1,2] cannot find symbol\n[ERROR]   symbol:   class Depot\n"
    assert told(output) == "[ERROR] X.java:[#] cannot find symbol symbol: class Depot"
    output = "X.java:1: error: cannot find symbol\n    Depot d;\n    ^\n  symbol:   class Depot\n"
    assert told(output) == "X.java:#: error: cannot find symbol symbol: class Depot"


def test_a_title_directly_above_an_error_belongs_to_it() -> None:
    output = "03:14:54    Database Error in model parcels (m/parcels.sql)\n  syntax error near =\n"
    assert told(output).startswith("Database Error in model parcels (<path>.sql): syntax error")


# Statuses.


@pytest.mark.parametrize(
    "status",
    ["403 Forbidden", "401 Anonymous caller", "404 Not Found", "429 Too Many Requests"],
)
def test_a_status_stays_before_its_phrase(status: str) -> None:
    assert told(f"error: bad reply: by proxy, {status}\n").endswith(status)


def test_a_status_stays_before_the_method_and_the_address_that_were_asked() -> None:
    assert "403 POST" in told("error: 403 POST https://a.example.com/x: no\n")
    assert "403" not in told("error: lost 403 POST requests\n")
    assert "403" not in told("error: lost 403 Files\n")


# Places that other languages tell.


@pytest.mark.parametrize(
    ("output", "place"),
    [
        (
            (
                "ERROR: LoadError: DomainError with -1.0:\nsqrt was called with a negative number\n"
                "Stacktrace:\n  [1] sqrt\n    @ ./math.jl:677 [inlined]\n"
                "  [2] mean\n    @ Stats /home/u/.julia/packages/Stats/x1/src/mean.jl:3\n"
                "  [3] speed(p::Float64)\n    @ Main.Flow /srv/src/flow.jl:22\n"
                "  [4] top-level scope\n    @ /srv/run.jl:14\n"
            ),
            "flow:speed",
        ),
        (
            (
                "ERROR: bad row\nStacktrace:\n [1] error(::String) at ./error.jl:33\n"
                " [2] rows(::Int64) at /srv/load.jl:7\n"
            ),
            "load:rows",
        ),
        (
            (
                "** (MatchError) no match of right hand side value: :nil\n"
                "    (elixir 1.15.7) lib/enum.ex:10: Enum.map/2\n"
                "    (feed 0.3.1) lib/feed/poller.ex:52: Feed.Poller.poll/2\n"
            ),
            "Feed.Poller.poll/#",
        ),
        (
            (
                "Error using horzcat\nDimensions of arrays are not consistent.\n\n"
                "Error in assemble (line 44)\n    K = [A B];\n\nError in run (line 1)\n"
            ),
            "assemble",
        ),
        (
            (
                "forrtl: severe (24): end-of-file during read, unit 31\n"
                "Image              PC                Routine            Line        Source\n"
                "waves              00000000004A1B2C  Unknown               Unknown  Unknown\n"
                "waves              00000000004A1B2C  read_bc_                   88  bc.f90\n"
            ),
            "read_bc_",
        ),
        (
            (
                "ERROR ~ Error executing process > 'MAIN:CALL (S1)'\n\nCommand error:\n"
                "  A USER ERROR has occurred: no overlapping contigs found.\n"
            ),
            "MAIN:CALL",
        ),
    ],
)
def test_the_innermost_own_place_counts_in_other_languages(output: str, place: str) -> None:
    assert told(output).endswith(f" ({place})")


def test_a_place_that_belongs_to_no_error_changes_nothing() -> None:
    killed = Ended(Termination(exit_code=137))
    plain = signature(killed, "step 1\n", command=["a"])
    warned = "step 1\nStacktrace:\n [1] rows(::Int64) at /srv/load.jl:7\n"
    assert signature(killed, warned, command=["a"]).key == plain.key
    assert told("error: bad row\nStacktrace:\n [1] f() at ./error.jl:33\n") == "error: bad row"


def test_an_exception_of_cpp_that_nothing_caught_has_the_place_of_its_native_stack() -> None:
    stack = (
        "terminate called after throwing an instance of 'std::out_of_range'\n  what():  map::at\n"
        "[n7:12] *** Process received signal ***\n[n7:12] Signal: Aborted (6)\n"
        "[n7:12] [ 0] /lib/libc.so.6(abort+0xd3)[0x7f00]\n"
        "[n7:12] [ 1] /lib/libstdc++.so.6(_Z3foov+0x12)[0x7f00]\n"
        "[n7:12] [ 2] ./a.out(_ZSt20__throw_out_of_rangePKc+0x12)[0x7f00]\n"
        "[n7:12] [ 3] ./a.out(pack+0x2f1)[0x55aa]\n[n7:12] [ 4] ./a.out(main+0x1)[0x55aa]\n"
    )
    assert told(stack) == "std::out_of_range: map::at (pack)"


@pytest.mark.parametrize(
    "head",
    ["multiprocessing.pool.RemoteTraceback: ", "concurrent.futures.process._RemoteTraceback: "],
)
def test_an_exception_of_another_process_is_told_where_it_was_raised_first(head: str) -> None:
    again = TRACEBACK[:2] + TRACEBACK[-1:]
    direct = "The above exception was the direct cause of the following exception:"
    lines = (head, '"""', *TRACEBACK, '"""', "", direct, "", *again)
    assert told("\n".join(lines)) == "ValueError: bad shape (load:load)"
    other = (*lines[:-1], "KeyError: 'a'")
    assert told("\n".join(other)) == "KeyError: 'a' (train:main)"


def test_the_code_of_spark_is_not_that_of_the_program() -> None:
    frames = (
        '  File "/opt/spark/python/pyspark/sql/readwriter.py", line 1721, in parquet',
        '  File "/opt/spark/python/lib/py4j-0.10.9-src.zip/py4j/gateway.py", line 1, in call',
    )
    lines = (*TRACEBACK[:4], *frames, "AnalysisException: no such column")
    assert told("\n".join(lines)) == "AnalysisException: no such column (load:load)"


# Descriptions.

SPRING = """\
12:00:00 ERROR 7 --- [main] o.s.b.d.LoggingFailureAnalysisReporter   :

***************************
APPLICATION FAILED TO START
***************************

Description:

{}

Action:

Consider to do something.
"""


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        ("Port 80 was already in use.\n", "Port # was already in use."),
        (
            "A component required a bean of type 'com.example.orders.Client'.\n",
            "A component required a bean of type 'com.example.orders.Client'.",
        ),
        (
            "Failed to bind properties under 'a':\n\n    Reason: no such value\n",
            "Failed to bind properties under 'a': Reason: no such value",
        ),
    ],
)
def test_spring_describes_why_an_application_did_not_start(description: str, expected: str) -> None:
    assert told(SPRING.format(description)) == expected


def test_a_start_of_spring_that_is_not_described_is_told_by_its_other_lines() -> None:
    assert told("APPLICATION FAILED TO START\nerror: bad row\n") == "error: bad row"
    assert told(SPRING.format("") + "error: bad row\n") == "error: bad row"


@pytest.mark.parametrize(
    ("cause", "expected"),
    [
        ("no such row\n       missing field `a`", "no such row: missing field `a`"),
        ("bad line:\n         |\n       3 | a\n       missing field", "bad line: missing field"),
    ],
)
def test_a_cause_of_several_lines_is_told_whole(cause: str, expected: str) -> None:
    output = f"Error: no config\n\nCaused by:\n    0: bad file\n    1: {cause}\n"
    assert told(output) == f"Error: no config: bad file: {expected}"


def test_the_function_that_called_is_told_of_haskell_and_octave() -> None:
    haskell = (
        "sim: empty list\nCallStack (from HasCallStack):\n"
        "  error, called at libraries/base/GHC/List.hs:1:2 in base:GHC.List\n"
        "  lookup, called at src/Grid.hs:3:4 in sim-0.1:Sim.Grid\n"
    )
    assert told(haskell) == "sim: empty list (Sim.Grid:lookup)"
    octave = "error: 'k' undefined\nerror: called from\n    assemble at line 7 column 3\n"
    assert told(octave) == "error: 'k' undefined (assemble)"


def test_a_library_of_the_jvm_that_throws_is_not_the_place() -> None:
    output = (
        "io.delta.exceptions.ConcurrentAppendException: files were added\n"
        "\tat io.delta.Errors.apply(Errors.scala:3)\n\tat com.example.Upsert.run(Upsert.scala:7)\n"
    )
    assert told(output).endswith("(Upsert.run)")
