"""Schemas: Spark's DDL to Arrow types and back, without Spark.

    id bigint NOT NULL, amount decimal(12,2), tags array<string>, place struct<city: string, code: int>

A column is a name, a type and perhaps NOT NULL; a COMMENT is read and dropped. Names that are not plain words stand in
back-ticks. Names that begin with _ are reserved for what every record has (_key, _offset and so on).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import NamedTuple, NoReturn

import pyarrow as pa

from headwater.errors import InvalidSchema

SIMPLE_TYPES: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
"""Spark's own names. Arrow has a type for each, and each Arrow type here has one name."""

OTHER_NAMES = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "timestamp_ltz": "timestamp",
    "dec": "decimal",
    "numeric": "decimal",
}
COMPOUND_TYPES = ("decimal", "array", "map", "struct")
KNOWN_TYPES = (*SIMPLE_TYPES, *OTHER_NAMES, *COMPOUND_TYPES)
LARGE_TYPES = {pa.large_string(): "string", pa.large_binary(): "binary"}
NAME_OF_TYPE = {kind: name for name, kind in SIMPLE_TYPES.items()} | LARGE_TYPES
DIGITS_MAX = 38
DEPTH_MAX = 100
EXAMPLE = 'A schema reads like "id bigint NOT NULL, amount decimal(12,2), tags array<string>".'


@dataclass(frozen=True)
class Field:
    name: str
    type: pa.DataType
    nullable: bool = True


@dataclass(frozen=True)
class Schema:
    fields: tuple[Field, ...]

    @cached_property
    def arrow(self) -> pa.Schema:
        return pa.schema([pa.field(field.name, field.type, nullable=field.nullable) for field in self.fields])

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields)

    @cached_property
    def ddl(self) -> str:
        """Canonical Spark DDL: parse_ddl of it gives this schema again."""
        return to_ddl(self.arrow)

    def field(self, name: str) -> Field:
        for field in self.fields:
            if field.name == name:
                return field
        raise InvalidSchema(f'there is no column "{name}"', nearest(name, self.names))


def nearest(name: str, known: Iterable[str]) -> str:
    """The way out of a misspelt name.

    >>> nearest("bigintt", ["bigint", "string"])
    'Did you mean bigint?'
    """
    names = list(known)
    close = get_close_matches(name.lower(), names, 1) or get_close_matches(name, names, 1)
    return f"Did you mean {close[0]}?" if close else f"There are: {', '.join(names)}."


def parse_ddl(text: str) -> Schema:
    """Columns of a DDL text; InvalidSchema names the place and what was expected there.

    >>> parse_ddl("id long not null, tags array<string>").ddl
    'id bigint NOT NULL, tags array<string>'
    """
    parser = _Parser(text)
    columns = parser.columns(closing="")
    for name in (field.name for field in columns):
        if name.startswith("_"):
            raise InvalidSchema(
                f'column "{name}" begins with _, which is reserved for _key, _offset and the like',
                f"Call it {name.lstrip('_') or 'something else'}.",
            )
    return Schema(tuple(Field(field.name, field.type, field.nullable) for field in columns))


def to_ddl(schema: pa.Schema) -> str:
    """Canonical Spark DDL of an Arrow schema; InvalidSchema for a type that Spark does not have."""
    return ", ".join(f"{_quoted(field.name)} {type_name(field.type)}{_not_null(field)}" for field in schema)


def type_name(kind: pa.DataType) -> str:
    """What Spark calls an Arrow type.

    >>> type_name(pa.list_(pa.int64()))
    'array<bigint>'
    """
    if pa.types.is_decimal128(kind) and kind.scale >= 0:
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"array<{type_name(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{type_name(kind.key_type)}, {type_name(kind.item_type)}>"
    if pa.types.is_struct(kind):
        fields = (f"{_quoted(field.name)}: {type_name(field.type)}{_not_null(field)}" for field in kind.fields)
        return f"struct<{', '.join(fields)}>"
    if kind in NAME_OF_TYPE:
        return NAME_OF_TYPE[kind]
    raise InvalidSchema(f"Spark has no type for Arrow's {kind}", f"Cast it to one of: {', '.join(SIMPLE_TYPES)}.")


def _not_null(field: pa.Field) -> str:
    return "" if field.nullable else " NOT NULL"


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else quoted(name)


def quoted(name: str) -> str:
    """A name as Spark SQL reads it, whatever is in it.

    >>> quoted("a`b")
    '`a``b`'
    """
    return "`" + name.replace("`", "``") + "`"


class _Token(NamedTuple):
    kind: str  # word, quoted, number, comment, mark, end
    text: str
    place: int  # counted from 1, for a person


_TOKENS = re.compile(
    r"""\s*(?:(?P<word>[A-Za-z_][A-Za-z0-9_]*)|`(?P<quoted>(?:[^`]|``)*)`|(?P<number>[0-9]+)
    |(?P<comment>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|(?P<mark>[<>(),:]))""",
    re.VERBOSE | re.DOTALL,
)


def _tokens(text: str) -> Iterable[_Token]:
    position = 0
    while found := _TOKENS.match(text, position):
        kind = found.lastgroup or ""
        yield _Token(kind, found.group(kind).replace("``", "`"), found.start(kind) + 1)
        position = found.end()
    rest = text[position:].lstrip()
    if not rest:
        yield _Token("end", "the end", len(text) + 1)
        return
    place = len(text) - len(rest) + 1
    way_out = "A name that is not a plain word stands in `back-ticks`."
    raise InvalidSchema(f"the schema has {rest[0]!r} at character {place}, which has no meaning there", way_out)


class _Parser:
    """Recursive descent over one DDL text; `depth` guards against text that is all brackets."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._next = 0
        self._depth = 0

    def columns(self, closing: str) -> list[pa.Field]:
        """Names and types separated by commas, up to the bracket that closes them (or the end of the text)."""
        opened = self._tokens[max(self._next - 1, 0)]
        found: list[pa.Field] = []
        while True:
            found.append(self._column(found))
            token = self._take()
            if self._closes(token, closing):
                return found
            if token.text != "," or token.kind != "mark":
                self._refuse(token, f'"," or "{closing}"' if closing else '"," or the end', opened if closing else None)

    def _closes(self, token: _Token, closing: str) -> bool:
        return token.kind == "mark" and token.text == closing if closing else token.kind == "end"

    def _column(self, before: list[pa.Field]) -> pa.Field:
        token = self._take()
        if token.kind not in ("word", "quoted") or not token.text:
            self._refuse(token, "the name of a column")
        for other in before:
            if other.name.lower() == token.text.lower():
                raise InvalidSchema(
                    f'there are two columns "{other.name}" and "{token.text}"; Spark does not distinguish them',
                    f"Give the one at character {token.place} another name.",
                )
        if self._peek().text == ":":
            self._take()
        kind = self._type()
        nullable = not self._skip_word("not")
        if not nullable and not self._skip_word("null"):
            self._refuse(self._peek(), "NULL after NOT")
        if self._skip_word("comment") and self._take().kind != "comment":
            self._refuse(self._tokens[self._next - 1], "a text in quotes after COMMENT")
        return pa.field(token.text, kind, nullable=nullable)

    def _type(self) -> pa.DataType:
        token = self._take()
        if token.kind != "word":
            self._refuse(token, "a type")
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise InvalidSchema(f"types are nested deeper than {DEPTH_MAX} at character {token.place}")
        kind = self._type_called(token)
        self._depth -= 1
        return kind

    def _type_called(self, token: _Token) -> pa.DataType:
        name = token.text.lower()
        name = OTHER_NAMES.get(name, name)
        if name in SIMPLE_TYPES:
            return SIMPLE_TYPES[name]
        if name == "decimal":
            return self._decimal(token)
        if name not in COMPOUND_TYPES:
            raise InvalidSchema(f'"{token.text}" at character {token.place} is not a type', nearest(name, KNOWN_TYPES))
        opened = self._expect("<")
        if name == "struct":
            return pa.struct(self.columns(closing=">"))
        first = self._type()
        if name == "array":
            self._expect(">", opened)
            return pa.list_(pa.field("element", first))
        self._expect(",", opened)
        second = self._type()
        self._expect(">", opened)
        return pa.map_(first, pa.field("value", second))

    def _decimal(self, token: _Token) -> pa.DataType:
        if self._peek().text != "(":
            return pa.decimal128(10, 0)
        opened = self._expect("(")
        precision, scale = self._number(), 0
        if self._peek().text == ",":
            self._take()
            scale = self._number()
        self._expect(")", opened)
        if not 1 <= precision <= DIGITS_MAX or scale > precision:
            raise InvalidSchema(
                f"decimal({precision},{scale}) at character {token.place} cannot be",
                f"It has 1 to {DIGITS_MAX} digits, of which none or more stand behind the point.",
            )
        return pa.decimal128(precision, scale)

    def _number(self) -> int:
        token = self._take()
        if token.kind != "number" or len(token.text) > 4:
            self._refuse(token, "a number of digits")
        return int(token.text)

    def _expect(self, mark: str, opened: _Token | None = None) -> _Token:
        token = self._take()
        if token.kind != "mark" or token.text != mark:
            self._refuse(token, f'"{mark}"', opened)
        return token

    def _skip_word(self, word: str) -> bool:
        token = self._peek()
        if token.kind == "word" and token.text.lower() == word:
            self._next += 1
            return True
        return False

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._tokens[self._next]
        self._next = min(self._next + 1, len(self._tokens) - 1)
        return token

    def _refuse(self, token: _Token, expected: str, opened: _Token | None = None) -> NoReturn:
        found = "the schema ends" if token.kind == "end" else f'the schema has "{token.text}"'
        bracket = f' to close the "{opened.text}" at character {opened.place}' if opened else ""
        raise InvalidSchema(f"{found} at character {token.place}, where {expected} was expected{bracket}", EXAMPLE)
