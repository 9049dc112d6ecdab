"""The text of an Avro schema to a tree: every rule of the specification that a reader relies on is checked here."""

import json
import re
from collections.abc import Mapping
from typing import Any, NoReturn

from headwater.errors import InvalidSchemaText
from headwater.registry.avro.defaults import fits
from headwater.registry.avro.types import (
    NO_DEFAULT,
    PRIMITIVES,
    Array,
    Enum,
    Field,
    Fixed,
    Map,
    Named,
    Primitive,
    Record,
    Type,
    Union,
    label,
)

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
NAMED = ("record", "error", "enum", "fixed")
DEPTH_MAX = 100
OWN = {
    "array": {"type", "items"},
    "map": {"type", "values"},
    "fixed": {"type", "name", "namespace", "aliases", "size"},
    "enum": {"type", "name", "namespace", "aliases", "symbols", "default"},
    "record": {"type", "name", "namespace", "aliases", "fields"},
    "field": {"name", "type", "default", "aliases"},
}
"""Attributes with a field in the tree; all others are properties."""


def parse(text: str, known: Mapping[str, Named] | None = None) -> tuple[Type, dict[str, Named]]:
    """The schema, and the types that it names itself. `known` are those it may refer to."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError) as error:
        # A bare name is a schema too, and people write it without quotes.
        if not NAME.fullmatch(text.strip()):
            raise InvalidSchemaText(f"the Avro schema is not JSON: {error}") from None
        said = text.strip()
    parser = _Parser(known or {})
    found = parser.type(said, "", "the schema", 0)
    parser.check_defaults()
    return found, parser.made


def _refuse(where: str, why: str) -> NoReturn:
    raise InvalidSchemaText(f"the Avro schema is wrong at {where}: {why}")


class _Parser:
    def __init__(self, known: Mapping[str, Named]) -> None:
        self._known = known
        self.made: dict[str, Named] = {}
        self._defaults: list[tuple[Field, str]] = []

    def check_defaults(self) -> None:
        """Only now: a default may be of a record that was not complete when its field was read."""
        for field, where in self._defaults:
            if not fits(field.default, field.type):
                _refuse(where, f"the default {json.dumps(field.default)[:60]} is not a {label(field.type)}")

    def type(self, said: Any, space: str, where: str, depth: int) -> Type:
        if depth > DEPTH_MAX:
            _refuse(where, f"types are nested deeper than {DEPTH_MAX}")
        if isinstance(said, str):
            return self._called(said, space, where)
        if isinstance(said, list):
            return self._union(said, space, where, depth)
        if not isinstance(said, dict) or "type" not in said:
            _refuse(where, f"{json.dumps(said)[:60]} is not a type")
        name = said["type"]
        if not isinstance(name, str):
            # A type in brackets of its own, as some programs write it.
            return self.type(name, space, where, depth + 1)
        if name in NAMED:
            return self._named(said, name, space, where, depth)
        if name == "array":
            return Array(_properties(said, "array"), self.type(said.get("items"), space, f"{where}[]", depth + 1))
        if name == "map":
            return Map(_properties(said, "map"), self.type(said.get("values"), space, f"{where}{{}}", depth + 1))
        found = self._called(name, space, where)
        return Primitive(_properties(said, ""), found.name) if isinstance(found, Primitive) else found

    def _called(self, name: str, space: str, where: str) -> Type:
        if name in PRIMITIVES:
            return Primitive(name=name)
        full = name if "." in name or not space else f"{space}.{name}"
        for candidate in (full, name):
            found = self.made.get(candidate) or self._known.get(candidate)
            if found is not None:
                return found
        _refuse(where, f'there is no type "{name}"')

    def _union(self, said: list[Any], space: str, where: str, depth: int) -> Union:
        branches = [self.type(one, space, where, depth + 1) for one in said]
        seen: set[str] = set()
        for branch in branches:
            if isinstance(branch, Union):
                _refuse(where, "a union stands directly in a union")
            if (name := label(branch)) in seen:
                _refuse(where, f"the union has {name} twice")
            seen.add(name)
        return Union(branches=branches)

    def _named(self, said: dict[str, Any], kind: str, space: str, where: str, depth: int) -> Named:
        name, space = _full_name(said, space, where)
        if name in self.made or name in self._known or name in PRIMITIVES:
            _refuse(where, f'there are two types "{name}"')
        aliases = tuple(alias if "." in alias or not space else f"{space}.{alias}" for alias in _texts(said, where))
        if kind == "fixed":
            size = said.get("size")
            if not isinstance(size, int) or isinstance(size, bool) or size < 0:
                _refuse(where, "the size of a fixed is a number of bytes")
            made: Named = Fixed(_properties(said, "fixed"), name, aliases, size)
        elif kind == "enum":
            made = _enum(said, name, aliases, where)
        else:
            made = Record(_properties(said, "record"), name, aliases, kind)
        self.made[name] = made
        if isinstance(made, Record):
            self._fill(made, said.get("fields"), space, where, depth)
        return made

    def _fill(self, record: Record, fields: Any, space: str, where: str, depth: int) -> None:
        if not isinstance(fields, list):
            _refuse(where, "a record has a list of fields")
        names: set[str] = set()
        for said in fields:
            if not isinstance(said, dict) or not _is_name(said.get("name")):
                _refuse(where, f"{json.dumps(said)[:60]} is not a field with a name")
            path = f"{record.short_name}.{said['name']}"
            if said["name"] in names:
                _refuse(path, "the record has a field of this name already")
            names.add(said["name"])
            kind = self.type(said.get("type"), space, path, depth + 1)
            field = Field(said["name"], kind, said.get("default", NO_DEFAULT), _texts(said, path))
            field.properties = _properties(said, "field")
            if field.default is not NO_DEFAULT:
                self._defaults.append((field, path))
            record.fields.append(field)


def _enum(said: dict[str, Any], name: str, aliases: tuple[str, ...], where: str) -> Enum:
    symbols = said.get("symbols")
    if not isinstance(symbols, list) or not all(map(_is_name, symbols)) or len(set(symbols)) != len(symbols):
        _refuse(where, "the symbols of an enum are a list of names, each once")
    default = said.get("default", NO_DEFAULT)
    if default is not NO_DEFAULT and default not in symbols:
        _refuse(where, f"the default {json.dumps(default)[:60]} is not a symbol of the enum")
    return Enum(_properties(said, "enum"), name, aliases, tuple(symbols), default)


def _full_name(said: dict[str, Any], space: str, where: str) -> tuple[str, str]:
    name, own = said.get("name"), said.get("namespace")
    if not isinstance(name, str) or not all(_is_name(part) for part in name.split(".")):
        _refuse(where, f"{json.dumps(name)[:60]} cannot name a type")
    if "." in name:
        return name, name.rpartition(".")[0]
    if own is not None and not isinstance(own, str):
        _refuse(where, "a namespace is a text")
    chosen = space if own is None else own
    if chosen and not all(_is_name(part) for part in chosen.split(".")):
        _refuse(where, f"{chosen[:60]!r} cannot be a namespace")
    return (f"{chosen}.{name}" if chosen else name), chosen


def _is_name(said: Any) -> bool:
    return isinstance(said, str) and NAME.fullmatch(said) is not None


def _texts(said: dict[str, Any], where: str) -> tuple[str, ...]:
    aliases = said.get("aliases", [])
    if not isinstance(aliases, list) or not all(isinstance(alias, str) for alias in aliases):
        _refuse(where, "aliases are a list of names")
    return tuple(aliases)


def _properties(said: dict[str, Any], kind: str) -> dict[str, Any]:
    return {name: value for name, value in said.items() if name not in OWN.get(kind, {"type"})}
