"""From what a user says of set operations, single rows and NOT IN to nodes."""

from collections.abc import Sequence

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.checks.source_line import Place, calling_place
from headwater.flow.declare.matching import Matching
from headwater.flow.declare.tables.nodes import Beside, SetOperation
from headwater.flow.declare.topology.nodes import Node, Select, TableAggregate, TableJoin
from headwater.flow.formats.schema import quoted
from headwater.flow.operators.joins.pairing import ANTI, EQUAL_OR_UNKNOWN, Condition
from headwater.flow.operators.tables.beside import EMPTY, HAS_NULL


def set_operation_of(
    place: Place, left: Node, right: Node, *, how: str, all: bool, copy: str, name: str
) -> SetOperation:
    if copy.startswith("_") or not copy:
        raise InvalidDeclaration(f"column {copy!r} at {place} cannot be the number of a copy", 'Say copy="copy".')
    return SetOperation(place, left, right, how, copy if all else "", name)


def beside_of(place: Place, left: Node, right: Node, prefix: str, name: str) -> Beside:
    return Beside(place, left, right, prefix, "", name)


def refuse_null_aware(how: str, prefix: str) -> None:
    """What is no NOT IN."""
    if how != ANTI or prefix:
        raise InvalidDeclaration(
            f"join() at {calling_place()} is null_aware and {how!r}{' with a prefix=' if prefix else ''}",
            'Say how="anti": null_aware is for NOT IN.',
        )


def not_in_of(
    place: Place, left: Node, right: Node, matching: Matching, null_aware: bool | str | Sequence[str], name: str
) -> Node:
    """Rows of the left for which it is certain that they are not in the right.

    Within each value of other columns, a null may be anything: the rows are compared with each other. Over the whole
    table that would be all with all: there a row must meet none, and what else matters of the right is whether it is
    empty and whether it has a null.
    """
    what = f"join() at {place}"
    names = [one for one, _ in matching.on]
    chosen = names if null_aware is True else [null_aware] if isinstance(null_aware, str) else list(null_aware or ())
    if wrong := [one for one in chosen if one not in names]:
        raise InvalidDeclaration(
            f"{what} has null_aware={wrong[0]!r}, which it is not joined on", f"It is joined on {', '.join(names)}."
        )
    aware = [pair for pair in matching.on if pair[0] in chosen]
    others = tuple(pair for pair in matching.on if pair[0] not in chosen)
    if others:
        unknown = tuple(Condition(one, EQUAL_OR_UNKNOWN, other) for one, other in aware)
        return TableJoin(place, left, right, others, (*matching.further, *unknown), ANTI, "", name)
    if len(aware) > 1 or matching.further:
        raise InvalidDeclaration(
            f"{what} is null_aware over a whole table, on {', '.join(names)}"
            f"{' and a further condition' if matching.further else ''}: every row would be compared with every other",
            f"Say null_aware={names[0]!r} if only that column may be null, or put conditions on the right into its "
            "where(...).",
        )
    ((one, other),) = aware
    met = TableJoin(place, left, right, tuple(aware), (), ANTI, "", f"{name}.met" if name else "")
    counts = ("count(*) as total", f"count({quoted(other)}) as known")
    counted = TableAggregate(place, right, (), counts, f"{name}.nulls" if name else "")
    facts = Select(place, counted, (f"total = 0 as {EMPTY}", f"known < total as {HAS_NULL}"))
    return Beside(place, met, facts, "", one, name)
