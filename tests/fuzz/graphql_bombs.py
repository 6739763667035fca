"""Documents that ask for much with little, and bodies that are no calls."""

import gzip
import json
from collections.abc import Callable

from graphql import get_introspection_query
from hypothesis import strategies as st

from tests.fuzz.graphql_cases import WILD_JSON, Case

_ME = "viewer { username }"


def _many(form: str, count: int, between: str = " ") -> str:
    return between.join(form.replace("N", str(at)) for at in range(count))


def _spread_twice(n: int) -> str:
    halves = "parentSession { ...FN } other: parentSession { ...FN }"
    parts = [
        f"fragment F{at} on Session {{ {halves.replace('N', str(at + 1))} }}" for at in range(n)
    ]
    return " ".join(
        ['{ session(id: "x") { ...F0 } }', *parts, f"fragment F{n} on Session {{ name }}"]
    )


def _in_a_circle(n: int) -> str:
    parts = [f"fragment F{at} on Viewer {{ ...F{(at + 1) % n} }}" for at in range(n)]
    return " ".join(["{ viewer { ...F0 } }", *parts])


def _session(below: str) -> str:
    return f'{{ session(id: "x") {{ {below} }} }}'


def _sessions(arguments: str, operation: str = "") -> str:
    return f"{operation} {{ sessions({arguments}) {{ edges {{ cursor }} }} }}"


def _simulated(history: str, operation: str = "") -> str:
    return f"{operation} {{ simulateRetryPolicy(history: {history}) {{ __typename }} }}"


_BOMBS: dict[str, Callable[[int], str]] = {
    "levels": lambda n: _session("parentSession { " * n + "name" + " }" * n),
    "levels of what is not asked": lambda n: (
        f"query A {{ {_ME} }} query B {_session('parentSession { ' * n + 'name' + ' }' * n)}"
    ),
    "levels of a fragment that is not used": lambda n: (
        f"{{ {_ME} }} fragment F on Session {{ {'parentSession { ' * n} name {' }' * n} }}"
    ),
    "inline fragments": lambda n: "{" + "... { " * n + _ME + " }" * n + "}",
    "aliases": lambda n: f"{{ viewer {{ {_many('aN: username', n)} }} }}",
    "aliases of the root": lambda n: f"{{ {_many('aN: ' + _ME, n)} }}",
    "mutations": lambda n: (
        "mutation { "
        + _many("aN: cancelSessions(input: {filter: {}, dryRun: true}) { next }", n)
        + " }"
    ),
    "one field": lambda n: f"{{ viewer {{ {'username ' * n} }} }}",
    "one field with other arguments": lambda n: (
        f"{{ {_many('sessions(first: N) { edges { cursor } }', n)} }}"
    ),
    "names of types": lambda n: f"{{ {_many('aN: __typename', n)} }}",
    "directives": lambda n: f"{{ viewer {{ username {'@include(if: true) ' * n} }} }}",
    "unknown directives": lambda n: f"query {_many('@dN(a: [N])', n)} {{ {_ME} }}",
    "operations": lambda n: _many(f"query AN {{ {_ME} }}", n + 1),
    "operations of one name": lambda n: f"query A {{ {_ME} }} " * n + f"query A {{ {_ME} }}",
    "fragments": lambda n: (
        f"{{ {_many('...FN', n)} {_ME} }} {_many(f'fragment FN on Query {{ {_ME} }}', n)}"
    ),
    "one fragment": lambda n: f"{{ {'...F ' * n} ...F }} fragment F on Query {{ {_ME} }}",
    "fragments that spread twice": _spread_twice,
    "a circle of fragments": lambda n: _in_a_circle(n + 1),
    "variables": lambda n: f"query({_many('$aN: Int = N', n + 1)}) {{ {_ME} }}",
    "a list of lists": lambda n: _simulated("[" * n + "]" * n),
    "an object of objects": lambda n: _simulated("{a: " * n + "1" + "}" * n),
    "lists in an input": lambda n: (
        f"mutation {{ cancelSessions(input: {{filter: {'[' * n}{']' * n}}}) {{ next }} }}"
    ),
    "lists in a default": lambda n: _simulated("$a", f"query($a: JSON = {'[' * n}{']' * n})"),
    "a type of lists": lambda n: f"query($a: {'[' * n}Int{']' * n}) {{ {_ME} }}",
    "values of an enumeration": lambda n: (
        "mutation { createWebhook(input: {project: \"acme/work\", url: \"x\", eventTypes: ["
        + '"a" ' * n + "]}) { errors { code } } }"
    ),
    "digits of a page": lambda n: _sessions(f"first: {'9' * (n + 1)}"),
    "digits of a default": lambda n: _sessions("first: $n", f"query($n: Int = {'9' * (n + 1)})"),
    "digits in an input": lambda n: (
        f"mutation {{ cancelSessions(input: {{filter: {{}}, dryRun: true, "
        f"limit: {'9' * (n + 1)}}}) {{ next }} }}"
    ),
    "digits in JSON": lambda n: _simulated(f"{{a: {'9' * (n + 1)}}}"),
    "digits of an id": lambda n: f"{{ session(id: {'9' * (n + 1)}) {{ name }} }}",
    "an id": lambda n: f'{{ session(id: "{"x" * n}") {{ name }} node(id: "{"Ug" * n}") {{ id }} }}',
    "a name": lambda n: f"{{ {'x' * (n + 1)} }}",
    "comments": lambda n: "# x\n" * n + f"{{ {_ME} }}",
    "a text": lambda n: _sessions(f'filter: {{search: """{"x" * n}"""}}'),
    "the schema": lambda n: (
        f"{{ __schema {{ types {{ {'fields { type { ' * n} name {' } }' * n} }} }} }}"
    ),
    "the schema by names": lambda n: (
        f"{{ {_many('aN: __schema { types { name fields { name } } }', n)} }}"
    ),
    "the whole schema": lambda n: get_introspection_query(descriptions=n % 2 == 0),
}  # fmt: skip


_BODIES: list[bytes] = [
    b"", b"null", b"[]", b"{", b'"x"', b"\xff\xfe", b"\xef\xbb\xbf{}", b"\x1f\x8b", b"{}{}",
    b'{"query": "{ viewer { username } }", "query": "{ viewer { username } }"}',
    b'[{"query": "{ viewer { username } }"}]',
    b'{"query": NaN}', b'{"query": "\\ud800"}', b'{"query": "{ a }", "a\\u0000": 1}',
    b'{"query":' * 5_000, b"[" * 5_000, b'{"query": "' + b"x" * 2**20 + b'"}',
    json.dumps({"query": f"{{ {_ME} }}"}).encode("utf-16"),
    f"query={{ {_ME} }}".encode(),
    b'--x\r\nContent-Disposition: form-data; name="operations"\r\n\r\n{}',
]  # fmt: skip
_TYPES = [
    "application/json", "application/json; charset=utf-16", "application/json; charset=nothing",
    "APPLICATION/JSON", "application/graphql", "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x", "text/plain", "", ";", "application/json, text/html",
]  # fmt: skip
_HEADERS: list[dict[str, str]] = [
    {}, {"Content-Encoding": "gzip"}, {"Content-Encoding": "br"}, {"Accept": "text/html"},
    {"Accept": "application/graphql-response+json"}, {"Accept": "image/png;q=x"},
    {"Content-Length": "nothing"}, {"X-HTTP-Method-Override": "DELETE"},
]  # fmt: skip


@st.composite
def bodies(draw: st.DrawFn) -> tuple[bytes, str, dict[str, str]]:
    """A body that is hardly a call, what it is said to be, and headers beside it."""
    headers = draw(st.sampled_from(_HEADERS))
    kind = draw(st.sampled_from(["application/json", *_TYPES]))
    body = draw(st.one_of(st.sampled_from(_BODIES), _calls, st.binary(max_size=100)))
    if headers.get("Content-Encoding") == "gzip" and draw(st.booleans()):
        body = gzip.compress(body)
    return body, kind, headers


_part = st.sampled_from(WILD_JSON)
_calls = st.fixed_dictionaries(
    {"query": st.just(f"{{ {_ME} }}") | _part},
    optional={"variables": _part, "operationName": _part, "extensions": _part, "id": _part},
).map(lambda call: json.dumps(call).encode())


@st.composite
def bombs(draw: st.DrawFn, most: int = 5_000) -> Case:
    """Of any size: most are far past the limits, or just about there."""
    kind = draw(st.sampled_from(sorted(_BOMBS)))
    size = draw(st.sampled_from([0, 1, 2, 10, 15, 20, 50, 100, 300, 500, 1_000, most]))
    return Case(_BOMBS[kind](size), {}, draw(st.sampled_from([None, "A", "A0", "NOWHERE"])))
