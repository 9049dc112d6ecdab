"""Requests and responses of the APIs that are not hand-written, by the schemas of kio.

Only kio's schemas and its writers are used here. Its reader allocates what an array's count announces before it looks
at the bytes: four hostile bytes end the process. So entities are read by the bounded Reader, following the schema.
"""

import dataclasses
import datetime
import io
import types
import typing
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple
from uuid import UUID

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer
from kio.serial.errors import SerialError

from headwater.errors import ProtocolError
from headwater.wire.protocol.fields import Fields
from headwater.wire.protocol.reader import Reader, present
from headwater.wire.protocol.writer import cut

Entity = Any
"""A kio dataclass. Every version has its own; handlers name the newest for the type checker."""

Read = Callable[[Reader], Any]

NO_UUID = UUID(int=0)

DURATION_MS_MAX = 10_000 * 365 * 24 * 3_600_000
"""Clients say "for ever" with the largest number there is, which Python's durations cannot hold."""


class Schema(NamedTuple):
    """How one version of one API is read and written."""

    read: Read
    write: Callable[[Entity], bytes]
    flexible_request: bool
    flexible_response_header: bool


@cache
def schema_of(api_key: int, version: int) -> Schema:
    request_type: Any = load_request_schema(api_key, version)
    response_type: Any = load_response_schema(api_key, version)
    return Schema(
        entity_reader(request_type),
        _writer(response_type),
        request_type.__header_schema__.__flexible__,
        response_type.__header_schema__.__flexible__,
    )


def _writer(response_type: Any) -> Callable[[Entity], bytes]:
    """Write a response in the form of `response_type`.

    Fields are taken by name, so a handler may build the newest version's response for every version: what an old
    version lacks is left out, what it cannot say is said as it can (`fitted`).
    """
    write = entity_writer(response_type)

    def write_bytes(entity: Entity) -> bytes:
        buffer = io.BytesIO()
        try:
            write(buffer, entity)
        except (TypeError, ValueError, SerialError):  # also texts that are too long, or not to be written as UTF-8
            buffer = io.BytesIO()
            write(buffer, fitted(entity, response_type))
        return buffer.getvalue()

    return write_bytes


def fitted(entity: Entity, entity_type: Any) -> Fields:
    """The entity as a version can say it: a null that the version does not know is empty, a long text is cut."""
    flexible: bool = entity_type.__flexible__
    values = {}
    for field in dataclasses.fields(entity_type):
        shape, value = shape_of(field.type), getattr(entity, field.name)
        if value is None and not shape.nullable:
            value = default_of(field)
        elif shape.array and value is not None:
            value = tuple(_fitted_value(one, field, shape, flexible) for one in value)
        elif value is not None:
            value = _fitted_value(value, field, shape, flexible)
        values[field.name] = value
    return Fields(**values)


def _fitted_value(value: Any, field: "dataclasses.Field[Any]", shape: "Shape", flexible: bool) -> Any:
    if "kafka_type" not in field.metadata:
        return fitted(value, shape.inner)
    if isinstance(value, str):
        return value.encode(errors="replace").decode() if flexible else cut(value)
    return value


@cache
def entity_reader(entity_type: Any) -> Read:
    """Reads entities of this kio type, however hostile the bytes."""
    flexible: bool = entity_type.__flexible__
    plain: list[tuple[str, Read]] = []
    tagged: dict[int, tuple[str, Read]] = {}
    defaults: dict[str, Any] = {}
    for field in dataclasses.fields(entity_type):
        tag = field.metadata.get("tag")
        if tag is None:
            plain.append((field.name, _field_reader(field, flexible)))
        else:
            tagged[tag] = (field.name, _field_reader(field, flexible, tagged=True))
            defaults[field.name] = default_of(field)

    def read(reader: Reader) -> Entity:
        values = dict(defaults)
        for name, read_field in plain:
            values[name] = read_field(reader)
        if flexible:
            _read_tagged(reader, tagged, values)
        return entity_type(**values)

    return read


def _read_tagged(reader: Reader, tagged: dict[int, tuple[str, Read]], values: dict[str, Any]) -> None:
    for _ in range(reader.tagged_fields()):
        tag, length = reader.varint(), reader.varint()
        known = tagged.get(tag)
        if known is None:
            reader.take(length)
            continue
        expected_end = reader.position + length
        name, read_field = known
        values[name] = read_field(reader)
        if reader.position != expected_end:
            raise ProtocolError(f"tagged field {name} does not end where it says")


EMPTY: Mapping[str, Any] = {
    "string": "",
    "bytes": b"",
    "bool": False,
    "uuid": None,
    "timedelta_i32": datetime.timedelta(0),
    "timedelta_i64": datetime.timedelta(0),
    "datetime_i64": datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC),
}
"""Values of fields without a default, by their type; 0 of all others."""


def default_of(field: "dataclasses.Field[Any]") -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    shape = shape_of(field.type)
    if shape.nullable:
        return None
    if shape.array:
        return ()
    return EMPTY.get(str(field.metadata.get("kafka_type")), 0)


class Shape(NamedTuple):
    inner: Any
    array: bool
    nullable: bool


def shape_of(annotation: Any) -> Shape:
    """What a field's annotation says: tuple[X, ...] is an array, X | None may be null."""
    nullable = False
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        choices = [choice for choice in typing.get_args(annotation) if choice is not types.NoneType]
        nullable = len(choices) < len(typing.get_args(annotation))
        annotation = choices[0]
    if typing.get_origin(annotation) is tuple:
        return Shape(typing.get_args(annotation)[0], True, nullable)
    return Shape(annotation, False, nullable)


def _field_reader(field: "dataclasses.Field[Any]", flexible: bool, *, tagged: bool = False) -> Read:
    shape = shape_of(field.type)
    if "kafka_type" not in field.metadata:
        read_one = entity_reader(shape.inner)
        # A tagged field says by its absence that it is null; any other nullable struct by a byte in front of it.
        if shape.nullable and not shape.array and not tagged:
            return _nullable_struct(read_one)
    else:
        read_one = _primitive_reader(field.metadata["kafka_type"], flexible, shape.nullable and not shape.array)
    if not shape.array:
        return read_one
    return _array_reader(read_one, flexible, shape.nullable)


def _nullable_struct(read_one: Read) -> Read:
    return lambda reader: read_one(reader) if reader.int8() >= 0 else None


def _array_reader(read_one: Read, flexible: bool, nullable: bool) -> Read:
    def read(reader: Reader) -> tuple[Any, ...] | None:
        count = reader.nullable_count(flexible)
        if count is None:
            if nullable:
                return None
            raise ProtocolError("an array that must be there is null")
        return tuple([read_one(reader) for _ in range(count)])

    return read


def _primitive_reader(kind: str, flexible: bool, nullable: bool) -> Read:
    match kind:
        case "string":
            read_string: Read = lambda reader: reader.nullable_string(flexible)  # noqa: E731
            return read_string if nullable else lambda reader: present(read_string(reader))
        case "bytes" | "records":
            read_bytes: Read = lambda reader: _copied(reader.nullable_bytes(flexible))  # noqa: E731
            return read_bytes if nullable else lambda reader: present(read_bytes(reader))
        case "uuid":
            return _uuid_or_none
        case _:
            return _FIXED[kind]


def _copied(view: memoryview | None) -> bytes | None:
    return None if view is None else bytes(view)


def _uuid_or_none(reader: Reader) -> UUID | None:
    value = reader.uuid()
    return None if value == NO_UUID else value


def _datetime(reader: Reader) -> datetime.datetime | None:
    milliseconds = reader.int64()
    if milliseconds == -1:
        return None
    return datetime.datetime.fromtimestamp(milliseconds / 1000, datetime.UTC)


_FIXED: dict[str, Read] = {
    "int8": Reader.int8,
    "int16": Reader.int16,
    "uint16": Reader.uint16,
    "int32": Reader.int32,
    "int64": Reader.int64,
    "float64": Reader.float64,
    "bool": Reader.boolean,
    "error_code": lambda reader: ErrorCode(reader.int16()),
    "timedelta_i32": lambda reader: datetime.timedelta(milliseconds=reader.int32()),
    "timedelta_i64": lambda reader: datetime.timedelta(milliseconds=min(reader.int64(), DURATION_MS_MAX)),
    "datetime_i64": _datetime,
}
