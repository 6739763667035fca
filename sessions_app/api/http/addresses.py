"""The address from which a call comes, as far as it can be trusted."""

from ipaddress import IPv6Address, IPv6Network, ip_address

from django.conf import settings
from django.http import HttpRequest

IPV6_PREFIX = 64
"""The prefix length of an IPv6 network. One host usually owns the whole network."""

UNKNOWN = "0.0.0.0"  # noqa: S104  # nothing is bound to it


def client_address(peer: str, forwarded: str) -> str:
    """Return the address of a client; for IPv6 its network.

    `peer` is the other end of the connection, `forwarded` the header `X-Forwarded-For`. The header
    counts only if the proxy is trusted, which adds its last entry.
    """
    client = forwarded.rpartition(",")[2].strip() if settings.SECURE_PROXY_SSL_HEADER else ""
    return _network(client) or _network(peer) or UNKNOWN


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
