"""Protobuf as a kind of schema in the registry: a .proto file as text, or its descriptor in base64.

A pool of google.protobuf checks what was read and resolves its names; what refers to nothing is refused there.
"""

import base64
import binascii
from collections.abc import Mapping
from functools import cache
from importlib import import_module

from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.message import DecodeError, Message

from headwater.errors import InvalidSchemaText
from headwater.registry.protobuf.compatibility import unreadable
from headwater.registry.protobuf.parsing import parse_text
from headwater.registry.protobuf.printer import proto_text
from headwater.registry.words import PROTOBUF, Kind, Parsed

OWN_NAME = "schema.proto"
"""A schema has no file name; this one no import can have, because references are looked at first."""

KNOWN = ("any", "api", "descriptor", "duration", "empty", "field_mask", "source_context", "struct", "timestamp", "type",
         "wrappers")  # fmt: skip
"""Files that every Protobuf library has."""


class Tree:
    def __init__(self, file: FileDescriptorProto, beneath: dict[str, FileDescriptorProto]) -> None:
        self.file, self.beneath = file, beneath

    @property
    def serialized(self) -> str:
        return base64.b64encode(self.file.SerializeToString(deterministic=True)).decode()


def parse(text: str, references: Mapping[str, Parsed]) -> Parsed:
    beneath: dict[str, FileDescriptorProto] = {}
    for name, parsed in references.items():
        beneath |= parsed.tree.beneath
        beneath[name] = _named(parsed.tree.file, name)
    given = _descriptor_in(text)
    file = _resolved(given if given is not None else parse_text(text), beneath)
    shown = proto_text(file) if given is not None else text
    canonical = base64.b64encode(_plain(file).SerializeToString(deterministic=True)).decode()
    return Parsed(PROTOBUF, Tree(file, beneath), canonical, shown)


def _descriptor_in(text: str) -> FileDescriptorProto | None:
    """The descriptor that a text in base64 is; None if it is another text."""
    file = FileDescriptorProto()
    try:
        file.ParseFromString(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, DecodeError):
        return None
    return file


def _resolved(file: FileDescriptorProto, beneath: Mapping[str, FileDescriptorProto]) -> FileDescriptorProto:
    pool = descriptor_pool.DescriptorPool()
    file = _named(file, OWN_NAME)
    added: set[str] = set()

    def add(name: str) -> None:
        if name in added:
            return
        added.add(name)
        wanted = beneath.get(name) or well_known(name)
        if wanted is None:
            raise InvalidSchemaText(f'the import "{name[:100]}" is not among the references of the schema')
        for further in wanted.dependency:
            add(further)
        pool.AddSerializedFile(wanted.SerializeToString())

    try:
        for name in file.dependency:
            add(name)
        found = FileDescriptorProto()
        pool.AddSerializedFile(file.SerializeToString())
        pool.FindFileByName(OWN_NAME).CopyToProto(found)
    except (TypeError, KeyError, ValueError, DecodeError) as error:
        why = str(error).replace(f"'{OWN_NAME}'", "it").replace(OWN_NAME, "it")
        raise InvalidSchemaText(f"the Protobuf schema does not fit together: {why}") from None
    found.ClearField("name")
    return found


def _named(file: FileDescriptorProto, name: str) -> FileDescriptorProto:
    copy = FileDescriptorProto()
    copy.CopyFrom(file)
    copy.name = name
    return copy


@cache
def well_known(name: str) -> FileDescriptorProto | None:
    for known in KNOWN:
        if name == f"google/protobuf/{known}.proto":
            found = FileDescriptorProto()
            import_module(f"google.protobuf.{known}_pb2").DESCRIPTOR.CopyToProto(found)
            return found
    return None


def _plain(file: FileDescriptorProto) -> FileDescriptorProto:
    """Without what says nothing about data, and without what a text could not give back: comments and their positions,
    options that are lists or messages, names in JSON that are the usual ones."""
    copy = FileDescriptorProto()
    copy.CopyFrom(file)
    copy.ClearField("source_code_info")
    copy.DiscardUnknownFields()
    _strip(copy)
    return copy


def _strip(part: Message) -> None:
    if isinstance(part, FieldDescriptorProto) and part.json_name == json_name(part.name):
        part.ClearField("json_name")
    for described, value in part.ListFields():
        if described.name == "options":
            for option, _ in value.ListFields():
                if option.is_extension:
                    value.ClearExtension(option)
                elif option.is_repeated or option.message_type is not None:
                    value.ClearField(option.name)
            if not value.ListFields():
                part.ClearField("options")
        elif described.message_type is not None:
            for inner in value if described.is_repeated else [value]:
                _strip(inner)


def json_name(name: str) -> str:
    """What a field is called in JSON unless it says otherwise.

    >>> json_name("user_id")
    'userId'
    """
    first, *others = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in others)


KIND = Kind(parse, lambda reader, writer, budget: unreadable(reader.file, writer.file, budget))
