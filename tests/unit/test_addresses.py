"""Tests of the address that a call comes from, and of whom it is believed."""

from ipaddress import ip_network
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse

from interfaces.http.addresses import client_address
from reprise.http.forwarded import Forwarded

PROXY = "192.0.2.9"
NEIGHBOUR = "192.0.2.10"


@pytest.mark.parametrize(
    ("peer", "forwarded", "trusted", "found"),
    [
        (PROXY, "", PROXY, PROXY),
        (PROXY, "198.51.100.1, 203.0.113.5", PROXY, "203.0.113.5"),
        (PROXY, "203.0.113.5", "192.0.2.0/28", "203.0.113.5"),
        (NEIGHBOUR, "203.0.113.5", PROXY, NEIGHBOUR),
        (PROXY, "203.0.113.5", "2001:db8::/32", PROXY),
        (PROXY, "nonsense", PROXY, PROXY),
        (f"::ffff:{PROXY}", "203.0.113.5", PROXY, "203.0.113.5"),
        ("2001:db8:1:2:3::4", "203.0.113.5", "2001:db8::/32", "203.0.113.5"),
        ("2001:db8:1:2:3::4", "", PROXY, "2001:db8:1:2::"),
        ("::ffff:192.0.2.9", "", NEIGHBOUR, PROXY),
        ("", "203.0.113.5", "0.0.0.0/0", "0.0.0.0"),
    ],
)
def test_addresses(peer: str, forwarded: str, trusted: str, found: str, settings: Any) -> None:
    settings.TRUSTED_PROXIES = (ip_network(trusted),)
    assert client_address(peer, forwarded) == found


@pytest.mark.parametrize(("peer", "secure"), [(PROXY, True), (NEIGHBOUR, False), ("", False)])
def test_only_a_trusted_proxy_says_how_a_browser_came(
    peer: str, secure: bool, settings: Any
) -> None:
    settings.TRUSTED_PROXIES = (ip_network(PROXY),)
    request = HttpRequest()
    request.META = {
        "REMOTE_ADDR": peer,
        "HTTP_X_FORWARDED_PROTO": "https",
        "HTTP_X_FORWARDED_FOR": "203.0.113.5",
    }
    seen: list[tuple[bool, bool]] = []

    def respond(given: HttpRequest) -> HttpResponse:
        seen.append((given.is_secure(), "X-Forwarded-For" in given.headers))
        return HttpResponse()

    Forwarded(respond)(request)
    assert seen == [(secure, secure)]
