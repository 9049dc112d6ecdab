"""Which addresses a webhook may go to. Pure.

What is private is what a machine inside a network reaches and one outside does not: loopback, the networks of houses
and companies, links, the address at which clouds tell a machine its secrets. An address that carries another one inside
is as private as that one.
"""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

NAT64 = IPv6Network("64:ff9b::/96")


def is_public(text: str) -> bool:
    """
    >>> is_public("93.184.215.14"), is_public("127.0.0.1"), is_public("169.254.169.254"), is_public("::ffff:127.0.0.1")
    (True, False, False, False)
    """
    try:
        address = _innermost(ip_address(text.partition("%")[0]))
    except ValueError:
        return False
    inside = isinstance(address, IPv6Address) and address.is_site_local  # fec0::/10, which Python takes for global
    return address.is_global and not address.is_multicast and not address.is_reserved and not inside


def _innermost(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    if isinstance(address, IPv4Address):
        return address
    if address in NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
    return inner or address


def refusal(host: str, addresses: Iterable[str], *, allow_private: bool) -> str:
    """Why none of the addresses of a host may be reached; "" if all may.

    One that is private among others that are not is reason enough: whoever answers so wants to be reached there.

    >>> refusal("db.internal", ["93.184.215.14", "fd00::7"], allow_private=False).partition(";")[0]
    'db.internal is at fd00::7, which is private'
    >>> refusal("localhost", ["127.0.0.1"], allow_private=True)
    ''
    """
    if allow_private:
        return ""
    private = next((one for one in addresses if not is_public(one)), None)
    return "" if private is None else f"{host} is at {private}, which is private; allow_private=True lets it be reached"
