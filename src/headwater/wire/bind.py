"""Where it is safe to listen: without login and encryption, only where no other machine can reach."""

import asyncio
import errno
import ipaddress
import os
import socket

from headwater.errors import PortUnavailable, UnsafeBind


async def check_bind(host: str, *, insecure: bool) -> None:
    """UnsafeBind if any address that `host` stands for is not a loopback address, unless `insecure` is said."""
    if insecure:
        return
    loop = asyncio.get_running_loop()
    # An empty host means every address of the machine.
    found = await loop.getaddrinfo(host or "0.0.0.0", None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    refuse_public(host, [str(address[0]) for *_, address in found])


def refuse_public(host: str, addresses: list[str]) -> None:
    """UnsafeBind if one of the addresses of a host is not a loopback address."""
    if not all(map(is_loopback, addresses)):
        raise UnsafeBind(host or "every address")


def unavailable(port: str, host: str, number: int, *, option: str, error: OSError) -> PortUnavailable:
    """Why a port could not be opened, in the words of a person: asyncio's name four things and not the way out."""
    where = f"[{host}]:{number}" if ":" in host else f"{host or '*'}:{number}"
    cause = "it is in use" if error.errno == errno.EADDRINUSE else os.strerror(error.errno or 0).lower()
    return PortUnavailable(port, where, option=option, cause=cause)


def is_loopback(address: str) -> bool:
    """
    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    parsed = ipaddress.ip_address(address.partition("%")[0])
    mapped = getattr(parsed, "ipv4_mapped", None)
    return bool((mapped or parsed).is_loopback)
