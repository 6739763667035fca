"""A project has so many webhooks and no more, however many are made at once."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from django.db import connection

from sessions_app.core.errors import Conflict
from sessions_app.models import Project, WebhookEndpoint
from sessions_app.webhooks.endpoints import MOST_OF_PROJECT, webhook_create

pytestmark = pytest.mark.django_db(transaction=True)

AT_ONCE = 8


def test_many_at_once_stay_within_the_limit(at: Project) -> None:
    WebhookEndpoint.objects.bulk_create(
        WebhookEndpoint(
            project=at, url="https://example.org/", host="example.org", event_types=[],
            secret="whsec_", created_by="test", epoch=0, xid="0", event_id=0,
        )
        for _ in range(MOST_OF_PROJECT - 2)
    )  # fmt: skip
    together = Barrier(AT_ONCE)

    def make(_: int) -> bool:
        together.wait()
        try:
            webhook_create(
                project=at, url="https://example.org/", event_types=[], description="", by="test"
            )
        except Conflict:
            return False
        finally:
            connection.close()
        return True

    with ThreadPoolExecutor(AT_ONCE) as pool:
        assert sorted(pool.map(make, range(AT_ONCE))) == [False] * (AT_ONCE - 2) + [True] * 2
    assert WebhookEndpoint.objects.filter(project=at).count() == MOST_OF_PROJECT
