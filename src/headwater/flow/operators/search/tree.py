"""A stored query as its author wrote it: a tree of clauses, before it is known what fields there are (pure)."""

from dataclasses import dataclass

MUST, SHOULD, MUST_NOT = "+", "", "-"
"""How a clause counts in its group: it has to hold, it may hold, it must not hold."""


class QueryMistake(ValueError):
    """A stored query that cannot be read, or asks for what its fields do not have; the message is for its author."""


@dataclass(frozen=True)
class Leaf:
    """`field` is None for all text fields."""

    field: str | None


@dataclass(frozen=True)
class Word(Leaf):
    text: str


@dataclass(frozen=True)
class Quoted(Leaf):
    """Words one after another; `slop` says by how many places in all they may lie elsewhere."""

    text: str
    slop: int = 0


@dataclass(frozen=True)
class Wildcard(Leaf):
    """`*` stands for any letters, `?` for one; both escaped by a backslash where they are meant as they are."""

    pattern: str


@dataclass(frozen=True)
class Fuzzy(Leaf):
    text: str
    edits: int


@dataclass(frozen=True)
class Range(Leaf):
    """Bounds as text; None is open."""

    low: str | None
    high: str | None
    with_low: bool = True
    with_high: bool = True


@dataclass(frozen=True)
class Near(Leaf):
    """Within some metres of a point."""

    latitude: float
    longitude: float
    metres: float


@dataclass(frozen=True)
class Everything(Leaf):
    pass


@dataclass(frozen=True)
class Boosted:
    """Scores of the query below are multiplied."""

    query: "Query"
    by: float


@dataclass(frozen=True)
class Clause:
    occurs: str
    query: "Query"


@dataclass(frozen=True)
class Group:
    """All that must hold, none that must not, and `minimum` of those that may; one of these if nothing must.

    Where all clauses are negative, it is every document but those.
    """

    clauses: tuple[Clause, ...]
    minimum: int = 0


Query = Leaf | Boosted | Group
