"""Whatever is sent: a 4xx problem that names the field, nothing created, never a 500."""

import gzip
import json
from typing import Any

import pytest

from retry.policies.inline import InlinePolicy
from sessions_app.models import (
    AuditEntry,
    Project,
    RetryDefaults,
    RetrySettings,
    Session,
    SessionEvent,
    SessionSpec,
)
from tests import factories
from tests.agent import Agent, Api, agent
from tests.factories import body

HUGE = 10**400
OUR_TABLES = (Session, SessionSpec, SessionEvent, RetryDefaults, RetrySettings, AuditEntry)
NOT_NUMBERS: tuple[Any, ...] = ("3", True, [], {})
NOT_WHOLE: tuple[Any, ...] = (*NOT_NUMBERS, 1.5, HUGE, -HUGE)
NOT_TEXT: tuple[Any, ...] = (3, True, [], {}, "x" * 100_000)


@pytest.fixture
def api(at: Project) -> Api:
    return Api(factories.token(factories.user(superuser=True)))


@pytest.fixture
def played(at: Project) -> Agent:
    return agent("one")


def rows() -> int:
    return sum(model.objects.count() for model in OUR_TABLES)


def refused(response: Any, field: str | None = None, status: int = 400) -> dict[str, list[str]]:
    """The errors of a problem with this status that names the field."""
    assert response.status_code == status, response.content
    assert response["Content-Type"] == "application/problem+json"
    problem = response.json()
    assert problem["status"] == status
    assert problem["title"]
    assert problem["detail"]
    errors: dict[str, list[str]] = problem["errors"]
    if field is not None:
        assert any(name == field or name.startswith((f"{field}.", f"{field}[")) for name in errors)
        assert all(text for texts in errors.values() for text in texts)
    return errors


FIELDS: dict[str, tuple[Any, ...]] = {
    "project": (
        3,
        "work",
        "acme/",
        "/work",
        "acme/ghost",
        "ghost/work",
        "a" * 128,
        "acme/work/x",
        "",
    ),
    "queue": (3, "ghost", "", "q" * 64, True),
    "name": (*NOT_TEXT, "a\nb", "\x7f", "n" * 129),
    "job_set": (*NOT_TEXT, "-a", "a b", "a/b", "\u00e9"),
    "creation_id": (*NOT_TEXT, "", "x" * 201, "a:retry:1"),
    "session_type": ("sometimes", 3, None, ["batch"]),
    "image": (*NOT_TEXT, "i" * 513),
    "command": (
        [],
        "echo hi",
        3,
        None,
        [3],
        [None],
        ["a", ["b"]],
        {"a": 1},
        ["x"] * 4097,
        ["\u00e9" * 65_536],
    ),
    "environ": (
        *([], "A=B", {"A=B": "1"}, {"": "1"}, {"A": 1}, {"A": None}, {"A" * 257: "1"}),
        *({"A\nB": "1"}, {"A\x1b": "1"}, {"A": "x" * 131_070}),
    ),
    "secret_environ": ({"A\nB": "1"}, {"A": "x" * 131_070}),
    "resources": (
        [],
        3,
        {"cpu": "x"},
        {"cpu": -1},
        {"cpu": "-1"},
        {"cpu": True},
        {"cpu": None},
        {"cpu": HUGE},
        {"cpu": "9" * 30},
        {"": "1"},
        {"requests": 3},
        {"requests": {"cpu": []}},
        {"requests": {"cpu": "1"}, "cpu": "1"},
        {"cpu": "1e999"},
        {"cpu": "1" * 41},
        {"memory": "500m"},
        {"gpu": "0.5"},
        {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}},
    ),
    "mounts": (
        {},
        "x",
        [3],
        [{}],
        [{"path": "/m", "secret": "s"}] * 257,
        [{"path": "/m", "empty_dir": {"size_limit": "lots"}}],
    ),
    "ports": ({}, "web", [80], ["Web"], ["-a"], ["a" * 64], ["a"] * 65),
    "labels": ([], {"": "x"}, {"a": 1}, {f"k{n}": "v" for n in range(65)}, {"k" * 318: ""}),
    "pod_spec": ([], "x", 3),
    "cluster_size": (*NOT_WHOLE, 0, -1, 10_001),
    "priority": (*NOT_WHOLE, 1_000_001, -1_000_001),
    "batch_timeout": (*NOT_NUMBERS, 0, -1, -0.5, HUGE, 1e300),
    "scheduling_timeout": (*NOT_NUMBERS, 0, -1, HUGE),
    "queue_timeout": (*NOT_NUMBERS, 0, -1, HUGE),
    "termination_grace_period": (*NOT_NUMBERS, None, -1, 86_401, HUGE),
    "retry_policies": ("x", [3], ["ghost"], ["a"] * 17),
    "retry_policy": ([], "x", 3, None),
    "no_such_field": (1,),
    "id": ("11111111-2222-4333-8444-555555555555",),
    "status": ("RUNNING",),
}
POLICY: dict[str, tuple[Any, ...]] = {
    "max_retries": (*NOT_WHOLE, None, -1, 1_000_001),
    "max_preemption_retries": (*NOT_WHOLE, -1, 2**31),
    "retry_delay": (*NOT_NUMBERS, None, 0, -1, -0.1, HUGE),
    "backoff": ("linear", 3, None, [], ""),
    "backoff_multiplier": (*NOT_NUMBERS, None, 0, -2, HUGE),
    "max_retry_delay": (*NOT_NUMBERS, 0, -1, HUGE),
    "jitter": ("much", 3, None, True),
    "jitter_ratio": (*NOT_NUMBERS, None, -0.01, 1.01, HUGE),
    "eligible_causes": (
        "unknown", None, {}, [3], ["bad_luck"], ["user_cancelled"], ["validation_error"],
        ["unknown", "quota_exceeded"], [["unknown"]],
    ),
    "retry_on_exit_codes": ("1", 1, None, ["1"], [0], [256], [-1], [1.5], [True], [HUGE], [[1]]),
    "no_retry_on_exit_codes": ("1", 1, None, ["1"], [0], [256], [-1], [1.5], [None]),
    "max_chain_duration": (*NOT_NUMBERS, 0, -1, HUGE),
    "emit_retry_events": ("yes", 1, 0, None, []),
    "max_retrys": (3,),
}  # fmt: skip
POLICY |= {name: ({"a": 1},) for name in InlinePolicy.model_fields if name not in POLICY}
BOUNDS: dict[str, tuple[Any, ...]] = {
    "max_retries": (*NOT_WHOLE, -1, 1_000_001),
    "max_preemption_retries": (*NOT_WHOLE, -1, 2**31),
    "max_chain_duration": (*NOT_NUMBERS, 0, -1),
    "min_retry_delay": (*NOT_NUMBERS, -1, HUGE),
    "max_delay": (3,),
}


@pytest.mark.parametrize("field", FIELDS)
def test_each_field_of_a_session_is_checked(api: Api, field: str) -> None:
    before = rows()
    for value in FIELDS[field]:
        refused(api.post("sessions/", body(**{field: value})), field)
    assert rows() == before


@pytest.mark.parametrize("field", POLICY)
def test_each_field_of_a_policy_is_checked(api: Api, field: str) -> None:
    before = rows()
    for value in POLICY[field]:
        sent = {field: value}
        refused(api.post("sessions/", body(retry_policy=sent)), f"retry_policy.{field}")
        for method in ("PUT", "PATCH"):
            response = api.call(method, "retry-defaults/cluster/", {"policy": sent})
            refused(response, f"policy.{field}")
    assert rows() == before


@pytest.mark.parametrize("field", BOUNDS)
def test_each_bound_is_checked(api: Api, field: str) -> None:
    before = rows()
    for value in BOUNDS[field]:
        for method in ("PUT", "PATCH"):
            response = api.call(
                method, "retry-defaults/projects/acme/work/", {"bounds": {field: value}}
            )
            refused(response, f"bounds.{field}")
    assert rows() == before


def test_a_whole_number_may_be_written_with_a_point(api: Api) -> None:
    """JSON Schema, and so the document of the API, takes 2.0 for an integer."""
    sent = body(priority=3.0, retry_policy={"max_retries": 2.0})
    made = api.post("sessions/", sent).json()
    assert (made["priority"], made["max_retries"]) == (3, 2)
    assert isinstance(made["max_retries"], int)


def test_the_bounds_of_a_policy_are_inclusive(api: Api) -> None:
    widest = {
        "max_retries": 1_000_000, "max_preemption_retries": 2**31 - 1, "retry_delay": 1e308,
        "backoff_multiplier": 5e-324, "max_retry_delay": None, "jitter_ratio": 1,
        "retry_on_exit_codes": [1, 255, 1], "max_chain_duration": 1e308, "eligible_causes": [],
    }  # fmt: skip
    response = api.post("sessions/", body(retry_policy=widest))
    assert response.status_code == 201, response.content
    assert response.json()["retry_policy"]["retry_delay"] == 1e308
    factories.settle(Session.objects.get())


@pytest.mark.parametrize(
    ("field", "value"),
    [("mode", "maybe"), ("mode", 1), ("mode", None), ("global_max_retries", -1),
     ("global_max_retries", 1_000_001), ("global_max_retries", "5"), ("global_max_retries", True),
     ("global_max_retries", HUGE), ("enabled", True)],
)  # fmt: skip
def test_each_field_of_the_settings_is_checked(api: Api, field: str, value: Any) -> None:
    for method in ("PUT", "PATCH"):
        refused(api.call(method, "retry-settings/cluster/", {field: value}), field)
    assert not RetrySettings.objects.exists()


def test_the_global_limit_is_the_clusters_only(api: Api) -> None:
    for scope in ("domains/acme", "projects/acme/work"):
        response = api.call("PUT", f"retry-settings/{scope}/", {"global_max_retries": 3})
        refused(response, "global_max_retries")
    assert not RetrySettings.objects.exists()


ODD_TEXTS = {"NUL": "\\u0000", "half of a pair": "\\ud800", "the other half": "x\\udc00"}


@pytest.mark.parametrize("text", ODD_TEXTS.values(), ids=ODD_TEXTS)
def test_text_that_cannot_be_stored_names_its_field(api: Api, text: str) -> None:
    before = rows()
    places = {
        "name": f'"name": "{text}"',
        "command": f'"command": ["{text}"]',
        "environ": f'"environ": {{"A{text}": "1"}}',
        "labels": f'"labels": {{"a": "{text}"}}',
        "mounts": f'"mounts": [{{"path": "/m", "claim": "{text}"}}]',
        "pod_spec": f'"pod_spec": {{"{text}": 1}}',
        "creation_id": f'"creation_id": "{text}"',
    }
    for field, sent in places.items():
        raw = f'{{"project": "acme/work", "image": "i", {sent}}}'.encode()
        refused(api.post("sessions/", raw), field)
    assert rows() == before


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize(
    "field", ["batch_timeout", "priority", "retry_policy.retry_delay", "resources.cpu"]
)
def test_numbers_are_finite(api: Api, field: str, number: str) -> None:
    before = rows()
    outer, _, inner = field.partition(".")
    value = f'{{"{inner}": {number}}}' if inner else number
    raw = f'{{"project": "acme/work", "image": "i", "{outer}": {value}}}'
    refused(api.post("sessions/", raw.encode()), field)
    assert rows() == before


def test_deep_json_names_its_field(api: Api) -> None:
    before = rows()
    for field in ("mounts", "pod_spec", "unheard_of"):
        raw = f'{{"project": "acme/work", "{field}": {"[" * 20_000}{"]" * 20_000}}}'
        refused(api.post("sessions/", raw.encode()), field)
    assert rows() == before


BODIES = {
    "list": b"[]", "number": b"3", "null": b"null", "text": b'"x"', "cut": b'{"project": "acme',
    "not UTF-8": b'{"name": "\xff\xfe"}', "binary": bytes(range(256)), "two": b"{} {}",
    "brackets": b"[" * 20_000, "digits": b'{"priority": ' + b"9" * 5_000 + b"}", "XML": b"<a/>",
}  # fmt: skip


@pytest.mark.parametrize("raw", BODIES.values(), ids=BODIES)
def test_a_body_that_is_no_object_is_refused(api: Api, raw: bytes) -> None:
    before = rows()
    refused(api.post("sessions/", raw), "body")
    refused(api.call("PUT", "retry-defaults/cluster/", raw), "body")
    assert rows() == before


def test_an_empty_body_says_what_is_missing(api: Api) -> None:
    for raw in (b"", b"{}", b"  "):
        assert refused(api.post("sessions/", raw)) == {
            "command": ["give a command, an image or a pod_spec"]
        }


def test_the_detail_says_what_the_errors_say(api: Api) -> None:
    response = api.post("sessions/", body(retry_policy=3, priority="x"))
    errors = refused(response)
    assert errors["retry_policy"] == ["must be an object"]
    detail = "; ".join(f"{name}: {texts[0]}" for name, texts in errors.items())
    assert response.json()["detail"] == detail


def test_a_body_of_unknown_length_is_not_taken_for_an_empty_one(api: Api) -> None:
    before = rows()
    put = {"HTTP_TRANSFER_ENCODING": "chunked", "CONTENT_LENGTH": ""}
    response = api.call("PUT", "retry-defaults/cluster/", {"policy": {}}, **put)
    refused(response, status=411)
    assert rows() == before


def test_refusals_of_django_are_problems_too(api: Api) -> None:
    many = "&".join(f"a{n}=1" for n in range(1_001))
    errors = refused(api.get(f"sessions/?{many}"))
    assert errors == {}
    assert "parameters" in api.get(f"sessions/?{many}").json()["detail"]
    refused(api.get("sessions/", HTTP_HOST="elsewhere.example"))


def test_a_body_over_the_limit_is_too_large(api: Api, played: Agent) -> None:
    before = rows()
    blank = json.dumps(body()).encode()
    refused(api.post("sessions/", blank.ljust(1024 * 1024 + 1)), status=413)
    assert rows() == before
    assert api.post("sessions/", blank.ljust(1024 * 1024)).status_code == 201
    wide = json.dumps({"incarnation": 1, "reports": []}).encode()
    path = "executors/one/reports/"
    assert played.api.post(path, wide.ljust(16 * 1024 * 1024)).status_code == 200
    refused(played.api.post(path, wide.ljust(16 * 1024 * 1024 + 1)), status=413)


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "x"]
)
def test_only_json_is_understood(api: Api, content_type: str) -> None:
    before = rows()
    response = api.post("sessions/", body(), content_type=content_type)
    refused(response, status=415)
    assert rows() == before


def test_a_method_that_is_not_there_is_a_405(api: Api) -> None:
    session = factories.submit(Project.objects.get())
    for method, path in (
        ("DELETE", "sessions/"),
        ("PUT", f"sessions/{session.pk}/"),
        ("GET", f"sessions/{session.pk}/cancel/"),
        ("POST", "retry-defaults/cluster/"),
        ("GET", "executors/one/lease/"),
    ):
        response = api.call(method, path)
        refused(response, status=405)
        assert method not in response["Allow"]


@pytest.mark.parametrize(
    "path",
    ["nothing/", "sessions/junk/", "sessions/11111111-2222-4333-8444-55555555555/",
     "sessions/11111111-2222-4333-8444-555555555555/attempts/",
     "sessions/11111111-2222-4333-8444-555555555555/logs/",
     "retry-defaults/domains/nope/", "retry-settings/projects/acme/nope/", "executors/one/",
     "retry-defaults/domains/a%00/", "retry-settings/projects/acme/%00/"],
)  # fmt: skip
def test_missing_records_are_a_404(api: Api, path: str) -> None:
    refused(api.get(path), status=404)


def test_an_answer_that_we_cannot_give_is_a_406(api: Api) -> None:
    refused(api.get("whoami/", HTTP_ACCEPT="image/png"), status=406)


QUERIES = {
    "status": ("done", ""), "session_type": ("daily",), "retry_cause": ("luck",),
    "retry_state": ("maybe",), "exit_code": ("x", "99999999999", "1.5", "9" * 500),
    "root": ("x", "123"), "parent": ("x",), "tip": ("maybe", ""),
    "created_after": ("yesterday", "2026-13-01", "2026-01-01T00:00:00", "99999-01-01T00:00:00Z",
                      "0", "-1", "0.5", "20260101"),
    "created_before": ("x",), "ordering": ("name", "-id", ""), "page_size": ("0", "501", "x", "-1"),
    "search": ("", "%00", "a%00b", "x" * 301), "project": ("%00", ""), "queue": ("%00",),
    "job_set": ("%00",), "owner": ("%00",), "executor": ("%00",), "node": ("%00", "x" * 301),
    "failure_category": ("%00",), "signature": ("%00",), "stauts": ("ERROR",), "offset": ("3",),
}  # fmt: skip


@pytest.mark.parametrize("name", QUERIES)
def test_each_filter_of_the_list_is_checked(api: Api, name: str) -> None:
    for value in QUERIES[name]:
        refused(api.get(f"sessions/?{name}={value}"), name)


@pytest.mark.parametrize(
    "cursor",
    [
        "junk",
        "cD1qdW5r",
        "cD0lMDA=",
        "r=1",
        "x" * 5000,
        "%00",
        "!!!",
        "cj0x!",
        "",
        "cj0x",
        "bz01MDA=",
    ],
)
def test_a_cursor_that_is_not_ours_is_a_404(api: Api, cursor: str) -> None:
    refused(api.get(f"sessions/?cursor={cursor}"), status=404)


@pytest.mark.parametrize(
    "query", ["after=x", "after=-1", f"after={2**63}", "page_size=0", "page_size=501", "seq=1"]
)
def test_each_parameter_of_the_events_is_checked(api: Api, query: str) -> None:
    session = factories.submit(Project.objects.get())
    refused(api.get(f"sessions/{session.pk}/events/?{query}"), query.partition("=")[0])


@pytest.mark.parametrize(
    "query", ["tail=x", "tail=-1", f"tail={HUGE}", "offset=-1", f"offset={2**63}", "lines=3",
              "follow=maybe"]
)  # fmt: skip
def test_each_parameter_of_the_logs_is_checked(api: Api, query: str) -> None:
    session = factories.submit(Project.objects.get())
    refused(api.get(f"sessions/{session.pk}/logs/?{query}"), query.partition("=")[0])


def test_cancel_and_retry_take_no_unknown_fields(api: Api) -> None:
    session = factories.settle(factories.submit(Project.objects.get()))
    for verb in ("cancel", "retry"):
        refused(api.post(f"sessions/{session.pk}/{verb}/", {"because": "x"}), "because")
        refused(api.post(f"sessions/{session.pk}/{verb}/", b"[]"), "body")
    assert Session.objects.count() == 1


WIRE: dict[str, tuple[tuple[str, Any], ...]] = {
    "lease": (
        ("incarnation", 0), ("incarnation", "x"), ("incarnation", HUGE), ("wait_s", 11),
        ("wait_s", -1), ("limits", {"max_sessions": -1}), ("limits", 3), ("nodes", {}),
        ("nodes", [{"name": 3}]), ("nodes", [{"name": "n", "allocatable": {"cpu": "much"}}]),
        ("nodes", [{"name": "n", "allocatable": {"cpu": -1}}]),
        ("nodes", [{"name": "n", "free": {"cpu": None}}]), ("runs", [{"session_id": "x"}]),
        ("runs", {}), ("driver", "d" * 33),
    ),
    "reports": (("incarnation", None), ("reports", {}), ("reports", [{}] * 5001)),
    "return": (("returns", 3), ("returns", [{"session_id": "x", "fencing_token": 1}])),
    "logs": (("chunks", [{}]), ("chunks", [3]), ("chunks", "x")),
}  # fmt: skip


@pytest.mark.parametrize("verb", WIRE)
def test_each_field_of_the_wire_is_checked(played: Agent, verb: str) -> None:
    usual: dict[str, Any] = {"reports": [], "returns": [], "chunks": []}
    for field, value in WIRE[verb]:
        refused(played.call(verb, {**usual, field: value}), field)


@pytest.mark.parametrize("data", ["!", "a", "\u00e9", "YQ==YQ=="])
def test_output_is_base64(played: Agent, data: str) -> None:
    session = factories.submit(Project.objects.get())
    chunk = {"session_id": str(session.pk), "fencing_token": 1, "offset": 0, "data": data}
    refused(played.call("logs", {"chunks": [chunk]}), "chunks[0].data")


def test_an_address_without_its_slash_leads_on_only_who_reads(api: Api) -> None:
    before = rows()
    assert api.get("sessions?page_size=3")["Location"].endswith("/api/v2/sessions/?page_size=3")
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        response = api.call(method, "sessions", body())
        refused(response, status=404)
        assert "end with a slash" in response.json()["detail"]
    assert rows() == before


def test_a_parameter_that_is_given_twice_is_refused(api: Api) -> None:
    session = factories.submit(Project.objects.get())
    refused(api.get("sessions/?status=ERROR&status=PENDING"), "status")
    refused(api.get("queues/?page_size=1&page_size=2"), "page_size")
    refused(api.get(f"sessions/{session.pk}/events/?after=1&after=2"), "after")


def test_a_parameter_that_belongs_into_the_body_is_not_passed_over(api: Api) -> None:
    session = factories.submit(Project.objects.get())
    for path, sent in (
        ("sessions/bulk-cancel/", {"filter": {}}),
        (f"sessions/{session.pk}/cancel/", None),
        ("sessions/", body()),
    ):
        refused(api.post(f"{path}?dry_run=true", sent), "dry_run")
    assert factories.reread(session).status == "PENDING"
    assert Session.objects.count() == 1


@pytest.mark.parametrize("coding", ["gzip", "br", "x"])
def test_a_compressed_body_is_not_understood(api: Api, coding: str) -> None:
    refused(api.post("sessions/", gzip.compress(b"{}"), HTTP_CONTENT_ENCODING=coding), status=415)
    response = api.post("sessions/", body(), HTTP_CONTENT_ENCODING="identity")
    assert response.status_code == 201, response.content


@pytest.mark.parametrize("moment", [0, 1_893_456_000, 1.5, True, "0", "1893456000", "2030-01-31"])
def test_a_time_in_a_body_is_written_out(api: Api, moment: Any) -> None:
    before = rows()
    for path, field, sent in (
        ("sessions/bulk-cancel/", "filter.created_before", {"filter": {"created_before": moment}}),
        ("tokens/", "expires_at", {"name": "x", "expires_at": moment}),
    ):
        refused(api.post(path, sent), field)
    assert rows() == before
