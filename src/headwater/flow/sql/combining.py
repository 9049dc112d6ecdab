"""UNION, INTERSECT and EXCEPT: columns go by their order, and have the names of the first query (pure)."""

from dataclasses import replace

from sqlglot import exp

from headwater.flow.declare.stream import Grouped, Stream, Table
from headwater.flow.sql.facts import facts_of
from headwater.flow.sql.reading.dialect import name_text
from headwater.flow.sql.reading.source_text import SourceText, start_of
from headwater.flow.sql.relations import Flow, Relation, as_column, fresh


def combined(query: exp.SetOperation, left: Relation, right: Relation, source: SourceText) -> Relation:
    """InvalidDeclaration if their columns do not fit."""
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
    if isinstance(query, exp.Union) and all(isinstance(one, Stream) for one in flows):
        first, second = flows
        assert isinstance(first, Stream)
        assert isinstance(second, Stream)
        made: Flow = first.union(second)
        if not whole:
            made = distinct(made, names)
    else:
        made = _of_tables(query, [facts_of(one) if isinstance(one, Stream) else one for one in flows], whole=whole)
    columns = tuple(
        replace(one, flat=one.name, event_time=one.event_time and other.event_time and isinstance(made, Stream))
        for one, other in zip(left.columns, right.columns, strict=True)
    )
    return Relation(made, columns)


def _named(relation: Relation, names: list[str]) -> Flow:
    """With these columns only, beside a table's own key."""
    columns = [as_column(name_text(one.flat), name) for one, name in zip(relation.columns or (), names, strict=True)]
    return relation.flow.select(*columns)


def distinct(flow: Flow, names: list[str]) -> Table:
    """Each row once, whatever key it had."""
    counted = Grouped(flow.node, tuple(names)).agg(f"count(*) as {fresh('rows_in_group', set(names))}")
    return counted.select(*map(name_text, names))


def _of_tables(query: exp.SetOperation, tables: list[Table], *, whole: bool) -> Table:
    raise NotImplementedError
