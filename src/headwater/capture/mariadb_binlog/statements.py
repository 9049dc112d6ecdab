"""The effects of a logged statement on captured tables. Pure.

The log has changed rows. A statement it has only where no rows can say it: definitions (TRUNCATE, DROP, RENAME,
ALTER), and changes that some session insisted on logging as statements. Changes of columns need not be parsed here: the
next rows come with their table's new description.
"""

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

COMMIT, ROLLBACK = "COMMIT", "ROLLBACK"


class Meaning(StrEnum):
    EMPTIED = "emptied"
    """It has no rows any more."""

    CREATED = "created"
    """It may be new, and then it has no rows yet but those that follow."""

    UNLOGGED = "unlogged"
    """Its rows changed, and no row event says how."""


class Effect(NamedTuple):
    meaning: Meaning
    schema: str
    table: str
    """"" for all tables of the schema."""


_NAME = r"""(?:`(?:[^`]|``)+`|"(?:[^"]|"")+"|[\w$\u0080-\uffff]+)"""
_FULL_NAME = rf"({_NAME})(?:\s*\.\s*({_NAME}))?"
_QUOTED = r"""`(?:[^`]|``)*`|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*\""""
_SKIPPED = re.compile(rf"({_QUOTED})|/\*(?!M?!).*?\*/|(?:--(?=\s|$)|#)[^\n]*|/\*M?!\d*|\*/", re.DOTALL)
"""Comments, and the signs around those that are carried out. What is quoted comes first: nothing in it is a comment."""

_IF = r"(?:IF\s+(?:NOT\s+)?EXISTS\s+)?"
_FLAGS = re.IGNORECASE | re.DOTALL

_TRUNCATE = re.compile(rf"TRUNCATE\s+(?:TABLE\s+)?{_FULL_NAME}", _FLAGS)
_DROP_TABLES = re.compile(rf"DROP\s+TABLES?\s+{_IF}(.*)", _FLAGS)
_DROP_SCHEMA = re.compile(rf"DROP\s+(?:DATABASE|SCHEMA)\s+{_IF}({_NAME})", _FLAGS)
_CREATE = re.compile(rf"CREATE\s+(OR\s+REPLACE\s+)?TABLE\s+{_IF}{_FULL_NAME}", _FLAGS)
_RENAME = re.compile(rf"RENAME\s+TABLES?\s+{_IF}(.*)", _FLAGS)
_ALTER = re.compile(rf"ALTER\s+(?:ONLINE\s+|IGNORE\s+)*TABLE\s+{_IF}{_FULL_NAME}(.*)", _FLAGS)
_MOVED = re.compile(
    rf"\bRENAME\s+(?:TO\s+|AS\s+|=\s*)?(?!COLUMN\b|INDEX\b|KEY\b){_FULL_NAME}"
    rf"|\b(?:TRUNCATE|DROP|EXCHANGE|CONVERT)\s+PARTITION\b(?:.*?\b(?:WITH|TO)\s+TABLE\s+{_FULL_NAME})?"
    rf"|\bCONVERT\s+TABLE\s+{_FULL_NAME}\s+TO\s+PARTITION\b"
    r"|\bDISCARD\s+TABLESPACE\b|\bIMPORT\s+TABLESPACE\b|\bPRIMARY\s+KEY\b",
    _FLAGS,
)
_WRITES = re.compile(r"(?:INSERT|UPDATE|DELETE|REPLACE|LOAD|WITH|CALL|DO|SELECT|SET)\b", _FLAGS)
_ANY_NAME = re.compile(_FULL_NAME)
_TEXT_OR_NAME = re.compile(_QUOTED, re.DOTALL)


def effects(statement: str, schema: str) -> list[Effect]:
    """Returns the effects on tables; `schema` is the default schema of unqualified names.

    >>> [(one.meaning.value, one.schema, one.table) for one in effects("DROP TABLE `a`, shop.b /* by server */", "x")]
    [('emptied', 'x', 'a'), ('emptied', 'shop', 'b')]
    """
    plain = _SKIPPED.sub(lambda found: found[1] or " ", statement)
    return list(_effects(plain.strip(), schema))


def _effects(plain: str, schema: str) -> Iterator[Effect]:
    if found := _TRUNCATE.match(plain):
        yield _named(Meaning.EMPTIED, found[1], found[2], schema)
    elif found := _DROP_TABLES.match(plain):
        yield from _each(Meaning.EMPTIED, found[1], schema)
    elif found := _DROP_SCHEMA.match(plain):
        yield Effect(Meaning.EMPTIED, _unquoted(found[1]), "")
    elif found := _CREATE.match(plain):
        yield _named(Meaning.EMPTIED if found[1] else Meaning.CREATED, found[2], found[3], schema)
    elif found := _RENAME.match(plain):
        yield from _each(Meaning.UNLOGGED, found[1], schema)
    elif found := _ALTER.match(plain):
        yield from _altered(found, schema)
    elif _WRITES.match(plain):
        # Which of the names are tables only a parser could say: all of them may be.
        yield from _each(Meaning.UNLOGGED, _without_text(plain), schema)


def _altered(found: re.Match[str], schema: str) -> Iterator[Effect]:
    moves = list(_MOVED.finditer(_without_text(found[3])))
    if moves:
        yield _named(Meaning.UNLOGGED, found[1], found[2], schema)
    for move in moves:
        names = move.groups()
        for first, second in zip(names[::2], names[1::2], strict=True):
            if first:
                yield _named(Meaning.UNLOGGED, first, second, schema)


def _without_text(plain: str) -> str:
    """
    >>> _without_text("ALTER TABLE `it's` COMMENT 'PRIMARY KEY'")
    "ALTER TABLE `it's` COMMENT ''"
    """
    return _TEXT_OR_NAME.sub(lambda found: "''" if found[0][0] == "'" else found[0], plain)


def _each(meaning: Meaning, names: str, schema: str) -> Iterator[Effect]:
    for found in _ANY_NAME.finditer(names):
        yield _named(meaning, found[1], found[2], schema)


def _named(meaning: Meaning, first: str, second: str | None, schema: str) -> Effect:
    if second is None:
        return Effect(meaning, schema, _unquoted(first))
    return Effect(meaning, _unquoted(first), _unquoted(second))


def _unquoted(name: str) -> str:
    sign = name[0]
    return name[1:-1].replace(sign * 2, sign) if sign in '`"' else name
