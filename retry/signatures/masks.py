"""Masks: what differs between two occurrences of the same failure becomes `#`, or goes.

Secrets, addresses, times, paths and numbers are masked in this order: each pattern can rely on
what those before it removed.
"""

from typing import Any

from retry.signatures import replacements as to
from retry.signatures.engine import Replace, SearchSet, compiled, replaced
from retry.signatures.wordings import WORDINGS

MOST_MASKED = 1_000
"""Bytes of a text that are looked at; after the masks, far fewer are kept."""


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
    return text.translate(to.SHOWN).strip()


_TOP_LEVEL = (
    r"(?:com|org|net|edu|gov|io|ai|dev|cloud|internal|local|localdomain|lan|intra|corp|svc|example|"
    r"test|invalid|de|uk|fr|ch|nl|eu|cn|jp|us|ca|au)"
)
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_DAY = r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,?\s+)?"
_CLOCK = r"[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?(?:[.,][0-9]+)?\b(?:\s?[AaPp][Mm]\b)?"
_ZONE = r"(?:\s?(?:Z\b|UTC\b|GMT\b|CES?T\b|[EPMC][SD]T\b|[+-][0-9]{2}:?[0-9]{2}\b))?"
_NAME = r"[A-Za-z0-9](?:[\w.-]*\w)?"
# The alphabet of the names that Kubernetes makes up.
_MADE_UP = "[bcdfghjklmnpqrstvwxz2456789]"
_UNITS = (
    r"(?:\.?\s?[kKMGTPE]i?B\b|\s?[kmgKMGT]b\b|\s?bytes?\b|[KMGTPE]i\b"
    r"|\xc2\xb5s\b|(?:ns|us|ms|s|m|h|d|min|sec|x|k|K|M|G|T)\b|%)?"
)
_PRE_RELEASE = r"(?:-(?:rc|alpha|beta|dev|pre|post|RC|SNAPSHOT|RELEASE|M)[.-]?[0-9]*\b)?"
_CREDENTIAL = r"(?i)token|secret|passw|passphrase|key|authorization"
# What stands behind the status of an answer: its phrase, or how and where it was asked.
_STATUS = (
    r"Bad (?:Request|Gateway)\b|Unauthorized\b|Anonymous\b|Forbidden\b"
    r"|Not (?:Found|Acceptable|Implemented)\b|Method Not Allowed\b|Proxy Authentication\b"
    r"|Request (?:Time|Entity|Header)|Conflict\b|Gone\b|Length Required\b|Precondition\b"
    r"|Payload Too\b|Content Too\b|URI Too\b|Unsupported Media\b|(?:Requested )?Range Not\b"
    r"|Unprocessable\b|Locked\b|Too Many Requests\b|Internal Server\b|Service Unavailable\b"
    r"|Gateway Time|HTTP Version\b|(?:GET|HEAD|POST|PUT|PATCH|DELETE) (?:http|<path>|/)"
)
_HEX = r"[0-9a-fA-F]{6}"

# What each step looks for, and before it what a text with that has in any case. Those are short, so
# that one search for all of them keeps few states.
_STEPS: tuple[tuple[str, Any, Replace], ...] = (
    *WORDINGS,
    # Spark says first which task it was, at length.
    (
        r"stage failure: ",
        compiled(r"(stage failure: )Task [0-9]+ in stage .{0,200}?\(TID [^)]*\)(?: \([^)]*\))?: "),
        to.first_group,
    ),
    # Secrets: values after their names, and values that show by themselves what they are.
    (r"(?i)bearer\s", compiled(r"(?i)(\bbearer\s+)[\w.~+/=-]+"), to.name_only),
    (
        _CREDENTIAL,
        compiled(
            r"(?i)([\w-]*(?:token|secret|passw(?:or)?d?|passphrase|key|authorization)"
            r"(?:s|[_-]?id)?[\"']?\s*(?:=>|[=:])\s*(?:(?:bearer|basic|token)\s+)?)"
            r"(?:\"[^\"]*\"?|'[^']*'?|[^\s,;&\"')}\]]+)"
        ),
        to.secret,
    ),
    (
        _CREDENTIAL,
        compiled(r"(?i)(--?[\w-]*(?:token|secret|passw(?:or)?d?|key)\s+)[^\s-]\S*"),
        to.name_only,
    ),
    (
        _CREDENTIAL,
        compiled(
            r"(?i)(\b(?:token|secret|passw(?:or)?d|authorization|key)(?:\s+provided)?:?\s+[\"']?)"
            r"([\w.~+/=*-]*[0-9][\w.~+/=*-]*)"
        ),
        to.secret_word,
    ),
    (
        r"\b(?:[spr]k[_-]|gh[posu]|github_pat|glpat|xox|hf_|A[KS]IA|AIza|eyJ)[\w.-][\w.-]",
        compiled(
            r"\b(?:[spr]k[_-]|ghp|gho|ghs|ghu|github_pat|glpat|xox[abprs]|hf_|AKIA|ASIA|AIza|eyJ)"
            r"[\w.-]{12,}"
        ),
        to.always(to.MASK),
    ),
    # Addresses.
    (
        r"://",
        compiled(
            r"\b([A-Za-z][A-Za-z0-9+.-]*)://((?:[^\s\"'<>)\]},|`\[/]*\[[0-9A-Fa-f:.]+(?:%\w+)?\])?"
            r"[^\s\"'<>)\]},|`]*)"
        ),
        to.url,
    ),
    (r"@", compiled(r"[\w.+%-]+:[^\s:@/\"'#]+@[\w.-]+"), to.always(to.MASK)),
    (r"@", compiled(r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+(?::[\w./-]+)?"), to.always(to.MASK)),
    (r"@", compiled(r"\b[\w.+-]+@[\w-]+(: Permission denied)"), to.before_group),
    (r"@", compiled(r"\b[\w.+-]+@[\w-]+:[\w~][\w.-]*/[\w./-]+"), to.always(to.MASK)),
    # What Docker calls a container that got no name, and how NCCL tells a collective.
    (r"on endpoint ", compiled(r"(\bon endpoint )[\w.-]+( \()"), to.between),
    (
        r"WorkNCCL\(",
        compiled(r"(WorkNCCL\()[^()]*?(OpType=\w+)[^()]*(?:\([a-z]+\)[^()]*)*(\))"),
        to.kept_groups,
    ),
    (r"@INC ", compiled(r"(@INC (?:contains|entries checked): )[^)]*"), to.name_only),
    # What a process of Nextflow works on.
    (
        r"[Pp]rocess (?:> )?[`']",
        compiled(r"([Pp]rocess (?:> )?[`'][\w:]+ )\([^)`']*\)"),
        to.name_only,
    ),
    (
        _HEX,
        compiled(r"(?i)\b[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}\b"),
        to.always(to.MASK),
    ),
    # Checksums, which may hold slashes.
    (r"\bsha[0-9]", compiled(r"\bsha[0-9]+[-:][A-Za-z0-9+/=]{20,}"), to.always(to.MASK)),
    (
        r":[0-9a-fA-F:]",
        compiled(
            r"(?i)\b[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-9a-f])?\b"
            r"|\b(?:[0-9a-f]{1,4}:){4,7}[0-9a-f]{1,4}\b"
            # With `::`, since `2041:7` is a line and a column.
            r"|\b(?:2[0-9a-f]{3}|f[cde][0-9a-f]{2}):(?:[0-9a-f]{1,4}:){0,6}:"
            r"(?:[0-9a-f]{1,4}(?::[0-9a-f]{1,4})*)?(?:%\w+)?(?:<[0-9]+>)?"
            r"|\B::1\b"
        ),
        to.always(to.MASK),
    ),
    (
        r"[0-9]\.[0-9]",
        # Java writes a host before its address.
        compiled(
            r"(?:\b[A-Za-z][\w.-]*/)?\b[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?:/[0-9]{1,2})?"
            r"(?::[0-9]+|<[0-9]+>)?"
        ),
        to.always(to.MASK),
    ),
    (
        r"\[[A-Za-z]",
        compiled(r"\[[A-Za-z][\w.-]*(?::(?:mpi_rank_)?[0-9]+){1,3}\]"),
        to.always(b"[#]"),
    ),
    (
        r"arn:",
        compiled(r"\b(arn:[a-z-]+:[a-z0-9-]*:)[a-z0-9-]*:[0-9]*:[^\s\"',)]+"),
        to.name_only,
    ),
    # Whom the log of a system names, and the jobs of batch systems.
    (
        rf"^{_MONTH}",
        compiled(rf"^({_MONTH}\s+[0-9]{{1,2}}\s+{_CLOCK}\s)[\w.-]+(\s[\w./-]+(?:\[[0-9]+\])?: )"),
        to.between,
    ),
    (
        r"(?i)job|StepId=",
        compiled(
            r"(?i)(\bjob(?: ?id)?[ =:]+)[0-9]+(?:\[[0-9]*\])?\.[A-Za-z][\w.-]*"
            r"|(\bStepId=)[0-9]+(?:\.\w+)?"
        ),
        to.after_name,
    ),
    # Queries of Trino, jobs of BigQuery.
    (
        r"[0-9]{8}_[0-9]{6}_|bqjob_",
        compiled(r"\b[0-9]{8}_[0-9]{6}_[0-9]{5}_[0-9a-z]{5}\b|[\w-]+:bqjob_\w+"),
        to.always(to.MASK),
    ),
    # Which link of Gaussian failed.
    (
        r"Lnk1e in ",
        compiled(r"(Error termination via Lnk1e in )(?:\S*/)?(l[0-9]+)\.exe"),
        to.kept_groups,
    ),
    # Before a line of glog: its month and day, time and thread.
    (
        r"[EFW][0-9]{3,4} ",
        compiled(rf"\b([EFW])[0-9]{{3,4}} {_CLOCK}(?:\s+[0-9]+)?"),
        to.first_group,
    ),
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
        to.always(to.MASK),
    ),
    # Hosts by name.
    (r"localhost", compiled(r"\blocalhost\b(?::[0-9]+)?"), to.always(to.MASK)),
    (r"\(TID ", compiled(r"(\(TID [0-9]+, )[^,) ]+"), to.name_only),
    (
        r" ON |Lost executor |by PID ",
        compiled(r"(?:( ON )[\w.-]+( CANCELLED)|((?:Lost executor \S+|by PID [0-9]+) on )[\w.-]+)"),
        to.between,
    ),
    (
        (
            r"(?i)connect to host|ENOTFOUND|EAI_AGAIN|lookup|getaddrinfo|UnknownHost|on node"
            r"|RUNNING AT|resolve host|translate host"
        ),
        compiled(
            r"(?i)\b((?:connect to host|ENOTFOUND|EAI_AGAIN|lookup:?|getaddrinfo"
            r"|UnknownHostException:|on node|RUNNING AT|resolve host(?:name| address)?:?"
            r"|translate host ?name|host lookup for)\s+(?:[\"']|\xe2\x80\x98)?)"
            rf"(?:ENOTFOUND |EAI_AGAIN )?{_NAME}"
        ),
        to.name_only,
    ),
    # `'user'@'host'` of MySQL.
    (r"'@'", compiled(r"('@')[\w.%-]+(')"), to.between),
    (
        r" on \S*[0-9]\S* (?:at|failed|reports)",
        compiled(r"( on )[A-Za-z][\w.-]*[0-9][\w.-]*( (?:at|failed|reports)\b)"),
        to.between,
    ),
    (r"Node failure on ", compiled(rf"(Node failure on ){_NAME}"), to.name_only),
    (
        r"(?:UNREACHABLE|FAILED)!",
        compiled(r"((?:fatal|failed): \[)[^\]]+(\]:.{0,80}? (?:UNREACHABLE|FAILED)!)"),
        to.between,
    ),
    (
        r"srun: error: ",
        compiled(rf"(srun: error: ){_NAME}(?:: task)"),
        to.always(b"srun: error: #: task"),
    ),
    (
        r"(?i)host|node|server|peer|machine|agent|connect|reach|resolve|contact",
        compiled(
            r"(?i)\b((?:host(?: ?name)?|node|server|peer|machine|agent|connect(?:ion|ing)? to"
            r"(?: server at)?|reach|resolved?|contact)"
            rf"(?:\s+(?:name\s+|at\s+|on\s+|host\s+)?|\s*[=:]\s*))([\"'(\[]?)({_NAME})(' in ')?"
        ),
        to.named_host,
    ),
    (
        r"[:<][0-9]{2}",
        compiled(r"(^|[^\w/.:-]|: )([a-z][\w-]+(?:\.[\w-]+)*)[:<]([0-9]{2,5})\b>?(\s?m?s\b)?"),
        to.host_and_port,
    ),
    (
        rf"\.{_TOP_LEVEL}\b|-{_MADE_UP}{{5}}(?:\b|_)",
        compiled(
            rf"\b(?:[A-Za-z0-9-]+\.)+{_TOP_LEVEL}\b(?:[:<][0-9]+>?)?(\.\w)?"
            rf"|\b(?:[a-z0-9]+-)+{_MADE_UP}{{8,10}}-{_MADE_UP}{{5}}(?:_[\w.-]+)?\b"
            rf"|\bkube-api-access-{_MADE_UP}{{5}}\b"
        ),
        to.domain,
    ),
    # What a name server does not know.
    (
        r"(?i): (?:temporary fail|name or serv|name does not|no address|host unk|connection )",
        compiled(
            r"\b[A-Za-z][\w-]*[0-9.-][\w.-]*((?i): (?:temporary failure in name resolution"
            r"|name or service not known|name does not resolve|no address associated|host unknown"
            r"|connection (?:refused|timed out|reset)))"
        ),
        to.before_group,
    ),
    # Users, pods and containers by name.
    (
        r"(?i)user|(?:container|pod|job)(?:s|\(s\))?:?\s",
        compiled(
            r"(?i)(\b(?:user(?: ?name)?(?:\s+|\s*[=:]\s*)|(?:container|pod|job)(?:s|\(s\))?:?\s+))"
            r"(?:(\")[^\"\s]+\"|(')[^'\s]+'|`[^`'\s]+'|(`)[^`\s]+`)"
            r"|(\buser(?:name)?=|\b(?:for|as|by|unknown|invalid|no such) user:?\s+)\w[\w.-]*"
            r"|(\b(?:container|pod|job)(?:s|\(s\))?\s+)[a-z0-9_]+(?:-[a-z0-9_]+)+\b"
        ),
        to.named,
    ),
    # Paths: only the extension stays.
    (
        r"[\"'`\x98]/",
        compiled(r"([\"'`]|\xe2\x80\x98)(/[^\"'`\x80-\xff]+)([\"'`]|\xe2\x80\x99)"),
        to.quoted_path,
    ),
    (r"\w:/", compiled(r"\b([A-Za-z0-9][\w.-]+):(/[\w.-])"), to.host_of_path),
    (
        r":[\\/]",
        compiled(r"\b[A-Za-z]:[\\/]+(?:[\w.@%+~$# -]+[\\/]+)*[\w.@%+~$#-]*"),
        to.only_extension,
    ),
    (
        r"/",
        compiled(
            r"[\w.@%+~\x80-\xff-]*(?:/+[\w.@%+~$#=!\x80-\xff-]+)+/?(?:\?[\w%.-]+=[^\s\"'<>)\]},|`]*)?"
        ),
        to.path,
    ),
    (
        rf"\.{to.EXTENSIONS}\b",
        compiled(rf"\b[\w@%+-]+(?:\.[\w@%+-]+)*(\.{to.EXTENSIONS})\b(\.[A-Za-z_])?"),
        to.file,
    ),
    # Numbers that say what failed stay; all others go.
    (
        r"[0-9]{3} (?:Client|Server) Error",
        compiled(r"\b[45][0-9]{2} (?:Client|Server) Error"),
        to.kept,
    ),
    # The first argument of an exception of a database or of the system, and MySQL's of the system.
    (
        r"Error\)?:? \([0-9]|Can't connect to ",
        compiled(
            r"\b(?:Operational|Programming|Internal|Integrity|Data|Database|Interface|NotSupported"
            r"|OS|IO)Error\)?:? \([0-9]{1,4}, |(?:Can't connect to [^()]*)\([0-9]{1,3}\)"
        ),
        to.kept,
    ),
    (
        (
            r"(?i)(?:errno|code|status|signal|http|error|xid|(?:return|exit) value|\bret|retval"
            r"|\brc)"
            r"[\s:=\[({\"'/-]{0,5}[0-9]|occurred|xid"
        ),
        compiled(
            r"(?i)((?:errno|code|status|signal|(?:return|exit) value|\b(?:rc|ret(?:val)?)[\s:=]"
            r"|\bhttp(?:/[0-9](?:\.[0-9])?)?|(?:\b|http)error(?: occurred)?|\bxid(?:\s*\([^)]*\))?)"
            r"[\s:=\[({\"'-]{0,4})(-?[0-9][\w.:/-]*)(\s[a-z]{3})?"
        ),
        to.kept_number,
    ),
    (r"\b[45][0-9]{2} [A-Z]", compiled(rf"\b[45][0-9]{{2}} (?:{_STATUS})"), to.kept),
    (
        r"(?:[Ee]rror|ERROR)[\s:\[(]{1,2}[A-Z]{1,5}-?[0-9]|(?:ORA|TNS|PLS|LNK)-?[0-9]|SQLSTATE",
        compiled(
            r"\b(?:[Ee]rror|ERROR)[\s:\[(]{1,2}[A-Z]{1,5}-?[0-9]{1,5}\b|\b(?:ORA|TNS|PLS|LNK)-?[0-9]{4,5}\b"
            r"|\bSQLSTATE[\s:=\[(]{1,2}[0-9A-Z]{5}\b"
        ),
        to.kept,
    ),
    (
        r"[A-Za-z0-9+/_=]{32}|[\w-]{64}",
        compiled(r"[\w-]{64,}|[A-Za-z0-9+/_=]{32,}"),
        to.with_both,
    ),
    (r"[a-z0-9]{16}", compiled(r"\b[a-z]*[0-9]+[a-z]+[0-9][a-z0-9]{13,}\b"), to.always(to.MASK)),
    (r"0[xX]|\(nil\)", compiled(r"0[xX][0-9a-fA-F]+|\(nil\)"), to.always(to.MASK)),
    (_HEX, compiled(r"(?:\b|_)[0-9a-fA-F]{6,}(?:\b|_)"), to.id_with_both),
    (
        r"[0-9][A-Za-z]",
        compiled(r"\b[A-Za-z]*[0-9]+[A-Za-z]+[0-9]+[A-Za-z]+\w*\b"),
        to.always(to.MASK),
    ),
    (
        r"[0-9]",
        compiled(rf"-?[0-9]+(?:[.,][0-9]+)*(?:[eE][+-]?[0-9]+)?{_PRE_RELEASE}{_UNITS}"),
        to.always(to.MASK),
    ),
    # What is left of lists of numbers, of versions and of durations.
    (r"\s\s|[^\S ]", compiled(r"\s\s+|[^\S ]"), to.always(b" ")),
    (r"#,\)", compiled(r"#,\)"), to.always(b"#)")),
    (r"\[#\]:#", compiled(r"\[#\]:#"), to.always(to.MASK)),
    # The name of a flow cell stands among the numbers of a read.
    (
        r"#\s?[,.:x/+-]?\s?#",
        compiled(r"#(?:\s?[,.:x/+-]?\s?#|:[A-Z#]{6,9}:#)+"),
        to.always(to.MASK),
    ),
    # The hyphen before a number is gone; that before an id goes, too.
    (r"\w-#", compiled(r"(\w)-#"), to.name_only),
    (
        r"[\"`']",
        compiled(
            r"((?i)\"(?:msg|message|error|err|reason|details?|exception)\"\s*:\s*"
            r"|\b(?:msg|message|error|err|reason)=|[Aa]ssert\w*\s(?:failed: )?"
            # Code of the JVM, and an exception within a message.
            r"|\b(?:with message|of type"
            r"|Cannot (?:invoke|(?:read|assign) field|(?:load|store) \w+ \w+)) "
            r"|(?:Error|Exception)\()?"
            r"(\"[^\"]*\"|\B'[^']*'\B|`[^`']*'|`[^`]*`)"
        ),
        to.quoted,
    ),
    # Structured logs: what is no part of the message is of this run.
    (
        r"\blevel=\w|\"level(?:name)?\"\s*:",
        compiled(r"(?s)^.*(?:\blevel=\w|\"level(?:name)?\"\s*:).*$"),
        to.log_fields,
    ),
)
_NEEDED = SearchSet([needed for needed, _, _ in _STEPS])
