"""The types of the registry. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from headwater.errors import InvalidCompatibility
from headwater.registry.budget import Budget

AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
LATEST = -1
"""Instead of a version's number: the newest that is not deleted."""


class Reference(NamedTuple):
    """A schema that another is built on, under the name by which its text mentions it."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True)
class SchemaText:
    """A schema as it travels: its kind, its text, and what the text refers to."""

    text: str
    kind: str = AVRO
    references: tuple[Reference, ...] = ()


@dataclass(frozen=True)
class Parsed:
    """A schema that was understood."""

    kind: str
    tree: Any
    """The parsed schema, which the compatibility rules compare."""
    canonical: str
    """The same for schemas that differ only in how they are written down."""
    text: str
    """The stored value, as the API returns it."""


class Kind(NamedTuple):
    """How schemas of one kind are read and compared."""

    parse: Callable[[str, Mapping[str, Parsed]], Parsed]
    """From a text and what it refers to, by name; InvalidSchemaText if it is none."""
    unreadable: Callable[[Any, Any, Budget], list[str]]
    """What keeps a reader (first) from reading all that a writer (second) writes; nothing, if it can. OutOfSteps where
    that is more work than the budget allows."""


@dataclass(frozen=True)
class Version:
    """One version of a subject."""

    subject: str
    number: int
    id: int
    schema: SchemaText
    deleted: bool = False
    """Hidden from readers; its id still answers."""


class Compatibility(StrEnum):
    """Which versions must be able to read which."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def backward(self) -> bool:
        """Must a new schema read what older ones wrote?"""
        return self.startswith(("BACKWARD", "FULL"))

    @property
    def forward(self) -> bool:
        """Must older schemas read what a new one writes?"""
        return self.startswith(("FORWARD", "FULL"))

    @property
    def transitive(self) -> bool:
        """All versions before, rather than the last one?"""
        return self.endswith("_TRANSITIVE")

    @classmethod
    def called(cls, name: object) -> "Compatibility":
        if name is None:
            raise InvalidCompatibility("no compatibility level is named", 'Send {"compatibility": "BACKWARD"}.')
        try:
            return cls(str(name).upper())
        except ValueError:
            raise InvalidCompatibility(
                f"{str(name)[:40]!r} is not a compatibility level", f"There are: {', '.join(cls)}."
            ) from None


def against(level: Compatibility, versions: Sequence[Version]) -> Sequence[Version]:
    """Which of a subject's versions, oldest first, a new schema is held against; the newest comes first."""
    if level is Compatibility.NONE:
        return ()
    return versions[::-1] if level.transitive else versions[:-2:-1]
