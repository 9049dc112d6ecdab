"""Principals: who makes a request, as "User:alice". Pure.

The name of a client certificate becomes a principal by rules in Kafka's notation (ssl.principal.mapping.rules), of
which the first that fits counts:

    RULE:^CN=([^,]+),OU=services.*$/$1/L    a pattern, what it becomes, and L or U for lower or upper case
    DEFAULT                                 the whole distinguished name
"""

import re
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import re2

from headwater.errors import InvalidSetting

USER = "User"
RULES_MAX = 100
RULE = re.compile(r"RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)")


class Principal(NamedTuple):
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS = Principal(USER, "ANONYMOUS")
"""Clients that did not log in."""

LOCAL = Principal("Local", "node")
"""A program of this machine that can read the token in the data directory: it may do everything."""


def user(name: str) -> Principal:
    return Principal(USER, name)


def parse_principal(text: str) -> Principal:
    """
    >>> parse_principal("User:alice")
    Principal(kind='User', name='alice')
    """
    kind, colon, name = text.partition(":")
    if not colon or not kind or not name:
        raise InvalidSetting("principal", text, "it must be TYPE:NAME, such as User:alice")
    return Principal(kind, name)


class MappingRule(NamedTuple):
    pattern: str
    """"" fits every name."""
    replacement: str = ""
    case: str = ""


def parse_rules(text: str) -> tuple[MappingRule, ...]:
    """The rules in their order; InvalidSetting names the one that is none.

    >>> parse_rules("RULE:^CN=([^,]+).*$/$1/L,DEFAULT")[0].replacement
    '$1'
    """
    rules: list[MappingRule] = []
    rest = text.strip()
    while rest:
        found = RULE.match(rest)
        if found is not None:
            rules.append(_checked(MappingRule(found[1].replace("\\/", "/"), found[2].replace("\\/", "/"), found[3])))
            rest = rest[found.end() :]
        elif rest.startswith("DEFAULT"):
            rules.append(MappingRule(""))
            rest = rest.removeprefix("DEFAULT")
        else:
            raise InvalidSetting("principal mapping", text, "write RULE:pattern/replacement/ or DEFAULT, with commas")
        if (rest and not rest.startswith(",")) or len(rules) > RULES_MAX:
            raise InvalidSetting("principal mapping", text, f"rules are divided by commas, {RULES_MAX} at most")
        rest = rest[1:].lstrip()
    return tuple(rules) or (MappingRule(""),)


def _checked(rule: MappingRule) -> MappingRule:
    try:
        re2.compile(rule.pattern)
    except re2.error as error:
        raise InvalidSetting("principal mapping", rule.pattern, f"the pattern cannot be read: {error}") from None
    return rule


def principal_of_subject(subject: str, rules: Sequence[MappingRule]) -> Principal | None:
    """Who the owner of a certificate is; None if no rule fits: the certificate is refused then.

    >>> str(principal_of_subject("CN=Alice,OU=services", parse_rules("RULE:^CN=(.*?),.*$/$1/L")))
    'User:alice'
    """
    for rule in rules:
        if not rule.pattern:
            return user(subject)
        found = re2.fullmatch(rule.pattern, subject)
        if found is None:
            continue
        name = re.sub(r"\$(\d)", partial(_group, found), rule.replacement)
        name = name.lower() if rule.case == "L" else name.upper() if rule.case == "U" else name
        return user(name) if name else None
    return None


def _group(found: "re.Match[str]", wanted: "re.Match[str]") -> str:
    number = int(wanted[1])
    return (found[number] or "") if number <= len(found.groups()) else ""
