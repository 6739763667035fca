"""The address from which a call comes, as far as it can be trusted."""

from functools import lru_cache
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address

from django.conf import settings
from django.http import HttpRequest

IPV6_PREFIX = 64
"""The prefix length of an IPv6 network. One host usually owns the whole network."""

UNKNOWN = "0.0.0.0"  # noqa: S104  # nothing is bound to it


def client_address(peer: str, forwarded: str) -> str:
    """Return the address of a client; for IPv6 its network.

    `peer` is the other end of the connection, `forwarded` the header `X-Forwarded-For`. The header
    counts only if it comes from a trusted proxy, which adds its last entry.
    """
    client = forwarded.rpartition(",")[2].strip() if is_proxy(peer) else ""
    return _network(client) or _network(peer) or UNKNOWN


def is_proxy(peer: str) -> bool:
    """Return whether the other end of a connection is a proxy whose headers are believed."""
    return _is_within(peer, settings.TRUSTED_PROXIES)


@lru_cache(maxsize=1024)
def _is_within(peer: str, networks: tuple[IPv4Network | IPv6Network, ...]) -> bool:
    try:
        address = ip_address(peer)
    except ValueError:
        return False
    # A server that listens for both kinds sees IPv4 addresses so.
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return any((mapped or address) in each for each in networks)


def request_address(request: HttpRequest) -> str:
    """Return the address from which a request comes."""
    header = request.META.get("HTTP_X_FORWARDED_FOR", "")
    return client_address(str(request.META.get("REMOTE_ADDR", "")), header)


def _network(text: str) -> str | None:
    """Return the address, the network of an IPv6 address, or None if it is no address."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(IPv6Network((int(address), IPV6_PREFIX), strict=False).network_address)
