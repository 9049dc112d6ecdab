"""The kinds of schemas there are. Loaded when asked for: most registries hold one kind."""

from importlib import import_module

from headwater.errors import InvalidSchemaText
from headwater.registry.words import AVRO, JSON, PROTOBUF, Kind

MODULES = {
    AVRO: "headwater.registry.avro.kind",
    JSON: "headwater.registry.json_schema.kind",
    PROTOBUF: "headwater.registry.protobuf.kind",
}


def kind_called(name: str) -> Kind:
    if name not in MODULES:
        raise InvalidSchemaText(f"there is no kind of schema {name[:40]!r}", f"There are: {', '.join(MODULES)}.")
    try:
        kind: Kind = import_module(MODULES[name]).KIND
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("google"):
            raise
        raise InvalidSchemaText(
            f"schemas of kind {name} need {error.name}", 'Install it with "pip install headwater[protobuf]".'
        ) from None
    return kind
