"""Masks: what differs between two occurrences of the same failure becomes `#`, or goes.

Secrets, addresses, times, paths and numbers are masked in this order: each pattern can rely on
what those before it removed.
"""

from typing import Any

from retry.signatures.engine import Replace, SearchSet, compiled, replaced

MOST_MASKED = 1_000
"""Bytes of a text that are looked at; after the masks, far fewer are kept."""
LONG_QUOTED = 20

_MASK = b"#"
# Digits that stay are control characters until the end, so that no other mask sees them. The text
# has no control characters of its own.
_HIDDEN = bytes.maketrans(b"0123456789", bytes(range(0x10, 0x1A)))
_SHOWN = bytes.maketrans(bytes(range(0x10, 0x1A)), b"0123456789")


def masked(text: bytes) -> bytes:
    """Return the text with everything masked that varies. It has no control characters."""
    text = text[:MOST_MASKED]
    found = _NEEDED.found(text)
    step = min(found)
    while step < len(_STEPS):
        _, pattern, by = _STEPS[step]
        before, text = text, replaced(pattern, by, text)
        if text != before:
            # What a step writes may be what a later one looks for.
            found = _NEEDED.found(text)
        step = min(number for number in found if number > step)
    return text.translate(_SHOWN).strip()


def _always(replacement: bytes) -> Replace:
    return lambda _match: replacement


def _first_group(match: Any) -> bytes:
    return bytes(match.group(1))


def _name_only(match: Any) -> bytes:
    """Keep the name of a secret, and mask its value."""
    return bytes(match.group(1)) + _MASK


def _secret(match: Any) -> bytes:
    """Mask the value after the name of a secret; `NoSuchKey:` is the name of an error."""
    name = bytes(match.group(1))
    return bytes(match.group()) if _KEY_ERROR.search(name) else name + _MASK


def _between(match: Any) -> bytes:
    """Mask a host between two words."""
    before, after = match.group(1) or match.group(3), match.group(2) or b""
    return bytes(before) + _MASK + bytes(after)


def _url(match: Any) -> bytes:
    scheme, rest = match.group(1), match.group(2)
    path = rest.partition(b"?")[0].partition(b"#")[0].rstrip(b".,:;")
    slash = path.find(b"/")
    extension = _extension_of(path) if slash >= 0 else b""
    return bytes(scheme.lower().translate(_HIDDEN) + b":<url>" + extension)


def _extension_of(path: bytes) -> bytes:
    found = _EXTENSION.search(path)
    return _kept_extension(found.group(1)) if found else b""


def _kept_extension(extension: bytes) -> bytes:
    """Return the extension; of a shared library's, the version goes."""
    return (b".so" if extension.startswith(b".so.") else bytes(extension)).translate(_HIDDEN)


def _path(match: Any) -> bytes:
    """Mask a path; keep what only looks like one, such as `I/O`, `and/or` and `text/html`."""
    token = bytes(match.group())
    start = token[:1]
    relative = start not in b"/~." or token.startswith(b"...")
    extension = _extension_of(token)
    if relative and token.count(b"/") < 2 and not extension:
        return token
    return b"<path>" + extension


def _file(match: Any) -> bytes:
    return b"<path>" + _kept_extension(match.group(1))


def _named_host(match: Any) -> bytes:
    """Mask the name of a host that its context shows, unless it is a plain word."""
    before, quote, name = match.group(1), match.group(2), match.group(3)
    surely = quote and not before.lower().startswith(b"node")
    if surely or _HOST_LIKE.search(name):
        return bytes(before + quote + _MASK)
    return bytes(match.group())


def _host_and_port(match: Any) -> bytes:
    name = bytes(match.group(2))
    if name.lower() in _NO_HOSTS or _FILE_NAME.search(name):
        return bytes(match.group())
    return bytes(match.group(1)) + _MASK


def _domain(match: Any) -> bytes:
    """Mask the name of a host by its domain; keep names of packages, such as `java.io.File`."""
    return bytes(match.group()) if match.group(1) else _MASK


def _kept_number(match: Any) -> bytes:
    """Keep a number of up to 4 digits that says what failed: 403 is not 503."""
    before, token = bytes(match.group(1)), bytes(match.group(2))
    number = token.rstrip(b".:/-")
    if _SHORT_NUMBER.search(number):
        return (before + number).translate(_HIDDEN) + token[len(number) :]
    return bytes(match.group())


def _kept(match: Any) -> bytes:
    return bytes(match.group()).translate(_HIDDEN)


def _with_a_digit(match: Any) -> bytes:
    token = bytes(match.group())
    return _MASK if _DIGIT.search(token) else token


def _with_both(match: Any) -> bytes:
    token = bytes(match.group())
    return _MASK if _DIGIT.search(token) and _LETTER.search(token) else token


def _quoted(match: Any) -> bytes:
    quoted = bytes(match.group())
    long = len(quoted) >= LONG_QUOTED + 2
    return quoted[:1] + _MASK + quoted[:1] if long else quoted


_KEY_ERROR = compiled(r"(?i)\b(?:no_?such|missing|duplicate|invalid|unknown)_?key: ")
_DIGIT = compiled(r"[0-9]")
_LETTER = compiled(r"[A-Za-z]")
_SHORT_NUMBER = compiled(r"^-?[0-9]{1,4}$")
_EXTENSION = compiled(r"[^/.](\.(?:so(?:\.[0-9]+)*|[A-Za-z][A-Za-z0-9]{0,7}))$")
_HOST_LIKE = compiled(r"[0-9.-]")
_EXTENSIONS = (
    r"(?:py|pyx|ipynb|sh|bash|go|rs|java|scala|kt|jl|lua|pl|rb|php|js|mjs|cjs|ts|tsx|jsx|c|cc|cpp|"
    r"cxx|cu|cuh|h|hpp|f|for|f03|f08|f90|f95|F|F90|m|o|a|so(?:\.[0-9]+)*|r|R|Rmd|rds|RDS|RData|"
    r"txt|csv|tsv|json|jsonl|ndjson|yaml|yml|toml|ini|cfg|conf|xml|html|md|log|out|err|tmp|bak|"
    r"gz|bz2|xz|zst|zip|tar|tgz|whl|jar|war|parquet|orc|avro|arrow|feather|npy|npz|h5|hdf5|nc|"
    r"pt|pth|ckpt|bin|safetensors|gguf|onnx|pkl|pickle|joblib|tfrecord|pb|mat|fasta|fa|fastq|fq|"
    r"bam|sam|cram|vcf|bed|png|jpg|jpeg|tif|tiff|gif|mp4|wav|mp3|pdf|sql|db|sqlite|sif|img|pem|"
    r"crt|exe|dll|dylib|mk|cmake|proto|slurm|sbatch|dat|inp|nml|tf|hcl|nf|smk)"
)
_FILE_NAME = compiled(rf"(?:^|\.){_EXTENSIONS}$")
_TOP_LEVEL = (
    r"(?:com|org|net|edu|gov|io|ai|dev|cloud|internal|local|localdomain|lan|intra|corp|svc|example|"
    r"test|invalid|de|uk|fr|ch|nl|eu|cn|jp|us|ca|au)"
)
# What stands before a colon and a number, and is no host.
_NO_HOSTS = frozenset(
    b"pid tid uid gid line job step rank id size code error status xid epoch iter seed row col "
    b"offset port position errno exit line signal task stage worker cuda gpu".split()
)
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_DAY = r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,?\s+)?"
_CLOCK = r"[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?(?:[.,][0-9]+)?\b(?:\s?[AP]M\b)?"
_ZONE = r"(?:\s?(?:Z\b|UTC\b|GMT\b|CES?T\b|[EPMC][SD]T\b|[+-][0-9]{2}:?[0-9]{2}\b))?"
_NAME = r"[A-Za-z0-9](?:[\w.-]*\w)?"
# The alphabet of the names that Kubernetes makes up.
_MADE_UP = "[bcdfghjklmnpqrstvwxz2456789]"
_UNITS = (
    r"(?:\s?[KMGTPE]i?B\b|\s?[kmg]b\b|\s?bytes?\b|[KMGTPE]i\b"
    r"|(?:ns|us|ms|s|m|h|d|min|sec|x|k|K|M|G|T)\b|%)?"
)
_CREDENTIAL = r"(?i)token|secret|passw|passphrase|key|authorization"
_HEX = r"[0-9a-fA-F]{6}"

# What each step looks for, and before it what a text with that has in any case. Those are short, so
# that one search for all of them keeps few states.
_STEPS: tuple[tuple[str, Any, Replace], ...] = (
    # Spark says first which task it was, at length.
    (
        r"stage failure: ",
        compiled(r"(stage failure: )Task [0-9]+ in stage .{0,200}?\(TID [^)]*\): "),
        _first_group,
    ),
    # Secrets: values after their names, and values that show by themselves what they are.
    (r"(?i)bearer\s", compiled(r"(?i)(\bbearer\s+)[\w.~+/=-]+"), _name_only),
    (
        _CREDENTIAL,
        compiled(
            r"(?i)([\w-]*(?:token|secret|passw(?:or)?d?|passphrase|key|authorization)"
            r"(?:s|[_-]?id)?[\"']?\s*(?:=>|[=:])\s*(?:(?:bearer|basic|token)\s+)?)"
            r"(?:\"[^\"]*\"?|'[^']*'?|[^\s,;&\"')}\]]+)"
        ),
        _secret,
    ),
    (
        _CREDENTIAL,
        compiled(r"(?i)(--?[\w-]*(?:token|secret|passw(?:or)?d?|key)\s+)[^\s-]\S*"),
        _name_only,
    ),
    (
        _CREDENTIAL,
        compiled(
            r"(?i)(\b(?:token|secret|passw(?:or)?d|authorization|key)(?:\s+provided)?:?\s+[\"']?)"
            r"[\w.~+/=*-]*[0-9][\w.~+/=*-]*"
        ),
        _name_only,
    ),
    (
        r"\b(?:sk|pk|rk|gh[posu]|github_pat|glpat|xox|hf|A[KS]IA|AIza|eyJ)[\w.-][\w.-]",
        compiled(
            r"\b(?:sk|pk|rk|ghp|gho|ghs|ghu|github_pat|glpat|xox[abprs]|hf|AKIA|ASIA|AIza|eyJ)"
            r"[\w.-]{12,}"
        ),
        _always(_MASK),
    ),
    # Addresses.
    (r"://", compiled(r"\b([A-Za-z][A-Za-z0-9+.-]*)://([^\s\"'<>)\]},|`]*)"), _url),
    (r"@", compiled(r"[\w.+%-]+:[^\s:@/\"'#]+@[\w.-]+"), _always(_MASK)),
    (r"@", compiled(r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+(?::[\w./-]+)?"), _always(_MASK)),
    (
        _HEX,
        compiled(r"(?i)\b[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}\b"),
        _always(_MASK),
    ),
    (
        r":[0-9a-fA-F:]",
        compiled(
            r"(?i)\b[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-9a-f])?\b"
            r"|\b(?:[0-9a-f]{1,4}:){4,7}[0-9a-f]{1,4}\b"
            r"|\b(?:2[0-9a-f]{3}|f[cde][0-9a-f]{2}):[0-9a-f:]+(?:%\w+)?(?:<[0-9]+>)?"
            r"|\B::1\b"
        ),
        _always(_MASK),
    ),
    (
        r"[0-9]\.[0-9]",
        compiled(r"\b[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?:/[0-9]{1,2})?(?::[0-9]+|<[0-9]+>)?"),
        _always(_MASK),
    ),
    (r"\[[A-Za-z]", compiled(r"\[[A-Za-z][\w.-]*:[0-9]+(?::[0-9]+)?\]"), _always(b"[#]")),
    # Times and dates.
    (
        rf"[0-9][-/:][0-9]|{_MONTH}",
        compiled(
            rf"\b[0-9]{{4}}[-/][0-9]{{1,2}}[-/][0-9]{{1,2}}(?:[T _-]+{_CLOCK}{_ZONE})?"
            rf"|\b{_DAY}{_MONTH}\.?\s+[0-9]{{1,2}}(?:,?\s+[0-9]{{4}}\b)?(?:,?\s+{_CLOCK}{_ZONE})?"
            rf"(?:\s+[0-9]{{4}}\b)?"
            rf"|\b{_DAY}[0-9]{{1,2}}[ -]{_MONTH}[ -][0-9]{{2,4}}(?:\s+{_CLOCK}{_ZONE})?"
            rf"|\b[0-9]{{1,2}}/[0-9]{{1,2}}/[0-9]{{2,4}}(?:\s+{_CLOCK}{_ZONE})?"
            rf"|\b{_CLOCK}{_ZONE}"
        ),
        _always(_MASK),
    ),
    # Hosts by name.
    (r"localhost", compiled(r"\blocalhost\b(?::[0-9]+)?"), _always(_MASK)),
    (r"\(TID ", compiled(r"(\(TID [0-9]+, )[^,) ]+"), _name_only),
    (
        r" ON |Lost executor ",
        compiled(r"(?:( ON )[\w.-]+( CANCELLED)|(Lost executor \S+ on )[\w.-]+())"),
        _between,
    ),
    (
        (
            r"(?i)ENOTFOUND|EAI_AGAIN|lookup|getaddrinfo|UnknownHost|on node|RUNNING AT"
            r"|resolve host|translate host"
        ),
        compiled(
            r"(?i)\b((?:ENOTFOUND|EAI_AGAIN|lookup|getaddrinfo|UnknownHostException:|on node"
            r"|RUNNING AT|resolve host(?:name)?:?|translate host ?name|host lookup for)\s+[\"']?)"
            rf"{_NAME}"
        ),
        _name_only,
    ),
    (r"Node failure on ", compiled(rf"(Node failure on ){_NAME}"), _name_only),
    (
        r"srun: error: ",
        compiled(rf"(srun: error: ){_NAME}(?:: task)"),
        _always(b"srun: error: #: task"),
    ),
    (
        r"(?i)host|node|server|peer|machine|connect|reach|resolve",
        compiled(
            r"(?i)\b((?:host(?: ?name)?|node|server|peer|machine|connect(?:ion|ing)? to"
            r"(?: server at)?|reach|resolve)"
            rf"(?:\s+(?:name\s+|at\s+|host\s+)?|\s*[=:]\s*))([\"'(\[]?)({_NAME})"
        ),
        _named_host,
    ),
    (
        r"[:<][0-9]",
        compiled(r"(^|[^\w/.-])([a-z][\w-]*(?:\.[\w-]+)*)[:<][0-9]{4,5}\b>?"),
        _host_and_port,
    ),
    (
        rf"\.{_TOP_LEVEL}\b|-{_MADE_UP}{{5}}\b",
        compiled(
            rf"\b(?:[A-Za-z0-9-]+\.)+{_TOP_LEVEL}\b(?:[:<][0-9]+>?)?(\.\w|/)?"
            rf"|\b(?:[a-z0-9]+-)+{_MADE_UP}{{8,10}}-{_MADE_UP}{{5}}\b"
        ),
        _domain,
    ),
    # Paths: only the extension stays.
    (
        r":[\\/]",
        compiled(r"\b[A-Za-z]:[\\/]+(?:[\w.@%+~$# -]+[\\/]+)*[\w.@%+~$#-]*"),
        lambda match: b"<path>" + _extension_of(bytes(match.group())),
    ),
    (
        r"/",
        compiled(r"[\w.@%+~\x80-\xff-]*(?:/+[\w.@%+~$#=\x80-\xff-]+)+/?"),
        _path,
    ),
    (rf"\.{_EXTENSIONS}\b", compiled(rf"\b[\w@%+-]+(?:\.[\w@%+-]+)*(\.{_EXTENSIONS})\b"), _file),
    # Numbers that say what failed stay; all others go.
    (
        r"(?i)(?:errno|code|status|signal|http|error|xid)[\s:=\[({\"'/-]{0,5}[0-9]|occurred|xid",
        compiled(
            r"(?i)((?:errno|code|status|signal|\bhttp(?:/[0-9](?:\.[0-9])?)?"
            r"|(?:\b|http)error(?: occurred)?|\bxid(?:\s*\([^)]*\))?)"
            r"[\s:=\[({\"'-]{0,4})(-?[0-9][\w.:/-]*)"
        ),
        _kept_number,
    ),
    (
        r"[Ee]rror[\s:\[(]{1,2}[A-Z]{1,5}-?[0-9]|(?:ORA|TNS|PLS|LNK)-?[0-9]|SQLSTATE",
        compiled(
            r"\b[Ee]rror[\s:\[(]{1,2}[A-Z]{1,5}-?[0-9]{1,5}\b|\b(?:ORA|TNS|PLS|LNK)-?[0-9]{4,5}\b"
            r"|\bSQLSTATE[\s:=\[(]{1,2}[0-9A-Z]{5}\b"
        ),
        _kept,
    ),
    (r"0[xX]", compiled(r"0[xX][0-9a-fA-F]+"), _always(_MASK)),
    (_HEX, compiled(r"\b[0-9a-fA-F]{6,}\b"), _with_a_digit),
    (r"[0-9][A-Za-z]", compiled(r"\b[A-Za-z]*[0-9]+[A-Za-z]+[0-9]+[A-Za-z]+\w*\b"), _always(_MASK)),
    (r"[A-Za-z0-9+/_=]{32}", compiled(r"[A-Za-z0-9+/_=]{32,}"), _with_both),
    (
        r"[0-9]",
        compiled(rf"-?[0-9]+(?:[.,][0-9]+)*(?:[eE][+-]?[0-9]+)?{_UNITS}"),
        _always(_MASK),
    ),
    # What is left of lists of numbers, of versions and of durations.
    (r"#\s?[,.:x/+-]?\s?#", compiled(r"#(?:\s?[,.:x/+-]?\s?#)+"), _always(_MASK)),
    (r"\s\s|[^\S ]", compiled(r"\s\s+|[^\S ]"), _always(b" ")),
    (r"[\"`']", compiled(r"\"[^\"]*\"|\B'[^']*'\B|`[^`]*`"), _quoted),
)
_NEEDED = SearchSet([needed for needed, _, _ in _STEPS])
