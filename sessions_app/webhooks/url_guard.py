"""The destinations of webhooks: which URLs are accepted, and which addresses are allowed. Pure.

A tenant's URL must not lead into the operators' own networks. So a name is judged by the address it
resolves to at the moment of connecting, and the connection goes to that very address.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import SplitResult, urlsplit

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

PORTS = frozenset({80, 443})
LOWEST_FREE_PORT = 1024
"""Ports below this one are refused, except `PORTS`: mail, name servers and shells use them."""
_DEFAULT_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"(?=.{1,253}\Z)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*", re.ASCII)
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)
"""A last label that makes a host an IPv4 address, by the URL standard of WHATWG."""

# IANA's registries of special-purpose addresses, multicast, reserved ranges, and the one address
# outside of these at which a cloud serves its metadata.
_REFUSED_V4 = tuple(
    IPv4Network(each)
    for each in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16"),
        *("172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16"),
        *("198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
        "168.63.129.16/32",
    )
)
# All other IPv6 addresses are loopback, local, multicast, or forms of IPv4 (mapped, NAT64).
_GLOBAL_V6 = IPv6Network("2000::/3")
# Ranges of protocols (such as Teredo), documentation, and 6to4.
_REFUSED_V6 = tuple(
    IPv6Network(each) for each in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
)


class Refused(Exception):
    """A URL or an address that webhooks may not use; the text says why."""


@dataclass(frozen=True, slots=True)
class Guard:
    """The operators' rules; `networks` and `hosts` are allowed wherever they are."""

    networks: tuple[Network, ...] = ()
    hosts: frozenset[str] = frozenset()
    http: bool = False

    @classmethod
    def of(cls, networks: Iterable[str], hosts: Iterable[str], *, http: bool) -> "Guard":
        """Return a guard from settings. Raises `ValueError` for an invalid network."""
        names = frozenset(host.lower().rstrip(".") for host in hosts)
        return cls(tuple(ip_network(each) for each in networks), names, http)

    def check_url(self, url: str) -> str:
        """Return the host and port of an allowed URL. Raises `Refused` for any other.

        A literal address in it is checked, too; a name only when it is connected to.
        """
        parts = _split(url)
        if parts.scheme == "http" and not self.http:
            raise Refused("must begin with https://")
        host = _host(parts)
        port = parts.port or _DEFAULT_PORTS[parts.scheme]
        literal = _literal(host)
        if not self._is_open(host, port, literal):
            raise Refused(f"port {port} is refused: use 443, or one from {LOWEST_FREE_PORT} on")
        if literal is not None and not self.lets(host, literal):
            raise Refused(f"{literal} is an address that webhooks may not reach")
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def _is_open(self, host: str, port: int, literal: Address | None) -> bool:
        if port in PORTS or port >= LOWEST_FREE_PORT or host in self.hosts:
            return True
        return literal is not None and self._allows(literal)

    def lets(self, host: str, address: Address) -> bool:
        """Return whether a host may be connected to at an address that its name resolves to."""
        if host.lower().rstrip(".") in self.hosts or self._allows(address):
            return True
        if isinstance(address, IPv4Address):
            return not any(address in network for network in _REFUSED_V4)
        return address in _GLOBAL_V6 and not any(address in each for each in _REFUSED_V6)

    def _allows(self, address: Address) -> bool:
        plain = _unmapped(address)
        return any(plain in each for each in self.networks if each.version == plain.version)

    def choose(self, host: str, found: Iterable[str]) -> list[str]:
        """Return the addresses that may be connected to. Raises `Refused` if there are none."""
        known = [(text, ip_address(text.partition("%")[0])) for text in found]
        chosen = [text for text, address in known if self.lets(host, address)]
        if not chosen:
            raise Refused(f"{host} resolves to no address that webhooks may reach")
        return chosen


def _unmapped(address: Address) -> Address:
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped


def _split(url: str) -> SplitResult:
    if not url.isascii() or not url.isprintable() or set(url) & set(' \\"<>^`{|}'):
        raise Refused("must be written in ASCII, without blanks: other letters percent-encoded")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise Refused("is not a URL") from None
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
        raise Refused("must be a URL such as https://example.com/hooks")
    if port == 0:
        raise Refused("port 0 is not valid")
    if "@" in parts.netloc:
        raise Refused("must not contain a user or a password: the signature identifies the sender")
    if parts.fragment:
        raise Refused("must not have a fragment")
    return parts


def _host(parts: SplitResult) -> str:
    host = (parts.hostname or "").lower().rstrip(".")
    if not _HOST.fullmatch(host) and _literal(host) is None:
        raise Refused("does not name a host")
    if _NUMBER.fullmatch(host.rpartition(".")[2]) and _literal(host) is None:
        raise Refused("must write an IPv4 address as four numbers up to 255, without leading zeros")
    if "[" in parts.netloc and ":" not in host:
        raise Refused("does not name a host")
    return host


def _literal(host: str) -> Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None
