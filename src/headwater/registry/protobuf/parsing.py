"""The text of a .proto file to its descriptor, as protoc would write it but for names, which are resolved by the pool.

Custom options are read and left out: they mean nothing to who reads data.
"""

from typing import Any

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    ServiceDescriptorProto,
)

from headwater.errors import InvalidSchemaText
from headwater.registry.protobuf.tokens import Tokens

SCALARS: dict[str, int] = {
    name.removeprefix("TYPE_").lower(): number
    for name, number in FieldDescriptorProto.Type.items()
    if name not in ("TYPE_GROUP", "TYPE_MESSAGE", "TYPE_ENUM")
}
LABELS: dict[str, int] = {
    "optional": FieldDescriptorProto.LABEL_OPTIONAL,
    "required": FieldDescriptorProto.LABEL_REQUIRED,
    "repeated": FieldDescriptorProto.LABEL_REPEATED,
}
NUMBER_MAX = 2**29 - 1
DEPTH_MAX = 60
FLAGS = {"true": True, "false": False}


def parse_text(text: str) -> FileDescriptorProto:
    """InvalidSchemaText with the line if it is no .proto file."""
    return _FileParser(text).parse()


class _FileParser:
    def __init__(self, text: str) -> None:
        self._tokens = Tokens(text)
        self._file = FileDescriptorProto()
        self._depth = 0

    @property
    def _proto3(self) -> bool:
        return bool(self._file.syntax == "proto3")

    def parse(self) -> FileDescriptorProto:
        tokens = self._tokens
        if tokens.skip("syntax"):
            tokens.expect("=")
            self._file.syntax = tokens.text()
            tokens.expect(";")
            if self._file.syntax not in ("proto2", "proto3"):
                raise InvalidSchemaText(f'there is no syntax "{self._file.syntax[:40]}"', "Use proto2 or proto3.")
        while tokens.next.kind != "end":
            self._statement()
        if self._file.syntax == "proto2":
            self._file.ClearField("syntax")  # as protoc does: it is what counts where nothing is said
        return self._file

    def _statement(self) -> None:
        tokens = self._tokens
        match tokens.word('"message", "enum" or the like') if tokens.next.text != ";" else tokens.take().text:
            case ";":
                return
            case "package":
                self._file.package = tokens.name()
                tokens.expect(";")
            case "import":
                self._import()
            case "option":
                self._option(self._file.options)
                tokens.expect(";")
            case "message":
                self._message(self._file.message_type.add())
            case "enum":
                self._enum(self._file.enum_type.add())
            case "service":
                self._service(self._file.service.add())
            case "extend":
                self._extend(self._file)
            case "edition":
                raise InvalidSchemaText("editions of Protobuf are not supported", "Use proto2 or proto3.")
            case other:
                raise InvalidSchemaText(f'the .proto text has "{other[:40]}", which begins nothing')

    def _import(self) -> None:
        tokens = self._tokens
        public, weak = tokens.skip("public"), tokens.skip("weak")
        if public:
            self._file.public_dependency.append(len(self._file.dependency))
        if weak:
            self._file.weak_dependency.append(len(self._file.dependency))
        self._file.dependency.append(tokens.text())
        tokens.expect(";")

    # -- messages ------------------------------------------------------------------------------------------------------

    def _message(self, message: DescriptorProto) -> None:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise InvalidSchemaText(f"messages are nested deeper than {DEPTH_MAX}")
        message.name = self._tokens.word()
        self._tokens.expect("{")
        while not self._tokens.skip("}"):
            self._member(message)
        self._synthesise(message)
        self._depth -= 1

    def _member(self, message: DescriptorProto) -> None:
        tokens = self._tokens
        # What looks like one of these words may be the type of a field; a brace or a number distinguishes them.
        match tokens.next.text:
            case ";":
                tokens.take()
            case "message":
                tokens.take()
                self._message(message.nested_type.add())
            case "enum":
                tokens.take()
                self._enum(message.enum_type.add())
            case "extend":
                tokens.take()
                self._extend(message)
            case "oneof":
                tokens.take()
                self._oneof(message)
            case "option":
                tokens.take()
                self._option(message.options)
                tokens.expect(";")
            case "reserved":
                tokens.take()
                self._reserved(message, largest=NUMBER_MAX, exclusive=1)
            case "extensions":
                tokens.take()
                self._extensions(message)
            case _:
                self._field(message, message.field.add())

    def _field(self, message: Any, field: FieldDescriptorProto) -> None:
        tokens = self._tokens
        label = tokens.take().text if tokens.next.text in LABELS else ""
        if tokens.next.text == "group":
            raise InvalidSchemaText("groups are not supported", "Use a message and a field of it.")
        field.label = LABELS.get(label, FieldDescriptorProto.LABEL_OPTIONAL)
        field.proto3_optional = label == "optional" and self._proto3
        if not field.proto3_optional:
            field.ClearField("proto3_optional")
        if not label and not self._proto3 and tokens.next.text != "map":
            tokens.refuse("optional, required or repeated")
        if tokens.skip("map"):
            self._map(message, field)
        else:
            self._type(field)
            field.name = tokens.word("the name of a field")
        self._number_and_options(field)

    def _type(self, field: FieldDescriptorProto) -> None:
        name = self._tokens.name()
        if name in SCALARS:
            field.type = SCALARS[name]
        else:
            field.type_name = name

    def _number_and_options(self, field: FieldDescriptorProto) -> None:
        tokens = self._tokens
        tokens.expect("=")
        field.number = self._checked(tokens.integer(), 1, NUMBER_MAX, "the number of a field")
        if tokens.skip("["):
            while True:
                self._field_option(field)
                if not tokens.skip(","):
                    break
            tokens.expect("]")
        tokens.expect(";")

    def _field_option(self, field: FieldDescriptorProto) -> None:
        name = self._option_name()
        if name == "default" and field.type == FieldDescriptorProto.TYPE_BYTES:
            field.default_value = escaped(self._tokens.content())
        elif name == "default":
            field.default_value = _default(self._value())
        elif name == "json_name":
            field.json_name = str(self._value())
        else:
            _set_option(field.options, name, self._value())

    def _map(self, message: DescriptorProto, field: FieldDescriptorProto) -> None:
        tokens = self._tokens
        tokens.expect("<")
        entry = DescriptorProto()
        key = entry.field.add(name="key", number=1, label=FieldDescriptorProto.LABEL_OPTIONAL)
        self._type(key)
        tokens.expect(",")
        value = entry.field.add(name="value", number=2, label=FieldDescriptorProto.LABEL_OPTIONAL)
        self._type(value)
        tokens.expect(">")
        field.name = tokens.word("the name of a field")
        entry.name = entry_name(field.name)
        entry.options.map_entry = True
        message.nested_type.append(entry)
        field.label = FieldDescriptorProto.LABEL_REPEATED
        field.type_name = entry.name

    def _oneof(self, message: DescriptorProto) -> None:
        tokens = self._tokens
        number = len(message.oneof_decl)
        declared = message.oneof_decl.add(name=tokens.word())
        tokens.expect("{")
        while not tokens.skip("}"):
            if tokens.skip(";"):
                continue
            if tokens.skip("option"):
                self._option(declared.options)
                tokens.expect(";")
                continue
            field = message.field.add(label=FieldDescriptorProto.LABEL_OPTIONAL, oneof_index=number)
            self._type(field)
            field.name = tokens.word("the name of a field")
            self._number_and_options(field)

    def _synthesise(self, message: DescriptorProto) -> None:
        """An optional field of proto3 is alone in a synthetic oneof; these come after all that were written."""
        for field in message.field:
            if field.proto3_optional:
                field.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{field.name}")

    def _reserved(self, holder: Any, *, largest: int, exclusive: int) -> None:
        """Ranges of a message end with an exclusive number, those of an enum with an inclusive one."""
        tokens = self._tokens
        while True:
            if tokens.next.kind == "text":
                holder.reserved_name.append(tokens.text())
            else:
                first, last = self._range(largest)
                holder.reserved_range.add(start=first, end=last + exclusive)
            if not tokens.skip(","):
                break
        tokens.expect(";")

    def _extensions(self, message: DescriptorProto) -> None:
        tokens = self._tokens
        while True:
            first, last = self._range(NUMBER_MAX)
            message.extension_range.add(start=first, end=last + 1)
            if not tokens.skip(","):
                break
        if tokens.skip("["):
            while not tokens.skip("]"):
                self._option_name()
                self._value()
                tokens.skip(",")
        tokens.expect(";")

    def _range(self, largest: int) -> tuple[int, int]:
        first = self._tokens.integer()
        if not self._tokens.skip("to"):
            return first, first
        return first, largest if self._tokens.skip("max") else self._tokens.integer()

    def _extend(self, holder: Any) -> None:
        extended = self._tokens.name()
        self._tokens.expect("{")
        while not self._tokens.skip("}"):
            if not self._tokens.skip(";"):
                field = holder.extension.add(extendee=extended)
                self._field(holder, field)

    # -- enums and services --------------------------------------------------------------------------------------------

    def _enum(self, enum: EnumDescriptorProto) -> None:
        tokens = self._tokens
        enum.name = tokens.word()
        tokens.expect("{")
        while not tokens.skip("}"):
            if tokens.skip(";"):
                continue
            name = tokens.word()
            if name == "option" and tokens.next.text != "=":
                self._option(enum.options)
                tokens.expect(";")
            elif name == "reserved" and tokens.next.text != "=":
                self._reserved(enum, largest=2**31 - 1, exclusive=0)
            else:
                tokens.expect("=")
                value = enum.value.add(name=name)
                value.number = self._checked(tokens.integer(), -(2**31), 2**31 - 1, "the number of an enum's value")
                self._bracketed(value.options)
                tokens.expect(";")

    def _bracketed(self, options: Any) -> None:
        if self._tokens.skip("["):
            while not self._tokens.skip("]"):
                name = self._option_name()
                _set_option(options, name, self._value())
                self._tokens.skip(",")

    def _service(self, service: ServiceDescriptorProto) -> None:
        tokens = self._tokens
        service.name = tokens.word()
        tokens.expect("{")
        while not tokens.skip("}"):
            if tokens.skip(";"):
                continue
            if tokens.skip("option"):
                self._option(service.options)
                tokens.expect(";")
                continue
            tokens.expect("rpc")
            method = service.method.add(name=tokens.word())
            method.client_streaming, method.input_type = self._streamed()
            tokens.expect("returns")
            method.server_streaming, method.output_type = self._streamed()
            for name in ("client_streaming", "server_streaming"):
                if not getattr(method, name):
                    method.ClearField(name)
            if tokens.skip("{"):
                while not tokens.skip("}"):
                    if tokens.skip("option"):
                        self._option(method.options)
                    tokens.expect(";")
            else:
                tokens.expect(";")

    def _streamed(self) -> tuple[bool, str]:
        self._tokens.expect("(")
        streamed = self._tokens.skip("stream") and self._tokens.next.text != ")"
        name = self._tokens.name()
        self._tokens.expect(")")
        return streamed, name

    # -- options -------------------------------------------------------------------------------------------------------

    def _option(self, options: Any) -> None:
        name = self._option_name()
        _set_option(options, name, self._value())

    def _option_name(self) -> str:
        """With its "="; a name in brackets is that of a custom option, and is answered with them."""
        tokens, found = self._tokens, ""
        while not tokens.skip("="):
            found += f"({tokens.name()})" if tokens.skip("(") else tokens.word() if tokens.next.kind == "word" else ""
            if found.endswith(")"):
                tokens.expect(")")
            if not tokens.skip(".") and tokens.next.text != "=":
                tokens.refuse('"="')
            found += "."
        return found.rstrip(".")

    def _value(self) -> Any:
        tokens = self._tokens
        if tokens.next.text == "{":
            return self._skip_braces()
        if tokens.next.kind == "text":
            return tokens.text()
        sign = "-" if tokens.skip("-") else ""
        tokens.skip("+")
        token = tokens.take()
        if token.kind == "word":
            return FLAGS.get(token.text, _Word(sign + token.text))
        if token.kind != "number":
            tokens.refuse("a value")
        return _Word(sign + token.text)

    def _skip_braces(self) -> None:
        depth = 0
        while True:
            token = self._tokens.take()
            depth += (token.text == "{") - (token.text == "}")
            if depth == 0:
                return
            if token.kind == "end":
                self._tokens.refuse('"}"')

    def _checked(self, number: int, least: int, most: int, what: str) -> int:
        if not least <= number <= most:
            raise InvalidSchemaText(
                f"{what} is {number} before line {self._tokens.next.line}, outside {least} to {most}"
            )
        return number


class _Word(str):
    """A value that was written without quotes."""


def entry_name(field: str) -> str:
    """What protoc calls the message of a map's entries.

    >>> entry_name("by_name")
    'ByNameEntry'
    """
    return "".join(part[:1].upper() + part[1:] for part in field.split("_")) + "Entry"


def escaped(content: bytes) -> str:
    """Bytes as a descriptor keeps them: what is no plain letter in octal.

    >>> escaped(b'a"\\x00')
    'a\\\\"\\\\000'
    """
    marks = {0x22: '\\"', 0x27: "\\'", 0x5C: "\\\\", 0x0A: "\\n", 0x0D: "\\r", 0x09: "\\t"}
    return "".join(marks.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}") for byte in content)


def _default(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _set_option(options: Any, name: str, value: Any) -> None:
    """Of the options that Protobuf itself defines. Others, and values that do not fit, mean nothing to readers."""
    described = options.DESCRIPTOR.fields_by_name.get(name)
    if described is None or described.is_repeated or described.message_type is not None or value is None:
        return
    try:
        if described.enum_type is not None:
            setattr(options, name, described.enum_type.values_by_name[str(value)].number)
        elif isinstance(value, _Word):
            setattr(options, name, int(value))
        else:
            setattr(options, name, value)
    except (KeyError, TypeError, ValueError):
        raise InvalidSchemaText(f"option {name} cannot be {str(value)[:40]!r}") from None
