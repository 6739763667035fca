"""Heads of stacks: of Java, Go, Rust, Node, C++, Haskell and a dying Python."""

from collections.abc import Callable, Iterator, Sequence

from retry.signatures.engine import compiled, simple
from retry.signatures.lines import Output
from retry.signatures.signs import Sign
from retry.signatures.tracebacks import Failure, module_of

_FAR = 12
"""Lines between a head and its first frame, at most: a message may have several."""

_MOST_FRAMES = 40

_AT = compiled(r"^\s*at (?:async |new )?(\S.*)$")
_NATIVE_PLACE = compiled(r"\.(?:rs|go):[0-9]+(?::[0-9]+)?\)?$")
_JAVA_FRAME = compiled(r"^((?:[\w$.-]+/)?[\w$.<>]+)\([^()]*\)")
_NODE_FRAME = compiled(
    r"^(?:(\S.*?) \()?((?:file://)?(?:/|[A-Za-z]:\\|node:|internal|<anonymous>)[^()]*?)"
    r"(?::[0-9]+)*\)?(?: \{)?$"
)
_HEAD = compiled(r"(?:[\w$]+[.:/])*[\w$]*(?:Exception|Error|Throwable|Failure|Interrupt|Fault)\b")
_BEFORE_HEAD = compiled(
    r"^(?:.*\bException in thread \"[^\"]*\" |Caused by: |Uncaught |Unhandled exception\. "
    r"|\[error\] |\[?cause\]?: |: )"
)
_FOREIGN = compiled(
    r"^(?:java|javax|jdk|sun|com\.sun|scala|kotlin|java\.base/.*|jdk\.[\w.]*/.*"
    r"|org\.apache\.(?:spark|hadoop|flink)|py4j|System|Microsoft|Interop"
    # Libraries that throw for others: of tests, of databases and of clouds.
    r"|org\.(?:junit|opentest4j|assertj|hamcrest|mockito|testng|scalatest|springframework"
    r"|hibernate|postgresql)|junit|com\.(?:google|mysql|zaxxer|fasterxml|amazonaws)|software\.amazon"
    r"|io\.(?:delta|netty|grpc|confluent)|okhttp3|reactor|akka|NUnit|Xunit)[.$/]"
)
_DRIVER = b"Driver stacktrace:"
_GO_HEADS = (b"panic: ", b"fatal error: ", b"http: panic ", b"unexpected fault ", b"SIG")
_GO_FUNCTION = compiled(r"^([\w./*()\[\]{}$@~-]+)\(.*\)$")
_GO_OWN = compiled(r"^(?:runtime|panic|testing|reflect|sync|syscall|internal/)\b")
_GOROUTINE = compiled(r"^goroutine [0-9]+ (?:gp=.* )?\[")
# The thread of a test has its name.
_RUST = compiled(r"^thread '(?:(\w+::[^']*)|[^']*)' (?:\([0-9]+\) )?panicked at (.*)$")
_RUST_OLD = compiled(r"^'(.*)', (\S+\.rs):[0-9]+(?::[0-9]+)?$")
_RUST_NEW = compiled(r"^(\S+\.rs):[0-9]+(?::[0-9]+)?:$")
_CPP = compiled(r"^terminate called after throwing an instance of '(.*)'$")
_JVM_CRASH = b"A fatal error has been detected by the Java Runtime Environment"
_HASKELL = b"CallStack (from HasCallStack)"
_CALLED_HASKELL = simple(r"\s++([^\s,]++), called at (?!libraries/)\S++ in [^\s:]++:([\w.]++)$")
_OFFSET = compiled(r"^\w +|\+0x[0-9a-f]+")
_FATAL_PYTHON = b"Fatal Python error: "
_CURRENT_THREAD = b"Current thread "
_PYTHON_FRAME = compiled(r"^\s*File \"([^\"]*)\", line [0-9]+ in (.+)$")


def last_head(output: Output) -> Failure | None:
    """Return the last head of a stack in any of these languages."""
    if Sign.STACK not in output.signs:
        return None
    lines = output.lines
    found = [failure for sign, find in _LANGUAGES if sign in output.text for failure in find(lines)]
    return max(found, key=lambda failure: failure.line, default=None)


def _frames_of_java_and_node(lines: Sequence[bytes]) -> Iterator[Failure]:
    """Yield the head of the last block of `at` lines, which is the innermost cause."""
    last = len(lines)
    while last > 0:
        last = next((at for at in range(last - 1, -1, -1) if _may_be_frame(lines[at])), -1)
        first = last
        while first > 0 and _may_be_frame(lines[first - 1]):
            first -= 1
        found = first >= 0 and _is_frame(lines[first]) and not _is_native(lines, first)
        head = _head_above(lines, first) if found else None
        if head is not None:
            frames = lines[first : min(last + 1, first + _MOST_FRAMES)]
            place = _place([line.strip()[3:] for line in frames])
            yield Failure(_BEFORE_HEAD.sub(b"", lines[head].strip()), place, head)
            return
        last = first


def _may_be_frame(line: bytes) -> bool:
    return b"at " in line and line.lstrip().startswith(b"at ")


def _is_native(lines: Sequence[bytes], first: int) -> bool:
    """Return whether a block tells the place of a frame of gfortran, which is the line above."""
    return first > 0 and lines[first - 1].lstrip().startswith(b"#")


def _is_frame(line: bytes) -> bool:
    match = _AT.search(line)
    if match is None or _NATIVE_PLACE.search(match.group(1)):
        return False
    frame = match.group(1)
    return bool(_JAVA_FRAME.search(frame) or _NODE_FRAME.search(frame))


def _head_above(lines: Sequence[bytes], first: int) -> int | None:
    """Return the line of the head above a block of frames; the driver's stack in Spark has none."""
    above = range(first - 1, max(first - 1 - _FAR, -1), -1)
    for at in above:
        line = lines[at]
        if line.strip() == _DRIVER:
            continue
        if line.lstrip().startswith((b"at ", b"... ")):
            return None
        if _HEAD.search(line):
            return at
    return None


def _place(frames: Sequence[bytes]) -> bytes:
    """Return the innermost own frame: `Class.method` in Java, `module:function` in Node."""
    fallback = b""
    for frame in frames:
        place, own = _place_of(frame.removeprefix(b"async ").removeprefix(b"new "))
        if place and own:
            return place
        fallback = fallback or place
    return fallback


def _place_of(frame: bytes) -> tuple[bytes, bool]:
    if match := _JAVA_FRAME.search(frame):
        name = bytes(match.group(1))
        parts = name.rpartition(b"/")[2].rsplit(b".", 2)
        return b".".join(parts[-2:]), _FOREIGN.search(name) is None
    if match := _NODE_FRAME.search(frame):
        path, function = bytes(match.group(2)), match.group(1)
        own = not path.startswith((b"node:", b"internal", b"<")) and b"node_modules" not in path
        place = module_of(path)
        return place + (b":" + bytes(function) if function else b""), own
    return b"", False


def _go(lines: Sequence[bytes]) -> Iterator[Failure]:
    """Yield the last panic of Go with the first own function below it."""
    heads = [at for at, line in enumerate(lines) if line.startswith(_GO_HEADS)]
    for head in reversed(heads):
        routine = next(
            (
                at
                for at in range(head, min(head + _FAR, len(lines)))
                if lines[at].startswith(b"goroutine ") and _GOROUTINE.search(lines[at])
            ),
            None,
        )
        if routine is not None:
            text = lines[head].removesuffix(b" [recovered]")
            yield Failure(text, _go_place(lines, routine), head)
            return


def _go_place(lines: Sequence[bytes], routine: int) -> bytes:
    for at in range(routine + 1, len(lines)):
        line = lines[at]
        if not line or line.startswith(b"created by"):
            break
        match = None if line[:1].isspace() else _GO_FUNCTION.search(line)
        if match is not None and _GO_OWN.search(match.group(1)) is None:
            return bytes(match.group(1)).rpartition(b"/")[2]
    return b""


def _rust(lines: Sequence[bytes]) -> Iterator[Failure]:
    for at in range(len(lines) - 1, -1, -1):
        match = _RUST.search(lines[at]) if lines[at].startswith(b"thread '") else None
        if match is None:
            continue
        test, rest = match.groups(b"")
        if old := _RUST_OLD.search(rest):
            yield Failure(b"panicked: " + old.group(1), test or module_of(old.group(2)), at)
        elif new := _RUST_NEW.search(rest):
            message = lines[at + 1] if at + 1 < len(lines) else b""
            yield Failure(b"panicked: " + message, test or module_of(new.group(1)), at)
        else:
            yield Failure(b"panicked: " + rest, test, at)
        return


def _cpp(lines: Sequence[bytes]) -> Iterator[Failure]:
    for at in range(len(lines) - 1, -1, -1):
        match = _CPP.search(lines[at]) if lines[at].startswith(b"terminate called") else None
        if match is not None:
            said = next(
                (
                    line.strip().removeprefix(b"what():").strip()
                    for line in lines[at + 1 : at + _FAR]
                    if line.strip().startswith(b"what():")
                ),
                b"",
            )
            if said or (b"::" in match.group(1) and not _says_below(lines, at)):
                # A plain `int` or `char const*` tells nothing.
                yield Failure(match.group(1) + b": " + said, b"", at)
            return


def _says_below(lines: Sequence[bytes], at: int) -> bool:
    """Return whether a message follows that starts with an empty line, as Paddle's do."""
    return at + 1 < len(lines) and lines[at + 1].strip() == b"what():"


def _jvm(lines: Sequence[bytes]) -> Iterator[Failure]:
    """Yield the signal that ended a JVM, with the frame in which it came."""
    for at in range(len(lines) - 1, -1, -1):
        if _JVM_CRASH in lines[at]:
            said = [line.strip(b"# ") for line in lines[at + 1 : at + _FAR]]
            signal = next((line.partition(b" ")[0] for line in said if b" at pc=" in line), b"")
            after = next(
                (n + 1 for n, line in enumerate(said) if line == b"Problematic frame:"), -1
            )
            frame = said[after] if 0 < after < len(said) else b""
            frame = _OFFSET.sub(lambda _match: b"", frame)
            yield Failure(b"JVM crash: " + signal + b" in " + frame, b"", at)
            return


def _fatal_python(lines: Sequence[bytes]) -> Iterator[Failure]:
    for at in range(len(lines) - 1, -1, -1):
        if lines[at].startswith(_FATAL_PYTHON):
            current = (n for n in range(at, len(lines)) if lines[n].startswith(_CURRENT_THREAD))
            crashed = next(current, at)
            frames = [_PYTHON_FRAME.search(line) for line in lines[crashed + 1 :]]
            places = [
                module_of(match.group(1)) + b":" + match.group(2)
                for match in frames
                if match is not None and b"-packages" not in match.group(1)
            ]
            yield Failure(lines[at], places[0] if places else b"", at)
            return


def _haskell(lines: Sequence[bytes]) -> Iterator[Failure]:
    for at in range(len(lines) - 1, 0, -1):
        if lines[at].startswith(_HASKELL):
            calls = map(_CALLED_HASKELL.match, lines[at + 1 : at + _FAR])
            own = next(filter(None, calls), None)
            place = own.group(2) + b":" + own.group(1) if own is not None else b""
            yield Failure(lines[at - 1].strip(), place, at - 1)
            return


_LANGUAGES: tuple[tuple[bytes, Callable[[Sequence[bytes]], Iterator[Failure]]], ...] = (
    (b"at ", _frames_of_java_and_node),
    (b"goroutine ", _go),
    (b"panicked at ", _rust),
    (b"terminate called ", _cpp),
    (_JVM_CRASH, _jvm),
    (_FATAL_PYTHON, _fatal_python),
    (_HASKELL, _haskell),
)
