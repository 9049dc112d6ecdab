"""What `percolate` says: documents of a stream, and a table whose rows have queries (pure)."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.checks.source_line import calling_place
from headwater.flow.declare.joins import as_of_versions, refuse_timeless
from headwater.flow.declare.topology.nodes import Node
from headwater.flow.declare.topology.stored_queries import AsOfPercolate, Percolate, Searching
from headwater.flow.operators.joins.pairing import INNER
from headwater.flow.operators.search.analysis import STANDARD, check_analyzers
from headwater.flow.operators.search.fields import Point

Text = str | Sequence[str] | Mapping[str, str]
Points = Mapping[str, tuple[str, str]]


class HitOptions(NamedTuple):
    """What hits carry."""

    prefix: str
    highlight: bool
    explain: bool
    name: str


def percolate_of(
    left: Node,
    right: Node,
    text: Text,
    query: str,
    points: Points | None,
    default: str,
    as_of: str | None,
    options: HitOptions,
) -> Percolate | AsOfPercolate:
    """InvalidDeclaration for what does not fit together."""
    place = calling_place()
    if left.keyed or not right.keyed:
        raise InvalidDeclaration(
            f"percolate() at {place} is of a {'table' if left.keyed else 'stream'} with a "
            f"{'table' if right.keyed else 'stream'}",
            "Documents are a stream, and the queries that they meet a table.",
        )
    refuse_timeless(left, place)
    named = _analyzers(text)
    if not named:
        raise InvalidDeclaration(f"percolate() at {place} names no text", 'Say text=["title", "body"].')
    check_analyzers(named, place)
    if default.upper() not in ("OR", "AND"):
        raise InvalidDeclaration(f"percolate() at {place} has default={default!r}", 'It is "or" or "and".')
    where = tuple(Point(one, *columns) for one, columns in (points or {}).items())
    search = Searching(tuple(named.items()), query, where, default.upper(), options.highlight, options.explain)
    if as_of is None:
        return Percolate(place, left, right, (), (), INNER, options.prefix, options.name, 0, search)
    versions = as_of_versions(left, right, as_of, place, "percolate")
    return AsOfPercolate(place, left, versions, (), (), INNER, options.prefix, options.name, 0, search)


def _analyzers(text: Text) -> dict[str, str]:
    if isinstance(text, Mapping):
        return dict(text)
    return dict.fromkeys([text] if isinstance(text, str) else text, STANDARD)
