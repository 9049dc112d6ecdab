"""URLs with a password in them: the one module that parses them. Pure.

scheme://USER:PASSWORD@HOST[:PORT][,HOST...]/PATH?NAME=VALUE

Programs disagree where a password ends that holds an @ or a /: one takes the first @ and asks a name server for the
rest of the password, another the last. So a URL that can be read in two ways is refused, by a sentence that repeats no
part of it, before it is shown or logged.
"""

import re
from urllib.parse import unquote

HOST = re.compile(r"(?:\[[0-9A-Fa-f:.%]*\]|[^:\[\]@\s]*)(?::\d*)?")
AUTHORITY = re.compile(r"[^/?#]*")
BAD_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})|%00")
NOT_IN_URLS = re.compile(r"[\s\x00-\x20\x7f]")
SECRET_NAMES = ("password", "passwd", "secret", "token")
HIDDEN = "…"

WAY_OUT = (
    "In a user's name and password write every character but letters, digits, - . _ and ~ as %XX: @ as %40, : as %3A, "
    "/ as %2F, ? as %3F, # as %23, % as %25."
)


def ambiguity(url: str) -> str:
    """What of a URL could be read in two ways, as the end of a sentence that shows nothing of it; "" if nothing can.

    >>> ambiguity("postgresql://ada:s%40cret@db.example/shop"), ambiguity("postgresql://ada:s@cret@db.example/shop")
    ('', 'has more than one @ before its host')
    """
    authority, rest = _divided(url)
    hosts = authority.rpartition("@")[2]
    if NOT_IN_URLS.search(url):
        return "has a space or a control character in it"
    if authority.count("@") > 1:
        return "has more than one @ before its host"
    if re.search(r"[\[\]]", authority.rpartition("@")[0]):
        return "has a [ or ] before its host"
    if "@" in rest:
        return "has an @ after its host"
    if not all(map(HOST.fullmatch, hosts.split(","))):
        return "has no host and port where one must stand"
    if BAD_PERCENT.search(url):
        return "has a % that is not followed by two hexadecimal digits of a character"
    try:
        unquote(url, errors="strict")
    except UnicodeDecodeError:
        return "has a %XX in it that is no UTF-8"
    return ""


def without_secrets(url: str) -> str:
    """A URL for people and files: without password, and of one that could be read in two ways only its scheme.

    >>> without_secrets("postgresql://ada:s%40cret@db.example:5432/shop?password=again&sslmode=require")
    'postgresql://ada@db.example:5432/shop?sslmode=require'
    >>> without_secrets("mysql://root:pa/ss@db/shop"), without_secrets("host=db password=x"), without_secrets("a/b.db")
    ('mysql://…', '…', 'a/b.db')
    """
    if "::" in url and "://" in url and "[" not in url:  # chained URLs, as fsspec writes them
        return "::".join(map(without_secrets, url.split("::")))
    scheme, named, rest = url.partition("://")
    if not named:
        return HIDDEN if re.search(r"[@=\s]", url) else url
    if rest.startswith("/") and "?" not in rest:
        return url  # a path, with nothing to hide
    if ambiguity(url):
        return f"{scheme}://{HIDDEN}" if re.fullmatch(r"[A-Za-z0-9+.-]*", scheme) else HIDDEN
    authority = AUTHORITY.match(rest)
    assert authority is not None
    user, at, host = authority[0].rpartition("@")
    before, mark, query = rest[authority.end() :].partition("?")
    kept = "&".join(pair for pair in query.split("&") if pair and not _is_secret(pair))
    return f"{scheme}://{user.partition(':')[0]}{at}{host}{before}{mark if kept else ''}{kept}"


def _is_secret(pair: str) -> bool:
    return any(name in pair.partition("=")[0].lower() for name in SECRET_NAMES)


def _divided(url: str) -> tuple[str, str]:
    rest = url.partition("://")[2]
    authority = AUTHORITY.match(rest)
    assert authority is not None
    return authority[0], rest[authority.end() :]
