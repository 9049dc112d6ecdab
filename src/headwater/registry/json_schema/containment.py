"""Does a reader's JSON schema admit every document that a writer's schema admits?

The question is decided word by word, on the safe side: the answer "nothing is refused" can be relied on, while a change
that cannot be compared (another `pattern`, `not`, `if`) counts as one that refuses something. Words that say nothing
about documents (title, description, default) do not count.
"""

import json
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

from headwater.registry.budget import Budget, OutOfSteps
from headwater.registry.json_schema.arrays import arrays
from headwater.registry.json_schema.bounds import numbers, strings
from headwater.registry.json_schema.documents import TYPES, Document, Node
from headwater.registry.json_schema.objects import objects
from headwater.registry.json_schema.patterns import SEARCH_STEPS_MAX, Pattern, compiled

SILENT = {
    "$schema", "$id", "id", "$anchor", "$comment", "$defs", "definitions", "title", "description", "default",
    "examples", "readOnly", "writeOnly", "deprecated", "$vocabulary", "contentEncoding", "contentMediaType",
    "contentSchema",
}  # fmt: skip
"""Words that refuse no document."""

AS_THEY_ARE = ("not", "format", "dependencies", "dependentSchemas")
"""Words that are compared as a whole: the writer's must be the same, or the reader has none."""
CONDITION = ("if", "then", "else")
UNEVALUATED = ("unevaluatedItems", "unevaluatedProperties")
KNOWN = {
    "type", "enum", "const", "$ref", "allOf", "anyOf", "oneOf", *AS_THEY_ARE, *CONDITION, *UNEVALUATED,
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern",
    "properties", "patternProperties", "additionalProperties", "required", "minProperties", "maxProperties",
    "propertyNames", "dependentRequired", "items", "prefixItems", "additionalItems", "minItems", "maxItems",
    "uniqueItems", "contains", "minContains", "maxContains",
}  # fmt: skip
DEPTH_MAX = 200
COMPARISON_STEPS = 50
REASONS_MAX = 100

Pair = tuple[str, str, int, int]
"""The reader's and the writer's text, and the documents that their references lead into."""


def unadmitted(reader: Document, writer: Document, budget: Budget) -> list[str]:
    """Returns what the reader refuses of what the writer admits, one sentence for each path; none if it accepts all."""
    return Comparison(budget).compare(Side(reader, reader.root), Side(writer, writer.root), "#")


class Side:
    """A part of a document, with references followed."""

    def __init__(self, document: Document, node: Node) -> None:
        for _ in range(DEPTH_MAX):
            if not isinstance(node, dict) or "$ref" not in node:
                break
            if document.words_count_beside_references and (node.keys() - SILENT) != {"$ref"}:
                break
            document, node = document.follow(node["$ref"])
        self.document, self.node = document, node
        self._branches: dict[str, list[Side]] = {}

    @cached_property
    def words(self) -> dict[str, Any]:
        """Never changed: a caller that needs other values makes another side."""
        if isinstance(self.node, bool):
            return {} if self.node else {"not": {}}
        words = {word: value for word, value in self.node.items() if word in KNOWN}
        if "$ref" in words:
            words["allOf"] = [*words.get("allOf", []), {"$ref": words.pop("$ref")}]
        for word in ("anyOf", "oneOf"):
            if "enum" not in words and (values := listed(words.get(word, ()), once=word == "oneOf")) is not None:
                # A choice of constants is a list of values, however long: each of them is then looked up, not tried.
                words["enum"] = values
                del words[word]
        return words

    @cached_property
    def text(self) -> str:
        return _text(self.node)

    @cached_property
    def words_text(self) -> str:
        return _text(self.words)

    @property
    def admits_all(self) -> bool:
        return not self.words

    @property
    def admits_nothing(self) -> bool:
        return self.node is False or self.words.get("not") in ({}, True) or self.types == frozenset()

    @cached_property
    def types(self) -> frozenset[str]:
        """The types a document may have; "number" includes "integer"."""
        words = self.words
        said = words.get("type", TYPES)
        types = set([said] if isinstance(said, str) else said)
        if "number" in types:
            types.add("integer")
        if (values := self.values) is not None:
            types &= {kind for value in values for kind in types_of(value)}
        return frozenset(types)

    @cached_property
    def values(self) -> list[Any] | None:
        """The only documents there may be, if they are listed."""
        words = self.words
        found: list[Any] | None = words.get("enum")
        if "const" not in words:
            return found
        only = words["const"]
        return [only] if found is None or _value(only) in map(_value, found) else []

    def branches(self, word: str) -> "list[Side]":
        """Of a choice; the same ones every time, so that what is known of them is not found out again."""
        if word not in self._branches:
            self._branches[word] = [self.part(branch) for branch in self.words[word]]
        return self._branches[word]

    def part(self, node: Node) -> "Side":
        return Side(self.document, node)

    def without(self, word: str) -> "Side":
        return Side(self.document, {name: value for name, value in self.words.items() if name != word})

    def with_branch(self, word: str, branch: Node) -> "Side":
        """This schema where one branch of a choice holds, as one schema."""
        rest = self.without(word).words
        more = Side(self.document, branch)
        if more.document is not self.document or rest.keys() & more.words.keys():
            # The same word on both sides: the branch is kept apart, and the wider of the two readings is used.
            return Side(self.document, {**rest, "allOf": [*rest.get("allOf", []), branch]})
        return Side(self.document, {**rest, **more.words})


def listed(branches: Sequence[Any], *, once: bool) -> list[Any] | None:
    """The values that a choice of constants allows; None if it is another choice. `once`: none may be in two branches.

    >>> listed([{"const": 1, "title": "one"}, {"enum": [2, 3]}], once=True)
    [1, 2, 3]
    >>> listed([{"const": 1}, {"const": 1.0}], once=True) is None
    True
    """
    found: list[Any] = []
    for branch in branches:
        if not isinstance(branch, dict) or len(said := branch.keys() - SILENT) != 1 or not said <= {"const", "enum"}:
            return None
        found += [branch["const"]] if "const" in said else branch["enum"]
    if not found or (once and len(set(map(_value, found))) != len(found)):
        return None
    return found


def types_of(value: Any) -> tuple[str, ...]:
    match value:
        case None:
            return ("null",)
        case bool():
            return ("boolean",)
        case int():
            return ("integer", "number")
        case float():
            return ("integer", "number") if value.is_integer() else ("number",)
        case str():
            return ("string",)
        case list():
            return ("array",)
    return ("object",)


class Comparison:
    """Remembers which pairs it has compared.

    Schemas may contain themselves, so a pair that is being compared counts as fitting. What is found not to fit is then
    unfit whatever else comes out; what is found to fit does so if the pairs around it do, and is forgotten with them.
    """

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self._patterns: dict[str, Pattern] = {}
        self._fitting: dict[Pair, None] = {}
        """In the order they were met."""
        self._unfit: dict[Pair, list[str]] = {}
        """With reasons, without the path that each begins with."""

    def compare(self, reader: Side, writer: Side, path: str) -> list[str]:
        self.budget.spend(COMPARISON_STEPS, characters=len(path))
        if reader.admits_all or writer.admits_nothing or self._same(reader, writer):
            return []
        pair = (self._counted_text(reader), self._counted_text(writer), id(reader.document), id(writer.document))
        if pair in self._fitting or pair in self._unfit:
            return [
                path + reason for reason in self._unfit.get(pair, [])[:1]
            ]  # the rest was reported at the first path
        before = len(self._fitting)
        self._fitting[pair] = None
        found = self._choices(reader, writer, path)
        if found:
            while len(self._fitting) > before:
                self._fitting.popitem()
            self._unfit[pair] = [reason[len(path) :] for reason in found[:REASONS_MAX]]
        return found[:REASONS_MAX]

    def pattern(self, text: str) -> Pattern:
        if text not in self._patterns:
            self.budget.spend(COMPARISON_STEPS, characters=len(text))
            self._patterns[text] = compiled(text)
            self.budget.spend(self._patterns[text].size)
        return self._patterns[text]

    def matches(self, text: str, name: str) -> bool:
        pattern = self.pattern(text)
        steps = pattern.steps(name)
        if steps > SEARCH_STEPS_MAX:
            raise OutOfSteps
        self.budget.spend(steps)
        return pattern.matches(name)

    def admits(self, reader: Side, writer: Side) -> bool:
        return not self.compare(reader, writer, "")

    def _same(self, reader: Side, writer: Side) -> bool:
        """Written the same, and meaning the same: references lead to the same schema."""
        if reader.words.keys() != writer.words.keys():
            return False
        text = reader.words_text
        self.budget.spend(0, characters=len(text) + len(writer.words_text))
        return (reader.document is writer.document or '"$ref"' not in text) and text == writer.words_text

    def _counted_text(self, side: Side) -> str:
        self.budget.spend(0, characters=len(side.text))
        return side.text

    def _choices(self, reader: Side, writer: Side, path: str) -> list[str]:
        words = writer.words
        for word in ("anyOf", "oneOf"):
            if word in words:
                if self._unchanged_choice(reader, writer, word):
                    return self.compare(reader.without(word), writer.without(word), path)
                branches = [writer.with_branch(word, branch) for branch in words[word]]
                return [reason for branch in branches for reason in self.compare(reader, branch, path)]
        if "allOf" in reader.words:
            parts = [reader.without("allOf"), *(reader.part(one) for one in reader.words["allOf"])]
            return [reason for part in parts for reason in self.compare(part, writer, path)]
        if "allOf" in words:
            return self._narrowest(reader, writer, path)
        for word in ("anyOf", "oneOf"):
            if word in reader.words:
                return self._reader_choice(reader, writer, word, path)
        return self._plain(reader, writer, path)

    def _unchanged_choice(self, reader: Side, writer: Side, word: str) -> bool:
        mine, yours = reader.words.get(word), writer.words[word]
        text = _text(mine)
        return text == _text(yours) and (reader.document is writer.document or '"$ref"' not in text)

    def _narrowest(self, reader: Side, writer: Side, path: str) -> list[str]:
        """What all of several schemas admit, each of them admits: it is enough if one is within the reader's."""
        parts = [writer.without("allOf"), *(writer.part(one) for one in writer.words["allOf"])]
        found = [self.compare(reader, part, path) for part in parts]
        merged = _merged(writer)
        if merged is not None:
            found.append(self.compare(reader, merged, path))
        return min(found, key=len) if all(found) else []

    def _reader_choice(self, reader: Side, writer: Side, word: str, path: str) -> list[str]:
        rest = self.compare(reader.without(word), writer, path)
        branches = reader.branches(word)
        fitting = [branch for branch in branches if not self._apart(writer, branch) and self.admits(branch, writer)]
        if not fitting:
            return [*rest, f"{path}: it fits none of the reader's {word}"]
        others = [branch for branch in branches if branch is not fitting[0]]
        if word == "oneOf" and not all(self._apart(writer, other) for other in others):
            return [*rest, f"{path}: it may fit more than one of the reader's oneOf"]
        return rest

    def _apart(self, one: Side, other: Side, depth: int = 0) -> bool:
        """Is it certain that no document fits both?"""
        self.budget.spend(COMPARISON_STEPS // 5)
        if not one.types & other.types:
            return True
        if one.values is not None and other.values is not None:
            self.budget.spend(len(one.values) + len(other.values))
            known = {_value(value) for value in other.values}
            return not any(_value(value) in known for value in one.values)
        if one.types & other.types != {"object"} or depth >= DEPTH_MAX:
            return False
        mine, yours = one.words.get("properties", {}), other.words.get("properties", {})
        needed = set(_required(one)) & set(_required(other)) & mine.keys() & yours.keys()
        return any(self._apart(one.part(mine[name]), other.part(yours[name]), depth + 1) for name in sorted(needed))

    def _plain(self, reader: Side, writer: Side, path: str) -> list[str]:
        """Both without choices."""
        found = _types(reader, writer, path) or _values(reader, writer, path)
        mine, yours = reader.words, writer.words
        for word in AS_THEY_ARE:
            if word in mine and _text(mine[word]) != _text(yours.get(word)):
                found.append(f"{path}: {word} is new or another")
        changed = any(_text(mine.get(word)) != _text(yours.get(word)) for word in CONDITION)
        if changed and any(word in mine for word in CONDITION):
            found.append(f"{path}: if, then and else are new or others")
        for word in UNEVALUATED:
            # What is evaluated depends on all that stands beside it.
            if mine.get(word, True) is not True:
                found.append(f"{path}: {word} stands in a schema that has changed")
        types = writer.types
        if types & {"integer", "number"}:
            found += numbers(mine, yours, path, whole="number" not in types)
        if "string" in types:
            found += strings(mine, yours, path)
        if "object" in types:
            found += objects(self, reader, writer, path)
        if "array" in types:
            found += arrays(self, reader, writer, path)
        return found


def _types(reader: Side, writer: Side, path: str) -> list[str]:
    more = sorted(writer.types - reader.types)
    if not more:
        return []
    if more == ["number"] and "integer" in reader.types:
        return [f"{path}: a number may have a fraction, and the reader takes integers"]
    return [f"{path}: the reader takes no {', '.join(more)}"]


def _values(reader: Side, writer: Side, path: str) -> list[str]:
    allowed = reader.values
    if allowed is None:
        return []
    if writer.values is None:
        return [f"{path}: the reader takes listed values only"]
    known = {_value(value) for value in allowed}
    more = [value for value in writer.values if _value(value) not in known]
    return [f"{path}: the reader does not list {', '.join(_text(value)[:40] for value in more)}"] if more else []


def _required(side: Side) -> list[str]:
    said = side.words.get("required", [])
    return said if isinstance(said, list) else []


def _merged(side: Side) -> Side | None:
    """Schemas of an allOf as one, where no word stands in two of them."""
    words = {word: value for word, value in side.words.items() if word != "allOf"}
    for one in side.words["allOf"]:
        part = side.part(one)
        common = words.keys() & part.words.keys()
        if part.document is not side.document or common - {"type"}:
            return None
        if "type" in common and words["type"] != part.words["type"]:
            return None
        # These speak of names that other words beside them do not mention.
        if {"additionalProperties", "additionalItems", "items"} & (words.keys() | part.words.keys()):
            return None
        words |= part.words
    return Side(side.document, words)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _value(value: Any) -> str:
    """Equal for values that JSON Schema takes as equal: 1 and 1.0 are."""
    if isinstance(value, float | int) and not isinstance(value, bool):
        return str(Fraction(value))
    if isinstance(value, list):
        return f"[{','.join(map(_value, value))}]"
    if isinstance(value, dict):
        return f"{{{','.join(f'{_text(name)}:{_value(value[name])}' for name in sorted(value))}}}"
    return _text(value)
