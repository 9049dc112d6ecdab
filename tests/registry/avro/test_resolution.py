"""What is said to be readable, fastavro reads; what is said not to be, it fails to read for some data."""

import copy
import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from headwater.errors import InvalidSchemaText
from headwater.registry.avro.kind import KIND
from headwater.registry.budget import Budget, OutOfSteps

Schema = Any


def record(*fields: Any, name: str = "Order", **more: Any) -> Schema:
    return {"type": "record", "name": name, "fields": [dict(field) for field in fields], **more}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def reasons(reader: Schema, writer: Schema) -> list[str]:
    read, written = (KIND.parse(json.dumps(schema), {}).tree for schema in (reader, writer))
    return KIND.unreadable(read, written, Budget())


X = field("x", "int")
COLOURS = {"type": "enum", "name": "Colour", "symbols": ["red", "blue"]}
MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
LIST = record(X, field("next", ["null", "Order"], default=None))

READABLE = [
    ("the same", record(X), record(X)),
    ("a field was removed", record(X), record(X, field("y", "int"))),
    ("a field was added with a default", record(X, field("y", "int", default=1)), record(X)),
    ("a field was renamed with an alias", record(field("z", "int", aliases=["x"])), record(X)),
    ("an int is read as a long", record(field("x", "long")), record(X)),
    ("an int is read as a double", record(field("x", "double")), record(X)),
    ("a string is read as bytes", record(field("x", "bytes")), record(field("x", "string"))),
    ("a field may now be null", record(field("x", ["null", "int"])), record(X)),
    ("all branches of a union are known", record(field("x", ["null", "int", "string"])), record(field("x", ["int"]))),
    (
        "a symbol was added",
        record(field("x", {**COLOURS, "symbols": ["red", "blue", "green"]})),
        record(field("x", COLOURS)),
    ),
    (
        "a symbol was removed and there is a default",
        record(field("x", {**COLOURS, "symbols": ["red"], "default": "red"})),
        record(field("x", COLOURS)),
    ),
    ("the namespace changed", record(X, namespace="b"), record(X, namespace="a")),
    ("a record in itself", LIST, LIST),
    ("elements are promoted", {"type": "array", "items": "long"}, {"type": "array", "items": "int"}),
]

UNREADABLE = [
    ("a field was added without a default", record(X, field("y", "int")), record(X), "y: the field is not written"),
    ("a long is not an int", record(X), record(field("x", "long")), "x: a long cannot be read as a int"),
    ("null is not an int", record(X), record(field("x", ["null", "int"])), "x: a null cannot be read as a int"),
    (
        "a symbol was removed",
        record(field("x", {**COLOURS, "symbols": ["red"]})),
        record(field("x", COLOURS)),
        "lacks blue",
    ),
    ("another name", record(X, name="Other"), record(X), "the names differ"),
    (
        "another size",
        {"type": "fixed", "name": "F", "size": 4},
        {"type": "fixed", "name": "F", "size": 8},
        "has 4 bytes",
    ),
    ("a decimal of another scale", record(field("x", {**MONEY, "scale": 3})), record(field("x", MONEY)), "decimal"),
    ("a map is not an array", {"type": "map", "values": "int"}, {"type": "array", "items": "int"}, "a array cannot"),
    ("no branch fits", record(field("x", ["null", "string"])), record(X), "fits no branch"),
    (
        "deep inside",
        record(field("a", {"type": "array", "items": record(X, name="In")})),
        record(field("a", {"type": "array", "items": record(field("x", "string"), name="In")})),
        r"a[].x: a string",
    ),
]


@pytest.mark.parametrize("rule, reader, writer", READABLE, ids=[row[0] for row in READABLE])
def test_a_reader_can_read(rule: str, reader: Schema, writer: Schema) -> None:
    assert reasons(reader, writer) == []


@pytest.mark.parametrize("rule, reader, writer, why", UNREADABLE, ids=[row[0] for row in UNREADABLE])
def test_a_reader_cannot_read(rule: str, reader: Schema, writer: Schema, why: str) -> None:
    assert why in "; ".join(reasons(reader, writer))


def test_every_path_is_reported() -> None:
    reader = record(field("a", "int"), field("b", "int"))
    assert len(reasons(reader, record(field("a", "string"), field("b", "string")))) == 2


def test_a_union_of_records_that_contain_themselves_is_compared_in_time() -> None:
    names = [f"R{number}" for number in range(12)]
    nested = record(*(field(name, ["null", record(field("self", ["null", name], default=None), name=name)])
                      for name in names), name="Top")  # fmt: skip
    assert reasons(nested, nested) == []


# -- against fastavro ------------------------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "c"])
PRIMITIVES = st.sampled_from(["null", "boolean", "int", "long", "float", "double", "bytes", "string"])


def enums() -> st.SearchStrategy[Schema]:
    symbols = st.lists(st.sampled_from(["red", "blue", "green"]), min_size=1, unique=True)
    plain = symbols.map(lambda found: {"type": "enum", "name": "Colour", "symbols": found})
    return plain | symbols.map(lambda found: {"type": "enum", "name": "Colour", "symbols": found, "default": found[0]})


def types(depth: int) -> st.SearchStrategy[Schema]:
    flat = PRIMITIVES | enums()
    if depth == 0:
        return flat
    inner = types(depth - 1)
    unions = st.lists(PRIMITIVES, min_size=1, max_size=3, unique=True)
    return (
        flat
        | unions
        | inner.map(lambda kind: {"type": "array", "items": kind})
        | inner.map(lambda kind: {"type": "map", "values": kind})
    )


DEFAULTS = {"int": 1, "long": 2, "string": "s", "null": None, "boolean": True, "double": 0.5}


@st.composite
def records(draw: st.DrawFn) -> Schema:
    fields = []
    for name in draw(st.lists(NAMES, min_size=1, unique=True)):
        kind = draw(types(1))
        more = {}
        if isinstance(kind, str) and kind in DEFAULTS and draw(st.booleans()):
            more = {"default": DEFAULTS[kind]}
        fields.append(field(name, _distinct(kind, f"{name}_"), **more))
    return record(*fields)


def _distinct(kind: Schema, prefix: str) -> Schema:
    """A name may be defined once in a schema; the same field has the same names in every schema."""
    if isinstance(kind, list):
        return [_distinct(one, prefix) for one in kind]
    if not isinstance(kind, dict):
        return kind
    renamed = {key: _distinct(value, prefix) if key in ("items", "values") else value for key, value in kind.items()}
    return {**renamed, "name": prefix + kind["name"]} if "name" in kind else renamed


VALUES: dict[str, list[Any]] = {
    "null": [None],
    "boolean": [True],
    "int": [-7, 2**31 - 1],
    "long": [2**40],
    "float": [0.5],
    "double": [1e300],
    "bytes": [b"\x00a"],
    "string": ["text"],
}


def samples(kind: Schema) -> list[Any]:
    """Values that together use every branch, symbol and element of a type."""
    if isinstance(kind, list):
        return [value for branch in kind for value in samples(branch)]
    if isinstance(kind, str):
        return VALUES[kind]
    match kind["type"]:
        case "enum":
            return list(kind["symbols"])
        case "array":
            return [[], *([value] for value in samples(kind["items"]))]
        case "map":
            return [{}, *({"k": value} for value in samples(kind["values"]))]
    return [value for one in kind["fields"] for value in with_each(kind, one)]


def with_each(kind: Schema, changed: Any) -> list[Any]:
    base = {one["name"]: samples(one["type"])[0] for one in kind["fields"]}
    return [{**base, changed["name"]: value} for value in samples(changed["type"])]


def failure(reader: Schema, writer: Schema) -> str | None:
    """What fastavro says against one of the samples; None if it reads them all."""
    mine, yours = (fastavro.parse_schema(copy.deepcopy(schema)) for schema in (reader, writer))
    for value in samples(writer):
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, yours, value)
        stream.seek(0)
        try:
            fastavro.schemaless_reader(stream, yours, mine)
        except Exception as error:
            return f"{value}: {error!r}"
    return None


@pytest.mark.parametrize("writer", VALUES)
@pytest.mark.parametrize("reader", VALUES)
@pytest.mark.parametrize("shape", ["plain", "in a union", "as elements"])
def test_each_primitive_is_read_as_each_other_or_not_as_fastavro_does(reader: str, writer: str, shape: str) -> None:
    shaped: dict[str, Any] = {
        "plain": writer,
        "in a union": [writer],
        "as elements": {"type": "array", "items": writer},
    }
    wanted: Any = {"type": "array", "items": reader} if shape == "as elements" else reader
    pair = record(field("x", wanted)), record(field("x", shaped[shape]))
    assert (failure(*pair) is None) == (not reasons(*pair))


PROMOTED = {"int": ["long", "float", "double"], "long": ["double"], "string": ["bytes"], "bytes": ["string"]}


@st.composite
def evolutions(draw: st.DrawFn) -> tuple[Schema, Schema]:
    """A writer's schema, and a reader's that could have evolved from it; or one that has nothing to do with it."""
    writer = draw(records())
    if draw(st.integers(0, 3)) == 0:
        return draw(records()), writer
    fields = []
    for one in writer["fields"]:
        kind = one["type"]
        match draw(st.sampled_from(["keep", "keep", "drop", "promote", "nullable", "change"])):
            case "keep":
                fields.append(one)
            case "promote" if isinstance(kind, str):
                fields.append(field(one["name"], draw(st.sampled_from(PROMOTED.get(kind, [kind])))))
            case "nullable" if isinstance(kind, str) and kind != "null":
                fields.append(field(one["name"], ["null", kind], default=None))
            case "change":
                fields.append(field(one["name"], _distinct(draw(types(1)), f"{one['name']}_")))
    if draw(st.booleans()):
        fields.append(field("new", "int", **({"default": 5} if draw(st.booleans()) else {})))
    return record(*fields), writer


@settings(max_examples=400, deadline=None)
@given(evolutions())
def test_what_is_said_is_what_fastavro_does(pair: tuple[Schema, Schema]) -> None:
    reader, writer = pair
    found = reasons(reader, writer)
    event("unreadable" if found else "readable")
    assert (failure(reader, writer) is None) == (not found), (found, failure(reader, writer))


def test_a_default_that_could_be_one_of_two_records_at_every_level_is_checked_once_at_each() -> None:
    default: Any = 1
    for _ in range(60):
        default = {"f": default}
    other = {"type": "record", "name": "B", "fields": [{"name": "f", "type": ["A", "B"]}]}
    fields = [{"name": "f", "type": ["A", other]}, {"name": "g", "type": ["A", "B"], "default": default}]
    with pytest.raises(InvalidSchemaText, match="the default"):
        KIND.parse(json.dumps({"type": "record", "name": "A", "fields": fields}), {})


def test_unions_of_thousands_of_records_run_out_of_steps() -> None:
    def union(numbers: range) -> Schema:
        return [{"type": "record", "name": f"R{number}", "fields": []} for number in numbers]

    with pytest.raises(OutOfSteps):
        reasons(union(range(2000)), union(range(1999, -1, -1)))
