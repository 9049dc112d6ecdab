"""JSON Schema texts: read, written in one way, and followed along their references. Pure."""

import json
import math
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from headwater.errors import InvalidSchemaText

DEPTH_MAX = 200
TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")

Node = Any
"""A schema or a part of one: an object or a boolean."""


class Document:
    """One schema with all that it refers to."""

    def __init__(self, text: str, references: Mapping[str, "Document"]) -> None:
        try:
            self.root: Node = json.loads(text, parse_constant=_no_number)
        except (ValueError, RecursionError) as error:
            raise InvalidSchemaText(f"the JSON schema is not JSON: {error}") from None
        _check(self.root, "#", 0)
        self._others: dict[str, Document] = dict(references)
        self.base = _id_of(self.root)
        for reference in dict.fromkeys(_references(self.root)):
            self.follow(reference)

    @property
    def words_count_beside_references(self) -> bool:
        """Up to the seventh draft they are ignored; a schema that names no draft is of the newest."""
        said = self.root.get("$schema", "") if isinstance(self.root, dict) else ""
        return "draft-0" not in str(said)

    @property
    def canonical(self) -> str:
        return json.dumps(self.root, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    def follow(self, reference: str) -> tuple["Document", Node]:
        """What a $ref means: a part of this document, or of one that was given under that name."""
        if reference.startswith("#"):
            return self, self._part(reference[1:])
        where, part = urldefrag(reference)
        for name in (where, urljoin(self.base, where)):
            if name == self.base and name:
                return self, self._part(part)
            for given, other in self._others.items():
                if name in (given, other.base):
                    return other, other._part(part)
        raise InvalidSchemaText(f'"$ref": "{reference[:100]}" is not among the references of the schema')

    @cached_property
    def _anchors(self) -> dict[str, Node]:
        return dict(reversed(list(_anchored(self.root))))  # of two the first one counts

    def _part(self, pointer: str) -> Node:
        if pointer in ("", "/"):
            return self.root
        if not pointer.startswith("/"):
            found = self._anchors.get(pointer)
            if found is None:
                raise InvalidSchemaText(f'"$ref": "#{pointer[:100]}" leads nowhere')
            return found
        node = self.root
        for step in pointer[1:].split("/"):
            key = unquote(step).replace("~1", "/").replace("~0", "~")
            if isinstance(node, dict) and key in node:
                node = node[key]
            elif isinstance(node, list) and key.isdecimal() and int(key) < len(node):
                node = node[int(key)]
            else:
                raise InvalidSchemaText(f'"$ref": "#{pointer[:100]}" leads nowhere')
        return node


def _id_of(node: Node) -> str:
    said = node.get("$id") or node.get("id") if isinstance(node, dict) else ""
    return said.rstrip("#") if isinstance(said, str) else ""


def _references(node: Node) -> Iterator[str]:
    for inner in _all(node, without=("enum", "const", "default", "examples")):
        if isinstance(inner.get("$ref"), str):
            yield inner["$ref"]


def _anchored(node: Node) -> Iterator[tuple[str, Node]]:
    for inner in _all(node):
        for name in (inner.get("$anchor"), str(inner.get("$id", ""))[1:]):
            if isinstance(name, str) and name:
                yield name, inner


def _all(node: Node, without: tuple[str, ...] = ()) -> Iterator[dict[str, Any]]:
    """Every object in it, in the order of the text; without recursion, as JSON can be nested deeply."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            yield one
            waiting += reversed([value for key, value in one.items() if key not in without])
        elif isinstance(one, list):
            waiting += reversed(one)


def _no_number(name: str) -> object:
    raise ValueError(f"{name} is no number in JSON")


LISTS_OF_SCHEMAS = ("allOf", "anyOf", "oneOf", "prefixItems")
MAPS_OF_SCHEMAS = ("properties", "patternProperties", "definitions", "$defs", "dependentSchemas")
SCHEMAS = ("additionalProperties", "additionalItems", "not", "if", "then", "else", "contains", "propertyNames",
           "unevaluatedItems", "unevaluatedProperties")  # fmt: skip
COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
FLAGS = ("exclusiveMinimum", "exclusiveMaximum")
NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")


def _check(node: Node, where: str, depth: int) -> None:
    """Only what the rules and every validator rely on; unknown words are allowed, as the specification says."""
    if depth > DEPTH_MAX:
        raise InvalidSchemaText(f"the JSON schema is nested deeper than {DEPTH_MAX}")
    if isinstance(node, bool):
        return
    if not isinstance(node, dict):
        _refuse(where, "a schema is an object, or true or false")
    _check_type(node.get("type", []), where)
    for word in LISTS_OF_SCHEMAS:
        if word in node and (not isinstance(node[word], list) or not node[word]):
            _refuse(where, f"{word} is a list of schemas")
        for number, one in enumerate(node.get(word, [])):
            _check(one, f"{where}/{word}/{number}", depth + 1)
    for word in MAPS_OF_SCHEMAS:
        if not isinstance(node.get(word, {}), dict):
            _refuse(where, f"{word} is an object of schemas")
        for name, one in node.get(word, {}).items():
            _check(one, f"{where}/{word}/{name}", depth + 1)
    for word in SCHEMAS:
        if word in node:
            _check(node[word], f"{where}/{word}", depth + 1)
    items = node.get("items", [])
    for one in items if isinstance(items, list) else [items]:
        _check(one, f"{where}/items", depth + 1)
    _check_values(node, where)


def _check_type(said: Any, where: str) -> None:
    listed = said if isinstance(said, list) else [said]
    for name in listed:
        if name not in TYPES:
            _refuse(where, f"{json.dumps(name)[:40]} is not a type")


def _check_values(node: dict[str, Any], where: str) -> None:
    required = node.get("required", [])
    # A boolean was the way of the third draft, which some programs still write.
    if not isinstance(required, bool | list) or (isinstance(required, list) and not all(map(_is_text, required))):
        _refuse(where, "required is a list of names")
    if not isinstance(node.get("dependentRequired", {}), dict):
        _refuse(where, "dependentRequired is an object of lists of names")
    if "enum" in node and not isinstance(node["enum"], list):
        _refuse(where, "enum is a list of values")
    for word in COUNTS:
        if word in node and (not _is_number(node[word]) or node[word] < 0 or node[word] != int(node[word])):
            _refuse(where, f"{word} is a number of things")
    for word in NUMBERS:
        # In the fourth draft the words with exclusive are flags.
        if word in node and not _is_number(node[word]) and not (word in FLAGS and isinstance(node[word], bool)):
            _refuse(where, f"{word} is a number")
    if "multipleOf" in node and (not _is_number(node["multipleOf"]) or node["multipleOf"] <= 0):
        _refuse(where, "multipleOf is a number above zero")
    if "$ref" in node and not isinstance(node["$ref"], str):
        _refuse(where, "$ref is a text")


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    """1e999 is none that can be compared: Python reads it as infinite."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _refuse(where: str, why: str) -> None:
    raise InvalidSchemaText(f"the JSON schema is wrong at {where[:200]}: {why}")
