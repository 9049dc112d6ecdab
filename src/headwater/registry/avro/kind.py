"""Avro as a kind of schema in the registry."""

from collections.abc import Mapping

from headwater.registry.avro.canonical import canonical
from headwater.registry.avro.parsing import parse as parse_text
from headwater.registry.avro.resolution import unreadable
from headwater.registry.avro.types import Named
from headwater.registry.words import AVRO, Kind, Parsed


class Tree:
    """A schema and every type with a name in it or beneath it, for those that refer to it."""

    def __init__(self, text: str, references: Mapping[str, Parsed]) -> None:
        beneath: dict[str, Named] = {}
        for parsed in references.values():
            beneath |= parsed.tree.named
        self.schema, own = parse_text(text, beneath)
        self.named = beneath | own
        self.canonical = canonical(self.schema, known=frozenset(beneath))


def parse(text: str, references: Mapping[str, Parsed]) -> Parsed:
    tree = Tree(text, references)
    return Parsed(AVRO, tree, tree.canonical, text)


KIND = Kind(parse, lambda reader, writer, budget: unreadable(reader.schema, writer.schema, budget))
