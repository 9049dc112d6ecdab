"""Which requests are allowed: none from another site's web page in the browser of a user who can reach this port. Pure.

A page from elsewhere can make a browser send requests to 127.0.0.1, and with a name that it moves to that address it
can even read the answers. The header Host gives the second away, the header Origin the first.
"""

import ipaddress
import re
from collections.abc import Iterable
from urllib.parse import urlsplit

HOST = re.compile(r"(?:\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[a-z0-9._-]+))(?::[0-9]{1,5})?", re.ASCII)
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


class Access:
    def __init__(self, host: str, allowed: Iterable[str] = (), *, public: bool = False) -> None:
        """`host` is where the port listens. On a public one, any address may stand in Host, but not any name."""
        self._names = {*LOOPBACK_NAMES, host.lower(), *(name.lower() for name in allowed)}
        self._public = public
        self.has_public_name = public or bool(self._names - LOOPBACK_NAMES - {host.lower()})
        """Is it meant to be reached by others, directly or through a proxy?"""

    def refusal(self, host: str | None, origin: str | None) -> str:
        """Why a request is not answered; "" if it is."""
        name = host_name(host or "")
        if not name or not (name in self._names or (self._public and _is_address(name))):
            return f"the host {name[:80]!r} is not known here; allow it with --http-host"
        if origin is not None and urlsplit(origin).netloc.lower() != (host or "").lower():
            return "a page of another site may not ask this"
        return ""


def host_name(host: str) -> str:
    """The header Host without its port; "" if it is anything but one name or address, and perhaps a port.

    >>> host_name("Example.org:8080"), host_name("[::1]:80"), host_name("[::1].evil.com")
    ('example.org', '::1', '')
    """
    found = HOST.fullmatch(host.lower())
    if found is None:
        return ""
    if found["address"] is None:
        return str(found["name"])
    return found["address"] if _is_address(found["address"]) else ""


def is_loopback(address: str) -> bool:
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None)
    return found.is_loopback or (mapped is not None and mapped.is_loopback)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
