"""Lines that say that something failed, but neither what nor why. Others near them may tell."""

from functools import lru_cache
from typing import Any

from retry.signatures.engine import compiled, replaced, simple
from retry.signatures.replacements import TELLS_ERROR

_VAGUE = frozenset(
    b"a an the this that these its it and or of to in into on at by for from with while than then "
    b"due as is are was were be been has have had will can must not when which where after before "
    b"during see above below previous here please check more detail details info information "
    b"err error errors fatal fail fails failed failing failure failures problem problems exception "
    b"exceptions warning warnings issue issues critical unknown unexpected some one all any first "
    b"last occurred encountered detected caught raised reported returned "
    b"task tasks job jobs step steps stage stages run runs running build process processes program "
    b"script scripts workflow pipeline command execution executing executed operation test tests "
    b"file files line name compiler log logs output message messages status code signal result "
    b"exit exits exited exiting abort aborts aborted aborting stop stopped stopping terminate "
    b"terminated terminating termination end ended cancel canceled cancelled shutting down "
    b"completed finished unsuccessful unsuccessfully now none nil null level msg time ts "
    # What is said of persons, wishes and manners.
    b"you your we our i they there please try trying again do does did done doesn don didn t s "
    b"want wants could should would may might need needs also only just so such very still get got "
    b"know how what why correct correctly properly sorry unfortunately abnormal "
    b"abnormally unrecoverable happened crashed state result marked give "
    b"giving gave up something went wrong notified sent wrote written saved uploaded".split()
)
# `not a file` says something, although none of its words does.
_ANY = b"|".join(sorted(_VAGUE - {b"not", b"file", b"files", b"name"})).decode()
# One that ends with a colon tells what follows it.
_OF_VAGUE_WORDS = compiled(rf"(?i)^(?:\W|\b(?:{_ANY})\b)*\b(?:{_ANY})[^\w:]*$")
_LONGEST = 200
"""Bytes of a line of vague words at most, and those in which others have theirs."""
_LONGEST_READ = 1_000
_NO_REASON = compiled(
    r"(?i)\b(?:(?:fail(?:ed|s)?|unable) to \w+|could ?n[o']t start"
    r"|can ?not (?:parse|process|compile|build|render|complete|perform|finish)) [^:',]*$"
    # Where and when, by its number, is no reason.
    r"|^[^:]*\bfailed(?: (?:at|on|in|after) (?:\w+ )?[0-9][\w.]*)*[.!]?$"
    r"|\b(?:failed|unable) to \w+(?:, \w+)?[.!]?$"
    r"|\b(?:can ?not|can't|unable to|not) (?:continue|proceed|go on|recover)\b[^:]*$"
    r"|\b(?:did|does|do|was|has|have) ?n[o']t (?:complet|finish|succeed|start|run|work)\w*\b[^:]*$"
    # That there was one, and what was done then, but not what it was.
    r"|\b(?:errors?|exceptions?|problems?|failures?) (?:(?:has|have|had|was|were) )?(?:been )?"
    r"(?:occurred|encountered|detected|raised|thrown)[.!]?$"
    r"|^\W*(?:an? )?errors? (?:occurred )?(?:(?:while|when|during|in) )?(?:the )?"
    r"[a-z]+ing\b[^:'\"]*$|\berror\(?s\)? found (?:while|during|in) [^:'\"]*$"
    r"|\b(?:due to|because of|after|on|with|by) (?:(?:the|an?|previous|prior|above) )*"
    r"(?:errors?|failures?|exceptions?)(?:\(s\))?[.!]?$"
    r"|^[^:]*\bfailed[,;.] +(?:\w+ ){0,2}(?:giv|abort|exit|stop|bail|quit|terminat|skip|cancel|roll"
    r"|revert|undo|clean|restor|retr|not continu)\w*[^:]*$"
    r"|^\W*(?:clean|roll|remov|delet|upload|sen[dt]|notif|mark|sett|wr[io]t|sav|report|revert|restor"
    r"|releas|kill|stopp|unlock)(?:ing|ed|e|)\b[^:]*$"
    r"|\b(?:command|process|step|task|job|script|program)s? failed: "
    r"|\bfailed (?:command|process|step|task|job|script)s?: "
    r"|\b(?:logs?|reports?|dumps?|traces?|details) (?:(?:is|was|were|has been|are) )?"
    r"(?:written|saved|stored|dumped|available|located|uploaded|found|at|in|to)\b"
)
# Sums: `Tests run: 12, Failures: 1`.
_COUNTS = compiled(r"(?i)^.{0,40}?\b(?:\w+ )?\w+: [0-9]+(?:, (?:\w+ )?\w+: [0-9]+){2,}\W*$")
# What is only guessed or advised after a sentence says nothing of this failure.
_GUESS = compiled(
    r"(?i)[.!;,-] \(?(?:(?:this|it|which) (?:(?:is|was) )?(?:can|may|might|could|mostly|usually"
    r"|often|probably|most likely|likely|typically|normally|generally)\b"
    r"|(?:please )?(?:see|check|refer to|consult|examine|look at|read|visit) ).*$"
)
# The level of a line of a log, with what stands before it, and the places behind it.
_LEVEL = compiled(
    r"^(?:.{0,60}\b(?:ERROR|FATAL|CRITICAL|SEVERE)\b"
    r"|\W*(?:[\w./-]+(?:\[[0-9]+\])?: )?(?:[Ee]rror|[Ff]atal)\b[\]:|]"
    r"|[EFW][0-9]{4} [^\]]*\]|[A-Z][a-z]{2} [ 0-9]{2} [0-9:]{8} \S+ [^\s:]+:"
    r"|(?:Exception in thread \"[^\"]*\" )?[\w.$]*(?:Error|Exception):)[\]:|\s-]*"
    r"(?:(?:\[[^\]]*\]|[\w.$<>/-]+) ?[\]:|-]+ ?)*"
)
# The class of an error, of which others have more to say.
_CLASS = compiled(
    r"^\s*(?:[A-Z][a-z]+)*(?:Err|Error|Exception|Failed|Failure|Off)(?:[A-Z][a-z]+)*\W*$"
)
_OBJECT = (
    r"(?:the|an?|your|that|if|whether|to|with|it|this|these|using|again|only|more|less|different"
    r"|another|also|include|\S+ (?:logs?|outputs?|files?)|std(?:out|err))\b"
)
# What to do now, and where to look: at the start of a line or a sentence.
_ADVICE = compiled(
    r"(?i)(?:^[^\w\[]*|[.!;:,|\])>-]\s+)(?:pl\w{1,2}se\b|if you\b"
    r"|you (?:can|may|might|should|could|need|want)\b|re-?run\b|make sure\b|ensure that\b"
    r"|refer to\b|remember to\b|try \w+ing\b"
    r"|to (?:see|get|view|fix|resolve|avoid|debug|diagnose|retry|enable|disable|ignore|suppress)\b"
    r"|for (?:(?:more|further|additional) )?(?:details?|info\w*|help)\b|if (?:this|the|that|it)\b"
    r"|(?:check|see|read|examine|inspect|review|consult|visit|verify|try|use|set|add|run|consider"
    r"|increase|reduce|provide|specify|install|contact|ask|notify|report|look at|look in) "
    rf"(?:{_OBJECT}|--?\w|`|https?:))"
)
_LABELS = compiled(r"\[[^\]]*\]|\"[^\"]*\"|`[^`]*`")
# A line of a log that gives its reason in no field of its own has it in the message.
_MESSAGE = compiled(r"(?:\b(?:msg|message)=|\"(?:msg|message)\"\s*:\s*)\"([^\"]+)\"")
_REASON_FIELD = compiled(r"(?i)\b(?:err|error|reason|exception|cause)\"?\s*[=:]\s*\"?[^\s\"]")
# What stands before the message of an event of Kubernetes.
_EVENT = compiled(r"^\s*Warning\s+\w+\s+\S+(?: \(x[0-9]+ over \S+\))?\s+[\w-]+\s+")
# What is not there or not so, in the words of people. They stand in lines of progress, too.
FAINT = (
    r"\b(?:no|not|never|neither|without|bad|wrong|empty|full|lost|dead|stale|busy|locked|down)\b"
    r"|n't\b|\bnan\b|\binf(?:inity)?\b|\bexpired?\b|deadlock|overflow|underflow|diverg|\bsingular\b"
    r"|\bnegative\b|\bzero\b|\b(?:has|have|got|contains) 0\b|duplicate"
    r"|conflict|reject|read-only|\bquota\b|\blimit\b|\bdiffers?\b"
    r"|\bclosed by\b|\bcrash|\bblow(?:n|ing|s)?[ -]?up\b|\bolder than\b|\bfallen off\b|\bassert\b"
    r"|\bused up\b|\bleak|\bmust\b|\brequired\b|\bneeds? to\b|\bshould be\b|\binstead of\b|\busage:"
    # The status of an answer, not `497 items`.
    r"|(?-i:\b[45][0-9]{2} [A-Z][a-z])|\bgrew\b"
)
# Words of a reason: a line with one need not be completed by others.
_REASONED = compiled(
    rf"(?i){FAINT}|denied|refused|timed? ?out|invalid|undefined|unrecogni|unknown|violat|missing"
    r"|permitted|permission|unreachable|exceed|corrupt|mismatch|unsupported|expected|unauthorized"
    r"|forbidden|\bout of\b|\btoo \w+|signal|killed|illegal|exception|assertion|syntax|fault"
    r"|can ?not|could not|unresolved|undeclared|unterminated|unhandled|\breset by\b"
    r"|[:=]\s*[\w*'\"]"
)
_LABEL = r"(?:(?:ERROR|FATAL|CRITICAL|[Ee]rror|[Ff]atal)\b[\]:]*+\s*+)++"
_ERROR = simple(rf"\W*+(?:{_LABEL}|[\w./-]++: {_LABEL})")
# Names of errors, such as ECONNRESET, :timeout and DEADLINE_EXCEEDED.
_CODE = compiled(r"\bE[A-Z]{3,}\b|(?:^|\s):[a-z]|\b[A-Z]+_[A-Z_]+\b")
_FAIL = compiled(r"(?i)\bfail")
# What the masks hide tells nothing.
_DATA = compiled(
    r"[^\s/\"':]*/[^\s\"':]*|\"[^\"]{20,}\"|\B'[^']{20,}'|`[^`]{20,}`|[\w.]+="
    r"|Exception in thread \"[^\"]*\"|\b(?:\w+\.)+\w*(?:Error|Exception)\b"
)
_WORD = simple(r"[A-Za-z]{2,}+")
_FEW = 1
"""Words that say something; a line with more of them is not vague."""
_SENTENCE = 3
_REMEMBERED = 64
"""Lines of which a process remembers whether they are vague: that is asked several times."""
_MANY = 12
"""Spaces in a line that has more such words in any case."""
_ASIDE = compiled(r"\([^()]*\)|\b\w+\s*=\s*[-+.:0-9eE]+|\b[A-Za-z]*[0-9]\w*")
_ORNAMENT = compiled(r"^\s*[^\w\s]{2,}\s")


def of_vague_words(line: bytes) -> bool:
    """Return whether a line has vague words alone, such as `Task failed.`"""
    return len(line) <= _LONGEST and _OF_VAGUE_WORDS.search(line) is not None


def is_advice(line: bytes) -> bool:
    """Return whether a line only says what to do now, before it at most that something failed."""
    advice = _ADVICE.search(line)
    if advice is None:
        return False
    before = line[: advice.start() + 1]
    level = _LEVEL.search(before)
    said = before[level.end() :] if level is not None else before
    return not telling_words(_LABELS.sub(b" ", said))


@lru_cache(maxsize=_REMEMBERED)
def is_vague(line: bytes) -> bool:
    """Return whether a line tells no reason: it says only what failed, or has hardly a word."""
    line = _said(line)
    shown = replaced(_DATA, _hidden, line[:_LONGEST_READ])[:_LONGEST]
    if shown.count(b" ") > _MANY:
        return False
    if is_count(line):
        return True
    level = _LEVEL.search(line)
    if any(_NO_REASON.search(each) for each in (line, line[level.end() :] if level else b"")):
        return True
    before, colon, end = shown.rpartition(b": ")
    said, telling = telling_words(end) or _letter(end), telling_words(before)
    if colon and ((not said and _FAIL.search(shown)) or (not telling and _CLASS.search(end))):
        # As in `building x failed with: BUILD_FAILED`, and `Error: ErrImagePull`.
        return True
    if _has_code(line) or len(said | telling) > _FEW:
        return False
    # What stands last, behind a colon, is the reason, be it one word; but not one in a sentence.
    return not (colon and said) or len(_WORD.findall(end)) > _SENTENCE


def _hidden(match: Any) -> bytes:
    """Remove what the masks hide. What quotes an error stays, as it does there."""
    data = bytes(match.group())
    return data if data[:1] in b"\"'`" and TELLS_ERROR.search(data) else b"_"


def is_count(line: bytes) -> bool:
    """Return whether a line counts what failed and what did not."""
    return _COUNTS.search(line) is not None


def is_sum(line: bytes) -> bool:
    """Return whether a line only says what failed: it has no word of a reason, and no colon."""
    label = _ERROR.match(line)
    said = line[label.end() :] if label else line
    long = len(_WORD.findall(said)) >= _SENTENCE
    return long and not (_REASONED.search(said) or _has_code(line))


def is_title(line: bytes) -> bool:
    """Return whether a line has no word that tells something, but maybe a number, or measures.

    What is meant stands below it. Between ornaments, one word more changes nothing.
    """
    if line.count(b" ") > _MANY * 4 or _has_code(line):
        return False
    few = _FEW if _ORNAMENT.search(line) is not None else 0
    return len(telling_words(_ASIDE.sub(b" ", line[:_LONGEST]))) <= few


def shown_words(line: bytes) -> set[bytes]:
    """Return the words of a line that are not vague, but those of what the masks hide."""
    return telling_words(replaced(_DATA, _hidden, line[:_LONGEST_READ]))


def telling_words(text: bytes) -> set[bytes]:
    """Return the words of a text that are not vague."""
    return {word.lower() for word in _WORD.findall(text)} - _VAGUE


def _letter(text: bytes) -> set[bytes]:
    """Return the text if it is one letter, as that of an option that is not known."""
    text = text.strip(b" .'\"")
    return {text} if len(text) == 1 and text.isalpha() else set()


def _has_code(line: bytes) -> bool:
    """Return whether a line has the name of an error; `ERROR` itself is none."""
    return any(match.group().lower() not in _VAGUE for match in _CODE.finditer(line))


def _said(line: bytes) -> bytes:
    """Return what a line says itself: the message of a log, without guesses and advice."""
    message = None if _REASON_FIELD.search(line) else _MESSAGE.search(line)
    said = message.group(1) if message is not None else line
    said = _EVENT.sub(b"", said)
    guess = _GUESS.search(said)
    return bytes(said if guess is None else said[: guess.start() + 1])
