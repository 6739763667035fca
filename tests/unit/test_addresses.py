"""Tests of the address that a call comes from."""

from typing import Any

import pytest

from sessions_app.api.http.addresses import client_address


@pytest.mark.parametrize(
    ("peer", "forwarded", "trusted", "found"),
    [
        ("192.0.2.9", "", True, "192.0.2.9"),
        ("192.0.2.9", "198.51.100.1, 203.0.113.5", True, "203.0.113.5"),
        ("192.0.2.9", "203.0.113.5", False, "192.0.2.9"),
        ("192.0.2.9", "nonsense", True, "192.0.2.9"),
        ("2001:db8:1:2:3::4", "", False, "2001:db8:1:2::"),
        ("::ffff:192.0.2.9", "", False, "192.0.2.9"),
        ("", "", True, "0.0.0.0"),
    ],
)
def test_addresses(peer: str, forwarded: str, trusted: bool, found: str, settings: Any) -> None:
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if trusted else None
    assert client_address(peer, forwarded) == found
