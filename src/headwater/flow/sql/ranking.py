"""row_number() OVER (...) and its like: the first rows of each group of a table, in an order (pure)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from headwater.flow.declare.stream import Stream, Table
from headwater.flow.declare.tables.ranking import neighbours_of
from headwater.flow.operators.ranks.neighbours import FIRST, LAG, LAST, LEAD, Neighbour
from headwater.flow.sql.facts import facts_of
from headwater.flow.sql.grouping import Stage
from headwater.flow.sql.reading.dialect import plain_name
from headwater.flow.sql.reading.source_text import SourceText, start_of
from headwater.flow.sql.relations import Flow, Rows, flat_tree, fresh, transformed

RANKS = ("row_number", "rank", "dense_rank")
ENDS = ("first_value", "last_value")
NEIGHBOURS = {"lag": LAG, "lead": LEAD, "first_value": FIRST, "last_value": LAST}
"""Functions of another row of the group."""
MIRRORED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.EQ: exp.EQ,
}


def windows_in(node: exp.Expr) -> list[exp.Window]:
    """Functions OVER (...), but for those of queries within."""
    if isinstance(node, exp.Query):
        return []
    if isinstance(node, exp.Window):
        return [node]
    return [found for one in node.iter_expressions() for found in windows_in(one)]


def bounds_of(conditions: Sequence[exp.Expr], alias: str) -> dict[str, int]:
    """The highest whole number that columns, or functions OVER (...), may have: place <= 3."""
    found: dict[str, int] = {}
    for one in conditions:
        for name, most in _bound(one, alias):
            found[name] = min(most, found.get(name, most))
    return found


def _bound(node: exp.Expr, alias: str) -> list[tuple[str, int]]:
    if isinstance(node, exp.Between):
        return _bound(exp.LTE(this=node.this, expression=node.args["high"]), alias)
    if type(node) not in MIRRORED:
        return []
    for one, other, kind in (
        (node.this, node.expression, type(node)), (node.expression, node.this, MIRRORED[type(node)])
    ):  # fmt: skip
        name = _ranked_name(one, alias)
        if name and isinstance(other, exp.Literal) and not other.is_string and str(other.this).isdigit():
            most = int(str(other.this))
            return [(name, most - (kind is exp.LT))] if kind in (exp.LT, exp.LTE, exp.EQ) else []
    return []


def _ranked_name(node: exp.Expr, alias: str) -> str:
    if isinstance(node, exp.Window):
        return node.sql()
    if isinstance(node, exp.Column) and (not node.table or node.table.lower() == alias.lower()):
        return node.name.lower()
    return ""


def ranked(stage: Stage, windows: Sequence[tuple[exp.Window, str]], bounds: Mapping[str, int], rows: Rows) -> Stage:
    """The stage with a column for every function OVER (...), by the name that SELECT gives it where that is free."""
    made: dict[str, str] = {}
    flow, unique = stage.flow, stage.unique
    for window, alias in windows:
        if window.sql() in made:
            continue
        name = _checked(window, rows.source)
        if name in NEIGHBOURS:
            flow = facts_of(flow) if isinstance(flow, Stream) else flow
            into, flow = _beside(stage, window, flow, alias, {*stage.taken, *made.values()}, rows.source)
            made[window.sql()] = into
            continue
        most = bounds.get(alias.lower()) if alias else None
        most = bounds.get(window.sql(), most)
        if most is None:
            raise rows.source.refusal(
                start_of(window), f"{name}() has no bound, and one changed row could change the ranks of all after it",
                f"Put a query around it with WHERE {alias or 'place'} <= 10, say.",
            )  # fmt: skip
        flow = facts_of(flow) if isinstance(flow, Stream) else flow
        taken = {*stage.taken, *made.values()}
        by, order, flow = _columns(stage, window, flow, taken)
        into = fresh(alias if alias and not alias.startswith("_") else "rank", {one.lower() for one in taken})
        flow = flow.rank(by=by, order=order, into=into, how=name, limit=max(most, 1))
        made[window.sql()] = into
        if name == "row_number":
            unique = (*by, *([into] if most > 1 else []))
    if not made:
        return stage

    def rewrite(node: exp.Expr) -> exp.Expr:
        copy = node.copy()
        return stage.rewrite(
            transformed(copy, lambda one: flat_tree(made[one.sql()]) if isinstance(one, exp.Window) else one)
        )

    names = stage.taken | {one.lower() for one in made.values()}
    return replace(stage, flow=flow, rewrite=rewrite, taken=names, unique=unique)


def _checked(window: exp.Window, source: SourceText) -> str:
    name = str(window.this.this).lower() if isinstance(window.this, exp.Anonymous) else ""
    if name not in (*RANKS, *NEIGHBOURS) or window.args.get("alias") or not _whole(name, window.args.get("spec")):
        said = name or window.this.sql(dialect="spark")
        raise source.refusal(
            start_of(window), f"{said}(...) OVER cannot be kept from batch to batch",
            f"There are {', '.join(RANKS)}, with a bound, {', '.join(NEIGHBOURS)}, the last two over ROWS BETWEEN "
            "UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING; or join with the groups of GROUP BY.",
        )  # fmt: skip
    if not window.args.get("order"):
        raise source.refusal(start_of(window), f"{name}() OVER has no ORDER BY", "Say what comes first.")
    return name


def _whole(name: str, spec: exp.Expr | None) -> bool:
    """Whether the rows that a function looks at are all of the group, or those that it looks at anyway."""
    if spec is None:
        return name != "last_value"
    bounds = [str(spec.args.get(one) or "").upper() for one in ("start", "start_side", "end", "end_side")]
    return name in ENDS and bounds == ["UNBOUNDED", "PRECEDING", "UNBOUNDED", "FOLLOWING"]


def _beside(
    stage: Stage, window: exp.Window, flow: Table, alias: str, taken: set[str], source: SourceText
) -> tuple[str, Table]:  # fmt: skip
    """The column of lag(x [, offset [, default]]) or its like, and the table with it."""
    name, inputs = str(window.this.this).lower(), list(window.this.expressions)
    if not 1 <= len(inputs) <= (1 if name in ENDS else 3):
        said = f"{name}(x)" if name in ENDS else f"{name}(x, 1) or {name}(x, 1, 0)"
        raise source.refusal(start_of(window), f"{name}(...) has {len(inputs)} inputs", f"Write {said}.")
    offset = inputs[1] if len(inputs) > 1 else exp.Literal.number(1)
    if not isinstance(offset, exp.Literal) or not str(offset.this).isdigit() or int(str(offset.this)) < 1:
        raise source.refusal(start_of(window), f"the offset of {name}(...) is no whole number", "Write 1, or more.")
    by, order, flow = _columns(stage, window, flow, taken)
    names = {one.lower() for one in taken}
    value = stage.text(inputs[0])
    made = {fresh("neighbour", names): value}
    if len(inputs) > 2:
        default = fresh("neighbour_default", names)
        made[default] = f"if(false, {value}, {stage.text(inputs[2])})"
    flow = flow.with_columns(**made)
    names |= set(made)
    into = fresh(alias if alias and not alias.startswith("_") else "neighbour_value", names)
    columns = list(made)
    one = Neighbour(into, columns[0], NEIGHBOURS[name], int(str(offset.this)), "".join(columns[1:]))
    return into, Table(neighbours_of(flow.node.place, flow.node, [one], by=by, order=order, name=""))


def _columns(stage: Stage, window: exp.Window, flow: Flow, taken: set[str]) -> tuple[list[str], list[str], Table]:
    """Columns that are ranked by, in groups of which others; those that are computed are added to the table."""
    made: dict[str, str] = {}

    def column(node: exp.Expr) -> str:
        text = stage.text(node)
        if (own := plain_name(text)).lower() in stage.taken:
            return own
        name = next((name for name, said in made.items() if said == text), "")
        if not name:
            name = fresh("rank_key", {one.lower() for one in (*taken, *made)})
            made[name] = text
            taken.add(name)
        return name

    by = list(dict.fromkeys(column(one) for one in window.args.get("partition_by") or ()))
    order = [(column(one.this), one) for one in window.args["order"].expressions]
    said = [ordered_text(name, one) for name, one in order if name not in by]
    table = flow.with_columns(**made) if made else flow
    assert isinstance(table, Table)
    return by, said, table


def ordered_text(name: str, one: exp.Expr) -> str:
    nulls = one.args.get("nulls_first")
    way = " desc" if one.args.get("desc") else ""
    return f"`{name}`{way}" + ("" if nulls is None else f" nulls {'first' if nulls else 'last'}")


def newest_of(rows: Rows, ranked: tuple[exp.Window, str], bounds: Mapping[str, int]) -> Stream | Table | None:
    """The newest row for each key, if a rank of a stream's rows by their time asks for no more."""
    window, alias = ranked
    order = window.args.get("order")
    name = str(window.this.this).lower() if isinstance(window.this, exp.Anonymous) else ""
    most = bounds.get(window.sql(), bounds.get(alias.lower()) if alias else None)
    if name != "row_number" or most != 1 or order is None or len(order.expressions) != 1:
        return None
    column = rows.plain(order.expressions[0].this)
    by = [rows.plain(one) for one in window.args.get("partition_by") or ()]
    if column is None or not column.event_time or not order.expressions[0].args.get("desc") or not by or None in by:
        return None
    assert isinstance(rows.flow, Stream)
    return rows.flow.latest(*(one.flat for one in by if one is not None))


def first_rows(stage: Stage, order: exp.Order, limit: exp.Limit, select: exp.Select, source: SourceText) -> Table:
    """The first rows of all, by what ORDER BY says."""
    most = limit.expression
    if not isinstance(most, exp.Literal) or most.is_string or not str(most.this).isdigit() or int(str(most.this)) < 1:
        raise source.refusal(start_of(limit), "LIMIT is no whole number", "Write LIMIT 10, for example.")
    named = {one.alias.lower(): one.this for one in select.expressions if isinstance(one, exp.Alias)}
    made: dict[str, str] = {}
    said = []
    for one in order.expressions:
        given = one.this
        if isinstance(given, exp.Literal) and str(given.this).isdigit():
            number = int(str(given.this))
            given = select.expressions[number - 1].unalias() if number <= len(select.expressions) else given
        if isinstance(given, exp.Column) and not given.table and given.name.lower() in named:
            given = named[given.name.lower()]
        text = stage.text(given)
        name = plain_name(text)
        if name.lower() not in stage.taken:
            name = fresh("order_key", {*stage.taken, *made})
            made[name] = text
        said.append(ordered_text(name, one))
    flow = facts_of(stage.flow) if isinstance(stage.flow, Stream) else stage.flow
    flow = flow.with_columns(**made) if made else flow
    into = fresh("rank", {*stage.taken, *made})
    return flow.rank(order=said, into=into, limit=int(str(most.this)))
