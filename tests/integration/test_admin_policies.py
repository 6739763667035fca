"""Named policies through the admin: documents, refusals with their places, revisions, deletion."""

from typing import Any

import pytest
from django.test import Client

from interfaces.forms.policy_document import EXAMPLE
from interfaces.forms.revisions import difference
from interfaces.http.policy_text import read_policy
from retry.policies.documents import PolicyDocument
from retry.policies.unreachable_rules import unreachable_rules
from sessions_app.in_force.config_scope import ConfigScope
from sessions_app.models import Project, RetryPolicy, RetryPolicyRevision
from sessions_app.services.resources.policies import policy_apply
from sessions_app.services.resources.queues import queue_save
from sessions_app.services.resources.retry_config import retry_settings_put
from tests import factories
from tests.audit import audited_acts
from tests.integration.admin import errors_of, messages_of, operator, queries, text_of, url

POLICY = "sessions_app_retrypolicy"
EVIL = "<script>alert(1)</script>"
OOM = {"action": "Retry", "onConditions": ["OOMKilled"]}


@pytest.fixture
def client() -> Client:
    return operator()


@pytest.fixture
def project() -> Project:
    return factories.project("ml", domain="acme")


def document(name: str = "ml", *, scope: str = "", spec: str = "{retryLimit: 3}") -> str:
    return (
        f"apiVersion: reprise/v1\nkind: RetryPolicy\nmetadata: {{name: {name}{scope}}}\n"
        f"spec: {spec}\n"
    )


def add(client: Client, text: str, **options: Any) -> Any:
    return client.post(url(POLICY, "add"), {"text": text}, **options)


def edit(client: Client, policy: RetryPolicy, text: str, **sent: Any) -> Any:
    return client.post(url(POLICY, "change", policy.pk), {"text": text, **sent})


def delete(client: Client, policy: RetryPolicy) -> Any:
    return client.post(url(POLICY, "delete", policy.pk), {"post": "yes"}, follow=True)


def use(project: Project, *names: str) -> None:
    queue = project.queues.get(is_default=True)
    queue.retry_policies = list(names)
    queue_save(queue, by="root")


def limits() -> list[int | None]:
    rows = RetryPolicyRevision.objects.order_by("policy_id", "revision")
    return [row.document["spec"].get("retryLimit") for row in rows]


def test_a_new_one_begins_as_an_example_that_is_valid_as_it_is(client: Client) -> None:
    shown = client.get(url(POLICY, "add")).context["form"]["text"].value()
    assert shown == EXAMPLE
    assert unreachable_rules(read_policy(EXAMPLE)) == []
    page = add(client, EXAMPLE, follow=True)
    assert messages_of(page) == ["Revision 1 of my-policy decides from now on."]
    assert page.request["PATH_INFO"] == url(POLICY, "change", RetryPolicy.objects.get().pk)


def test_the_form_saves_the_same_as_rest_and_is_audited(client: Client, project: Project) -> None:
    text = document(scope=", domain: acme, project: ml", spec="{rules: [{action: Retry, "
    "onExitCodes: {operator: In, values: [137]}}]}")  # fmt: skip
    assert add(client, text).status_code == 302
    policy = RetryPolicy.objects.get()
    assert policy.project == project
    stored = policy.revisions.get().document
    assert PolicyDocument.model_validate(stored).document() == stored
    assert stored["spec"]["rules"][0]["onExitCodes"]["values"] == [137]
    entry = audited_acts().get()
    assert (entry.actor, entry.action) == ("root", "retry_policy.create")
    assert (entry.object_id, entry.project) == ("acme/ml/ml", "acme/ml")
    history = client.get(url(POLICY, "history", policy.pk), follow=True)
    assert "retry_policy.create" in text_of(history)


def test_an_edit_is_a_revision_and_the_same_again_is_none(client: Client) -> None:
    add(client, document(spec="{retryLimit: 1}"))
    policy = RetryPolicy.objects.get()
    shown = client.get(url(POLICY, "change", policy.pk)).context["form"]
    same: dict[str, Any] = {name: shown[name].value() for name in ("text", "revision")}
    page = client.post(url(POLICY, "change", policy.pk), same, follow=True)
    assert messages_of(page) == ["Nothing was changed: revision 1 has the same text."]
    edit(client, policy, document(spec="{retryLimit: 2}"), revision="1")
    assert limits() == [1, 2]
    assert [entry.action for entry in audited_acts().order_by("pk")] == [
        "retry_policy.create",
        "retry_policy.change",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "This field is required."),
        ("a: [", "The text is not valid YAML: did not find expected node content (line 2, col"),
        ("- a", "The text must be a YAML mapping"),
        ("a: 1\na: 2", "The text is not valid YAML: the key 'a' is repeated (line 2, column 1)"),
        ("!!python/object:os.system {}", "The text is not valid YAML: tags are not allowed"),
        (document().replace("spec:", "#"), "spec: is required"),
        (document().replace("v1", "v2"), "apiVersion (line 1): must be 'reprise/v1'"),
        (document(name="Ml"), "metadata.name (line 3): must be an RFC 1123 label"),
        (document(name="manual"), "metadata.name (line 3): must not be one of: inline, manual"),
        (document(spec="\n  retryLimt: 3"), "spec.retryLimt (line 5): is not a known field"),
        (
            document(
                spec="\n  rules:\n    - {action: Fail, onConditions: [Evicted]}\n"
                "    - action: Retry\n      onExitCodes:\n"
                "        operator: In\n        values: [1, 300]"
            ),
            "spec.rules[1].onExitCodes.values[1] (line 10): must be",
        ),
        (
            document(spec="\n  rules:\n    - action: Retry"),
            "spec.rules[0] (line 6): needs a matcher",
        ),
        (
            document(scope=", domain: nowhere"),
            "metadata.domain (line 3): no domain nowhere",
        ),
        (
            document(scope=", domain: acme, project: nowhere"),
            "metadata.project (line 3): no project acme/nowhere",
        ),
    ],
)  # fmt: skip
def test_a_fault_is_told_with_its_path_and_its_line(
    client: Client, project: Project, text: str, message: str
) -> None:
    page = add(client, text)
    (refusal,) = errors_of(page)["text"]
    assert refusal.startswith(message)
    assert page.context["form"]["text"].value() == text
    assert not RetryPolicy.objects.exists()
    assert not audited_acts().exists()


def test_every_fault_is_told_at_once(client: Client) -> None:
    page = add(client, document(name="-", spec="{retryLimit: -1, defaultAction: Perhaps}"))
    assert [each.split(" ")[0] for each in errors_of(page)["text"]] == [
        "metadata.name",
        "spec.retryLimit",
        "spec.defaultAction",
    ]


def test_a_taken_name_is_refused_with_the_place_that_has_it(
    client: Client, project: Project
) -> None:
    factories.named_policy("ml")
    (error,) = errors_of(add(client, document()))["text"]
    assert error == "metadata.name (line 3): cluster has a retry policy 'ml' already"
    (error,) = errors_of(add(client, document(scope=", domain: acme")))["text"]
    assert "the cluster has a retry policy 'ml', which this one would shadow" in error


def test_name_and_scope_of_a_policy_stay(client: Client, project: Project) -> None:
    policy = factories.named_policy("ml")
    (error,) = errors_of(edit(client, policy, document(name="other")))["text"]
    assert error == "metadata.name (line 3): must stay 'ml'"
    (error,) = errors_of(edit(client, policy, document(scope=", domain: acme")))["text"]
    assert error == "metadata.domain (line 3): must be absent here"
    assert RetryPolicy.objects.get().revision == 1


def test_nobody_overwrites_an_edit_that_they_have_not_seen(client: Client) -> None:
    policy = factories.named_policy("ml", retryLimit=1)
    newer = read_policy(document(spec="{retryLimit: 2}"))
    policy_apply(newer, ConfigScope(), by="bob")
    mine = document(spec="{retryLimit: 9}")
    page = edit(client, policy, mine, revision="1")
    (text,) = errors_of(page)["__all__"]
    assert "not at revision 1 any more: bob made revision 2" in text
    assert "Save again to replace it." in text_of(page)
    assert limits() == [1, 2]
    again = page.context["form"]
    assert again["text"].value() == mine
    edit(client, policy, mine, revision=again["revision"].value())
    assert limits() == [1, 2, 9]


def test_a_rule_that_is_never_reached_is_warned_of(client: Client) -> None:
    spec = "{rules: [{action: Fail, onConditions: [OOMKilled]}, {name: late, action: Retry, "
    spec += "onConditions: [OOMKilled]}]}"
    page = add(client, document(spec=spec), follow=True)
    assert messages_of(page) == ["Revision 1 of ml decides from now on."]
    warning = "Rules that never decide: spec.rules[1] (late) is never reached"
    assert warning in text_of(page)
    assert warning in text_of(client.get(url(POLICY, "revision", RetryPolicy.objects.get().pk, 1)))


def test_the_list_says_scope_rules_and_places(client: Client, project: Project) -> None:
    factories.named_policy("wide", rules=[OOM])
    factories.named_policy("narrow", project=project)
    factories.named_policy("middle", domain=project.domain)
    use(project, "wide", "narrow")
    retry_settings_put(ConfigScope(), by="root", default_policy="wide")
    page = client.get(url(POLICY))
    rows = {row.name: row.details for row in page.context["cl"].result_list}
    assert {name: (row.rules, row.places) for name, row in rows.items()} == {
        "middle": (0, []),
        "narrow": (0, ["acme/ml/default"]),
        "wide": (1, ["the default", "acme/ml/default"]),
    }
    assert "the cluster" in text_of(page)
    assert "project acme/ml" in text_of(page)


def test_filters_and_search(client: Client, project: Project) -> None:
    factories.named_policy("wide")
    factories.named_policy("narrow", project=project)
    factories.named_policy("middle", domain=project.domain)
    archived(project)
    cases = {
        "": {"wide", "narrow", "middle", "old"},
        "?level=cluster": {"wide", "old"},
        "?level=domain": {"middle"},
        "?level=project": {"narrow"},
        "?state=archived": {"old"},
        "?state=in force": {"wide", "narrow", "middle"},
        f"?project__id__exact={project.pk}": {"narrow"},
        f"?domain__id__exact={project.domain_id}": {"middle"},
        "?q=wi": {"wide"},
    }
    found = {
        query: {row.name for row in client.get(url(POLICY) + query).context["cl"].result_list}
        for query in cases
    }
    assert found == cases


def archived(project: Project) -> RetryPolicy:
    """One that a chain names still."""
    policy = factories.named_policy("old", rules=[OOM])
    factories.submit(project, retry_policies=["old"])
    delete(operator("deleter"), policy)
    policy.refresh_from_db()
    return policy


def test_deleting_asks_first_and_is_audited(client: Client) -> None:
    policy = factories.named_policy("ml")
    page = client.get(url(POLICY, "delete", policy.pk))
    assert "it continues to decide for them" in text_of(page)
    assert RetryPolicy.objects.exists()
    assert messages_of(delete(client, policy)) == ["The retry policy ml is deleted."]
    assert not RetryPolicy.objects.exists()
    assert audited_acts().latest("pk").action == "retry_policy.delete"


def test_deleting_what_is_named_is_refused_with_the_places(
    client: Client, project: Project
) -> None:
    policy = factories.named_policy("ml")
    use(project, "ml")
    retry_settings_put(ConfigScope(), by="root", default_policy="ml")
    before = audited_acts().count()
    page = client.get(url(POLICY, "delete", policy.pk))
    assert "default policy" in text_of(page)
    assert "queue acme/ml/default" in text_of(page)
    assert "Yes, delete it" not in text_of(page)
    queue = project.queues.get()
    assert f'href="{url("sessions_app_queue", "change", queue.pk)}"' in page.content.decode()
    (message,) = messages_of(delete(client, policy))
    assert message == (
        "Conflict: the retry policy 'ml' is named by 2 places, detach it first: "
        "queue acme/ml/default, the cluster's default_policy."
    )
    assert RetryPolicy.objects.get().archived_at is None
    assert audited_acts().count() == before


def test_one_that_chains_name_is_archived_and_can_be_brought_back(
    client: Client, project: Project
) -> None:
    policy = archived(project)
    assert policy.archived_at is not None
    page = client.get(url(POLICY, "change", policy.pk))
    assert "It continues to decide for them, but new chains cannot use it." in text_of(page)
    assert "Save and restore" in text_of(page)
    assert "is archived" in messages_of(delete(client, policy))[0]
    shown = page.context["form"]
    edit(client, policy, shown["text"].value(), revision=shown["revision"].value())
    policy.refresh_from_db()
    assert policy.archived_at is None


def revision(client: Client, policy: RetryPolicy, number: int) -> Any:
    return client.get(url(POLICY, "revision", policy.pk, number), follow=True)


def test_a_revision_shows_what_it_changed(client: Client) -> None:
    add(client, document(spec="{retryLimit: 1, defaultAction: Fail}"))
    policy = RetryPolicy.objects.get()
    edit(client, policy, document(spec="{retryLimit: 2, defaultAction: Fail}"))
    page = revision(client, policy, 2)
    changed = page.context["difference"]
    assert (changed.added, changed.removed) == (1, 1)
    lines = [(line.sign, line.text) for line in changed.lines]
    assert ("-", "spec: {retryLimit: 1, defaultAction: Fail}") in lines
    assert ("+", "spec: {retryLimit: 2, defaultAction: Fail}") in lines
    assert "1 line added and 1 removed since revision 1" in text_of(page)
    assert "This revision applies now." in text_of(page)
    first = revision(client, policy, 1)
    assert first.context["difference"] is None
    assert "Revision 2 applies now." in text_of(first)
    assert f'href="{url(POLICY, "revision", policy.pk, 2)}"' in first.content.decode()
    old = client.get(url(POLICY, "change", policy.pk) + "?revision=1").context["form"]
    assert "retryLimit: 1" in old["text"].value()
    assert old["revision"].value() == 2


@pytest.mark.parametrize("number", [0, 3, 10**12])
def test_a_revision_that_never_was_is_said_to_be_missing(client: Client, number: int) -> None:
    policy = factories.named_policy("ml")
    assert "Perhaps it was deleted" in messages_of(revision(client, policy, number))[0]
    assert client.get(url(POLICY, "revision", 99, 1)).status_code == 302


@pytest.mark.parametrize("query", ["?revision=x", "?revision=99", "?revision=²", "?revision=%00"])
def test_junk_in_place_of_a_revision_shows_the_present_one(client: Client, query: str) -> None:
    policy = factories.named_policy("ml", retryLimit=4)
    page = client.get(url(POLICY, "change", policy.pk) + query)
    assert "retryLimit: 4" in page.context["form"]["text"].value()


def test_a_name_is_shown_as_it_is_written(client: Client) -> None:
    policy = factories.named_policy("ml")
    page = client.get(url(POLICY, "change", policy.pk)).content.decode()
    assert ">ml</a>" in page
    assert ">Ml</a>" not in page


def test_text_of_people_is_shown_and_never_run(client: Client, project: Project) -> None:
    rule: dict[str, Any] = {"name": EVIL.replace("/", "|"), **OOM}
    policy = factories.named_policy("ml", rules=[rule, OOM])
    rule = {"action": "Retry", "onTerminationMessage": {"pattern": EVIL}}
    factories.named_policy("ml", rules=[rule])
    pages = [
        url(POLICY),
        url(POLICY, "change", policy.pk),
        url(POLICY, "revision", policy.pk, 1),
        url(POLICY, "revision", policy.pk, 2),
    ]
    texts = [client.get(page).content.decode() for page in pages]
    texts.append(add(client, document(spec=f"{{'{EVIL}': 1}}")).content.decode())
    for text in texts:
        assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in texts[1]


def test_a_page_takes_as_many_statements_for_many_revisions_and_places(
    client: Client, project: Project
) -> None:
    policy = factories.named_policy("ml", retryLimit=0)

    def grow(number: int) -> list[int]:
        for _ in range(number):
            policy.refresh_from_db()
            factories.named_policy("ml", retryLimit=policy.revision)
            queue = factories.queue(project)
            queue.retry_policies = ["ml"]
            queue_save(queue, by="root")
        change = url(POLICY, "change", policy.pk)
        return [queries(client, page) for page in (change, url(POLICY, "revision", policy.pk, 2))]

    assert grow(2) == grow(60)
    page = client.get(url(POLICY, "change", policy.pk))
    assert "Revision 13 and older ones" in text_of(page)


def test_a_difference_shows_the_lines_around_a_change() -> None:
    before = "\n".join(f"line {number}" for number in range(20))
    after = before.replace("line 10\n", "").replace("line 11", "line eleven")
    text = [f"{line.sign}{line.text}" for line in difference(before, after).lines]
    assert text == [
        "…", "line 7", "line 8", "line 9", "-line 10", "-line 11", "+line eleven",
        "line 12", "line 13", "line 14", "…",
    ]  # fmt: skip
    assert difference(before, before).lines == []
