"""What a subject of a registry means for a stream: its columns, and how its values are decoded."""

from collections.abc import Mapping
from dataclasses import dataclass

from headwater.errors import InvalidFormat, InvalidSchema
from headwater.flow.formats.schema import Schema, nearest, parse_ddl
from headwater.flow.registry.client import LATEST, Found, RegistryClient

KINDS = {"avro": "AVRO", "json": "JSON", "protobuf": "PROTOBUF", "debezium": "JSON"}
"""Formats that a registry has schemas for, and what it calls them."""

SUBJECT, VERSION, MESSAGE = "subject", "version", "message"


@dataclass(frozen=True)
class Described:
    schema: Schema
    options: Mapping[str, str]
    """For the decoder of the format."""


def describe(
    client: RegistryClient, topic: str, format: str, options: Mapping[str, str], declared: Schema | None
) -> Described:
    """Columns are those of the registered schema, or the declared ones; then each value decodes by its writer's."""
    if format not in KINDS:
        raise InvalidFormat(f"a registry has no schemas for format {format}", nearest(format, KINDS))
    said = {name: value for name, value in options.items() if name not in (SUBJECT, VERSION)}
    if declared is not None and format == "debezium":
        return Described(declared, said)
    if declared is not None and format != "protobuf":
        return Described(declared, {**said, "registry": client.where})
    found = client.version(options.get(SUBJECT, f"{topic}-value"), options.get(VERSION, LATEST))
    if found.kind != KINDS[format]:
        of_kind = next((name for name, kind in KINDS.items() if kind == found.kind), found.kind)
        raise InvalidFormat(f"the registered schema of {topic} is of kind {found.kind}", f'Say format="{of_kind}".')
    if format == "debezium":
        return Described(_checked(_changes(found)), said)  # its values say by themselves how they are written
    said |= {"registry": client.where}
    if format == "json":
        return Described(_checked(_json(found)), said)
    said |= {"reader": str(found.id)}
    if format == "avro":
        return Described(_checked(_avro(found)), said)
    schema, message = _protobuf(found, said.get(MESSAGE, ""))
    return Described(_checked(schema) if declared is None else declared, {**said, MESSAGE: message})


def _avro(found: Found) -> Schema:
    from headwater.flow.registry.avro_types import schema_of_avro

    return schema_of_avro(found.text, dict(found.references))


def _json(found: Found) -> Schema:
    from headwater.flow.registry.json_types import schema_of_json

    return schema_of_json(found.text, dict(found.references))


def _changes(found: Found) -> Schema:
    from headwater.flow.registry.change_types import schema_of_changes

    return schema_of_changes(found.text, dict(found.references))


def _protobuf(found: Found, message: str) -> tuple[Schema, str]:
    """The columns and the name of the message, which is the first of the file unless it is named."""
    try:
        from headwater.flow.registry.protobuf_types import files_of, message_in, schema_of_message
    except ModuleNotFoundError as error:
        way_out = 'Install it with "pip install headwater[protobuf]".'
        raise InvalidFormat(f"format protobuf needs {error.name}", way_out) from None

    files = files_of(found.text, dict(found.references))
    try:
        message = message or message_in(files, (0,))
        return schema_of_message(files, message), message
    except LookupError:
        raise InvalidSchema(f'the registered schema has no message "{message}"') from None


def _checked(schema: Schema) -> Schema:
    """As it is written down for workers: names that Spark or we cannot have are refused here."""
    return parse_ddl(schema.ddl)
