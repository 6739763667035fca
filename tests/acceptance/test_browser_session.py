"""The page of one session in a real browser: short and long chains, with and without a log."""

import pytest
from django.contrib.auth.models import User
from pytest_django.live_server_helper import LiveServer

from sessions_app.models import LogChunk, Project, Session
from tests import factories
from tests.acceptance.browsing import DESKTOP, PHONE, Browser, sign_in
from tests.acceptance.test_browser import ended_chain, owner, project
from tests.integration.test_session_page import at, long_chain
from tests.pages import STRICT

__all__ = ["owner", "project"]
pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

LINES = [
    b"\x1b[2m2026-03-01 12:00:%02d\x1b[0m \x1b[32mINFO\x1b[0m step %d of 900\n" % (n % 60, n)
    for n in range(900)
]
LOG, SHORT_LOG = b"".join(LINES), b"".join(LINES[:60])
BROKEN = b"\x1b[31mTraceback (most recent call last):\x1b[0m\n  File x\nValueError: broken\n"
PARTS = ("compare", "pod", "what-if")


def write(session: Session, data: bytes, offset: int = 0) -> int:
    """Store a piece of a log, and return where the next one begins."""
    LogChunk.objects.create(session_id=session.pk, offset=offset, data=data)
    return offset + len(data)


def open_all(browser: Browser) -> None:
    """Open everything that opens, and wait for what comes then."""
    browser.run("document.querySelectorAll('details').forEach((each) => each.open = true)")
    browser.wait(
        "[...document.querySelectorAll('[id$=-part]')].every((part) =>"
        " !part.querySelector(':scope > a:only-child, :scope > p > a:only-child'))"
    )


@pytest.mark.parametrize(
    ("name", "attempts"), [("three", 3), ("many", 150)], ids=["3 attempts", "150 attempts"]
)
def test_an_ended_chain_is_fit_for_all(
    browser: Browser,
    live_server: LiveServer,
    project: Project,
    owner: User,
    name: str,
    attempts: int,
) -> None:
    long = attempts > 3
    failing = (20, 21, 50, 90, 120, 149)
    chain = long_chain(project, attempts, failing) if long else ended_chain(project, owner)
    write(chain[-2], SHORT_LOG)
    end = write(chain[-1], SHORT_LOG)
    write(chain[-1], BROKEN, end)
    sign_in(browser, live_server, owner, at(chain[-1]))
    browser.wait("document.querySelector('#log .line') !== null")
    for size in (DESKTOP, PHONE):
        browser.look(size)
        browser.keep(f"session-{name}-{size[0]}")
    open_all(browser)
    browser.fit_for_all(f"session-{name}-open")


@pytest.mark.parametrize("started", [False, True], ids=["waits", "runs"])
def test_a_session_that_has_not_ended_is_fit_for_all(
    browser: Browser, live_server: LiveServer, project: Project, owner: User, started: bool
) -> None:
    session = factories.submit(project, owner=owner, name="train")
    if started:
        write(factories.start(session), SHORT_LOG)
    sign_in(browser, live_server, owner, at(session))
    browser.wait("document.querySelector('#log-part:not([hx-get])') !== null")
    open_all(browser)
    browser.fit_for_all(f"session-{'runs' if started else 'waits'}")


def test_each_part_is_a_page_that_is_fit_for_all(
    browser: Browser, live_server: LiveServer, project: Project, owner: User
) -> None:
    chain = ended_chain(project, owner)
    end = write(chain[1], SHORT_LOG)
    write(chain[1], BROKEN, end)
    sign_in(browser, live_server, owner, at(chain[1]))
    for part in ("steps", "log", *PARTS):
        browser.open(f"{live_server.url}{at(chain[1], part)}/")
        browser.fit_for_all(f"session-part-{part}")


def test_the_log_is_searched_and_read(
    browser: Browser, live_server: LiveServer, project: Project, owner: User
) -> None:
    session = ended_chain(project, owner)[0]
    end = write(session, LOG)
    end = write(session, BROKEN, end)
    write(session, b"after\n" * 700, end)
    sign_in(browser, live_server, owner, at(session))
    page = browser.page
    page.click("#log-error")
    page.wait_for_selector(".line.hit")
    assert "Traceback" in page.inner_text(".line.hit")
    assert browser.run(
        "((hit, log) => hit.top > log.top && hit.bottom < log.bottom)("
        "document.querySelector('.hit').getBoundingClientRect(),"
        "document.querySelector('#log').getBoundingClientRect())"
    )
    page.fill("#log-q", "STEP 1")
    page.press("#log-q", "Enter")
    page.wait_for_selector(".found")
    assert "111 lines with STEP 1 in the whole log" in page.inner_text(".found p")
    browser.keep("session-log-found")
    assert browser.violations() == []
    page.click("#log-hits li:nth-child(2) a")
    page.wait_for_selector(".line.hit")
    assert page.inner_text(".line.hit").strip().endswith("step 10 of 900")
    page.click("#log-wrap")
    page.wait_for_selector("#log.unwrapped")
    page.click("#log-end")
    browser.wait("document.querySelector('#log').innerText.trim().endsWith('after')")
    with page.expect_download() as download:
        page.click("a[download]")
    assert download.value.suggested_filename.startswith("session-")


def test_a_log_is_followed_to_its_end(
    browser: Browser, live_server: LiveServer, project: Project, owner: User
) -> None:
    session = factories.start(factories.submit(project, owner=owner))
    end = write(session, LOG)
    sign_in(browser, live_server, owner, at(session))
    browser.wait("document.querySelector('#log-more') !== null")
    end = write(session, b"a new line\nand a half", end)
    browser.wait("document.querySelector('#log').innerText.includes('and a half')")
    browser.wait("((n) => n.scrollHeight - n.clientHeight - n.scrollTop < 4)"
                 "(document.querySelector('#log'))")  # fmt: skip
    # Whoever reads further up is not disturbed, and the page goes on beside it.
    browser.run("document.querySelector('#log').scrollTop = 100")
    write(session, b" one\n", end)
    browser.wait("document.querySelector('#log').innerText.includes('and a half one')")
    assert browser.run("document.querySelector('#log').scrollTop") == 100
    factories.settle(session, status="terminated", exit_code=0)
    browser.wait("document.querySelector('#binding').innerText.includes('Succeeded')")
    browser.wait("document.querySelector('#log-more') === null")
    browser.wait("document.querySelector('#log-following').innerText === ''")
    assert browser.run("document.querySelector('#log').innerText.includes('a new line')")


def test_another_policy_is_tried_with_the_keyboard(
    browser: Browser, live_server: LiveServer, project: Project, owner: User
) -> None:
    session = ended_chain(project, owner)[0]
    sign_in(browser, live_server, owner, at(session))
    page = browser.page
    page.focus("#what-if > summary")
    browser.press("Enter")
    page.wait_for_selector("#field-text")
    page.focus("#field-text")
    browser.write(STRICT.replace("Fail", "Fall"))
    browser.press("Tab")
    browser.press("Enter")
    page.wait_for_selector("#field-text-error")
    assert "spec.rules[0].action (line 7)" in page.inner_text("#field-text-error")
    # The browser itself notes the 400 of the refused form.
    assert all("400" in each for each in browser.problems)
    browser.problems.clear()
    page.fill("#field-text", STRICT.replace("65", "137"))
    browser.press("Tab")
    browser.press("Enter")
    page.wait_for_selector(".outcome")
    assert "not retried" in page.inner_text(".outcome")
    browser.fit_for_all("session-what-if-result")


def test_an_attempt_with_another_policy_and_pod_is_asked_for_with_the_keyboard(
    browser: Browser, live_server: LiveServer, project: Project, owner: User
) -> None:
    pod = {"hostname": "one", "tolerations": [{"key": "spot", "operator": "Exists"}]}
    session = factories.submit(project, owner=owner, image="train:1", pod_spec=pod)
    factories.settle(factories.start(session))
    sign_in(browser, live_server, owner, at(session))
    page = browser.page
    page.focus("#retry-changes > summary")
    browser.press("Enter")
    page.wait_for_selector("#field-pod_spec")
    page.fill("#field-pod_spec", page.input_value("#field-pod_spec").replace("one", "two"))
    page.focus("#field-retry_policy")
    browser.write("max_retries: many")
    page.focus("#field-reason")
    browser.press("Enter")
    page.wait_for_selector("#field-retry_policy-error")
    assert "max_retries (line 1)" in page.inner_text("#field-retry_policy-error")
    # The browser itself notes the 400 of the refused form.
    assert all("400" in each for each in browser.problems)
    browser.problems.clear()
    browser.fit_for_all("session-retry-changes")
    page.fill("#field-retry_policy", "max_retries: 4")
    page.focus("#field-reason")
    browser.press("Enter")
    page.wait_for_selector("text=This is the new attempt.")
    child = factories.tip(session)
    assert child.spec.pod_spec == {**pod, "hostname": "two"}
    assert child.policy["max_retries"] == 4


def test_two_attempts_are_compared(
    browser: Browser, live_server: LiveServer, project: Project, owner: User
) -> None:
    chain = ended_chain(project, owner)
    write(chain[0], LOG + b"loss 1\n")
    write(chain[2], LOG + b"loss 2\n")
    sign_in(browser, live_server, owner, at(chain[2]))
    page = browser.page
    page.click("#compare > summary")
    page.wait_for_selector("#compare-with")
    page.select_option("#compare-with", str(chain[0].pk))
    page.click("#compare-part button")
    page.wait_for_selector(".beside .added")
    assert "loss 1" in page.inner_text(".beside .removed")
    assert "loss 2" in page.inner_text(".beside .added")


def test_folded_attempts_open_and_close(
    browser: Browser, live_server: LiveServer, project: Project, owner: User
) -> None:
    chain = long_chain(project, 150)
    sign_in(browser, live_server, owner, at(chain[-1]))
    page = browser.page
    assert page.locator("#timeline > ol > li").count() == 2
    page.click("#fold-1 > summary")
    page.click("#fold-1-part li:nth-child(3) a")
    page.wait_for_url(f"{live_server.url}{at(chain[2])}")
    page.click("text=Show all 150 attempts")
    page.wait_for_selector("text=Fold preempted and equal attempts")
    assert page.locator("#attempts tbody tr").count() == 150


def test_parts_are_read_without_javascript(
    browser: Browser, live_server: LiveServer, project: Project, owner: User
) -> None:
    chain = ended_chain(project, owner)
    end = write(chain[1], LOG)
    write(chain[1], BROKEN, end)
    browser.renew(javascript=False)
    sign_in(browser, live_server, owner, at(chain[1]))
    page = browser.page
    page.click("#log-part a")
    page.click("#log-error")
    assert "Traceback" in page.inner_text(".line.hit")
    for part in PARTS:
        page.goto(f"{live_server.url}{at(chain[1])}")
        page.click(f"#{part} > summary")
        page.click(f"#{part}-part a")
        assert page.url.endswith(f"/{part}/")
    page.fill("#field-max_retries", "0")
    page.click("#what-if-part button")
    assert "not retried" in page.inner_text(".outcome") or "given up" in page.inner_text(".outcome")
