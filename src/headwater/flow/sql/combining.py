"""UNION, INTERSECT and EXCEPT: columns go by their order, and have the names of the first query (pure)."""

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from headwater.flow.declare.stream import Grouped, Stream, Table
from headwater.flow.declare.topology.nodes import key_of
from headwater.flow.sql.facts import PART, facts_of
from headwater.flow.sql.reading.dialect import name_text
from headwater.flow.sql.reading.source_text import SourceText, start_of
from headwater.flow.sql.relations import Flow, Relation, as_column, fresh


def combined(
    query: exp.SetOperation, left: Relation, right: Relation, source: SourceText, *, grouped: bool = False
) -> Relation:
    """InvalidDeclaration if their columns do not fit. Rows that are `grouped` next need no key that distinguishes them
    from others that are alike."""
    kind = type(query).__name__.upper()
    if left.columns is None or right.columns is None:
        raise source.refusal(start_of(query), f"{kind} is of columns that only Spark knows", "Declare or select them.")
    if len(left.columns) != len(right.columns):
        raise source.refusal(
            start_of(query.right), f"{kind} has {len(left.columns)} columns on one side and {len(right.columns)} on "
            "the other", "Select as many in both.",
        )  # fmt: skip
    names = [one.name for one in left.columns]
    whole = not query.args.get("distinct")
    flows = [_named(one, names) for one in (left, right)]
    if isinstance(query, exp.Union):
        made = _united(flows, (left, right), names, whole=whole, grouped=grouped)
    else:
        one, other = (_rows(each, names) for each in flows)
        method = one.intersect if isinstance(query, exp.Intersect) else one.except_
        made = method(other, all=whole, copy=fresh("copy", {each.lower() for each in names}))
    columns = tuple(
        replace(one, flat=one.name, event_time=one.event_time and other.event_time and isinstance(made, Stream))
        for one, other in zip(left.columns, right.columns, strict=True)
    )
    return Relation(made, columns)


def _united(flows: Sequence[Flow], sides: Sequence[Relation], names: list[str], *, whole: bool, grouped: bool) -> Flow:
    first, second = flows
    if isinstance(first, Stream) and isinstance(second, Stream):
        return first.union(second) if whole else distinct(first.union(second), names)
    one, other = (_rows(each, names) for each in flows)
    if not whole or grouped:
        return one.union(other) if whole else distinct(one.union(other), names)
    if keyed := _with_same_key(sides, names):
        return keyed[0].union(keyed[1], part=fresh(PART, {each.lower() for each in names}))
    return _copied(one.union(other), names)


def _rows(flow: Flow, names: list[str]) -> Table:
    """Without the columns that distinguish facts: what is compared or grouped needs no key."""
    return facts_of(flow).select(*map(name_text, names)) if isinstance(flow, Stream) else flow


def _with_same_key(sides: Sequence[Relation], names: list[str]) -> list[Table]:
    """Tables whose keys are the same columns of the result; none if they are not, or not known to be of one type."""
    tables = [one.flow for one in sides if isinstance(one.flow, Table)]
    if len(tables) < len(sides):
        return []
    places = [_places(side, key_of(table.node)) for side, table in zip(sides, tables, strict=True)]
    if not places[0] or places[0] != places[1]:
        return []
    made = []
    for table, side in zip(tables, sides, strict=True):
        columns = zip(side.columns or (), names, strict=True)
        made.append(table.select(*(as_column(name_text(one.flat), name) for one, name in columns)))
    return made


def _places(side: Relation, key: Sequence[str]) -> list[tuple[int, object]]:
    """Which columns those of the key are, and their types; none if one is not among them once, or of unknown type."""
    columns = side.columns or ()
    found = [[(number, one.type) for number, one in enumerate(columns) if one.flat == name] for name in key]
    if any(len(one) != 1 or one[0][1] is None for one in found):
        return []
    return [one[0] for one in found]


def _copied(table: Table, names: list[str]) -> Table:
    """Each row as often as it is there; its copies are numbered, and that and the row are its key."""
    taken = {one.lower() for one in names}
    times, copies, number = (fresh(name, taken) for name in ("rows_in_group", "copies", "copy"))
    counted = Grouped(table.node, tuple(names)).agg(f"count(*) as {times}")
    numbered = counted.with_columns(**{copies: f"sequence(1, {times})"})
    exploded = numbered.explode(copies, position=number)
    return exploded.select(*map(name_text, names), number)


def _named(relation: Relation, names: list[str]) -> Flow:
    """With these columns only, beside a table's own key."""
    columns = [as_column(name_text(one.flat), name) for one, name in zip(relation.columns or (), names, strict=True)]
    return relation.flow.select(*columns)


def distinct(flow: Flow, names: list[str]) -> Table:
    """Each row once, whatever key it had."""
    counted = Grouped(flow.node, tuple(names)).agg(f"count(*) as {fresh('rows_in_group', set(names))}")
    return counted.select(*map(name_text, names))
