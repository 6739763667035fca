"""Failure categories through the admin: their order, their matchers as YAML, what is refused."""

from typing import Any

import pytest
from django.test import Client

from interfaces.admin.failure_categories import EXAMPLE
from sessions_app.in_force.named_policies import failure_categories
from sessions_app.models import FailureCategory
from tests.audit import audited_acts
from tests.integration.admin import errors_of, operator, text_of, url

CATEGORY = "sessions_app_failurecategory"
CODE_7 = "- onExitCodes: {operator: In, values: [7]}\n"
MESSAGE = "- onTerminationMessage: {pattern: CUDA}\n- onConditions: [OOMKilled]\n"


@pytest.fixture
def client() -> Client:
    return operator()


def add(client: Client, name: str, matchers: str = CODE_7, **fields: Any) -> Any:
    sent = {"name": name, "matchers": matchers, "position": "", **fields}
    return client.post(url(CATEGORY, "add"), sent)


def change(client: Client, row: FailureCategory, matchers: str, **fields: Any) -> Any:
    return client.post(url(CATEGORY, "change", row.pk), {"matchers": matchers, **fields})


def names(client: Client) -> list[str]:
    return [row.name for row in client.get(url(CATEGORY)).context["cl"].result_list]


def test_they_are_listed_in_the_order_in_which_they_are_tried(client: Client) -> None:
    for name, position in (("last", "9"), ("first", "-1"), ("b", "3"), ("a", "3")):
        assert add(client, name, position=position).status_code == 302
    add(client, "new")
    assert names(client) == ["first", "a", "b", "last", "new"]
    assert [each.name for each in failure_categories()] == names(client)


def test_a_new_one_begins_as_an_example_that_is_valid_as_it_is(client: Client) -> None:
    form = client.get(url(CATEGORY, "add")).context["adminform"].form
    assert form["matchers"].value() == EXAMPLE
    assert add(client, "cuda_error", EXAMPLE).status_code == 302
    answer = text_of(client.get(url(CATEGORY)))
    assert "message /CUDA error|NCCL/ or exit code 97, container main" in answer


def test_making_changing_and_deleting_are_audited(client: Client) -> None:
    add(client, "gpu")
    row = FailureCategory.objects.get()
    shown = client.get(url(CATEGORY, "change", row.pk)).context["adminform"].form
    change(client, row, shown["matchers"].value(), position="0")
    assert audited_acts().count() == 1, "what changes nothing leaves no entry"
    change(client, row, MESSAGE, position="")
    row.refresh_from_db()
    assert (row.position, len(row.matchers)) == (0, 2)
    change(client, row, MESSAGE, position="5", name="other")
    row.refresh_from_db()
    assert (row.position, row.name) == (5, "gpu")
    client.post(url(CATEGORY, "delete", row.pk), {"post": "yes"})
    assert not FailureCategory.objects.exists()
    entries = audited_acts().order_by("pk").values_list("actor", "action", "object_id")
    verbs = ("create", "change", "change", "delete")
    assert list(entries) == [("root", f"failure_category.{verb}", "gpu") for verb in verbs]
    assert client.get(url(CATEGORY, "change", row.pk)).status_code == 302


@pytest.mark.parametrize(
    ("matchers", "message"),
    [
        ("", "This field is required."),
        ("[", "The text is not valid YAML"),
        ("[]", "matchers: must have 1 to 100 items, not 0"),
        ("onExitCodes: {}", "matchers: must be a list"),
        ("- {}", "matchers[0] (line 1): needs a matcher"),
        ("# why\n- {onExitCode: 7}", "matchers[0].onExitCode (line 2): is not a known field"),
        (CODE_7 + "- containerName: main", "matchers[1] (line 2): needs a matcher"),
        ("- onPodMessage: {pattern: '('}", "matchers[0].onPodMessage.pattern (line 1): "),
        (CODE_7 + "- onSignatureTitle: {}", "matchers[1].onSignatureTitle.pattern (line 2): "),
    ],
)
def test_a_fault_is_told_with_its_path_and_its_line(
    client: Client, matchers: str, message: str
) -> None:
    page = add(client, "gpu", matchers)
    assert errors_of(page)["matchers"][0].startswith(message)
    if matchers:
        assert page.context["adminform"].form["matchers"].value() == matchers
    assert not FailureCategory.objects.exists()


@pytest.mark.parametrize("name", ["", "a/b", "x" * 64, " a", "a\x00"])
def test_a_name_that_no_rule_could_ask_for_is_refused(client: Client, name: str) -> None:
    page = add(client, name)
    if name != " a":  # Django takes the space away.
        assert list(errors_of(page)) == ["name"]
        assert not FailureCategory.objects.exists()


def test_a_taken_name_and_a_position_that_is_none_are_refused(client: Client) -> None:
    add(client, "gpu")
    assert list(errors_of(add(client, "gpu"))) == ["name"]
    for position in ("x", "1.5", str(2**31)):
        assert list(errors_of(add(client, "new", position=position))) == ["position"]
    assert FailureCategory.objects.count() == 1


def test_text_of_people_is_shown_and_never_run(client: Client) -> None:
    evil = "<script>alert(1)</script>"
    add(client, "gpu", f"- onPodMessage: {{pattern: '{evil}'}}\n")
    row = FailureCategory.objects.get()
    for page in (url(CATEGORY), url(CATEGORY, "change", row.pk), url(CATEGORY, "delete", row.pk)):
        assert "<script>alert" not in client.get(page).content.decode()
