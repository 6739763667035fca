"""Tests of which URLs a webhook may have, and which addresses it may reach."""

from ipaddress import ip_address

import httpcore
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.webhooks.sender import url_host
from sessions_app.webhooks.url_guard import Guard, Refused

STRICT = Guard()

REFUSED = [
    "0.0.0.0",
    "0.1.2.3",
    "10.1.2.3",
    "100.64.0.1",
    "100.100.100.200",  # metadata of a cloud
    "127.0.0.1",
    "127.255.255.254",
    "169.254.169.254",  # likewise
    "168.63.129.16",  # likewise
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.192",  # likewise
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:8.8.8.8",  # a form of IPv4 that nobody writes
    "64:ff9b::a00:1",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",  # Teredo
    "2001:db8::1",
    "2002:7f00:1::",
    "3fff::1",
    "fc00::1",
    "fd00:ec2::254",  # metadata of a cloud
    "fe80::1",
    "fec0::1",
    "ff02::1",
]
PUBLIC = ["1.1.1.1", "8.8.8.8", "100.63.0.1", "172.32.0.1", "2606:4700::1111", "2a00:1450::1"]


@pytest.mark.parametrize("address", REFUSED)
def test_addresses_that_are_not_public_are_refused(address: str) -> None:
    assert not STRICT.lets("example.com", ip_address(address))
    with pytest.raises(Refused, match=r"example\.com resolves to no address"):
        STRICT.choose("example.com", [address])
    literal = f"[{address}]" if ":" in address else address
    with pytest.raises(Refused, match="may not reach"):
        STRICT.check_url(f"https://{literal}/")


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_not(address: str) -> None:
    assert STRICT.choose("example.com", [address]) == [address]


def test_of_several_addresses_only_the_public_ones_are_chosen() -> None:
    found = ["10.0.0.1", "8.8.8.8", "::1", "fe80::1%eth0", "2606:4700::1111"]
    assert STRICT.choose("example.com", found) == ["8.8.8.8", "2606:4700::1111"]


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("https://example.com", "example.com:443"),
        ("https://Example.COM./a/b?c=d", "example.com:443"),
        ("https://example.com:8443/", "example.com:8443"),
        ("https://example.com:80/", "example.com:80"),
        ("https://8.8.8.8/", "8.8.8.8:443"),
        ("https://[2606:4700::1111]/", "[2606:4700::1111]:443"),
        ("https://xn--bcher-kva.example/h%C3%BC", "xn--bcher-kva.example:443"),
    ],
)
def test_a_url_is_taken(url: str, place: str) -> None:
    assert STRICT.check_url(url) == place


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://example.com/", "must begin with https"),
        ("ftp://example.com/", "must be a URL such as"),
        ("file:///etc/passwd", "must be a URL such as"),
        ("//example.com/", "must be a URL such as"),
        ("https://", "must be a URL such as"),
        ("https:///path", "must be a URL such as"),
        ("https://user:secret@example.com/", "must not contain a user"),
        ("https://@example.com/", "must not contain a user"),
        ("https://example.com/#part", "must not have a fragment"),
        ("https://example.com:22/", "port 22 is refused"),
        ("https://example.com:25/", "port 25 is refused"),
        ("https://example.com:0/", "port 0 is not valid"),
        ("https://example.com:99999/", "is not a URL"),
        ("https://example.com:x/", "is not a URL"),
        ("https://[::1/", "is not a URL"),
        ("https://[v1.x]/", "does not name a host"),
        ("https://exa mple.com/", "ASCII"),
        ("https://example.com/\r\nHost: x", "ASCII"),
        ("https://b\u00fccher.example/", "ASCII"),
        ("https://example.com\\@evil.example/", "ASCII"),
        ("https://a;b.example/", "does not name a host"),
        (f"https://{'a' * 254}/", "does not name a host"),
        (f"https://{'a' * 64}.example/", "does not name a host"),
        ("https://a..example/", "does not name a host"),
        ("https://1.2.3.999/", "IPv4 address"),
        ("https://0177.0.0.1/", "IPv4 address"),
        ("https://1.2.3/", "IPv4 address"),
        ("https://1.2.3.4.5/", "IPv4 address"),
        ("https://2130706433/", "IPv4 address"),
        ("https://127.1/", "IPv4 address"),
        ("https://0x7f.1/", "IPv4 address"),
        ("https://0x7f000001/", "IPv4 address"),
        ("https://example.0x/", "IPv4 address"),
        ("https://example.1./", "IPv4 address"),
    ],
)
def test_a_url_is_refused(url: str, why: str) -> None:
    with pytest.raises(Refused, match=why):
        STRICT.check_url(url)


@given(
    st.lists(st.sampled_from([*"a1x09-_.%[]:@/?#&=+~!$'()*,;", "xn--", "0x"]), max_size=16).map(
        "".join
    )
)
def test_a_url_that_is_taken_can_be_sent_to(rest: str) -> None:
    url = f"https://{rest}"
    try:
        STRICT.check_url(url)
    except Refused:
        return
    assert url_host(url)
    assert httpcore.URL(url).origin


def test_operators_let_through_what_they_name() -> None:
    guard = Guard.of(["10.0.0.0/8", "fd00::/8"], ["Internal.Example."], http=True)
    assert guard.check_url("http://10.1.2.3:25/") == "10.1.2.3:25"
    assert guard.check_url("http://internal.example:25/") == "internal.example:25"
    assert guard.lets("internal.example", ip_address("127.0.0.1"))
    assert guard.lets("other.example", ip_address("::ffff:10.1.2.3"))
    assert guard.lets("other.example", ip_address("fd00::1"))
    for address in ("127.0.0.1", "169.254.169.254", "::1"):
        assert not guard.lets("other.example", ip_address(address))
    with pytest.raises(ValueError, match="does not appear to be"):
        Guard.of(["internal"], [], http=False)
