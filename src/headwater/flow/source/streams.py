"""What a source reads: one or several streams, and the frame in which they come out. Pure.

With one schema for all topics the frame has that schema's columns. With several streams it has a column `_stream`, the
number of the stream a row belongs to, and one struct column for each stream, null in the rows of the others.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa

from headwater.errors import InvalidSetting
from headwater.flow.formats.schema import Field, Schema, parse_ddl
from headwater.flow.source.columns import HIDDEN, NEEDS_HEADERS, RAW, fields_of
from headwater.flow.source.times.clock_rules import NO_RULES, ClockRules

STREAM = "_stream"
RAW_SCHEMA = Schema(fields_of(RAW))
TOMBSTONES = ("poison", "keep")


@dataclass(frozen=True)
class Stream:
    """Values of one topic, how they decode, and what is wanted of each record."""

    name: str
    topic: str
    format: str = "raw"
    schema: Schema | None = None
    """Of the value; None gives the record as it is, undecoded."""
    options: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    """Hidden columns that are wanted too."""
    time: str | None = None
    """The column that says when it happened."""
    tombstones: str = "poison"
    """A null value does not decode, unless it is said to be kept: then its columns are null."""
    clock: ClockRules = NO_RULES
    """What is believed of its times, and whose they are."""

    @cached_property
    def frame(self) -> Schema:
        """The value's columns and the hidden ones wanted, each nullable."""
        if self.schema is None:
            return RAW_SCHEMA
        own = tuple(Field(one.name, one.type) for one in self.schema.fields)
        return Schema(own + tuple(Field(name, HIDDEN[name].type) for name in self.columns))

    @cached_property
    def value(self) -> Schema:
        """What is decoded: all but the column that is worked out from others."""
        assert self.schema is not None
        device = self.clock.device
        return Schema(tuple(one for one in self.schema.fields if device is None or one.name != device.into))

    @property
    def needs_headers(self) -> bool:
        return not NEEDS_HEADERS.isdisjoint(self.frame.names)


def typed_stream(stream: Stream, schema: Schema) -> Stream:
    """A stream with a schema, which may name hidden columns among those of the value."""
    for one in schema.fields:
        if one.name.startswith("_") and one.name not in HIDDEN:
            raise InvalidSetting("schema", one.name, f"hidden columns are {', '.join(HIDDEN)}")
    value = tuple(one for one in schema.fields if one.name not in HIDDEN)
    hidden = tuple(one.name for one in schema.fields if one.name in HIDDEN)
    return replace(stream, schema=Schema(value), columns=hidden, time=_checked_time(stream.time, value))


def parse_streams(text: str) -> tuple[Stream, ...]:
    """The option `streams`: a JSON list of objects with name, topic, format, schema and so on."""
    try:
        listed = json.loads(text)
    except ValueError as error:
        raise InvalidSetting("streams", text[:80], f"it is not JSON ({error})") from None
    if not isinstance(listed, list) or not listed or not all(isinstance(one, dict) for one in listed):
        raise InvalidSetting("streams", text[:80], "it must be a JSON list of objects")
    streams = tuple(_parse_stream(one) for one in listed)
    names = [stream.name for stream in streams]
    if len(set(names)) != len(names) or STREAM in names:
        raise InvalidSetting("streams", names, "each stream needs a name of its own")
    return streams


def _parse_stream(said: Mapping[str, object]) -> Stream:
    unknown = said.keys() - {"name", "topic", "format", "schema", "options", "columns", "time", "tombstones", "clock"}
    if unknown or not isinstance(said.get("topic"), str):
        raise InvalidSetting("streams", sorted(said), "a stream has a topic, and may have a name, format, schema, …")
    topic, ddl = str(said["topic"]), said.get("schema")
    options, columns, time = said.get("options") or {}, said.get("columns") or [], said.get("time")
    if not isinstance(options, dict) or not isinstance(columns, list) or not set(columns) <= HIDDEN.keys():
        raise InvalidSetting("streams", columns, f"columns are a list of {', '.join(HIDDEN)}; options an object")
    name = str(said.get("name") or topic)
    if ddl is None:
        return Stream(name, topic)
    schema = parse_ddl(str(ddl))
    return Stream(
        name,
        topic,
        str(said.get("format") or "json"),
        schema,
        {str(key): str(value) for key, value in options.items()},
        tuple(columns),
        _checked_time(None if time is None else str(time), schema.fields),
        checked_tombstones(str(said.get("tombstones") or "poison")),
        parse_clock(said.get("clock")),
    )


def parse_clock(said: object) -> ClockRules:
    """The option `clock`, which a job makes from what its streams declare."""
    if said is None:
        return NO_RULES
    try:
        return ClockRules.from_json(json.loads(said) if isinstance(said, str) else said)  # type: ignore[arg-type]
    except (ValueError, TypeError, AttributeError):
        raise InvalidSetting("clock", str(said)[:80], "it is an object that a job makes (clock_rules.py)") from None


def checked_tombstones(text: str) -> str:
    if text not in TOMBSTONES:
        raise InvalidSetting("tombstones", text, f"choose one of {', '.join(TOMBSTONES)}")
    return text


def _checked_time(time: str | None, fields: Sequence[Field]) -> str | None:
    if time is None or time == "_timestamp":
        return time
    kind = next((one.type for one in fields if one.name == time), None)
    if kind is None or not (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        raise InvalidSetting("time", time, "it must be a column of type timestamp")
    return time


def frame_of(streams: Sequence[Stream], *, nested: bool) -> Schema:
    """The columns of the frame that the source gives."""
    if not nested:
        return streams[0].frame
    return Schema(
        (
            Field(STREAM, pa.int32()),
            *(Field(stream.name, pa.struct(list(stream.frame.arrow))) for stream in streams),
        )
    )
