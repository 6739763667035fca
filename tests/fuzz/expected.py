"""Where a check of schemathesis is wrong about an answer: the check, the answer, the reason."""

_NOT_ACCEPTED = "positive_data_acceptance"
_NOT_REFUSED = "negative_data_rejection"

EXPECTED: list[tuple[str, str, str]] = [
    (_NOT_ACCEPTED, r'"no [a-z ]+ \S+', "a name in a body has to be of something that is there"),
    (
        _NOT_ACCEPTED,
        r"(?:hold|contain)s? a NUL",
        "in no text; a pattern each would say less",
    ),
    (_NOT_ACCEPTED, r"as in the address", "a body may repeat the address, not contradict it"),
    (
        _NOT_ACCEPTED,
        r"\"is required: 'domain/name'\"",
        "asked for unless there is a default project",
    ),
    (_NOT_ACCEPTED, r'"is past"', "a token that has ended is good for nothing"),
    (
        _NOT_ACCEPTED,
        r"give a command, an image or a pod_spec",
        "one of three; generators trip over it",
    ),
    (_NOT_ACCEPTED, r"give exactly one of chains and history", "one of two, as above"),
    (_NOT_ACCEPTED, r"give either this or since", "one of two, as above"),
    (_NOT_ACCEPTED, r"give either a domain or a project", "one of two, as above"),
    (_NOT_ACCEPTED, r"needs a matcher, at least one of", "one of some, as above"),
    (_NOT_ACCEPTED, r"only a domain can have a domain admin", "depends on the other field"),
    (_NOT_ACCEPTED, r"can only be set for the cluster", "one body for three levels"),
    (_NOT_ACCEPTED, r"is in domain \w+, not in the given domain", "two fields contradict"),
    (_NOT_ACCEPTED, r"or given with its domain", "depends on the other parameter"),
    (
        _NOT_ACCEPTED,
        r"must be ETags as they were sent",
        "sends 0, which the pattern does not allow",
    ),
    (
        _NOT_ACCEPTED,
        r"unknown retry policies: ",
        "names in a body have to be of something that is there",
    ),
    (_NOT_ACCEPTED, r"make another queue the default instead", "depends on the queue"),
    (_NOT_ACCEPTED, r"requires object_type", "depends on the other parameter"),
    (_NOT_ACCEPTED, r"differs from the creation_id of the body", "header and body contradict"),
    (_NOT_ACCEPTED, r"cannot be both set and unset", "two fields contradict"),
    (_NOT_ACCEPTED, r"must be written 'domain/name'", "a list of addresses is what it learns from"),
    (_NOT_ACCEPTED, r"/events/ [^\0]*\"after: ", "Last-Event-ID is a header, of any text"),
    (_NOT_ACCEPTED, r"(under|over) the bound", "depends on the scope above"),
    (_NOT_ACCEPTED, r"is not a quantity like", "its text is read, a pattern says less"),
    (_NOT_ACCEPTED, r"the name of a variable must not", "a pattern for keys says less"),
    (_NOT_ACCEPTED, r"must be longer than 0s", "a pattern for it would need a look ahead"),
    (_NOT_ACCEPTED, r'"url": \["', "an address is read, looked up and weighed"),
    (
        _NOT_ACCEPTED,
        r"is not an RE2 regular expression",
        "a pattern is compiled to be known for one",
    ),
    (_NOT_ACCEPTED, r"a quantity must be less than 2\^63", "its text is short, its value is not"),
    (
        _NOT_ACCEPTED,
        r'"(pod_spec|[^"]*mounts[^"]*)": \[',
        "a pod is checked by Kubernetes' own rules",
    ),
    (_NOT_ACCEPTED, r"there are no events of the type", "types end with a * or are of a long list"),
    (
        _NOT_ACCEPTED,
        r'max: must be more than 0"',
        "a quantity as text; the schema speaks of numbers",
    ),
    (_NOT_ACCEPTED, r'"must be after since"', "depends on the other field"),
    (_NOT_ACCEPTED, r"which environ has, too", "depends on the other field"),
    (
        _NOT_REFUSED,
        r"parameters? (`\w+`(, )?)+ in path\s+- (incorrect type|violates `enum`)",
        "0 in an address is text, too, and a name that was used before",
    ),
    (
        _NOT_REFUSED,
        r"`Last-Event-ID` in header",
        "the query wins, whatever a client goes on sending",
    ),
    (_NOT_REFUSED, r'POST /api/v2/sessions/bulk/ [^\0]*"outcome":"refused"', "an outcome for each"),
]
