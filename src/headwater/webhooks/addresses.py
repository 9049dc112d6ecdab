"""Which addresses a webhook may go to. Pure.

What is private is what a machine inside a network reaches and one outside does not: loopback, the networks of houses
and companies, links, the metadata address at which clouds serve a machine's credentials. An address that carries
another one inside is as private as that one.
"""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

NAT64 = IPv6Network("64:ff9b::/96")
SPECIAL_4 = [
    IPv4Network(one)
    for one in (
        "0.0.0.0/8", f"{10}.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", f"{172}.16.0.0/12",
        "192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", f"{192}.168.0.0/16",
        "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
    )
]  # fmt: skip
"""IANA's registry of IPv4 addresses with a special purpose, whole, and multicast: no webhook is at any of them.
Python's own `is_global` follows the registry as it was when that Python was made."""

GLOBAL_6 = IPv6Network("2000::/3")
"""Every range assigned for public use; addresses outside are special or unused."""
SPECIAL_6 = [
    IPv6Network(one)
    for one in ("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3ffe::/16", "3fff::/20")
]
"""IANA's registry of IPv6 addresses with a special purpose, as far as it lies within."""


def is_public(text: str) -> bool:
    """
    >>> is_public("93.184.215.14"), is_public("127.0.0.1"), is_public("169.254.169.254"), is_public("::ffff:127.0.0.1")
    (True, False, False, False)
    """
    try:
        address = _innermost(ip_address(text.partition("%")[0]))
    except ValueError:
        return False
    if isinstance(address, IPv4Address):
        return not any(address in network for network in SPECIAL_4)
    return address in GLOBAL_6 and not any(address in network for network in SPECIAL_6)


def _innermost(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    if isinstance(address, IPv4Address):
        return address
    if address in NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address


def refusal(host: str, addresses: Iterable[str], *, allow_private: bool) -> str:
    """Why none of the addresses of a host may be reached; "" if all may.

    One that is private among others that are not is reason enough: a name server that answers so directs the request
    there.

    >>> refusal("db.internal", ["93.184.215.14", "fd00::7"], allow_private=False).partition(";")[0]
    'db.internal is at fd00::7, which is private'
    >>> refusal("localhost", ["127.0.0.1"], allow_private=True)
    ''
    """
    if allow_private:
        return ""
    private = next((one for one in addresses if not is_public(one)), None)
    return "" if private is None else f"{host} is at {private}, which is private; allow_private=True lets it be reached"
