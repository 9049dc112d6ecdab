"""A descriptor as the text of a .proto file: what is read from it gives the same descriptor again."""

from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    ServiceDescriptorProto,
)

from headwater.registry.protobuf.parsing import LABELS, NUMBER_MAX, SCALARS

SCALAR_NAMES = {number: name for name, number in SCALARS.items()}
LABEL_NAMES = {number: name for name, number in LABELS.items()}
INDENT = "  "
ENUM_NUMBER_MAX = 2**31 - 1
QUOTED_TYPES = (FieldDescriptorProto.TYPE_STRING, FieldDescriptorProto.TYPE_BYTES)


def proto_text(file: FileDescriptorProto) -> str:
    return "\n".join(_file(file)) + "\n"


def _file(file: FileDescriptorProto) -> Iterator[str]:
    yield f'syntax = "{file.syntax or "proto2"}";'
    if file.package:
        yield f"package {file.package};"
    yield from _imports(file)
    yield from _options(file.options, "")
    proto3 = file.syntax == "proto3"
    for message in file.message_type:
        yield from _message(message, "", proto3=proto3)
    for enum in file.enum_type:
        yield from _enum(enum, "")
    yield from _extensions_of(file, "", proto3=proto3)
    for service in file.service:
        yield from _service(service)


def _imports(file: FileDescriptorProto) -> Iterator[str]:
    for number, name in enumerate(file.dependency):
        how = "public " if number in file.public_dependency else "weak " if number in file.weak_dependency else ""
        yield f"import {how}{_quoted(name)};"


def _message(message: DescriptorProto, indent: str, *, proto3: bool) -> Iterator[str]:
    yield f"{indent}message {message.name} {{"
    inner = indent + INDENT
    yield from _options(message.options, inner)
    entries = {one.name: one for one in message.nested_type if one.options.map_entry}
    written: set[int] = set()
    for field in message.field:
        if not field.HasField("oneof_index") or field.proto3_optional:
            yield f"{inner}{_field(field, entries, proto3=proto3)}"
        elif field.oneof_index not in written:
            written.add(field.oneof_index)
            yield f"{inner}oneof {message.oneof_decl[field.oneof_index].name} {{"
            for one in message.field:
                if one.HasField("oneof_index") and one.oneof_index == field.oneof_index:
                    yield f"{inner}{INDENT}{_type(one)} {one.name} = {one.number}{_field_options(one)};"
            yield f"{inner}}}"
    for nested in message.nested_type:
        if not nested.options.map_entry:
            yield from _message(nested, inner, proto3=proto3)
    for enum in message.enum_type:
        yield from _enum(enum, inner)
    yield from _extensions_of(message, inner, proto3=proto3)
    for extensible in message.extension_range:
        yield f"{inner}extensions {_range(extensible.start, extensible.end - 1, NUMBER_MAX)};"
    yield from _reserved(message, inner, exclusive=1, largest=NUMBER_MAX)
    yield f"{indent}}}"


def _field(field: FieldDescriptorProto, entries: dict[str, DescriptorProto], *, proto3: bool) -> str:
    rest = f"{field.name} = {field.number}{_field_options(field)};"
    entry = entries.get(field.type_name.rpartition(".")[2])
    if entry is not None and field.label == FieldDescriptorProto.LABEL_REPEATED:
        return f"map<{_type(entry.field[0])}, {_type(entry.field[1])}> {rest}"
    plain = proto3 and field.label == FieldDescriptorProto.LABEL_OPTIONAL and not field.proto3_optional
    label = "" if plain else f"{LABEL_NAMES[field.label]} "
    return f"{label}{_type(field)} {rest}"


def _type(field: FieldDescriptorProto) -> str:
    return field.type_name or SCALAR_NAMES[field.type]


def _field_options(field: FieldDescriptorProto) -> str:
    said = []
    if field.HasField("default_value"):
        text = field.default_value
        said.append(f"default = {_quoted(text, escaped=field.type == FieldDescriptorProto.TYPE_BYTES)}"
                    if field.type in QUOTED_TYPES else f"default = {text}")  # fmt: skip
    if field.HasField("json_name"):
        said.append(f"json_name = {_quoted(field.json_name)}")
    said += [f"{name} = {value}" for name, value in _set_options(field.options)]
    return f" [{', '.join(said)}]" if said else ""


def _enum(enum: EnumDescriptorProto, indent: str) -> Iterator[str]:
    yield f"{indent}enum {enum.name} {{"
    inner = indent + INDENT
    yield from _options(enum.options, inner)
    for value in enum.value:
        said = ", ".join(f"{name} = {text}" for name, text in _set_options(value.options))
        yield f"{inner}{value.name} = {value.number}{f' [{said}]' if said else ''};"
    yield from _reserved(enum, inner, exclusive=0, largest=ENUM_NUMBER_MAX)
    yield f"{indent}}}"


def _reserved(holder: Any, indent: str, *, exclusive: int, largest: int) -> Iterator[str]:
    for one in holder.reserved_range:
        yield f"{indent}reserved {_range(one.start, one.end - exclusive, largest)};"
    for name in holder.reserved_name:
        yield f"{indent}reserved {_quoted(name)};"


def _range(first: int, last: int, largest: int) -> str:
    if first == last:
        return str(first)
    return f"{first} to {'max' if last == largest else last}"


def _extensions_of(holder: Any, indent: str, *, proto3: bool) -> Iterator[str]:
    for field in holder.extension:
        yield f"{indent}extend {field.extendee} {{"
        yield f"{indent}{INDENT}{_field(field, {}, proto3=proto3)}"
        yield f"{indent}}}"


def _service(service: ServiceDescriptorProto) -> Iterator[str]:
    yield f"service {service.name} {{"
    yield from _options(service.options, INDENT)
    for method in service.method:
        given = f"{'stream ' if method.client_streaming else ''}{method.input_type}"
        answered = f"{'stream ' if method.server_streaming else ''}{method.output_type}"
        yield f"{INDENT}rpc {method.name} ({given}) returns ({answered}) {{"
        yield from _options(method.options, INDENT * 2)
        yield f"{INDENT}}}"
    yield "}"


def _options(options: Any, indent: str) -> Iterator[str]:
    for name, value in _set_options(options):
        yield f"{indent}option {name} = {value};"


def _set_options(options: Any) -> Iterator[tuple[str, str]]:
    """Options of Protobuf itself that are said, and that a text can say in one value."""
    for described, value in options.ListFields():
        if described.is_extension or described.is_repeated or described.message_type is not None:
            continue
        if described.name == "map_entry":
            continue
        if described.enum_type is not None:
            yield described.name, described.enum_type.values_by_number[value].name
        elif isinstance(value, bool):
            yield described.name, str(value).lower()
        else:
            yield described.name, _quoted(value) if isinstance(value, str) else str(value)


def _quoted(text: str, *, escaped: bool = False) -> str:
    """In quotes. A default of bytes is kept with its escapes in the descriptor."""
    if escaped:
        return f'"{text}"'
    plain = (
        text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    )
    return f'"{plain}"'
