"""State that ends: tables of a stream whose keys are removed when they have had no row for a time (`keep=`)."""

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.checks.source_line import calling_place
from headwater.flow.declare.topology.nodes import (
    Changes,
    Expression,
    Node,
    Select,
    SourceStream,
    SourceVersions,
    Windowed,
    multiplies,
    sources_of,
    walk,
)
from headwater.flow.declare.windows import Emission
from headwater.flow.formats.schema import quoted
from headwater.flow.operators.windows.clock import UPDATES
from headwater.flow.operators.windows.kinds.kept import kept_for


def kept_aggregate(node: Node, key: tuple[str, ...], aggregates: tuple[Expression, ...], keep: str, name: str) -> Node:
    """Aggregates whose keys end."""
    refuse_keeping(node, key, "agg", keep)
    emission = Emission(UPDATES, said=True)
    return Windowed(calling_place(), node, kept_for(keep), key, aggregates, emission, name)


def kept_latest(node: Node, key: tuple[str, ...], keep: str, name: str) -> Node:
    """The newest row of each key, whose keys end."""
    from headwater.flow.declare.checks.columns import known_columns  # which knows of apps, and these of tables

    known = known_columns(node)
    if known is None:
        raise InvalidDeclaration(
            f"latest() at {calling_place()} has keep={keep!r}, and its columns are for Spark to say",
            "Name them first: .select(...).",
        )
    others = [one for one in known if one not in key]
    if not others:
        row = next(one for one in ("rows", "count") if one not in key)
        return Select(calling_place(), kept_aggregate(node, key, (f"count(*) as {row}",), keep, name), key)
    if not multiplies(node):
        return kept_aggregate(node, key, tuple(f"last({quoted(one)}) as {quoted(one)}" for one in others), keep, name)
    # Of rows that lie at one offset the columns of one have to be chosen, and not the greatest of each.
    row = next(one for one in ("row", *(f"row{number}" for number in range(len(key)))) if one not in key)
    whole = f"last(struct({', '.join(map(quoted, others))})) as {row}"
    columns = [f"{row}.{quoted(one)} as {quoted(one)}" for one in others]
    return Select(calling_place(), kept_aggregate(node, key, (whole,), keep, name), (*map(quoted, key), *columns))


def refuse_keeping(node: Node, key: tuple[str, ...], method: str, keep: str) -> None:
    """InvalidDeclaration where no event time says when a key has ended."""
    said = f"{method}() at {calling_place()} has keep={keep!r}"
    if node.keyed:
        raise InvalidDeclaration(
            f"{said}, and is of a table, whose groups end with the rows that they are made of",
            "Say keep= where the table is made of a stream: there its keys end, and so do groups and joins of it.",
        )
    if not key:
        raise InvalidDeclaration(f"{said}, and no key: its state is one row", "Leave keep= out, or group by(...).")
    if made := [one for one in walk(node) if isinstance(one, Changes)]:
        raise InvalidDeclaration(
            f"{said}, and comes after changes() at {made[0].place}, which have no event time",
            "Say keep= where the table is made.",
        )
    streams = [one for one in sources_of(node) if isinstance(one, SourceStream) and not isinstance(one, SourceVersions)]
    if timeless := [one for one in streams if not one.time]:
        raise InvalidDeclaration(
            f"{said}, and stream {timeless[0].name} does not say which column has the event time",
            f"Declare it with time=: app.stream({timeless[0].topic!r}, ..., time='at').",
        )
