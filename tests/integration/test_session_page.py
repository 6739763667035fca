"""The page of one session and its parts, as a browser asks for them."""

import re
from collections.abc import Collection
from datetime import timedelta
from html import unescape
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from retry.evidence.termination import Termination
from scheduler.models import Executor
from sessions_app.models import LogChunk, Project, RetryDecision, Session
from sessions_app.models.tenants import Role
from sessions_app.services.chains.dispatch import retries_dispatch
from sessions_app.services.chains.settle import End, sessions_settle
from tests import factories
from tests.agent import agent
from tests.pages import STRICT, client, owner, project, signed_in

__all__ = ["client", "owner", "project"]

PARTS = (
    "attempts/?first=1&last=3",
    "steps/",
    "log/",
    "log/more/?after=0&reached=0",
    "log/download/",
    "pod/",
    "compare/",
    "what-if/",
    "dependencies/",
)
HTMX = {"HX-Request": "true"}


def at(session: Session, part: str = "") -> str:
    return f"/sessions/{session.pk}/{part}"


def text(client: Client, path: str, **options: Any) -> str:
    """What a reader of a page or a part sees."""
    response = client.get(path, **options)
    assert response.status_code == 200, path
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", response.content.decode())).split())


def failed(project: Project, *ends: dict[str, Any], **fields: Any) -> list[Session]:
    """A chain whose attempts ended so and were retried at once; the last one may wait."""
    asked = {"retry_policy": factories.policy(max_retries=3, max_preemption_retries=200), **fields}
    chain = [factories.submit(project, **asked)]
    for facts in ends:
        factories.settle(factories.start(chain[-1]), **facts)
        if retries_dispatch().dispatched:
            chain.append(factories.tip(chain[-1]))
    return chain


def write(session: Session, data: bytes) -> None:
    end = LogChunk.objects.filter(session_id=session.pk).count()
    size = (
        sum(len(bytes(c.data)) for c in LogChunk.objects.filter(session_id=session.pk))
        if end
        else 0
    )
    LogChunk.objects.create(session_id=session.pk, offset=size, data=data)


class TestAccess:
    @pytest.mark.parametrize("part", PARTS)
    def test_a_part_is_shown_to_whom_the_page_is_shown(self, project: Project, part: str) -> None:
        (session, *_) = failed(project, {"exit_code": 1})
        write(session, b"secret line\n")
        stranger = signed_in(factories.user(project=factories.project("elsewhere")))
        viewer = signed_in(factories.user(project=project, role=Role.VIEWER))

        assert stranger.get(at(session, part)).status_code == 404
        assert stranger.post(at(session, part)).status_code in {404, 405}
        assert Client().get(at(session, part)).status_code == 302
        assert Client().get(at(session, part), headers=HTMX).status_code == 302
        assert viewer.get(at(session, part)).status_code == 200
        assert viewer.get(f"/sessions/{uuid4()}/{part}").status_code == 404

    @pytest.mark.parametrize("part", ["steps/", "log/", "pod/", "compare/", "what-if/"])
    def test_a_part_is_a_page_of_its_own_without_scripts(
        self, client: Client, project: Project, part: str
    ) -> None:
        (session, *_) = failed(project, {"exit_code": 1})
        whole = client.get(at(session, part)).content.decode()
        alone = client.get(at(session, part), headers=HTMX).content.decode()

        assert whole.lstrip().startswith("<!doctype html>")
        assert "<html" not in alone
        assert f'href="{at(session)}"' in whole

    def test_a_viewer_sees_no_values_in_a_comparison(self, project: Project, owner: User) -> None:
        chain = failed(project, {"exit_code": 1}, environ={"KEY": "hidden-value"})
        viewer = signed_in(factories.user(project=project, role=Role.VIEWER))

        assert "hidden-value" not in text(viewer, at(chain[0], "compare/"))


class TestPage:
    def test_it_says_what_binds_the_session(self, client: Client, project: Project) -> None:
        first, second = failed(project, {"exit_code": 7})
        assert "Retried as attempt 2 , which is PENDING." in text(client, at(first))
        factories.settle(factories.start(second), status="terminated", exit_code=0)
        assert "Succeeded after 1 retry." in text(client, at(second))
        lone = factories.settle(factories.start(factories.submit(project)), exit_code=7)
        shown = text(client, at(lone))
        assert "Not retried : nobody asked for retries." in shown
        assert "The cause is kernel nonzero exit, exit code 7." in shown

    def test_heavy_parts_come_after_it(self, client: Client, project: Project) -> None:
        first, _ = failed(project, {"exit_code": 1})
        write(first, b"a line of the log\n")
        html = client.get(at(first)).content.decode()

        assert "a line of the log" not in html
        for part in ("log", "compare", "pod", "what-if", "steps"):
            assert f'hx-get="{at(first, part)}/"' in html
            assert f'href="{at(first, part)}/"' in html

    def test_preemptions_are_folded_and_can_be_opened(
        self, client: Client, project: Project
    ) -> None:
        preempted = {"conditions": ("Preempted",)}
        chain = failed(project, {"exit_code": 1}, *[preempted] * 4, {"exit_code": 1})
        html = client.get(at(chain[-1])).content.decode()

        assert "4 preempted on 1 node" in html
        assert '<details id="fold-2"' in html
        folded = client.get(f"{at(chain[-1], 'attempts/')}?first=2&last=5").content.decode()
        assert re.findall(r">Attempt (\d):", folded) == ["2", "3", "4", "5"]
        assert html.count('<th scope="row"><a') == 3
        unfolded = client.get(f"{at(chain[-1])}?attempts=all").content.decode()
        assert "fold-2" not in unfolded
        assert unfolded.count('<th scope="row"><a') == 7

    @pytest.mark.parametrize("query", ["", "first=1", "first=x&last=2", "first=1&last=-2"])
    def test_folded_attempts_are_named_by_two_numbers(
        self, client: Client, project: Project, query: str
    ) -> None:
        session = factories.submit(project)
        assert client.get(f"{at(session, 'attempts/')}?{query}").status_code == 404

    @pytest.mark.parametrize("part", ["", *(part for part in PARTS if "more" not in part)])
    def test_statements_do_not_grow_with_attempts(
        self, client: Client, project: Project, part: str
    ) -> None:
        few = failed(project, *[{"conditions": ("Preempted",)}] * 2, {"exit_code": 1})
        client.get(at(few[-2], part))  # what is read once for each process
        counts = []
        for chain in (few, long_chain(project, 150)):
            write(chain[-2], b"one\n")
            with CaptureQueriesContext(connection) as queries:
                assert client.get(at(chain[-2], part)).status_code == 200
            counts.append(len(queries))

        # The copies know of no next attempt, whose lease would be read.
        assert counts[1] <= counts[0] <= 20


def long_chain(
    project: Project, attempts: int, failing: Collection[int] = (), apart: int = 7
) -> list[Session]:
    """A chain of this many attempts, made of copies of one that was preempted.

    Those `failing` failed by themselves; each began `apart` minutes after the one before.
    """
    first, second = failed(project, {"conditions": ("Preempted",)})
    factories.settle(factories.start(second), conditions=("Preempted",))
    decision = RetryDecision.objects.get(session=second)
    Session.objects.filter(pk=second.pk).update(tip=False, retry_state="retried")
    RetryDecision.objects.filter(pk=second.pk).update(state="final", due_at=None)
    rows = [first, Session.objects.get(pk=second.pk)]
    for number in range(2, attempts):
        row = Session.objects.get(pk=second.pk)
        if number in failing:
            row.retry_cause, row.exit_code = "kernel_nonzero_exit", 1 + number % 2
        ran = min(number % 9, apart - 1)
        for name in ("created_at", "scheduled_at", "started_at", "finished_at"):
            minutes = apart * number + (ran if name == "finished_at" else 0)
            setattr(row, name, getattr(row, name) + timedelta(minutes=minutes))
        row.retry_counters = dict.fromkeys(row.retry_counters, number)
        row.pk, row.retry_count, row.parent_id = uuid4(), number, rows[-1].pk
        row.retry_state = "retried" if number < attempts - 1 else "exhausted"
        row.creation_id, row.tip = f"{first.creation_id}:retry:{number}", number == attempts - 1
        row.save(force_insert=True)
        decision.pk, decision.state, decision.due_at = row.pk, "final", None
        if number == attempts - 1:
            decision.action, decision.reason = "fail", "preemption_budget"
        decision.save(force_insert=True)
        rows.append(row)
    return rows


class TestLog:
    def test_nothing_written_is_said(self, client: Client, project: Project) -> None:
        session = factories.start(factories.submit(project))
        assert "Nothing was written so far" in text(client, at(session, "log/"))
        factories.settle(session)
        assert "Nothing was written." in text(client, at(session, "log/"))

    def test_colours_are_classes_and_the_rest_is_text(
        self, client: Client, project: Project
    ) -> None:
        session = factories.submit(project)
        write(session, b"\x1b[1;31mred\x1b[0m <b>\x1b[48;5;46mon green\x1b[0m\x00\n")
        html = client.get(at(session, "log/")).content.decode()

        assert '<span class="ansi-bold ansi-1">red</span> &lt;b&gt;' in html
        assert '<span class="ansi-on-2">on green</span>' in html
        assert "style=" not in html
        assert "\x1b" not in html

    def test_pages_lead_through_the_whole_log(self, client: Client, project: Project) -> None:
        session = factories.settle(factories.submit(project))
        write(session, b"".join(b"line %d\n" % number for number in range(1200)))
        path, seen = at(session, "log/") + "?at=0", []
        while path:
            html = client.get(path).content.decode()
            seen += re.findall(r">line (\d+)\n<", html)
            later = re.search(r'id="log-later" href="([^"]+)"', html)
            path = unescape(later[1]) if later else ""
        assert seen == [str(number) for number in range(1200)]
        earlier = re.search(r'id="log-earlier" href="([^"]+)"', html)
        assert earlier
        assert ">line 999\n" in client.get(unescape(earlier[1])).content.decode()

    def test_a_search_says_how_much_it_read(self, client: Client, project: Project) -> None:
        session = factories.submit(project)
        write(session, b"epoch 1\nepoch 2: NaN\nepoch 3: nan & more\n")
        shown = text(client, at(session, "log/") + "?q=nan")
        assert "2 lines with nan in the whole log of" in shown
        html = client.get(at(session, "log/") + "?q=nan").content.decode()
        link = re.search(r'<li><a href="([^"]+)"', html)
        assert link
        assert (
            '<span class="line hit" id="byte-8">' in client.get(unescape(link[1])).content.decode()
        )

    def test_the_error_is_jumped_to(self, client: Client, project: Project) -> None:
        session = factories.submit(project)
        write(session, b"fine\n" * 3000 + b"ValueError: broken\n" + b"fine\n" * 3000)
        html = client.get(at(session, "log/") + "?find=error").content.decode()
        assert re.search(r'<span class="line hit" id="byte-15000">ValueError: broken', html)
        quiet = factories.submit(project)
        write(quiet, b"fine\n")
        assert "No line looks like an error" in text(client, at(quiet, "log/") + "?find=error")

    def test_the_message_of_the_end_is_jumped_to(self, client: Client, project: Project) -> None:
        session = factories.submit(project)
        write(session, b"fine\nthe loss became infinite\n")
        factories.settle(factories.start(session), exit_code=3, message="the loss became infinite")
        html = client.get(at(session, "log/") + "?find=error").content.decode()
        assert '<span class="line hit" id="byte-5">the loss' in html

    def test_what_is_written_follows(self, client: Client, project: Project) -> None:
        session = factories.start(factories.submit(project))
        write(session, b"one\ntw")
        html = client.get(at(session, "log/"), headers=HTMX).content.decode()
        more = re.search(r'id="log-more" hx-get="([^"]+)"', html)
        assert more
        again = unescape(more[1])
        assert client.get(again, headers=HTMX).status_code == 204
        write(session, b"o\nthree\n")
        answer = client.get(again, headers=HTMX).content.decode()
        assert re.findall(r'id="byte-(\d+)">([^<]*)\n', answer) == [("4", "two"), ("8", "three")]
        more = re.search(r'id="log-more" hx-get="([^"]+)"', answer)
        assert more
        factories.settle(session)
        ended = client.get(unescape(more[1]), headers=HTMX)
        assert ended.status_code == 200
        assert b"hx-get" not in ended.content
        assert b'<span id="log-following" hx-swap-oob="true"></span>' in ended.content

    def test_progress_is_left_out_unless_asked(self, client: Client, project: Project) -> None:
        session = factories.start(factories.submit(project))
        told = b'::reprise:: {"step": 1}\n'
        write(session, b"one\n" + told + b"two\n" + told)
        log = at(session, "log/")
        for path, number in ((log, 0), (f"{log}?progress=show", 2), (f"{log}?show=4", 1)):
            html = client.get(path, headers=HTMX).content.decode()
            assert html.count("::reprise::") == number
            assert ">one\n" in html
            assert ">two\n" in html
            more = re.search(r'id="log-more" hx-get="([^"]+)"', html)
            assert more
            assert ("progress=show" in more[1]) is (number == 2)
        for shown in ("", "&progress=show"):
            part = client.get(at(session, f"log/more/?after=0&reached=0{shown}"))
            assert (b"::reprise::" in part.content) is bool(shown)

    def test_much_output_is_not_followed_for_ever(self, client: Client, project: Project) -> None:
        session = factories.start(factories.submit(project))
        write(session, b"one\n")
        path = at(session, "log/more/") + "?after=0&reached=0&shown=5000"
        answer = client.get(path, headers=HTMX).content.decode()
        assert "go on at its end" in answer
        assert "log-more" not in answer

    @pytest.mark.parametrize(
        ("query", "names"),
        [("at=x", "at"), ("show=-1&find=me", "find, show"), ("q=%00", "q"), ("since=9e9", "since")],
    )
    def test_junk_is_named_and_left_out(
        self, client: Client, project: Project, query: str, names: str
    ) -> None:
        session = factories.submit(project)
        write(session, b"one\n")
        shown = text(client, at(session, "log/") + f"?{query}")
        assert f"Not understood, so left out: {names}." in shown
        more = client.get(at(session, "log/more/") + "?after=x&reached=0")
        assert (more.status_code, more.content) == (400, b"Not understood: after.")

    @pytest.mark.parametrize("query", ["at=999999", "show=999999", "q=x&since=999999"])
    def test_offsets_after_the_end_are_no_errors(
        self, client: Client, project: Project, query: str
    ) -> None:
        session = factories.submit(project)
        write(session, b"one\n")
        assert client.get(at(session, "log/") + f"?{query}").status_code == 200

    def test_the_whole_log_is_a_file(self, client: Client, project: Project) -> None:
        session = factories.submit(project)
        data = bytes(range(256)) * 2000
        write(session, data[:400_000])
        write(session, data[400_000:])
        response = client.get(at(session, "log/download/"))
        assert b"".join(response.streaming_content) == data  # type: ignore[attr-defined]
        assert response["Content-Disposition"].startswith('attachment; filename="session-')


class TestParts:
    def test_the_pod_is_shown_as_its_cluster_saw_it(self, client: Client, project: Project) -> None:
        facts = {
            "exit_code": 137,
            "conditions": ("OOMKilled",),
            "pod_message": "The node was low on memory",
            "message": "<b>last words</b>",
            "node": "n7",
        }
        (session, *_) = failed(project, facts)
        shown = text(client, at(session, "pod/"))
        for said in ("n7", "137", "OOMKilled", "The node was low on memory", "<b>last words</b>"):
            assert said in shown
        running = factories.start(factories.submit(project))
        assert "recorded when the attempt ends" in text(client, at(running, "pod/"))

    def test_two_attempts_beside_each_other(self, client: Client, project: Project) -> None:
        chain = failed(project, {"exit_code": 1, "node": "n1"}, {"exit_code": 2, "node": "n2"})
        write(chain[0], b"start\nstep 1 of 2\nend\n")
        write(chain[1], b"start\nstep 1 of 3\nend\n")
        html = client.get(at(chain[1], "compare/")).content.decode()
        assert '<td class="removed"><span class="unseen">differs: </span>step 1 of 2</td>' in html
        assert '<td class="added"><span class="unseen">differs: </span>step 1 of 3</td>' in html
        shown = text(client, at(chain[1], "compare/"))
        assert "Node changed n1 n2" in shown
        assert "Exit code changed 1 2" in shown
        named = text(client, at(chain[1], "compare/") + f"?with={chain[0].pk}&part=start")
        assert "The first 400 lines of both logs" in named
        for wrong in ("x", str(uuid4()), "%00"):
            assert client.get(at(chain[1], "compare/") + f"?with={wrong}").status_code == 404

    def test_a_lone_attempt_has_nothing_beside_it(self, client: Client, project: Project) -> None:
        session = factories.submit(project)
        assert "only attempt so far" in text(client, at(session, "compare/"))
        assert 'id="compare"' not in client.get(at(session)).content.decode()


class TestWhatIf:
    def test_a_pasted_policy_is_tried_from_here(self, client: Client, project: Project) -> None:
        first, _ = failed(project, {"exit_code": 65})
        response = client.post(at(first, "what-if/"), {"text": STRICT})
        shown = " ".join(re.sub(r"<[^>]*>", " ", response.content.decode()).split())
        assert response.status_code == 200
        assert "With it: not retried . As it was: another attempt" in shown
        assert "no retry: a rule says so (strict/bad-input)" in shown
        assert "would not have run" in shown or "has not ended" in shown

    def test_an_open_breaker_holds_the_newest_retry(self, client: Client, project: Project) -> None:
        policy = factories.policy(max_retries=3)
        first = factories.start(factories.submit(project, retry_policy=policy))
        factories.settle(first, exit_code=65)
        first.refresh_from_db()
        factories.breaker(project, signature=first.failure_signature)
        shown = client.post(at(first, "what-if/"), {"max_retries": "2"}).content.decode()
        assert ", held until the breaker of its signature closes: " in shown

    def test_a_saved_policy_and_a_number_of_retries(self, client: Client, project: Project) -> None:
        rule = {"name": "bad", "action": "Fail", "onExitCodes": {"operator": "In", "values": [1]}}
        factories.named_policy("saved", project=project, rules=[rule])
        first, second = failed(project, {"exit_code": 1})
        form = text(client, at(first, "what-if/"))
        assert "saved" in form
        chosen = client.post(at(first, "what-if/"), {"policy": "saved"}).content.decode()
        assert "saved/bad" in chosen
        none = client.post(at(first, "what-if/"), {"max_retries": "0"}).content.decode()
        assert "no retry" in none
        words = client.post(at(first, "what-if/"), {"max_retries": "unlimited"}).content.decode()
        assert "retry after" in words
        assert "no retry" not in words
        assert "has nothing" not in text(client, at(second, "what-if/"))

    @pytest.mark.parametrize(
        ("sent", "said"),
        [
            ({"text": "kind: ["}, "The text is not"),
            ({"text": STRICT.replace("Fail", "Fall")}, "spec.rules[0].action (line 7)"),
            ({"text": STRICT + "---\n" + STRICT}, "Two documents have the name strict"),
            ({"policy": "nowhere"}, "No policy nowhere can be named in this project."),
            ({"policy": "x\x00y"}, "Null characters are not allowed"),
            ({"max_retries": "many"}, "Enter a whole number"),
            ({"max_retries": "-1"}, "greater than or equal to 0"),
        ],
    )
    def test_bad_input_is_said_at_its_field(
        self, client: Client, project: Project, sent: dict[str, str], said: str
    ) -> None:
        first, _ = failed(project, {"exit_code": 1})
        response = client.post(at(first, "what-if/"), sent)
        (field,) = sent
        error = re.search(rf'id="field-{field}-error"[^>]*>([^<]*)<', response.content.decode())
        assert response.status_code == 400
        assert error
        assert said in unescape(error[1])

    def test_policies_of_other_projects_are_not_offered(
        self, client: Client, project: Project
    ) -> None:
        factories.named_policy("foreign", project=factories.project("elsewhere"), rules=[])
        first, _ = failed(project, {"exit_code": 1})
        assert "foreign" not in text(client, at(first, "what-if/"))
        response = client.post(at(first, "what-if/"), {"policy": "foreign"})
        assert response.status_code == 400

    def test_before_the_end_there_is_nothing_to_try(self, client: Client, project: Project) -> None:
        session = factories.start(factories.submit(project))
        assert "nothing to decide yet" in text(client, at(session, "what-if/"))


def test_the_page_shows_how_far_a_session_is(client: Client, project: Project) -> None:
    session = factories.start(factories.submit(project))
    assert 'id="progress"' not in client.get(at(session)).content.decode()
    progress = {"step": 25, "of": 100, "note": "epoch 2", "best": 40, "rate": 2.5}
    saved = {"checkpoint": "s3://b/20", "checkpoint_step": 20}
    end = End(Termination(exit_code=1), progress={**progress, **saved})
    sessions_settle({session.pk: end})
    html = client.get(at(session)).content.decode()
    assert '<progress id="progress-bar" value="25" max="100">' in html
    shown = text(client, at(session))
    assert "step 25 of 100 (25 %) best step 40, 2.5/s, epoch 2" in shown
    assert "Checkpoint of step 20: s3://b/20" in shown


def test_the_page_says_that_the_executor_is_silent(client: Client, project: Project) -> None:
    session = factories.submit(project)
    agent("gpu").lease()
    assert "Getting ready" in text(client, at(session))
    Executor.objects.update(last_seen_at=timezone.now() - timedelta(minutes=3))
    shown = text(client, at(session))
    assert "No word from executor gpu for 3 min" in shown
    assert "If the silence lasts, it counts as lost" in shown
    session.refresh_from_db()
    factories.settle(session, exit_code=1)
    assert "No word" not in text(client, at(session))
