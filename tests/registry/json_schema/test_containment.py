"""What is said to be admitted, jsonschema admits: generated schemas and documents, and the cases people meet."""

import json
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from headwater.registry.budget import Budget, OutOfSteps
from headwater.registry.json_schema.kind import KIND

Schema = Any


def reasons(reader: Schema, writer: Schema) -> list[str]:
    read, written = (KIND.parse(json.dumps(schema), {}).tree for schema in (reader, writer))
    return KIND.unreadable(read, written, Budget())


def closed(required: list[str] | None = None, **properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": required or [], "additionalProperties": False}


def opened(required: list[str] | None = None, **properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": required or []}


INT, NUM, TEXT, NULL = {"type": "integer"}, {"type": "number"}, {"type": "string"}, {"type": "null"}
TREE = {"$ref": "#/$defs/t", "$defs": {"t": opened(v=INT, next={"$ref": "#/$defs/t"})}}

ADMITTED = [
    ("the same", opened(a=INT), opened(a=INT)),
    ("an integer is a number", closed(a=NUM), closed(a=INT)),
    ("an optional property is added to a closed object", closed(a=INT, b=TEXT), closed(a=INT)),
    ("a property is removed from an open object", opened(a=INT), opened(a=INT, b=TEXT)),
    ("a property is no longer required", opened(a=INT), opened(["a"], a=INT)),
    ("a type is added", {"type": ["string", "null"]}, TEXT),
    ("a value is added", {"enum": ["a", "b"]}, {"enum": ["a"]}),
    ("a value of a list is the only one", {"enum": ["a", "b"]}, {"const": "a", "enum": ["a", "c"]}),
    ("a bound is widened", {"type": "integer", "minimum": 0}, {"type": "integer", "minimum": 3}),
    ("a length is widened", {"type": "string", "maxLength": 9}, {"type": "string", "maxLength": 3}),
    ("a choice is added", {"anyOf": [TEXT, INT]}, TEXT),
    ("a choice of types that exclude each other is added", {"oneOf": [TEXT, INT, NULL]}, {"oneOf": [TEXT, INT]}),
    ("a title changes", {**TEXT, "title": "b"}, {**TEXT, "title": "a"}),
    ("a schema that contains itself", TREE, TREE),
    ("a part is moved to a definition", {"$ref": "#/$defs/x", "$defs": {"x": closed(a=INT)}}, closed(a=INT)),
    ("the elements are widened", {"type": "array", "items": NUM}, {"type": "array", "items": INT}),
    ("all is admitted", True, opened(a=INT)),
]

REFUSED = [
    ("a property is added to an open object", opened(a=INT, b=TEXT), opened(a=INT), "#/b: the reader takes no"),
    ("a property is removed from a closed object", closed(a=INT), closed(a=INT, b=TEXT), "#/b"),
    ("a property is now required", opened(["a"], a=INT), opened(a=INT), "#/a: the reader requires it"),
    ("an object is closed", closed(a=INT), opened(a=INT), "#/*"),
    ("a number is no integer", INT, NUM, "may have a fraction"),
    ("a type was removed", TEXT, {"type": ["string", "null"]}, "takes no null"),
    ("a value was removed", {"enum": ["a"]}, {"enum": ["a", "b"]}, 'does not list "b"'),
    ("one value and a list without it", {"const": "a", "enum": ["b"]}, {"const": "a"}, "takes no string"),
    ("a bound is narrowed", {"type": "integer", "maximum": 3}, INT, "maximum is narrower"),
    ("a pattern is added", {"type": "string", "pattern": "a"}, TEXT, "pattern is new"),
    ("choices may both fit", {"oneOf": [NUM, INT]}, INT, "more than one"),
    ("a choice was removed", {"anyOf": [TEXT]}, {"anyOf": [TEXT, INT]}, "none of the reader's anyOf"),
    ("elements are narrowed", {"type": "array", "items": INT}, {"type": "array", "items": NUM}, "#[]"),
    ("a deep change", closed(a=closed(b=INT)), closed(a=closed(b=TEXT)), "#/a/b: the reader takes no string"),
]


@pytest.mark.parametrize("rule, reader, writer", ADMITTED, ids=[row[0] for row in ADMITTED])
def test_a_reader_takes_all_where(rule: str, reader: Schema, writer: Schema) -> None:
    assert reasons(reader, writer) == []


@pytest.mark.parametrize("rule, reader, writer, why", REFUSED, ids=[row[0] for row in REFUSED])
def test_a_reader_refuses_some_where(rule: str, reader: Schema, writer: Schema, why: str) -> None:
    assert why in "; ".join(reasons(reader, writer))


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|a)*$", "a*a*a*a*a*a*a*b", "^a*a*a*b$"])
def test_a_pattern_that_would_take_python_for_ever_is_matched(pattern: str) -> None:
    name = "a" * 20_000 + "!"
    reader, writer = ({"patternProperties": {pattern: TEXT}, "properties": {name: kind}} for kind in (NUM, INT))
    assert reasons(reader, writer) == []
    assert reasons(writer, reader) == [f"#/{name}: a number may have a fraction, and the reader takes integers"]


def test_a_pattern_that_cannot_be_matched_in_linear_time_says_so() -> None:
    reader, writer = ({"patternProperties": {"^(?!x-)": kind}} for kind in (NUM, INT))
    assert "cannot be compared: it looks ahead or behind" in "; ".join(reasons(reader, writer))


@pytest.mark.parametrize("word", ["oneOf", "anyOf"])
def test_a_choice_of_thousands_of_constants_is_a_list_of_values(word: str) -> None:
    reader = {word: [{"const": f"v{number}", "title": "t"} for number in range(2001)]}
    writer = {word: [{"const": f"v{number}"} for number in range(2000)]}
    assert reasons(reader, writer) == []
    assert reasons(writer, reader) == ['#: the reader does not list "v2000"']


def test_schemas_that_would_take_minutes_to_compare_run_out_of_steps() -> None:
    reader = {"oneOf": [closed(["a"], a={"type": "integer", "minimum": number}) for number in range(3000)]}
    writer = {"oneOf": [closed(["a"], a={"type": "integer", "maximum": number}) for number in range(3000)]}
    with pytest.raises(OutOfSteps):
        reasons(reader, writer)


def test_choices_of_objects_that_hold_themselves_are_distinguished_in_the_end() -> None:
    node = {"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#/$defs/n"}}}
    choice = [{"$ref": "#/$defs/n"}, {**node, "minProperties": 2}]
    schema = {"$defs": {"n": node}, "oneOf": choice}
    assert reasons({**schema, "title": "x", "minProperties": 1}, schema)


def pair_of_lists(value: Schema, first: Schema) -> Schema:
    """Two kinds of objects that contain each other; the first has a value."""
    a, b = {"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}
    return {**closed(x=first, y=b), "$defs": {"a": closed(next=b, value=value), "b": closed(back=a)}}


def test_what_fits_only_because_something_else_was_taken_to_fit_is_looked_at_again() -> None:
    reader = pair_of_lists(INT, {"anyOf": [{"$ref": "#/$defs/a"}, True]})
    writer = pair_of_lists(TEXT, {"$ref": "#/$defs/a"})
    assert reasons(reader, writer) == ["#/y/back/value: the reader takes no string"]


def resources(count: int) -> dict[str, Any]:
    """Kinds of objects that all refer to each other, and a choice of them: as large published schemas are made."""
    return {
        f"D{number}": closed(
            ["kind"],
            kind={"const": f"D{number}"},
            **{f"p{index}": {"$ref": f"#/$defs/D{(number * 7 + index * 5) % count}"} for index in range(8)},
        )
        for number in range(count)
    }


def test_schemas_whose_parts_all_refer_to_each_other_are_compared_in_time() -> None:
    old, new = resources(30), resources(30)
    new["D7"]["properties"]["more"] = TEXT
    before, after = ({"oneOf": [{"$ref": f"#/$defs/{name}"} for name in parts], "$defs": parts} for parts in (old, new))
    assert reasons(after, before) == []
    assert "it fits none of the reader's oneOf" in reasons(before, after)[0]


# -- against jsonschema ----------------------------------------------------------------------------------------------

WORDS: dict[str, st.SearchStrategy[Any]] = {
    "type": st.sampled_from(
        ["string", "integer", "number", "object", "array", ["string", "null"], ["integer", "object"]]
    ),
    "enum": st.lists(st.sampled_from([None, 0, 1, 1.5, "", "a", "ab", [], {}]), min_size=1, max_size=3),
    "const": st.sampled_from([1, "a"]),
    "minimum": st.sampled_from([0, 1]),
    "exclusiveMinimum": st.sampled_from([0, 1]),
    "maximum": st.sampled_from([1, 2]),
    "multipleOf": st.sampled_from([1, 2, 0.5]),
    "minLength": st.sampled_from([0, 1]),
    "maxLength": st.sampled_from([1, 2]),
    "pattern": st.sampled_from(["^a", "b$"]),
    "required": st.lists(st.sampled_from(["a", "b"]), unique=True),
    "minProperties": st.sampled_from([0, 1]),
    "maxProperties": st.sampled_from([0, 1, 2]),
    "minItems": st.sampled_from([0, 1]),
    "maxItems": st.sampled_from([0, 1, 2]),
    "uniqueItems": st.booleans(),
}


def _nested(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    named = st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2)
    choices = st.lists(inner, min_size=1, max_size=3)
    more = {
        **WORDS,
        "properties": named,
        "patternProperties": st.dictionaries(st.sampled_from(["^a", "b"]), inner, max_size=2),
        "additionalProperties": inner,
        "items": inner,
        "prefixItems": choices,
        "anyOf": choices,
        "oneOf": choices,
        "allOf": choices,
        "not": inner,
        "dependentRequired": st.just({"a": ["b"]}),
    }
    return _some_of(more)


def _some_of(words: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Schema]:
    chosen = st.lists(st.sampled_from(sorted(words)), max_size=3, unique=True)
    return chosen.flatmap(lambda names: st.fixed_dictionaries({name: words[name] for name in names}))


SCHEMAS = st.recursive(st.booleans() | _some_of(WORDS), _nested, max_leaves=6)
ATOMS: list[Any] = [None, True, 0, 1, 2, 0.5, 1.5, -1, "", "a", "ab", "b", "abc"]


def _documents() -> list[Any]:
    small: list[Any] = [*ATOMS, [], {}]
    lists: list[Any] = [[each] for each in small] + [["a", "a"], [1, "a"], [0, 1], ["", None], [1, 2, 3]]
    objects: list[Any] = [{name: one} for name in ("a", "b", "c") for one in small]
    objects += [{"a": one, "b": other} for one in ATOMS[3:9] for other in (1, "b", [1])]
    deep: list[Any] = [{"a": {"a": one}} for one in ATOMS] + [[{"a": 1}], {"a": [1]}, {"a": [[]], "c": 1}, [["a"]]]
    return [*small, *lists, *objects, *deep]


DOCUMENTS = _documents()


@st.composite
def evolutions(draw: st.DrawFn) -> tuple[Schema, Schema]:
    """A schema and another that differs in one word somewhere, or wholly."""
    writer = draw(SCHEMAS)
    if not isinstance(writer, dict) or draw(st.integers(0, 2)) == 0:
        return draw(SCHEMAS), writer
    reader = json.loads(json.dumps(writer))
    spot = reader
    while inner := [value for value in spot.values() if isinstance(value, dict) and value]:
        if draw(st.booleans()):
            break
        spot = draw(st.sampled_from(inner))
    if spot and draw(st.booleans()):
        del spot[draw(st.sampled_from(sorted(spot)))]
    elif not any(spot is one.get("properties") for one in [reader]):
        spot.update(draw(_some_of(WORDS)) if spot is reader else {})
    return reader, writer


@settings(max_examples=500, deadline=None)
@given(evolutions())
def test_what_is_said_to_be_admitted_is_admitted_by_jsonschema(pair: tuple[Schema, Schema]) -> None:
    reader, writer = pair
    found = reasons(reader, writer)
    event("refused" if found else "admitted")
    mine, yours = Draft202012Validator(reader), Draft202012Validator(writer)
    refused = [one for one in DOCUMENTS if yours.is_valid(one) and not mine.is_valid(one)]
    assert found or not refused, refused[:3]


def test_a_pattern_and_a_name_that_would_keep_the_interpreter_run_out_of_steps() -> None:
    reader, writer = (
        {"patternProperties": {"(a?){1000}b$": kind}, "properties": {"a" * 20_000: kind}} for kind in (NUM, INT)
    )
    with pytest.raises(OutOfSteps):
        reasons(reader, writer)
