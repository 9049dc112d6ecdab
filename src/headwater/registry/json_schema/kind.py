"""JSON Schema as a kind of schema in the registry."""

from collections.abc import Mapping

from headwater.registry.json_schema.containment import unadmitted
from headwater.registry.json_schema.documents import Document
from headwater.registry.words import JSON, Kind, Parsed


def parse(text: str, references: Mapping[str, Parsed]) -> Parsed:
    document = Document(text, {name: parsed.tree for name, parsed in references.items()})
    return Parsed(JSON, document, document.canonical, text)


KIND = Kind(parse, unadmitted)
