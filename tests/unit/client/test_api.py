from datetime import UTC, datetime

import pytest
from pydantic import ValidationError
from reprise_client import (
    ApiError,
    Client,
    ConfigError,
    InvalidAnswer,
    InvalidRequest,
    RetryPolicy,
    ServerUnreachable,
)

from retry.policies.inline import InlinePolicy
from tests.unit.client import answers
from tests.unit.client.answers import IDS
from tests.unit.client.server import TOKEN, FakeServer, Reply, problem


def test_a_session_is_typed_and_keeps_what_a_newer_server_adds(
    server: FakeServer, client: Client
) -> None:
    server.on(
        f"GET /sessions/{IDS[1]}/",
        answers.failed(1, due_at="2026-03-02T14:03:10Z") | {"novelty": {"a": 1}, "labels": None},
    )
    found = client.session(IDS[1])
    assert found.retry_state.due_at == datetime(2026, 3, 2, 14, 3, 10, tzinfo=UTC)
    assert found.labels == {}
    assert found.retry_state.budgets[0].limit == 3
    assert (found.final, found.retry_waits, found.chain_over) == (True, True, False)
    assert found.model_dump(exclude_unset=True)["novelty"] == {"a": 1}


def test_a_session_of_an_unknown_status_is_not_final(server: FakeServer, client: Client) -> None:
    server.on(f"GET /sessions/{IDS[0]}/", answers.session("HIBERNATING"))
    assert not client.session(IDS[0]).final


def test_words_of_a_newer_server_are_kept(server: FakeServer, client: Client) -> None:
    state = {"state": "postponed", "reason": "full_moon"}
    words = {"status": "HIBERNATING", "retry_cause": "cosmic_ray", "retry_state": state}
    server.on(f"GET /sessions/{IDS[0]}/", {"id": IDS[0], **words})
    found = client.session(IDS[0])
    assert found.model_dump(exclude_unset=True) == {"id": IDS[0], **words}
    assert not found.retry_waits


def test_creating_is_repeated_with_the_same_creation_id(server: FakeServer) -> None:
    server.on("POST /sessions/", problem(503, "Busy"), Reply(answers.session("PENDING"), 201))
    with Client(server.url, TOKEN, project="research/vision") as client:
        made = client.session_create(image="busybox", retry_policy={"max_retries": 3})
    assert made.id == IDS[0]
    first, second = (call.body for call in server.calls)
    assert first == second
    assert first["project"] == "research/vision"
    assert len(first["creation_id"]) == 36


def test_a_retry_policy_is_typed(server: FakeServer, client: Client) -> None:
    server.on("POST /sessions/", Reply(answers.session("PENDING"), 201))
    server.on("POST /sessions/bulk/", Reply({"results": []}))
    policy = RetryPolicy(max_retries=3, max_preemption_retries=None, eligible_causes=("preempted",))
    client.session_create(image="busybox", retry_policy=policy)
    client.sessions_create([{"image": "busybox", "retry_policy": policy}])
    # Only what was given is sent, since all else is inherited; a null was given.
    wanted = {
        "max_retries": 3,
        "max_preemption_retries": None,
        "eligible_causes": ["preempted"],
    }
    assert server.calls[0].body["retry_policy"] == wanted
    assert server.calls[1].body["sessions"][0]["retry_policy"] == wanted
    with pytest.raises(ValidationError):
        RetryPolicy(max_retrys=3)  # type: ignore[call-arg]
    # It knows the server's fields, and says the same of those that are not given.
    theirs = InlinePolicy.model_fields
    assert RetryPolicy.model_fields.keys() == theirs.keys()
    for name, field in RetryPolicy.model_fields.items():
        if name != "eligible_causes":
            assert field.default == theirs[name].default
    InlinePolicy.model_validate(policy.body())


def test_many_are_created_in_one_call_that_can_be_repeated(server: FakeServer) -> None:
    refused = {"outcome": "refused", "session_id": None, "problem": {"status": 400}}
    made = {"outcome": "created", "session_id": "s-1", "problem": None}
    server.on("POST /sessions/bulk/", problem(503, "Busy"), Reply({"results": [made, refused]}))
    with Client(server.url, TOKEN, project="d/p") as client:
        first, second = client.sessions_create([{"command": ["a"]}, {"project": "d/q"}])
    assert (first.outcome, first.session_id) == ("created", "s-1")
    assert second.problem == {"status": 400}
    once, again = (call.body["sessions"] for call in server.calls)
    assert once == again
    assert [item["project"] for item in once] == ["d/p", "d/q"]
    assert len({item["creation_id"] for item in once}) == 2


def test_a_retry_is_asked_for_once_only(server: FakeServer, client: Client) -> None:
    path = f"/sessions/{IDS[0]}/retry/"
    server.on(f"POST {path}", problem(503, "Busy"), Reply(answers.session(attempt=1), 201))
    with pytest.raises(ApiError, match="Busy"):
        client.retry(IDS[0])
    assert server.count("POST", path) == 1


def test_a_list_walks_all_pages_and_sends_the_token_nowhere_else(
    server: FakeServer, client: Client
) -> None:
    elsewhere = "http://192.0.2.1/api/v2/sessions/?cursor=abc%3D&status=ERROR"
    server.on(
        "GET /sessions/",
        answers.page(answers.session(), following=elsewhere),
        answers.page(answers.session(attempt=1)),
    )
    found = client.sessions(status="ERROR", owner=None)
    assert [item.id for item in found] == IDS[:2]
    assert [call.query for call in server.calls] == [
        {"status": "ERROR"},
        {"status": "ERROR", "cursor": "abc="},
    ]


def test_a_list_is_about_the_project_unless_that_is_lifted(server: FakeServer) -> None:
    server.on("GET /sessions/", answers.page())
    with Client(server.url, TOKEN, project="research/vision") as client:
        assert list(client.sessions()) == []
        assert list(client.sessions(project=None)) == []
    assert [call.query.get("project") for call in server.calls] == ["research/vision", None]


def test_an_id_stays_one_segment_of_the_path(server: FakeServer, client: Client) -> None:
    with pytest.raises(ApiError) as caught:
        client.session("../whoami")
    assert caught.value.status == 404
    assert server.calls[0].path == "/sessions/..%2Fwhoami/"


def test_layers_of_defaults_and_switches_have_their_addresses(
    server: FakeServer, client: Client
) -> None:
    layer = {"policy": {"max_retries": 2}, "bounds": {}}
    server.on("GET /retry-defaults/cluster/", layer)
    server.on("PUT /retry-defaults/projects/research/vision/", layer)
    server.on("PATCH /retry-settings/domains/research/", {"mode": "paused"})
    assert client.retry_defaults(effective=True).policy == {"max_retries": 2}
    client.retry_defaults_put(project="research/vision", policy={"max_retries": 2})
    assert client.retry_settings_update(domain="research", mode="paused").mode == "paused"
    assert [call.body for call in server.calls[1:]] == [layer, {"mode": "paused"}]
    assert server.calls[0].query == {"effective": "true"}


def test_a_problem_says_which_field_is_wrong(server: FakeServer, client: Client) -> None:
    server.on(
        "POST /sessions/",
        problem(400, "Invalid", errors={"image": ["This field is required."], "x": "odd"}),
    )
    with pytest.raises(ApiError) as caught:
        client.session_create()
    assert str(caught.value) == "Invalid: image: This field is required.; x: odd"
    assert caught.value.errors == {"image": ["This field is required."], "x": ["odd"]}


@pytest.mark.parametrize(
    "reply",
    [
        Reply(b"<html>welcome</html>", kind="text/html"),
        Reply(b"\xff\xfe\x00", kind="application/json"),
        Reply({"hello": "world"}),
        Reply([1, 2]),
        Reply(b"", kind="text/plain"),
        Reply(b"", status=302, headers={"Location": "http://192.0.2.1/"}),
        Reply({"id": IDS[0], "status": "ERROR", "created_at": "yesterday"}),
    ],
)
def test_junk_is_an_invalid_answer(server: FakeServer, client: Client, reply: Reply) -> None:
    server.on(f"GET /sessions/{IDS[0]}/", reply)
    with pytest.raises(InvalidAnswer, match="Reprise server"):
        client.session(IDS[0])


@pytest.mark.parametrize("junk", [{}, [], {"results": 1}, None])
def test_a_junk_page_is_an_invalid_answer(server: FakeServer, client: Client, junk: object) -> None:
    server.on("GET /sessions/", Reply(junk))
    with pytest.raises(InvalidAnswer):
        list(client.sessions())


@pytest.mark.parametrize("bad", ["a\udcff", ["fine", "\ud800"], object()])
def test_what_is_no_json_is_not_sent_and_named(
    server: FakeServer, client: Client, bad: object
) -> None:
    with pytest.raises(InvalidRequest, match=r"^name: cannot be sent as JSON: [^E]"):
        client.session_create(command=["true"], name=bad)
    assert server.calls == []


def test_an_error_page_of_a_proxy_is_an_api_error(server: FakeServer, client: Client) -> None:
    server.on("GET /whoami/", Reply(b"<h1>No</h1>", 403, "text/html"))
    with pytest.raises(ApiError, match="Forbidden: <h1>No</h1>"):
        client.whoami()


def test_a_dead_server_is_unreachable(server: FakeServer) -> None:
    server.close()
    with Client(server.url, TOKEN) as client, pytest.raises(ServerUnreachable, match=server.url):
        client.session_create(image="busybox")


@pytest.mark.parametrize(
    "url", ["", "reprise.example", "ftp://host", "http://", "http://host:port"]
)
def test_a_wrong_address_is_refused_at_once(url: str) -> None:
    with pytest.raises(ConfigError):
        Client(url, TOKEN)


def test_a_broken_token_is_refused_without_being_shown() -> None:
    with pytest.raises(ConfigError) as caught:
        Client("http://127.0.0.1", "secret\nsecret")
    assert "secret" not in str(caught.value)
