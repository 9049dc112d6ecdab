"""Schemas that an app does not say itself: they are in a registry, and asked for before the app runs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.errors import InvalidDeclaration, InvalidFormat, InvalidSchema, SchemaError
from headwater.flow.declare.checks.source_line import declared_at
from headwater.flow.formats.schema import Schema
from headwater.flow.registry.client import RegistryClient
from headwater.flow.registry.describing import Described, describe

if TYPE_CHECKING:
    from headwater.flow.declare.app import App


@dataclass
class Registered:
    """Where the schema of a source is kept. Two are equal if they say the same, whatever was found."""

    registry: str
    """A URL; "" is the registry of the node on the app's data directory."""
    declared: Schema | None
    """Columns that the user gave; then the registry only says how values were written."""
    finish: Callable[[Schema], Schema] = field(compare=False, repr=False)
    """Checks what the source says of its columns, and adds those that are worked out."""
    found: Described | None = field(default=None, compare=False)


def schema_of(contents: Schema | Registered) -> Schema:
    return contents if isinstance(contents, Schema) else _settled(contents).schema


def options_of(contents: Schema | Registered, said: Mapping[str, str]) -> Mapping[str, str]:
    return said if isinstance(contents, Schema) else _settled(contents).options


def _settled(contents: Registered) -> Described:
    if contents.found is None:
        raise InvalidDeclaration("a schema is needed that the registry has not been asked for")
    return contents.found


def asks_the_node(app: "App") -> bool:
    """Does it need the registry of the node?"""
    return any(isinstance(one.contents, Registered) and not one.contents.registry for one in app.sources.values())


def settle(app: "App", data: Path) -> None:
    """Ask registries for the schemas that the app takes from them; for each once in the life of the app."""
    for source in app.sources.values():
        contents = source.contents
        if not isinstance(contents, Registered) or contents.found is not None:
            continue
        # The user waits for the app to start, and sees at once that the registry does not answer.
        client = RegistryClient(contents.registry or str(data.absolute()), patience_seconds=0)
        with declared_at(source.place):
            try:
                found = describe(client, source.topic, source.format, source.options, contents.declared)
            except (SchemaError, InvalidSchema, InvalidFormat) as error:
                raise InvalidDeclaration(f"the schema of {source.topic} ({source.place}): {error}") from None
            contents.found = Described(contents.finish(found.schema), found.options)
