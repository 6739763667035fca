"""Job sets over REST: which there are, and the list of the events of one."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from sessions_app.core.cursors import parse_cursor
from sessions_app.models import SessionEvent
from tests.agent import Api
from tests.factories import project, token, user
from tests.streaming import write_event

# What a transaction has written is told once it is over.
pytestmark = pytest.mark.django_db(transaction=True)
EVENTS = "job-sets/sweep/events/?project=acme/work"


@pytest.fixture
def api() -> Api:
    work = project("work", domain="acme")
    for _ in range(7):
        write_event(work, "sweep")
    return Api(token(user(project=work)))


def test_pages_of_events_follow_each_other(api: Api) -> None:
    whole = api.read(EVENTS)
    assert (whole["next"], len(whole["results"])) == (None, 7)
    pages = api.pages(f"{EVENTS}&page_size=3")
    assert [len(page) for page in pages] == [3, 3, 1]
    assert [event for page in pages for event in page] == whole["results"]
    places = [parse_cursor(event["cursor"]) for event in whole["results"]]
    assert places == sorted(places)
    assert api.read(f"{EVENTS}&after={places[4]}")["results"] == whole["results"][5:]
    header = {"Authorization": f"Bearer {api.token}", "Last-Event-ID": str(places[5])}
    assert api.get(EVENTS, headers=header).json()["results"] == whole["results"][6:]


@pytest.mark.parametrize(
    "query", ["after=7", "after=", "after=1-2-3-4", "page_size=0", "pagesize=3", "after=0-0-%00"]
)
def test_wrong_queries_name_the_field(api: Api, query: str) -> None:
    response = api.get(f"{EVENTS}&{query}")
    assert response.status_code == 400
    assert list(response.json()["errors"]) == [query.partition("=")[0]]


def test_missing_job_sets_are_a_404(api: Api) -> None:
    assert api.get("job-sets/sweep/events/").json()["errors"] == {
        "project": ["is required: 'domain/name'"]
    }
    for path in ("job-sets/other/events/?project=acme/work", EVENTS.replace("work", "far")):
        assert api.get(path).status_code == 404


def test_a_list_of_job_sets(api: Api) -> None:
    """In pages, by project and name; only of projects that one may see."""
    write_event(project("hidden", domain="acme"), "sweep")
    work = SessionEvent.objects.earliest("pk").project
    for name in ("a", "b", "c", ""):
        write_event(work, name)
    whole = api.read("job-sets/")
    assert [each["name"] for each in whole["results"]] == ["a", "b", "c", "sweep"]
    assert {each["project"] for each in whole["results"]} == {"acme/work"}
    times = SessionEvent.objects.filter(job_set="sweep", project=work).order_by("time")
    first, last = times.first(), times.last()
    assert first
    assert last
    shown = {name: value[:23] for name, value in whole["results"][3].items() if "_at" in name}
    assert shown == {
        "first_event_at": first.time.isoformat()[:23],
        "last_event_at": last.time.isoformat()[:23],
    }
    page = api.read("job-sets/?page_size=3&project=acme/work")
    rest = api.read(page["next"])
    assert page["results"] + rest["results"] == whole["results"]
    assert rest["next"] is None
    assert api.get("job-sets/?project=acme/hidden").status_code == 400
    admin = Api(token(user(superuser=True)))
    assert [each["name"] for each in admin.read("job-sets/")["results"]] == [
        *("a", "b", "c", "sweep"),
        "sweep",
    ]


@pytest.mark.parametrize("cursor", ["x", "[]", "[1]", '["a", 1]', "[1, 2]", "[-1, %22%00%22]", "1"])
def test_a_cursor_that_is_none(api: Api, cursor: str) -> None:
    assert api.get(f"job-sets/?cursor={cursor}").status_code == 404


def test_the_lists_take_a_fixed_number_of_statements(api: Api) -> None:
    work = SessionEvent.objects.earliest("pk").project

    def counted(path: str) -> int:
        with CaptureQueriesContext(connection) as queries:
            api.read(path)
        return len(queries)

    counted("job-sets/")  # the use of the token is noted
    before = counted("job-sets/"), counted(EVENTS)
    for number in range(20):
        write_event(work, f"more-{number}")
        write_event(work, "sweep")
    assert (counted("job-sets/"), counted(EVENTS)) == before
