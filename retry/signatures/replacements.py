"""What a match of a mask becomes: `#`, `<path>` with its extension, or what it was."""

from typing import Any

from retry.signatures.engine import Replace, compiled, replaced, simple

LONG_QUOTED = 20

MASK = b"#"
# Digits that stay are control characters until the end, so that no other mask sees them. The text
# has no control characters of its own.
_HIDDEN = bytes.maketrans(b"0123456789", bytes(range(0x10, 0x1A)))
SHOWN = bytes.maketrans(bytes(range(0x10, 0x1A)), b"0123456789")


# What stands before a colon and a number, and is no host.
_NO_HOSTS = frozenset(
    b"pid tid uid gid line job step rank id size code error status xid epoch iter seed row col "
    b"offset port position errno exit line signal task stage worker cuda gpu".split()
)
_LONG_PORT = 4
_SHORT_PORTS = frozenset((b"22", b"80", b"443"))
_SCHEMES = frozenset(b"file unix jar fd npipe docker error at in path open url psql".split())


_LOG_FIELD = compiled(
    r"([\s,{]\"?)([A-Za-z_][\w.-]*)(\"\s*:\s*|=)(\"(?:[^\"\\]|\\.)*\"|[^\s\",{}\[]+)"
)
_TELLING_FIELDS = frozenset(
    b"level lvl severity levelname msg message error err errors reason cause exception detail "
    b"details code status type kind event caller source file line function logger time ts "
    b"timestamp asctime".split()
)


def always(replacement: bytes) -> Replace:
    return lambda _match: replacement


def first_group(match: Any) -> bytes:
    return bytes(match.group(1))


def name_only(match: Any) -> bytes:
    """Keep the name of a secret, and mask its value."""
    return bytes(match.group(1)) + MASK


def before_group(match: Any) -> bytes:
    return MASK + bytes(match.group(1))


def after_name(match: Any) -> bytes:
    return bytes(match.group(1) or match.group(2)) + MASK


def secret(match: Any) -> bytes:
    """Mask the value after the name of a secret; `NoSuchKey:` is the name of an error."""
    name = bytes(match.group(1))
    return bytes(match.group()) if _KEY_ERROR.search(name) else name + MASK


def secret_word(match: Any) -> bytes:
    """Mask the word after the name of a secret, unless it is the key of an object in a bucket."""
    name, word = bytes(match.group(1)), bytes(match.group(2))
    return bytes(match.group()) if b"/" in word and _EXTENSION.search(word) else name + MASK


def between(match: Any) -> bytes:
    """Mask a host between two words."""
    before, after, alone = (*match.groups(), None)[:3]
    return bytes(before or alone) + MASK + bytes(after or b"")


def log_fields(match: Any) -> bytes:
    """Mask the fields of a structured line of a log that tell no error."""
    return replaced(_LOG_FIELD, _log_field, bytes(match.group()))


def _log_field(match: Any) -> bytes:
    before, name, between, value = match.groups()
    if name.lower() in _TELLING_FIELDS or b"<path>" in value:
        return bytes(match.group())
    return bytes(before + name + between + (b'"#"' if value[:1] == b'"' else MASK))


def url(match: Any) -> bytes:
    """Mask an address but for its scheme: which of many files it was makes no difference."""
    scheme = match.group(1).lower().replace(b"https", b"http").translate(_HIDDEN)
    return bytes(scheme + b":<url>")


def extension_of(path: bytes) -> bytes:
    found = _EXTENSION.search(path)
    return kept_extension(found.group(1)) if found else b""


def kept_extension(extension: bytes) -> bytes:
    """Return the extension; of a shared library's, the version goes.

    Numbers of files may stand in an extension that no kind of file has.
    """
    if extension.startswith(b".so."):
        return b".so"
    if _DIGIT.search(extension) and not _FILE_NAME.search(extension):
        return _DIGITS.sub(MASK, extension)
    return bytes(extension).translate(_HIDDEN)


def path(match: Any) -> bytes:
    """Mask a path; keep what only looks like one, such as `I/O`, `and/or` and `text/html`."""
    token = bytes(match.group()).partition(b"?")[0]
    start = token[:1]
    relative = start not in b"/~." or token.startswith(b"...")
    # A sentence may end after the path.
    name = token.removesuffix(b".")
    extension = extension_of(name)
    if relative and token.count(b"/") < 2 and not extension:
        return token
    if extension in _SOURCES and (source := _source_name(name)):
        return source + token[len(name) :]
    return b"<path>" + extension + (token[len(name) :] if extension else b"")


def _source_name(path: bytes) -> bytes:
    """Return the name of a file of source code, without folders; nothing if it is made up."""
    name = path.rpartition(b"/")[2]
    return b"" if b"/tmp/" in path or name.startswith(b"tmp") else name


def quoted_path(match: Any) -> bytes:
    """Mask a path that is quoted, since it may have spaces."""
    before, path, after = match.groups()
    return bytes(before + b"<path>" + extension_of(path) + after)


def host_of_path(match: Any) -> bytes:
    """Mask a host before a path, as in `filer:/export`."""
    name = bytes(match.group(1))
    return (name if name.lower() in _SCHEMES else MASK) + b":" + bytes(match.group(2))


def file(match: Any) -> bytes:
    name = bytes(match.group())
    if match.group(2):
        # As in `pymysql.err.OperationalError`, which is no file.
        return name
    if name.startswith(b"lib") and match.group(1).startswith(b".so"):
        # Which library is missing is another failure; its version is not.
        return name[: -len(match.group(1))] + b".so"
    if match.group(1) in _SOURCES and (source := _source_name(name)):
        return source
    return b"<path>" + kept_extension(match.group(1))


def named_host(match: Any) -> bytes:
    """Mask the name of a host that its context shows, unless it is a plain word."""
    before, quote, name, module = match.groups()
    if module:
        # As in `Can't resolve 'lodash' in '/app/src'`.
        return bytes(match.group())
    # In round brackets it may be anything: `server (NotFound)`.
    surely = quote in (b'"', b"'") and not before.lower().startswith(b"node")
    if surely or _HOST_LIKE.search(name):
        return bytes(before + quote + MASK)
    return bytes(match.group())


def named(match: Any) -> bytes:
    """Mask the name of a user, a pod or a container, and keep its quotes."""
    before, *quotes, user, other = match.groups()
    quote = next(filter(None, quotes), b"")
    return bytes((before or user or other) + quote + MASK + quote)


def host_and_port(match: Any) -> bytes:
    name, port = bytes(match.group(2)), bytes(match.group(3))
    if len(port) < _LONG_PORT and not (port in _SHORT_PORTS and _HOST_LIKE.search(name)):
        return bytes(match.group())
    # A host may have a name such as `db`, which is an extension, too.
    file = b"." in name and (_FILE_NAME.search(name) or _SOURCE.search(name))
    # No host has an underscore; functions and settings have. A duration is no port.
    if name.lower() in _NO_HOSTS or file or b"_" in name or match.group(4):
        return bytes(match.group())
    return bytes(match.group(1)) + MASK


def domain(match: Any) -> bytes:
    """Mask the name of a host by its domain; keep names of packages, such as `java.io.File`."""
    return bytes(match.group()) if match.group(1) else MASK


def kept_number(match: Any) -> bytes:
    """Keep a number of up to 4 digits that says what failed: 403 is not 503."""
    before, token = bytes(match.group(1)), bytes(match.group(2))
    number = token.rstrip(b".:/-")
    counts = match.group(3) and number == token and _ERROR_COLON.search(before)
    if counts and not _HTTP_STATUS.search(number):
        # As in `Fatal error: 5 particles are too far apart`.
        return bytes(match.group())
    if _SHORT_NUMBER.search(number) or _HEX_CODE.search(number):
        rest = token[len(number) :] + bytes(match.group(3) or b"")
        return (before + number).translate(_HIDDEN) + rest
    return bytes(match.group())


def kept(match: Any) -> bytes:
    return bytes(match.group()).translate(_HIDDEN)


def kept_groups(match: Any) -> bytes:
    return b"".join(match.groups()).translate(_HIDDEN)


def with_both(match: Any) -> bytes:
    return with_both_of(bytes(match.group()))


def with_both_of(token: bytes) -> bytes:
    return MASK if _DIGIT.search(token) and _LETTER.search(token) else token


def id_with_both(match: Any) -> bytes:
    """Mask an id of hexadecimal digits that has both kinds; an underscore beside it stays."""
    token = bytes(match.group())
    masked = with_both_of(token.strip(b"_"))
    return b"_" * token.startswith(b"_") + masked + b"_" * token.endswith(b"_")


def quoted(match: Any) -> bytes:
    """Mask what is quoted at length, unless it is a name, an error or the message of a log."""
    quoted = bytes(match.group(2))
    if match.group(1):
        return bytes(match.group())
    tells = b" " in quoted and TELLS_ERROR.search(quoted)
    if len(quoted) < LONG_QUOTED + 2 or tells or _CODE_NAME.search(quoted):
        return quoted
    return quoted[:1] + MASK + quoted[:1]


TELLS_ERROR = compiled(
    r"(?i)\b(?:errors?\b|fail|cannot\b|can't\b|could ?n[o']t\b|unable\b|invalid\b|unknown\b"
    r"|missing\b|refused\b|denied\b|timed? ?out\b|exceed|unreachable\b|expired\b"
    r"|unauthorized\b|forbidden\b|unavailable\b|no such\b"
    r"|not[ _](?:found|known|exist|available|permitted|supported|allowed)\b"
    r"|no space\b|reset by\b|broken pipe\b)"
)
# Which table, column or module it was is another failure.
_CODE_NAME = compiled(r"^.[A-Za-z_#][\w#]*(?:(?:\.|::)[\w#]+)*.$")
_ERROR_COLON = compiled(r"(?i)error: ?$")
_HTTP_STATUS = compiled(r"^[45][0-9]{2}$")
_KEY_ERROR = compiled(r"(?i)\b(?:no_?such|missing|duplicate|invalid|unknown)_?key: ")
_DIGIT = compiled(r"[0-9]")
_DIGITS = simple(r"[0-9]++")
_LETTER = compiled(r"[A-Za-z]")
_SHORT_NUMBER = compiled(r"^-?[0-9]{1,4}$")
# Errors of Windows and of VirtualBox; addresses have more digits, and others before.
_HEX_CODE = compiled(r"^0[xX][89a-fA-F][0-9a-fA-F]{7}$")
_EXTENSION = compiled(r"[^/.](\.(?:so(?:\.[0-9]+)*|[A-Za-z][A-Za-z0-9]{0,7}))$")
_HOST_LIKE = compiled(r"[0-9.-]")
EXTENSIONS = (
    r"(?:py|pyx|ipynb|sh|bash|go|rs|java|scala|kt|jl|lua|pl|rb|php|js|mjs|cjs|ts|tsx|jsx|c|cc|cpp|"
    r"cxx|cu|cuh|h|hpp|f|for|f03|f08|f90|f95|F|F90|m|o|a|so(?:\.[0-9]+)*|r|R|Rmd|rds|RDS|RData|"
    r"txt|csv|tsv|json|jsonl|ndjson|yaml|yml|toml|ini|cfg|conf|xml|html|md|log|out|err|tmp|bak|"
    r"gz|bz2|xz|zst|zip|tar|tgz|whl|jar|war|parquet|orc|avro|arrow|feather|npy|npz|h5|hdf5|nc|"
    r"pt|pth|ckpt|bin|safetensors|gguf|onnx|pkl|pickle|joblib|tfrecord|pb|mat|fasta|fa|fastq|fq|"
    r"bam|sam|cram|vcf|bed|png|jpg|jpeg|tif|tiff|gif|mp4|wav|mp3|pdf|sql|db|sqlite|sif|img|pem|"
    r"crt|exe|dll|dylib|mk|cmake|proto|slurm|sbatch|dat|inp|nml|tf|hcl|nf|smk|deb|rpm|hdf|"
    r"mov|mkv|avi|webm|flac|ogg|MOV|MP4|JPG|JPEG|PNG|TIF|TIFF|CSV|TXT|JSON|XML|PDF|ZIP|LOG|UPF|"
    r"grib|grb2?|shp|gtf|gff3?|bai|fai|sai|gro|mdp|svh?|vhdl?|itp|tpr|xtc|pdb|cif|xyz|lmp|las|laz|geojson|"
    r"xlsx?|docx|pptx)"
)
# What is compiled, or tested by its name. A script that is only run may have one for each run.
_SOURCES = frozenset(
    b".c .cc .cpp .cxx .cu .cuh .h .hpp .go .rs .java .scala .kt .f .for .f90 .F90 .ts .tsx .js"
    b" .jsx .mjs .cjs .py .rb .sv .svh .vhd .vhdl .hs .cs .fs .vb .swift .php .ex .exs".split()
)
_FILE_NAME = compiled(rf"(?:^|\.){EXTENSIONS}$")
# A number of four digits behind these is a line, too.
_SOURCE = compiled(r"\.(?:ad[bs]|pas|tcl|lisp|hs|cs|vb|fs|exs?|erl|clj|groovy|ps1|rst|tex)$")


def only_extension(match: Any) -> bytes:
    """Mask a path, whatever it looks like."""
    return b"<path>" + extension_of(bytes(match.group()))
