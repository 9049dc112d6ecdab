"""Can a program with one Protobuf file read the messages that were written with another?

Messages are found by their name within the package (which may change), fields by their number (names may change).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field

from headwater.registry.budget import Budget

GROUPS = (
    {Field.TYPE_INT32, Field.TYPE_INT64, Field.TYPE_UINT32, Field.TYPE_UINT64, Field.TYPE_BOOL, Field.TYPE_ENUM},
    {Field.TYPE_SINT32, Field.TYPE_SINT64},
    {Field.TYPE_STRING, Field.TYPE_BYTES},
    {Field.TYPE_FIXED32, Field.TYPE_SFIXED32},
    {Field.TYPE_FIXED64, Field.TYPE_SFIXED64},
)
"""Types that Protobuf documents as readable as each other."""

TEXTS = GROUPS[2]


@dataclass(frozen=True)
class Message:
    """A message, its name within the package, and the package."""

    described: DescriptorProto
    name: str
    package: str

    @cached_property
    def entries(self) -> dict[str, DescriptorProto]:
        """The messages that stand for entries of its maps."""
        return {one.name: one for one in self.described.nested_type if one.options.map_entry}

    @cached_property
    def choices(self) -> dict[int, set[int]]:
        """The numbers of the fields of each oneof."""
        found: dict[int, set[int]] = {}
        for field in self.described.field:
            if (choice := _choice(field)) is not None:
                found.setdefault(choice, set()).add(field.number)
        return found


FIELD_STEPS = 20


def unreadable(reader: FileDescriptorProto, writer: FileDescriptorProto, budget: Budget) -> list[str]:
    """Returns the reasons for which it cannot be read, one sentence for each path; none if all can be read."""
    known = {message.name: message for message in _messages(reader)}
    found: list[str] = []
    for message in _messages(writer):
        described = message.described
        budget.spend(
            FIELD_STEPS * (1 + len(described.field) + len(described.nested_type)), characters=len(message.name)
        )
        if message.name not in known:
            found.append(f"message {message.name} was removed")
        else:
            found += _compare(known[message.name], message)
    return found


def _messages(file: FileDescriptorProto) -> Iterator[Message]:
    def inside(message: DescriptorProto, prefix: str) -> Iterator[Message]:
        # Entries of maps belong to their fields, and are compared there.
        if not message.options.map_entry:
            name = f"{prefix}{message.name}"
            yield Message(message, name, file.package)
            for nested in message.nested_type:
                yield from inside(nested, f"{name}.")

    for message in file.message_type:
        yield from inside(message, "")


def _compare(reader: Message, writer: Message) -> list[str]:
    read = {field.number: field for field in reader.described.field}
    written = {field.number: field for field in writer.described.field}
    found: list[str] = []
    for number, field in read.items():
        path = f"{reader.name}.{field.name}"
        other = written.get(number)
        required = field.label == Field.LABEL_REQUIRED
        if required and (other is None or other.label != Field.LABEL_REQUIRED):
            found.append(f"{path}: it is required, and not always written")
        if other is not None:
            found += [f"{path}: {why}" for why in _fields(field, other, reader, writer)]
    for number, other in written.items():
        if number not in read and _choice(other) is not None:
            found.append(f"{writer.name}.{other.name}: it was removed from its oneof")
    return found + _crowded(reader, writer)


def _fields(reader: Field, writer: Field, ours: Message, theirs: Message) -> Iterator[str]:
    entry, other = _entry(ours, reader), _entry(theirs, writer)
    if (entry is None) != (other is None):
        yield "a map cannot be read as anything else, nor the reverse"
    elif entry is not None and other is not None:
        for mine, yours in zip(entry.field, other.field, strict=True):
            yield from _types(mine, yours, ours, theirs)
    else:
        yield from _types(reader, writer, ours, theirs)
        repeated = [field.label == Field.LABEL_REPEATED for field in (reader, writer)]
        if repeated[0] != repeated[1] and not {reader.type, writer.type} <= TEXTS:
            yield f"it is {'repeated' if repeated[0] else 'single'} for the reader, and not so as written"


def _types(reader: Field, writer: Field, ours: Message, theirs: Message) -> Iterator[str]:
    same_group = any({reader.type, writer.type} <= group for group in GROUPS)
    if reader.type != writer.type and not same_group:
        yield f"a {type_label(writer)} cannot be read as a {type_label(reader)}"
    elif reader.type == writer.type == Field.TYPE_MESSAGE:
        names = _within(reader.type_name, ours.package), _within(writer.type_name, theirs.package)
        if names[0] != names[1]:
            yield f"a message {names[1]} cannot be read as a {names[0]}"


def _crowded(reader: Message, writer: Message) -> list[str]:
    """Fields that could be written together, and of which the reader keeps only one."""
    written = {field.number: field for field in writer.described.field}
    found = []
    for number, members in sorted(reader.choices.items()):
        sharing = [written[member] for member in sorted(members) if member in written]
        choices = {_choice(field) for field in sharing}
        if len(sharing) > 1 and (None in choices or len(choices) > 1):
            names = ", ".join(field.name for field in sharing)
            choice = reader.described.oneof_decl[number]
            found.append(f"{reader.name}.{choice.name}: {names} could be written together, and only one is read")
    return found


def _choice(field: Field) -> int | None:
    """Returns the declared oneof of a field, if there is one."""
    return field.oneof_index if field.HasField("oneof_index") and not field.proto3_optional else None


def _entry(message: Message, field: Field) -> DescriptorProto | None:
    return message.entries.get(field.type_name.rpartition(".")[2])


def _within(name: str, package: str) -> str:
    """A type's name without the package, if it is of the same file's."""
    own = f".{package}." if package else "."
    return name.removeprefix(own) if name.startswith(own) else name


def type_label(field: Field) -> str:
    """
    >>> type_label(Field(type=Field.TYPE_SINT32))
    'sint32'
    """
    name: str = Field.Type.Name(field.type)
    return name.removeprefix("TYPE_").lower()
