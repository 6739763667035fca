"""The page of all parts is for developers."""

from typing import Any

import pytest
from django.test import Client

from interfaces.web.style_moments import MOMENTS
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(("switch", "status"), [(True, 200), (False, 404)])
def test_the_parts_are_shown_if_the_setting_says_so(
    settings: Any, switch: bool, status: int
) -> None:
    settings.REPRISE_STYLE_PAGE = switch
    client = Client()
    client.force_login(factories.user())
    assert client.get("/style/").status_code == status


@pytest.mark.parametrize("name", [*MOMENTS, "none"])
def test_each_moment_has_its_timeline_and_log(settings: Any, name: str) -> None:
    settings.REPRISE_STYLE_PAGE = True
    client = Client()
    client.force_login(factories.user())
    page = client.get("/style/", {"moment": name})
    assert page.status_code == 200
    assert 'id="timeline"' in page.content.decode()
    assert 'id="log-part"' in page.content.decode()
