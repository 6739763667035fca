"""Bars of progress: what a program prints behind one stands on a line of its own."""

from retry.signatures.engine import compiled

# How bars end: with times in brackets, a number and its unit, a rate, dots, or their ornaments.
_NUMBER = (
    r"(?m:^|[ \t|=:-])[0-9][0-9.,:hm]*(?:%|m?s|[kKMGT]?i?B?(?:/s)?| (?:[kKMGT]i?B(?:/s)?|B/s|ms|s))"
)
_END = (
    rf"\[[0-9:]+[<,][^\]\n]*\]|{_NUMBER}|[kKMGT]?i?B/s|\.{{2,}}|(?m:^|[ \t])\.|[\]|#=>]"
    r"|\xe2(?:[\x94-\x96\xa0-\xa3][\x80-\xbf]|\x80\xa6)"
)
# How errors begin, and lines of programs that say their names.
_ERROR = (
    r"(?:(?:[a-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Interrupt|Exit)\b|Traceback \(most recent"
    r"|(?:[Ee]rror|ERROR|[Ff]atal|FATAL|[Ff]ailed|FAILED|CRITICAL|panic|abort(?:ed|ing)?|Exception)"
    r"(?: \w+)*[:!]|Killed\b|Terminated\b|Aborted\b|Segmentation fault|Bus error|terminate called"
    r"|[a-z][a-z_-]+: (?:\(|\[|[a-z]+: ))"
)
GLUED = rf"(?:{_END}){_ERROR}"
_GLUED = compiled(rf"({_END})({_ERROR})")


def apart(text: bytes) -> bytes:
    """Return a text with an end of line before each error that follows a bar without one."""
    return bytes(_GLUED.sub(rb"\1\n\2", text))
