"""Queries within conditions: IN, EXISTS and their negations as joins, and queries of one value (pure).

A condition of the inner query that names columns of the outer one is taken out of it, and becomes one of the join.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from sqlglot import exp

from headwater.flow.operators.joins.pairing import ANTI, LEFT, SEMI
from headwater.flow.sql.grouping import is_aggregate, is_grouped
from headwater.flow.sql.intervals import MIRRORED
from headwater.flow.sql.joining import JoinText, joined
from headwater.flow.sql.reading.source_text import start_of
from headwater.flow.sql.relations import Column, Item, Relation, Rows, columns_of, conjuncts, transformed

UNDER = " query"
"""The name of an inner query among items: one that no query can say."""
STRICT = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv, exp.Neg, exp.Paren)
"""Operators that are null where an operand is."""
COUNTS = ("count", "count_if", "approx_count_distinct", "regr_count")


@dataclass(frozen=True)
class Queries:
    compiled: Callable[[exp.Expr], Relation]
    scope: Callable[[exp.Select], Rows]
    """What names mean within a query."""


class Correlated(NamedTuple):
    """A comparison of an expression of the outer query with a column of the inner one."""

    outer: exp.Expr
    sign: type[exp.Expr]
    column: str


def queries_in(node: exp.Expr) -> Iterator[exp.Expr]:
    """The outermost queries within an expression."""
    for one in node.iter_expressions():
        if isinstance(one, exp.Query):
            yield one
        else:
            yield from queries_in(one)


def has_query(node: exp.Expr) -> bool:
    return isinstance(node, exp.Query) or any(True for _ in queries_in(node))


def filtered(rows: Rows, condition: exp.Expr, queries: Queries) -> Rows:
    """Rows that meet a condition with a query in it."""
    negated, inner = _negation(condition)
    if isinstance(inner, exp.Exists):
        return _existing(rows, inner.this, [], ANTI if negated else SEMI, queries, condition)
    if isinstance(inner, exp.In) and inner.args.get("query") is not None:
        return _among(rows, inner, queries, negated=negated)
    if any(isinstance(one.parent, exp.In | exp.Exists) for one in queries_in(condition)):
        raise rows.source.refusal(
            start_of(condition), "IN or EXISTS stands beside OR, or within an expression",
            "Connect it by AND; or write one query for each, and combine them with UNION.",
        )  # fmt: skip
    rows, made = with_scalars(rows, condition, queries)
    return rows.where(rows.text(made))


def _negation(node: exp.Expr) -> tuple[bool, exp.Expr]:
    negated = False
    while isinstance(node, exp.Not | exp.Paren):
        negated ^= isinstance(node, exp.Not)
        node = node.this
    return negated, node


def _among(rows: Rows, node: exp.In, queries: Queries, *, negated: bool) -> Rows:
    """x IN (SELECT y ...): rows with a partner. NOT IN has its own nulls: x may be among what is not known."""
    query = node.args["query"].unnest()
    given = list(node.this.expressions) if isinstance(node.this, exp.Tuple) else [node.this]
    if not isinstance(query, exp.Select | exp.SetOperation):
        raise rows.source.refusal(start_of(node), "IN is of no query", "Write IN (SELECT ...).")
    if not negated:
        return _existing(rows, query, given, SEMI, queries, node)
    rows = _known_among(rows, query, given, queries, node)
    return _existing(rows, query, given, ANTI, queries, node)


def _known_among(rows: Rows, query: exp.Expr, given: Sequence[exp.Expr], queries: Queries, node: exp.Expr) -> Rows:
    """Rows of which NOT IN can be true: nothing is among no rows, and nothing is known of a null, or beside one."""
    if len(given) > 1:
        raise rows.source.refusal(
            start_of(node), "NOT IN is of several columns", "Write NOT EXISTS (SELECT ... WHERE a = x AND b = y)."
        )
    inner, pairs = _taken_out(rows, query, queries, node)
    relation = queries.compiled(inner)
    columns = _columns(relation, rows, node)
    counted = relation.flow.with_columns(in_value=f"`{columns[0].flat}`")
    by = [one.flat for one in columns[1 : 1 + len(pairs)]]
    aggregates = ("count(*) as in_rows", "count(in_value) as in_known")
    table = counted.by(*by).agg(*aggregates) if by else counted.agg(*aggregates)
    own = (*columns[1 : 1 + len(pairs)], Column("in_rows", "in_rows"), Column("in_known", "in_known"))
    alias = f"{UNDER} {len(rows.items)}"
    right = Rows(table, (Item(alias, own),), rows.source)
    on = [_compared(one, alias) for one in pairs]
    names = frozenset(one.name.lower() for one in own)
    rows = joined(rows, right, JoinText(LEFT, tuple(on), start_of(node), using=names))
    found = rows.items[-1]
    said = {name: f"`{column.flat}`" for name in ("in_rows", "in_known") if (column := found.find(name))}
    value = rows.text(given[0])
    empty = f"coalesce({said['in_rows']}, 0) = 0"
    return rows.where(f"{empty} or ({said['in_rows']} = {said['in_known']} and ({value}) is not null)")


def _existing(
    rows: Rows, query: exp.Expr, given: Sequence[exp.Expr], how: str, queries: Queries, node: exp.Expr
) -> Rows:
    """Rows that have a partner in the query, or none."""
    if not given and isinstance(query, exp.Select) and not is_grouped(query):
        query = query.copy()
        query.set("expressions", [exp.alias_(exp.Literal.number(1), "there")])
    inner, pairs = _taken_out(rows, query, queries, node)
    relation = queries.compiled(inner)
    columns = _columns(relation, rows, node)
    if len(given) and len(columns) - len(pairs) != len(given):
        raise rows.source.refusal(
            start_of(node), f"IN compares {len(given)} with {len(columns) - len(pairs)} columns",
            "Select as many as stand before IN.",
        )  # fmt: skip
    alias = f"{UNDER} {len(rows.items)}"
    named = [replace(one, name=f"column {number}") for number, one in enumerate(columns)]
    first = len(columns) - len(pairs)
    pairs = [one._replace(column=f"column {first + number}") for number, one in enumerate(pairs)]
    on = [Correlated(one, exp.EQ, f"column {number}") for number, one in enumerate(given)]
    conditions = tuple(_compared(one, alias) for one in (*on, *pairs))
    right = Rows(relation.flow, (Item(alias, tuple(named)),), rows.source)
    return joined(rows, right, JoinText(how, conditions, start_of(node)))


def _columns(relation: Relation, rows: Rows, node: exp.Expr) -> tuple[Column, ...]:
    if relation.columns is None:
        raise rows.source.refusal(start_of(node), "columns of the query are known to Spark only", "Declare them.")
    return relation.columns


def _compared(one: Correlated, alias: str) -> exp.Expr:
    column = exp.Column(this=exp.to_identifier(one.column, quoted=True), table=exp.to_identifier(alias, quoted=True))
    return one.sign(this=one.outer.copy(), expression=column)


def _taken_out(rows: Rows, query: exp.Expr, queries: Queries, node: exp.Expr) -> tuple[exp.Expr, list[Correlated]]:
    """The query without conditions on the outer one, whose columns it selects now, and those conditions."""
    if not isinstance(query, exp.Select) or query.args.get("where") is None:
        return query, []
    scope = queries.scope(query)
    kept, pairs, added = list[exp.Expr](), list[Correlated](), list[exp.Expr]()
    for one in conjuncts(query.args["where"].this):
        if has_query(one) or not scope.known or _is_of(one, scope):
            kept.append(one)
            continue
        pair = _pair(one, scope, rows)
        if pair is None:
            outer = next(column for column in columns_of(one) if scope.find(column) is None)
            if rows.find(outer) is None:
                scope.resolve(outer)
            raise rows.source.refusal(
                start_of(one), "a condition on the outer query is no comparison of one side with the other",
                "Write inner.x = outer.y; put what is of one query alone into a condition of its own.",
            )  # fmt: skip
        name = f"correlated_{len(pairs) + 1}"
        pairs.append(Correlated(pair[0], pair[1], name))
        added.append(pair[2])
    if not pairs:
        return query, []
    made = query.copy()
    made.set("where", exp.Where(this=exp.and_(*kept, copy=True)) if kept else None)
    if is_grouped(query):
        if any(one.sign is not exp.EQ for one in pairs):
            raise rows.source.refusal(
                start_of(node), "groups of the inner query depend on a comparison with the outer one",
                "Compare with = only.",
            )  # fmt: skip
        group = made.args.get("group") or exp.Group(expressions=[])
        group.set("expressions", [*group.expressions, *(one.copy() for one in added)])
        made.set("group", group)
    named = [exp.alias_(one.copy(), f"correlated_{number}") for number, one in enumerate(added, 1)]
    made.set("expressions", [*made.expressions, *named])
    return made, pairs


def _is_of(node: exp.Expr, scope: Rows) -> bool:
    return all(scope.find(one) is not None for one in columns_of(node))


def _pair(node: exp.Expr, scope: Rows, rows: Rows) -> tuple[exp.Expr, type[exp.Expr], exp.Expr] | None:
    """The outer side, how it compares with the inner one, and that."""
    if type(node) not in MIRRORED:
        return None
    for inner, outer, sign in (
        (node.expression, node.this, type(node)), (node.this, node.expression, MIRRORED[type(node)])
    ):  # fmt: skip
        named = list(columns_of(outer))
        apart = named and all(scope.find(one) is None and rows.find(one) is not None for one in named)
        if apart and _is_of(inner, scope):
            return outer, sign, inner
    return None


# -- queries of one value ----------------------------------------------------------------------------------------------


def with_scalars(rows: Rows, node: exp.Expr, queries: Queries, *, grouped: bool = False) -> tuple[Rows, exp.Expr]:
    """The rows with the values of queries as columns, and the expression with those in their places. Where rows are
    `grouped`, all of a group have the same value, and the expression has an aggregate of it."""
    node = node.copy()
    for query in list(queries_in(node)):
        if isinstance(query.parent, exp.In | exp.Exists):
            raise rows.source.refusal(
                start_of(query), "IN or EXISTS stands where a value is computed", "Put it into WHERE."
            )
        rows, column = _scalar(rows, query, queries, grouped=grouped)
        query.replace(exp.Anonymous(this="max", expressions=[column]) if grouped else column)
    return rows, node


def _scalar(rows: Rows, given: exp.Expr, queries: Queries, *, grouped: bool) -> tuple[Rows, exp.Expr]:
    query = given.unnest() if isinstance(given, exp.Subquery) else given
    inner, pairs = _taken_out(rows, query, queries, given)
    if pairs and grouped:
        raise rows.source.refusal(
            start_of(given), "a query beside groups depends on their rows",
            "Compute the groups in FROM (SELECT ... GROUP BY ...), and compare them in a query around it.",
        )  # fmt: skip
    relation = queries.compiled(inner)
    columns = _columns(relation, rows, given)
    alone = isinstance(query, exp.Select) and is_grouped(query) and not query.args.get("group")
    if not (relation.one_row or (pairs and alone)):
        raise rows.source.refusal(
            start_of(given), "the query in brackets may have several rows, and one value is wanted",
            "Take an aggregate of it, such as max(...).",
        )  # fmt: skip
    alias = f"{UNDER} {len(rows.items)}"
    own = [replace(one, name=f"column {number}") for number, one in enumerate(columns)]
    first = len(columns) - len(pairs)
    on = [_compared(one._replace(column=f"column {first + number}"), alias) for number, one in enumerate(pairs)]
    hidden = frozenset(one.name for one in own)
    right = Rows(relation.flow, (Item(alias, tuple(own)),), rows.source)
    rows = joined(rows, right, JoinText(LEFT, tuple(on), start_of(given), using=hidden))
    value: exp.Expr = exp.Column(
        this=exp.to_identifier("column 0", quoted=True), table=exp.to_identifier(alias, quoted=True)
    )
    if not pairs:
        return rows, value
    without = _of_no_rows(query)
    if isinstance(without, exp.Literal):
        value = exp.Anonymous(this="coalesce", expressions=[value, without])
    elif without is not None:
        met = exp.Column(
            this=exp.to_identifier(f"column {first}", quoted=True), table=exp.to_identifier(alias, quoted=True)
        )
        unmet = exp.If(this=exp.Is(this=met, expression=exp.Null()), true=without)
        value = exp.Case(ifs=[unmet], default=value)
    return rows, value


def _of_no_rows(query: exp.Expr) -> exp.Expr | None:
    """What the value of a query is where no row of it fits: counts are 0. None if it is null."""
    given = query.expressions[0].unalias()
    if is_aggregate(given):
        return exp.Literal.number(0) if _counts(given) else None

    def step(node: exp.Expr) -> exp.Expr:
        if not is_aggregate(node):
            return node
        return exp.Literal.number(0) if _counts(node) else exp.Null()

    return _known_null(transformed(given.copy(), step))


def _known_null(node: exp.Expr) -> exp.Expr | None:
    """None for what is null because a part of it is."""
    parts = [_known_null(one) for one in node.iter_expressions()] if isinstance(node, STRICT) else []
    return None if isinstance(node, exp.Null) or None in parts else node


def _counts(node: exp.Expr) -> bool:
    """Of no rows it is 0, and not null."""
    while isinstance(node, exp.Filter):
        node = node.this
    return isinstance(node, exp.Anonymous) and str(node.this).lower() in COUNTS
