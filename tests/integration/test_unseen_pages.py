"""Characters that nobody sees are marked on pages, and refused in images."""

import pytest
from django.contrib.auth.models import User
from django.template.loader import get_template
from django.test import Client
from reprise_client.cli import unseen as of_client

from base.podspec import unseen
from base.podspec.specification import problem
from base.podspec.unseen import marked
from interfaces.web.terminal import terminal_lines
from sessions_app.models import Project, Session
from sessions_app.services.sessions.log_pages import Line
from tests import factories
from tests.agent import Agent, Api, failed
from tests.pages import lead, project, signed_in

__all__ = ["lead", "project"]
TURNED = "gnp\u202egpj.exe"
"""Read from right to left its end looks like `exe.jpg`."""
HIDDEN = "pass\u200bword"


@pytest.mark.parametrize("image", [TURNED, "train\u200b:1", "train:1\ufeff", "a\u2066b", "a\nb"])
@pytest.mark.parametrize("where", ["image", "pod_spec", "changes", "schedule"])
def test_an_image_that_nobody_can_read_is_refused(
    api: Api, at: Project, image: str, where: str
) -> None:
    pod = {"containers": [{"name": "main", "image": image}]}
    session = factories.settle(factories.start(factories.submit(at, owner=owner_of(api))))
    body, template = {"project": at.address}, {"command": ["true"]}
    path, sent, field = {
        "image": ("sessions/", body | {"image": image}, "image"),
        "pod_spec": ("sessions/", body | {"pod_spec": pod}, "pod_spec"),
        "changes": (
            f"sessions/{session.pk}/retry/",
            {"changes": {"image": image}},
            "changes.image",
        ),
        "schedule": (
            "schedules/",
            body | {"name": "s", "every": 60, "template": template | {"image": image}},
            "template.image",
        ),
    }[where]
    answer = api.post(path, sent)
    assert answer.status_code == 400, answer.content
    (text,) = answer.json()["errors"][field]
    assert "must not contain control, invisible or direction-changing characters" in text
    assert Session.objects.count() == 1


def owner_of(api: Api) -> User:
    return User.objects.get(username=api.read("whoami/")["username"])


def test_images_of_all_containers_of_a_pod_are_looked_at() -> None:
    for kind in ("containers", "initContainers", "ephemeralContainers"):
        pod = {"containers": [{"name": "main"}], kind: [{"name": "a", "image": TURNED}]}
        assert (problem({"spec": pod}) or "").startswith(f"spec.{kind}[0].image: must not contain")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext\r\n", "plain\ttext\r\n"),
        ("käse → 日本", "käse → 日本"),
        (TURNED, "gnp<U+202E>gpj.exe"),
        (HIDDEN, "pass<U+200B>word"),
        ("\x1b[31m", "<U+001B>[31m"),
        ("a\u200db", "a<U+200D>b"),
        ("\u200c", "<U+200C>"),
        # A joiner in Persian, and in an emoji.
        ("\u0645\u06cc\u200c\u062e", "\u0645\u06cc\u200c\u062e"),
        ("👩\u200d💻", "👩\u200d💻"),
        ("\U000e0041", "<U+E0041>"),
    ],
)
def test_what_is_marked(text: str, shown: str) -> None:
    assert marked(text) == of_client.marked(text) == shown


def test_server_and_command_know_the_same_characters() -> None:
    for code in (*range(0x3200), *range(0xF900, 0x10000), *range(0xE0000, 0xE1100)):
        if 0xD800 <= code < 0xE000:
            continue
        assert marked(chr(code)) == of_client.marked(chr(code)), hex(code)


def test_a_page_marks_them_in_titles_messages_events_and_logs(
    api: Api, at: Project, played: Agent
) -> None:
    made = api.post("sessions/", {"project": at.address, "command": ["a", TURNED]}).json()
    session = Session.objects.get(pk=made["id"])
    failed(played, session, message=f"OSError: cannot read {TURNED}")
    Session.objects.update(status_message=HIDDEN, failure_title=f"OSError: {TURNED}")
    html = signed_in(factories.user(project=at)).get(f"/sessions/{session.pk}/").content.decode()
    assert "pass&lt;U+200B&gt;word" in html
    assert "OSError: gnp&lt;U+202E&gt;gpj.exe" in html
    assert not [each for each in html if unseen.has_unseen(each) and each not in "\n\t\r"]


def test_a_form_keeps_what_it_sends_back(lead: Client, project: Project) -> None:
    session = factories.submit(
        project, command=["echo", "x"], pod_spec={"containers": [{"args": [HIDDEN]}]}
    )
    factories.settle(factories.start(session))
    html = lead.get(f"/sessions/{session.pk}/retry/").content.decode()
    assert HIDDEN in html


def test_lines_of_a_log_lose_no_colour() -> None:
    shown = terminal_lines([Line(0, f"\x1b[31mred\x1b[0m {TURNED}")])
    assert marked(shown) == (
        '<span class="line" id="byte-0"><span class="ansi-1">red</span> gnp<U+202E>gpj.exe\n</span>'
    )


@pytest.mark.parametrize("template", ["base.html", "login.html", "style.html"])
def test_no_template_has_any(template: str) -> None:
    source = get_template(template).template.source  # type: ignore[attr-defined]
    assert marked(source) == source
