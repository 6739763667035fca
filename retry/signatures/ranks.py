"""How well a line tells a failure: by the words that it has."""

from enum import IntEnum

from retry.signatures.engine import compiled
from retry.signatures.no_errors import without_none
from retry.signatures.vague_lines import is_advice, of_vague_words

_LOOKS_LIKE_ONE_TEXT = (
    r"error|fatal|exception|killed|can ?not|failed"
    # The same, in the words of shells, linkers, curl, npm, Fortran and Slurm.
    r"|command not found|sh: .*: not found|no such file or directory|permission denied"
    r"|segmentation fault|out of memory|^curl: \([0-9]|^npm ERR!|could not resolve"
    r"|undefined reference|\bsevere \(|^panic: |no space left|assertion"
    r"|connection (?:.{0,60} )?(?:refused|timed out|reset)|CANCELLED AT"
    r"|\bHTTP(?:/[0-9.]+)? [45][0-9]{2}\b|^\W*(?:reason|(?:root )?cause) *[:=] +\S"
    r"|^make(?:\[[0-9]+\])?: \*\*\*|^SUMMARY: \w+Sanitizer|^\s*\*\* \("
    r"| at \S+ line [0-9]+\.$|OOM Killed|\b(?:free|malloc|realloc|munmap_chunk)\(\)"
    # The system's words for what it did not do, at the end of a line.
    r"|: (?:is a directory|not a directory|file exists|directory not empty|file too large"
    r"|device or resource busy|text file busy|argument list too long|bad file descriptor"
    r"|read-only file system|stale file handle|no route to host|name or service not known"
    r"|address already in use|unbound variable)$"
    # The same of tests of Go, of Lua, Zig and Cell Ranger.
    r"|^\s*--- FAIL: |^lua(?:jit|[0-9.]*): "
    r"|^thread [0-9]+ panic: |^log message:$|^batch response: "
    # A message in YAML, in the lines below.
    r"|^\s*(?:error|message|reason): [|>][+-]?$"
    r"|UnhandledPromiseRejectionWarning: "
)
_LOOKS_LIKE_ONE = compiled(rf"(?im){_LOOKS_LIKE_ONE_TEXT}")
_WEAKER_TEXT = (
    r"exit|terminated|hangup|\bnot (?:in|an?)\b|could not|couldn't|can't|unable to|denied"
    r"|refused|not found|failure in \w"
    r"|timed? ?out|abort|invalid"
    r"|undefined|unrecognized|unknown|violat|missing|not permitted|unreachable|exceed"
    r"|\btoo (?:many|few|great|large|small|long|short|high|low|big|old|deep)\b"
    r"|critical|reset by peer|broken pipe|not enough|insufficient|illegal|corrupt|mismatch"
    r"|unsupported|\bnot (?:support|recogni|allow)|expected"
    r"|unauthorized|forbidden|oom|no such|does not exist"
    r"|not converged?\b|\bout of (?:range|bounds)\b|\bfails? to\b"
    r"|^ *STOP\b|\bERR! |unsatisfiable|\b(?:access|protection) fault\b|\bdata races?\b"
    # The same in names of errors, whose words are not apart: `ContainerNotFound`, `NoSuchKey`.
    # `IfNotPresent` tells no failure.
    r"|(?-i:\b(?:[A-Z][a-z]+)+Not(?:[A-Z][a-z]*(?:ed|ble)|Found|Valid|Enough|Ready|Known|Exist)"
    r"(?:\b|[A-Z])|\bNoSuch[A-Z]|\b(?:[A-Z][a-z]+)*OutOf(?:Memory|Bound|Range|Space|Disk|Sync"
    r"|Resource|Quota|Time|Storage|Heap|Stack)"
    r"|\b(?:[A-Z][a-z]+)*Too(?:Many|Large|Long|Small|Big|Deep|Old)\b"
    # The head of an exception of Ruby or C++.
    r"|^(?:\w+::)+[A-Z]\w*: \S)"
)
_WEAKER = compiled(rf"(?im){_WEAKER_TEXT}")
_NOISE = compiled(
    r"^[^\w=]*(?:\w+[:.])*(?i:info|debug|trace|notice|warn|warning|hint|note|help)\b[\]:|)]?"
    r"|^.{0,60}\b(?:INFO|DEBUG|TRACE|WARN|WARNING)\b|\w+Warning:|^[IW][0-9]{4} |^\s*warnings\.warn"
    r"|^(?:(?:line [0-9]+|[\w./-]+): ?)+(?i:warning): "
    r"|^(?i:solution): |^Run `|^(?:Collecting|Solving) .*: failed$"
    # What is said about errors at large, or about the one that was told.
    # How long it took, and what it used.
    r"|(?i:^\W*(?:error|fatal)\W+[\w ()%/-]*\b(?:time|memory|elapsed|cpu|duration|ended|started)\b"
    r"[\w ()%/-]*: [0-9A-Z][^:]*(?::[0-9]+)*[^:]*$)"
    r"|(?i:\b(?:errors|failures) (?:are|can|may|might|usually|often)\b"
    r"|\bthis (?:error|failure) (?:is|can|may|might|usually|often|means|indicates|occurs"
    r"|happen\w*)\b)"
)
# No warnings in spite of their name: events of Kubernetes, as kubectl lists them, and Node's end.
_EVENT = compiled(r"^\s*Warning\s+[A-Z]\w+\s|\bUnhandledPromiseRejectionWarning: ")
# What was tried again, and what rustc adds to an error: it tells why only if the error does not.
_AGAIN = compiled(r"(?i)\bretrying\b|\bwill retry\b|\btry(?:ing)? again in\b|^\s*= (?:note|help): ")
# Lines of stacks, and lines that point elsewhere.
_NEVER = compiled(
    r"^\s*(?:at |#[0-9]+ |\++ [a-z]|frame #|[0-9]+: +0x|\[[ 0-9]+\] (?:/|\w+\())|^\s*File \""
    # Frames of Go, and threads of the JVM.
    r"|^[\w./*()\[\]{}$@~-]+\.[\w.*()\[\]-]+\([0-9a-fx,?.{} ]*\)$|^goroutine [0-9]+ |^created by "
    r"|^\"[^\"]*\" .*\b(?:prio|tid)=|^\s+- (?:locked|waiting|parking)"
    # What compilers say below an error: it is told with the error.
    r"|^(?:\[ERROR\])?\s{2,}(?:symbol|location|required|found|reason): "
    # Stacks of native code, of C++ without an address, and of Julia.
    r"|\+0x[0-9a-f]+\)? ?\[0x[0-9a-f]+\]$|^(?:[\w~]+::)+[\w~]+\([^()]*\)(?: const)?$"
    r"|^\s*\[[ 0-9]+\] .*(?: at \S+:[0-9]+|\[inlined\]$)"
    r"|Compile with `?TORCH_USE_CUDA_DSA|CUDA kernel errors might|CUDA_LAUNCH_BLOCKING"
    r"|^(?:\[ERROR\])?\s*(?:For (?:more|further) information|See .* for (?:details|more))"
    r"|^(?:Set|Run|Re-?run|Try|Use|Pass|Enable) .*(?i:stack ?trace|traceback|verbose)"
    r"|^(?i:errors?|details) (?:logged|written|saved) (?:to|in) "
    r"|^\s*Please (?:refer to|see) "
    r"|(?i:\blog files?: \S+$|, try (?:using|adding|setting|running)\b)"
    # What Nextflow has done so far.
    r"|^\[[0-9a-f]{2}/[0-9a-f]{6}\] (?:\w+ )?process >"
    # Lines that are an address or a path alone, or say where the line before was called.
    r"|^\s*<?https?://\S+$|^\s*[^\s\"':()]*/[^\s\"':()]+/[^\s\"':()]*$"
    r"|^\s*Position: [0-9]|^Exception caught at file:|\bCALLED FROM FILE:"
    r"|^\s*\[C\]: |, called at \S+:[0-9]+|^error: called from|^Error in \S+ \(line [0-9]"
    r"|^\s*\+ (?:CategoryInfo|FullyQualifiedErrorId)\s|^\s*\+ ~+$|^At \S+:[0-9]+ char:[0-9]+$"
    r"|HYDRA_FULL_ERROR=|^scons: building terminated|^\*\s+\[ABORT\]"
    # Excerpts of code that sbt shows.
    r"|^\[error\]\s(?:\s|\^|$|Total time: )|^Use --verbose_failures"
    r"|^\[ERROR\]\s*(?:$|->|\[Help|Re-run|To see|After correcting|mvn <)"
    r"|Look below for error|stacktrace below might|^[\s|]*\^[\s^~-]*(?:error here)?$"
    r"|run with `?RUST_BACKTRACE|: Unhandled promise rejection\. This error originated"
    r"|\bSet MCA parameter |\bmore process(?:es)? ha(?:s|ve) sent help message"
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
    r"|^\s*FAIL(?:\s|$)|^BUILD FAILED|BUILD FAILURE|^FAILURE: Build failed"
    r"|^FAILED: Build did NOT"
    # Names of tests, as GoogleTest, Jest, Playwright and XCTest write them, and heads of lists.
    r"|^\[  FAILED|\w \xe2\x80\xba \w|' failed \([0-9]"
    r"|^Fail(?:ed|ing) (?:example|scenario|spec|test)s?:"
    r"|^Target \S+ failed to build|^compilation terminated\.$|^scons: \*\*\* \["
    r"|^\[error\] (?:\w+ errors? found|\([^)]*\) )|^Tests:  .* failed|^Test Suites: "
    r"|^\[ERROR\] Failed to execute goal .*(?:Compilation failure|test failures)"
    r"|^(?:=+ )?[0-9]+ (?:failed|errors?|passed)\b.* in [0-9.]+s|^tar: (?:Error is not|Exiting"
    r"|Child)"
    r"|^rsync error: (?:some|error in|unexplained)|compilation aborted at|Configuring incomplete"
    r"|^collect2: error|^(?:error: )?could not compile"
    r"|^error: aborting due to|^error: (?:subprocess-exited|metadata-generation)"
    r"|^fatal: (?:early EOF|index-pack failed|[Tt]he remote end hung up|fetch-pack)"
    r"|^fatal: Could not read from remote|^error: [0-9]+ bytes of body are still"
    r"|^srun: error: \S+: tasks? |^srun: (?:Job step|Terminating|Force Terminated"
    r"|launch/slurm: )|^slurmstepd: error: \*\*\* STEP \S+ ON \S+ CANCELLED AT \S+ \*\*\*"
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
    r"|exits with return code|FATAL ERROR, exiting$|^Found [0-9]+ errors?\b|\bDone\. PASS=[0-9]"
    r"|^CalledProcessError in |^RuleException:$|^error: fatalError$"
    r"|^&&&& FAILED |\[E\] (?:Building|Parsing) \w+ failed$"
    r"|^(?:> )?Compilation failed; see the compiler error output"
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
    r"|(?i:\b(?:errors?|messages?|output|logs?|see) above\b"
    r"|\bsee the [\w ]*\b(?:output|logs?|errors?)\b|\bunknown error\b[^0-9]*$"
    # rsync has only the code, which is that of the exit.
    r"|\bunexplained error\b)"
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
    r"|Failed with result 'exit-code'|^Error initializing output stream .* maybe incorrect"
    r"|(?i:\babort(?:ing|ed) (?:the )?(?:execution|run|job|program|batchmode)\b)"
    r"|\bcontainer \S+ has failed\b"
    # That something ended because of errors, and how many there were.
    r"|(?i:\b(?:terminat|abort|stopp|halt|end|exit|finish|complet|fail)(?:s|ed|ing)? "
    r"(?:by|due to|because of|with|on|after) (?:(?:the|an?|previous|fatal|some|indicated) )*"
    r"errors?(?:\(s\)| termination)?(?: (?:at|in|on|or|and)\b|[.!*\s]*$))"
    r"|(?i:^\W*(?:number|total|count) (?:of )?(?:\w+ +){0,3}errors?\b[^:=]*[:=]\s*[0-9]+$)"
    r"|(?i:\((?:[\w ]+: [0-9]+, )*(?:errors?|failed|failures?): [0-9]+(?:, [\w ]+: [0-9]+)*\)$)"
    r"|\b[0-9]+ errors?(?:,| and) [0-9]+ warnings?\W*$"
    r"|\bwill (?:now )?(?:exit|abort|terminate|stop|quit)\b"
)
_ADDED = compiled(_ADDED_TEXT)
# How a program ended, as the last line of many scripts says.
_ENDED = compiled(
    r"(?i)\b(?:exit|return) ?(?:code|status)[ :=]*-?[0-9]+\W*$|application called MPI_Abort\("
)
# Whatever has a rank; of several lines, too.
TELLS = compiled(rf"(?m)(?i:{_LOOKS_LIKE_ONE_TEXT}|{_WEAKER_TEXT})|{_ADDED_TEXT}")
_GENERIC = compiled(
    r"^(?:\S*: )?(?:line [0-9]+: )?\s*(?:[0-9]+ )?(Killed|Terminated|Aborted|Hangup"
    r"|Bus error|Segmentation fault|Illegal instruction|Floating point exception"
    r"|Trace/breakpoint trap)\b|^(?:[gn]?make)(?:\[[0-9]+\])?: \*\*\*"
    r"|(?i:^(?:error:? )?(?:the )?(?:command|process|script|task|main process|container|program)?"
    r"\s*(?:\S+ )?(?:terminated |exited |finished |failed )?(?:with |returned )?(?:a )?"
    r"(?:non-?zero )?(?:exit )?(?:status|code)(?: code)?[ :=]*-?[0-9]+\.?$)"
    r"|ChildFailedError|torch\.distributed\.elastic.*failed|^srun: error: \S+: tasks? [^:]*: "
    r"(?:Exited|Killed|Terminated)|^(?:Error: |##\[error\])Process completed with"
    r"|^srun: (?:Job step|Terminating|Force Terminated|launch/slurm: )"
    r"|^slurmstepd: error: \*\*\* STEP \S+ ON \S+ CANCELLED AT \S+ \*\*\*"
    r"|^npm (?:ERR!|error) (?:code ELIFECYCLE|Exit status|errno|\S+@\S+ )"
    r"|^Command .* returned non-zero exit status"
    r"|^subprocess\.CalledProcessError|^SystemExit|exits with return code = -?[0-9]+$"
)


class Rank(IntEnum):
    """How well a line tells a failure; the highest rank wins, and in it the last line."""

    NEVER = 0
    NOISE = 1
    GENERIC = 2
    ENDED = 3
    ADDED = 4
    WEAKER = 5
    LIKE_ONE = 6


def has_words(text: bytes) -> bool:
    """Return whether a text has a word of failures, whatever it says with it."""
    return bool(_LOOKS_LIKE_ONE.search(text) or _WEAKER.search(text))


def rank_of(line: bytes) -> Rank:
    """Return how well a line tells a failure."""
    left = without_none(line)
    strong = _LOOKS_LIKE_ONE.search(left) is not None
    words = strong or _WEAKER.search(left) is not None
    added = _ADDED.search(left) is not None
    if left != line and not words:
        # A sum of tests that passed, between ornaments or not.
        added = added and b"fail" in left.lower()
    if not (words or added) or _NEVER.search(line):
        return Rank.NEVER
    added = added or of_vague_words(line) or is_advice(line)
    if added:
        if generic_word(line) == b"":
            return Rank.GENERIC
        return Rank.ENDED if _ENDED.search(line) else Rank.ADDED
    if is_noise(line):
        return Rank.NOISE
    return Rank.LIKE_ONE if strong and not _AGAIN.search(line) else Rank.WEAKER


def is_elsewhere(line: bytes) -> bool:
    """Return whether a line is part of a stack, or points elsewhere."""
    return _NEVER.search(line) is not None


def is_noise(line: bytes) -> bool:
    """Return whether a line says of itself that it is no error, or speaks of errors at large."""
    return _NOISE.search(line) is not None and _EVENT.search(line) is None


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
