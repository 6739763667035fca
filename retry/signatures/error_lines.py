"""Which line of an output tells the failure, if no traceback and no stack does."""

from collections.abc import Container, Sequence
from enum import IntEnum
from itertools import islice, takewhile

from retry.signatures.cause_chains import chain_of
from retry.signatures.engine import compiled, replaced, simple
from retry.signatures.lines import Output, last_matching
from retry.signatures.signs import GPU, Sign
from retry.signatures.tracebacks import Failure, with_details
from retry.signatures.vague_lines import is_vague, of_vague_words

_NO_GPU_ERROR = compiled(
    r"CUDA kernel errors might|CUDA_LAUNCH_BLOCKING|Some NCCL operations|failed call to cuInit"
    r"|Unable to register|\[Proxy Service|NCCL INFO|[Ww]arning:"
)
_LOOKS_LIKE_ONE_TEXT = (
    r"error|fatal|exception|killed|cannot|failed"
    # The same, in the words of shells, linkers, curl, npm, Fortran and Slurm.
    r"|command not found|sh: .*: not found|no such file or directory|permission denied"
    r"|segmentation fault|out of memory|^curl: \([0-9]|^npm ERR!|could not resolve"
    r"|undefined reference|\bsevere \(|^panic: |no space left|assertion"
    r"|connection (?:.{0,60} )?(?:refused|timed out|reset)|CANCELLED AT"
    r"|^make(?:\[[0-9]+\])?: \*\*\*|^SUMMARY: \w+Sanitizer|^\s*\*\* \("
    r"| at \S+ line [0-9]+\.$|OOM Killed|\b(?:free|malloc|realloc|munmap_chunk)\(\)"
    # The system's words for what it did not do, at the end of a line.
    r"|: (?:is a directory|not a directory|file exists|directory not empty|file too large"
    r"|device or resource busy|text file busy|argument list too long|bad file descriptor"
    r"|read-only file system|stale file handle|no route to host|name or service not known"
    r"|address already in use|unbound variable)$"
    # The same of tests of Go and Jest, of Lua, Zig and Cell Ranger.
    r"|^\s*--- FAIL: |^\s*\xe2\x97\x8f .* \xe2\x80\xba |^lua(?:jit|[0-9.]*): "
    r"|^thread [0-9]+ panic: |^log message:$|^batch response: "
    # A message in YAML, in the lines below.
    r"|^\s*(?:error|message|reason): [|>][+-]?$"
)
_LOOKS_LIKE_ONE = compiled(rf"(?im){_LOOKS_LIKE_ONE_TEXT}")
_WEAKER_TEXT = (
    r"exit|terminated|hangup|\bnot (?:in|an?)\b|could not|couldn't|can't|unable to|denied"
    r"|refused|not found"
    r"|timed? ?out|abort|invalid"
    r"|undefined|unrecognized|unknown|violat|missing|not permitted|unreachable|exceed"
    r"|\btoo (?:many|few|great|large|small|long|short|high|low|big|old|deep)\b"
    r"|critical|reset by peer|broken pipe|not enough|insufficient|illegal|corrupt|mismatch"
    r"|unsupported|not supported|expected|unauthorized|forbidden|oom|no such|does not exist"
    r"|not converged?\b|\bout of (?:range|bounds)\b|\bfails? to\b"
    r"|unsatisfiable|\b(?:access|protection) fault\b|\bdata races?\b"
)
_WEAKER = compiled(rf"(?im){_WEAKER_TEXT}")
# What only mentions errors: counts of none, and measures.
_NO_ERROR = compiled(
    r"(?i)\b0 (?:errors?|failed|failures?|exceptions?|killed)\b"
    r"|\b(?:errors?|failed|failures?|exceptions?|killed)\s*[:=]\s*0(?:[^.0-9]|$)"
    r"|\b\w*errors?\w*\s*[:=]\s*[-+]?[0-9]*\.[0-9]+(?:[eE][-+]?[0-9]+)?"
    r"|\berrors\s*:\s*[\w ]+=\s*[-+]?[0-9]"
    r"|\b(?:no|without|any) (?:errors?|failures?|exceptions?)\b|error[ _-](?:rate|bars?|margin)"
)
_NOISE = compiled(
    r"^[^\w=]*(?:\w+[:.])*(?i:info|debug|trace|notice|warn|warning|hint|note|help)\b[\]:|)]?"
    r"|^.{0,60}\b(?:INFO|DEBUG|TRACE|WARN|WARNING)\b|\w+Warning:|^[IW][0-9]{4} |^\s*warnings\.warn"
    r"|^(?:[\w./-]+: ?)+(?i:warning): "
    r"|^(?i:solution): |^Run `|^(?:Collecting|Solving) .*: failed$"
    # What is said about errors at large, or about the one that was told.
    r"|(?i:\b(?:errors|failures) (?:are|can|may|might|usually|often)\b"
    r"|\bthis (?:error|failure) (?:is|can|may|might|usually|often|means|indicates|occurs)\b)"
)
# Events of Kubernetes, as kubectl lists them.
_EVENT = compiled(r"^\s*Warning\s+[A-Z]\w+\s")
# What was tried again.
_AGAIN = compiled(r"(?i)\bretrying\b|\bwill retry\b|\btry(?:ing)? again in\b")
# Lines of stacks, and lines that point elsewhere.
_NEVER = compiled(
    r"^\s*(?:at |#[0-9]+ |frame #|[0-9]+: +0x|\[[ 0-9]+\] (?:/|\w+\())|^\s*File \""
    # The same of native code, of C++ without an address, and of Julia.
    r"|\+0x[0-9a-f]+\)? ?\[0x[0-9a-f]+\]$|^(?:[\w~]+::)+[\w~]+\([^()]*\)(?: const)?$"
    r"|^\s*\[[ 0-9]+\] .*(?: at \S+:[0-9]+|\[inlined\]$)"
    r"|Compile with `?TORCH_USE_CUDA_DSA|CUDA kernel errors might|CUDA_LAUNCH_BLOCKING"
    r"|^(?:\[ERROR\])?\s*(?:For (?:more|further) information|See .* for (?:details|more))"
    r"|^(?:Set|Run|Re-?run|Try|Use|Pass|Enable) .*(?i:stack ?trace|traceback|verbose)"
    r"|^(?i:errors?|details) (?:logged|written|saved) (?:to|in) "
    r"|^\s*Please (?:refer to|see) "
    r"|(?i:\blog files?: \S+$|, try (?:using|adding|setting|running)\b)"
    # Lines that are an address or a path alone, or say where the line before was called.
    r"|^\s*<?https?://\S+$|^\s*[^\s\"':()]*/[^\s\"':()]+/[^\s\"':()]*$"
    r"|^\s*Position: [0-9]|^Exception caught at file:"
    r"|^\s*\[C\]: |, called at \S+:[0-9]+|^error: called from|^Error in \S+ \(line [0-9]"
    r"|HYDRA_FULL_ERROR=|^scons: building terminated|^\*\s+\[ABORT\]"
    # Excerpts of code that sbt shows.
    r"|^\[error\]\s(?:\s|\^|$|Total time: )|^Use --verbose_failures"
    r"|^\[ERROR\]\s*(?:$|->|\[Help|Re-run|To see)"
    r"|Look below for error|stacktrace below might|^[\s|]*\^[\s^~-]*(?:error here)?$"
    r"|run with `?RUST_BACKTRACE"
    r"|^[gn]?make(?:\[[0-9]+\])?: (?:Entering|Leaving|Nothing)"
    r"|^npm (?:ERR!|error)\s*(?:A complete log|This is probably|To see a list|.*_logs[/\\]"
    r"|npm run|$)"
    r"|PYTORCH_CUDA_ALLOC_CONF=|error_file:|error report|^Backtrace for"
    r"|^Error messages? (?:below|above)|^website at |^Last message: "
    # Stacks of MPICH and of Elixir, and what Nextflow writes above the output of a process.
    r"|^\w*_\w*\([0-9]+\)\.*: |^\s+(?:\([\w.]+ [0-9][^)]*\) )?\S+\.exs?:[0-9]+: "
    r"|^\s*Command error:$"
    r"|PETSC ERROR: (?:-|Try option|or (?:see|try) |configure using|to get more|likely location"
    r"|Note:|\s*(?:INSTEAD|is given)|See |Petsc Release|Configure options|Run with|#[0-9]"
    r"|\S+ on a \S+ named )"
)
# What shells, make and launchers add to the failure of what they ran, and what follows from one
# that was told before.
_ADDED_TEXT = (
    r"^[gn]?make(?:\[[0-9]+\])?: \*\*\* (?:.*(?:Error [0-9]+|Killed|Terminated|Aborted"
    r"|Segmentation fault)|Waiting)|^ninja: build stopped"
    r"|^\s*(?:\S*: )?(?:line [0-9]+: )?\s*(?:[0-9]+ )?(?:Killed|Terminated|Aborted|Hangup"
    r"|Bus error|Segmentation fault|Illegal instruction|Floating point exception"
    r"|Trace/breakpoint trap|Floating exception|User defined signal [12])\b"
    r"|(?i:exit(?:ed|s)?,? (?:with )?(?:a )?(?:non-?zero )?(?:exit |return )?(?:status|code)"
    r"|exit code [0-9]|exit status|non-?zero (?:exit )?(?:status|code)|returned [0-9]+ exit"
    r"|exitcode)"
    r"|^FAIL(?:\s|$)|^BUILD FAILED|BUILD FAILURE|^FAILURE: Build failed|^FAILED: Build did NOT"
    r"|^Target \S+ failed to build|^compilation terminated\.$|^scons: \*\*\* \["
    r"|^\[error\] (?:\w+ errors? found|\([^)]*\) )|^Tests:  .* failed|^Test Suites: "
    r"|^\[ERROR\] Failed to execute goal .*(?:Compilation failure|test failures)"
    r"|^(?:=+ )?[0-9]+ (?:failed|errors?|passed)\b.* in [0-9.]+s|^tar: (?:Error is not|Exiting"
    r"|Child)"
    r"|^rsync error: (?:some|error in)|compilation aborted at|Configuring incomplete"
    r"|^collect2: error|^(?:error: )?could not compile"
    r"|^error: aborting due to|^error: (?:subprocess-exited|metadata-generation)"
    r"|^fatal: (?:early EOF|index-pack failed|[Tt]he remote end hung up|fetch-pack)"
    r"|^fatal: Could not read from remote|^error: [0-9]+ bytes of body are still"
    r"|^srun: error: \S+: tasks? |^srun: (?:Job step|Terminating|Force Terminated)"
    r"|^slurmstepd: error: \*\*\* STEP \S+ ON \S+ CANCELLED AT \S+ \*\*\*"
    r"|MPI_ABORT was invoked|invoking MPI_ABORT|MPI_ERRORS_ARE_FATAL|^with errorcode"
    r"|Primary job  ?terminated|mpirun (?:noticed|detected|has exited)|YOUR APPLICATION TERMINATED"
    r"|BAD TERMINATION|^Error termination\. Backtrace|\*\*\* End of error message"
    r"|^\[mpiexec@|^\[proxy:|torch\.distributed\.elastic|ChildFailedError|^Execution halted"
    r"|^Exiting because a job execution|^npm (?:ERR!|error)|^error Command failed"
    r"|ELIFECYCLE|^==[0-9]+==ABORTING"
    r"|^(?:\[\w+\])?\W*(?:[0-9]+ warnings?, )?[0-9]+ (?:errors?|failures?|problems?)\b[^:]*$"
    r"|: recipe for target"
    r"|executor failed running|failed to solve: process |^error: Recipe|Process completed with"
    r"|^Error: Process completed|command terminated|returned a non-zero code"
    r"|exits with return code|FATAL ERROR, exiting$|^Found [0-9]+ errors?\b|^Done\. PASS=[0-9]"
    r"|^CalledProcessError in |^RuleException:$"
    r"|^CommandException: (?:Caught non-retryable|[0-9]+ files?/objects?)"
    r"|^curl failed to verify|^error: failed to fetch some objects from|^Exiting now"
    r"|exited with value|Exiting prematurely; see error|^%Error: Exiting due to|: Verilog \$stop$"
    r"|^ERROR: \[Common 17-69\] |no images defined `|^!  ==> Fatal error|^\{?Error using "
    r"|^\s*Error termination (?:via|request)|Pipestance failed\. |^Build '.*' errored after"
    r"|^WorkflowError:$|^At least one job did not complete|smudge filter \w+ failed$"
    r"|^error: external filter |^SUMMARY: UndefinedBehavior|PETSC ERROR: Signal received$"
    r"|: Broken pipe(?: \([0-9]+\))?$|^Errors while running CTest"
    # Counts of failures, that there was one, and where.
    r"|\b(?:with|found|has|had) [0-9]+ (?:errors?|failures?|problems?)(?: and [0-9]+ \w+)?"
    r"(?: in [0-9.]+ ?\w+)?[.!:]?$|(?i:(?:\w+=[0-9]+,?\s+){2}(?:failed|errors?|failures?)=[0-9])"
    r"|^!+ .* !+$|^ERROR \S+[/.]\S+$"
    r"|^An? (?:[\w-]+ )?error (?:has )?occurred\b[^:(\[]*$|\berror (?:has )?occurred and\b"
    r"|(?i:\b(?:errors?|messages?|output|logs?) above\b"
    r"|\bsee the [\w ]*\b(?:output|logs?|errors?)\b|\bunknown error\b[^0-9]*$)"
    r"|\bSee [\w ]*\b[Ll]og for\b"
    r"|(?i:^\W*(?:\w+:)?\W*(?:for bug reports? )?please (?:contact|report|send|submit|file)\b"
    r"|\(if possible\)$)"
    r"|(?i:^\W*(?:task|workflow|step|job|stage|pipeline|run|execution of \w+)\b"
    r"[^:]*\b(?:failed|failure)\.?$|\. (?:steps|tasks|jobs) failed: )"
    # Lines between ornaments.
    r"|^\s*[-=]{2}[^\w]*\w.*[-=]{2}$|^\s*[*#~]{3}[^:\w]*\w[^:]*[*#~]{3}$"
    # How MPI, Slurm, Kubernetes, runners of pipelines and others end what has failed.
    r"|application called MPI_Abort\(|without calling \W?MPI_?Finalize|Signal: Aborted"
    r"|^slurmstepd: error: (?:spank: |Failed to invoke spank)|Back-off restarting failed"
    r"|Failed with result 'exit-code'"
    r"|(?i:\babort(?:ing|ed) (?:the )?(?:execution|run|job|program|batchmode)\b)"
    r"|\bcontainer \S+ has failed\b"
)
_ADDED = compiled(_ADDED_TEXT)
# How a program ended, as the last line of many scripts says.
_ENDED = compiled(
    r"(?i)\b(?:exit|return) ?(?:code|status)[ :=]*-?[0-9]+\W*$|application called MPI_Abort\("
)
# Whatever has a rank; of several lines, too.
_TELLS = compiled(rf"(?m)(?i:{_LOOKS_LIKE_ONE_TEXT}|{_WEAKER_TEXT})|{_ADDED_TEXT}")
_GENERIC = compiled(
    r"^(?:\S*: )?(?:line [0-9]+: )?\s*(?:[0-9]+ )?(Killed|Terminated|Aborted|Hangup"
    r"|Bus error|Segmentation fault|Illegal instruction|Floating point exception"
    r"|Trace/breakpoint trap)\b|^(?:[gn]?make)(?:\[[0-9]+\])?: \*\*\*"
    r"|(?i:^(?:error:? )?(?:the )?(?:command|process|script|task|main process|container|program)?"
    r"\s*(?:\S+ )?(?:terminated |exited |finished |failed )?(?:with |returned )?(?:a )?"
    r"(?:non-?zero )?(?:exit )?(?:status|code)(?: code)?[ :=]*-?[0-9]+\.?$)"
    r"|ChildFailedError|torch\.distributed\.elastic.*failed|^srun: error: \S+: tasks? [^:]*: "
    r"(?:Exited|Killed|Terminated)|^(?:Error: |##\[error\])Process completed with"
    r"|^npm (?:ERR!|error) (?:code ELIFECYCLE|Exit status|errno|\S+@\S+ )"
    r"|^Command .* returned non-zero exit status"
    r"|^subprocess\.CalledProcessError|^SystemExit|exits with return code = -?[0-9]+$"
)
# Heads that only say of which kind an error is.
_TITLE_ONLY = compiled(
    r"^\W*(?:[0-9:]+\s+)?(?:[A-Z]\w+|FOAM FATAL(?: IO)?) (?:Error|ERROR)(?: in \w+ \S+)?:?"
    r"(?: \([^()]*\))?$|^Error occurred during initialization of \w+$"
    r"|^\W+\w*(?:Exception|Error) +: \w+$"
)
# What S3 did not tell, after a comma.
_EMPTY = (b", host id:", b", request id:")
_STACK_FOLLOWS = b"error stack:"
_FRAME_OF_MPICH = simple(r"\w++\([0-9]++\)\.*+: ?+(.*)$")
_CODE_OF_NPM = compiled(r"^npm (?:ERR!|error) code (E[A-Z0-9]+)$")
_NO_MESSAGE_OF_NPM = compiled(r"^npm (?:ERR!|error) (?:code|errno|syscall|path|dest|command|$)")


_MOST_FRAMES = 30
_MOST_JUDGED = 100
"""Lines that are judged at most, the last ones: a loop may print an error in each of its rounds."""


_NEAR = 8
"""Lines above a vague one in which the reason may stand."""


class Rank(IntEnum):
    """How well a line tells a failure; the highest rank wins, and in it the last line."""

    NEVER = 0
    NOISE = 1
    GENERIC = 2
    ENDED = 3
    ADDED = 4
    WEAKER = 5
    LIKE_ONE = 6


def gpu_line(output: Output, passed_over: Container[int]) -> Failure | None:
    """Return the last line of CUDA, NCCL or of a `RuntimeError:`."""
    if Sign.GPU not in output.signs:
        return None
    lines = output.lines
    for at, line in last_matching(lines, range(len(lines)), GPU):
        if at in passed_over or not GPU.search(line) or _NO_GPU_ERROR.search(line):
            continue
        if line.endswith(b"Error:"):
            return _with_more(lines, at)
        before, warning, said = line.partition(b"NCCL WARN ")
        return Failure(warning + said if warning else before, b"", at)
    return None


def error_line(output: Output, passed_over: Container[int]) -> Failure | None:
    """Return the last line of the highest rank, with what belongs to it."""
    lines = output.lines
    best, chosen = Rank.NEVER, -1
    last = (at for at in reversed(range(len(lines))) if lines[at] and at not in passed_over)
    candidates = [*islice(last, _MOST_JUDGED)][::-1]
    for at, line in last_matching(lines, candidates, _TELLS):
        rank = rank_of(line)
        if rank > best:
            best, chosen = rank, at
        if best is Rank.LIKE_ONE:
            break
    sure = best in {Rank.WEAKER, Rank.LIKE_ONE}
    if chosen < 0 or not (sure or _has_words(lines[chosen]) or _has_words(output.text)):
        return None
    return _with_more(lines, _reason_above(lines, chosen))


def _reason_above(lines: Sequence[bytes], at: int) -> int:
    """Return the line near above that tells the reason, if this one does not, nor those below.

    It may also say the same as the end of this line, and go on.
    """
    line = lines[at].strip()
    if line.endswith(b":"):
        return at
    goes_on = line.rpartition(b": ")[2] + b": "
    vague = is_vague(line) and not _TITLE_ONLY.search(line)
    above = range(max(at - _NEAR, 0), at)
    if not vague and not any(goes_on in lines[each] for each in above):
        return at
    for each, told in last_matching(lines, above, _TELLS):
        # What ends with a colon leads to the vague line.
        better = vague and not told.endswith(b":") and not is_vague(told)
        if (better or goes_on in told) and rank_of(told) is Rank.LIKE_ONE:
            return each
    return at


def _has_words(text: bytes) -> bool:
    return bool(_LOOKS_LIKE_ONE.search(text) or _WEAKER.search(text))


def rank_of(line: bytes) -> Rank:
    """Return how well a line tells a failure."""
    strong = _LOOKS_LIKE_ONE.search(line) is not None
    if strong and (left := replaced(_NO_ERROR, lambda _m: b" ", line)) is not line:
        strong = _LOOKS_LIKE_ONE.search(left) is not None
    added = _ADDED.search(line) is not None
    if not (strong or added or _WEAKER.search(line)) or _NEVER.search(line):
        return Rank.NEVER
    added = added or of_vague_words(line)
    if added:
        if generic_word(line) == b"":
            return Rank.GENERIC
        return Rank.ENDED if _ENDED.search(line) else Rank.ADDED
    if _NOISE.search(line) and not _EVENT.search(line):
        return Rank.NOISE
    return Rank.LIKE_ONE if strong and not _AGAIN.search(line) else Rank.WEAKER


def is_generic(text: bytes) -> bool:
    """Return whether a text says only that something ended, such as `Killed`."""
    return generic_word(text) is not None


def generic_word(text: bytes) -> bytes | None:
    """Return the shell's word for the signal that ended a program, or b"" for another generic text.

    A text that is not generic has None.
    """
    match = _GENERIC.search(text) if text else None
    if match is None:
        return None if text else b""
    return bytes(match.group(1) or b"")


def npm_error(output: Output) -> Failure | None:
    """Return the code that npm gives for an error of its own, with the first words about it."""
    lines = output.lines if Sign.NPM in output.signs else ()
    for at in range(len(lines) - 1, -1, -1):
        match = _CODE_OF_NPM.search(lines[at]) if lines[at].startswith(b"npm ") else None
        if match is None or match.group(1) == b"ELIFECYCLE":
            continue
        said = next((line for line in lines[at:] if not _NO_MESSAGE_OF_NPM.search(line)), b"")
        said = said.removeprefix(b"npm ERR! ").removeprefix(b"npm error ")
        return Failure(b"npm " + match.group(1) + b": " + said, b"", at)
    return None


def last_line(output: Output, passed_over: Container[int]) -> Failure | None:
    """Return the last line that is not empty."""
    lines = output.lines
    for at in range(len(lines) - 1, -1, -1):
        if at not in passed_over and lines[at].strip(b" \t=-_*#"):
            return Failure(lines[at].strip(), b"", at)
    return None


def _with_more(lines: Sequence[bytes], at: int) -> Failure:
    """Return the line, and what belongs to it: the chain of causes, or lines that follow."""
    chain = chain_of(lines, at)
    if chain is not None:
        return Failure(chain, b"", at)
    line = lines[at].strip()
    if line.endswith(_STACK_FOLLOWS):
        return Failure(b" ".join([line, *_innermost(lines[at + 1 :])]), b"", at)
    following = next((each.strip() for each in lines[at + 1 : at + 3] if each.strip(b" #=-*")), b"")
    head = line.endswith((b":", b": |", b": >")) and not line.endswith(_EMPTY)
    more = head or following.startswith(b"> ") or _TITLE_ONLY.search(line)
    if following and more and not is_generic(following):
        line += b" " + following
    return Failure(with_details(line, lines[at + 1 : at + 4]), b"", at)


def _innermost(lines: Sequence[bytes]) -> list[bytes]:
    """Return what the last frame of MPICH's stack says: the frames above it only lead there."""
    frames = [*takewhile(bool, map(_FRAME_OF_MPICH.match, lines[:_MOST_FRAMES]))]
    return [said for frame in frames if frame and (said := frame.group(1).strip())][-1:]
