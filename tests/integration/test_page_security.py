"""Tests of the headers that tell browsers what they may do with our answers."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests import factories


def directives(path: str, person: User | None) -> dict[str, list[str]]:
    """Return the policy of an answer, by directive."""
    browser = Client()
    if person is not None:
        browser.force_login(person)
    answer = browser.get(path)
    parts = [each.split() for each in answer.headers["Content-Security-Policy"].split(";")]
    assert path.startswith("/static/") or answer.headers["X-Frame-Options"] == "DENY"
    answer.close()
    return {name: values for name, *values in parts}


@pytest.mark.parametrize(
    ("path", "loose"),
    [
        ("/", set()),
        ("/login/", set()),
        ("/sessions/00000000-0000-0000-0000-000000000000/", set()),
        ("/nowhere/", set()),
        ("/healthz", set()),
        ("/static/reprise/favicon.svg", set()),
        ("/api/v2/whoami/", set()),
        ("/api/v2/docs/", set()),
        ("/graphql/", {"style-src"}),
        ("/admin/", {"style-src", "script-src"}),
        ("/admin/login/", {"style-src", "script-src"}),
    ],
)
@pytest.mark.parametrize("signed_in", [True, False])
def test_every_answer_has_a_policy(path: str, loose: set[str], signed_in: bool) -> None:
    policy = directives(path, factories.user("ada", superuser=True) if signed_in else None)
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == ["'none'"]
    for name, values in policy.items():
        assert set(values) <= {"'self'", "'none'", "data:", "'unsafe-inline'", "'unsafe-eval'"}
        assert ("'unsafe-inline'" in values) is (name == "style-src" and name in loose), name
        assert ("'unsafe-eval'" in values) is (name == "script-src" and name in loose), name
    assert "data:" not in policy.get("script-src", [])


@pytest.mark.parametrize("path", ["/login/", "/admin/login/", "/graphql/", "/api/v2/docs/"])
def test_pages_use_no_devices(path: str) -> None:
    policy = Client().get(path).headers["Permissions-Policy"]
    assert {"camera=()", "geolocation=()", "microphone=()", "usb=()"} <= set(policy.split(", "))
