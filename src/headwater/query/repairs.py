"""Expressions that say in DuckDB something else than in Spark, replaced by those that say the same. Pure.

What is left different is in docs/guide/asking-views.md.
"""

from collections.abc import Callable

from sqlglot import exp

INTEGERS = frozenset({exp.DataType.Type.TINYINT, exp.DataType.Type.SMALLINT, exp.DataType.Type.INT,
                      exp.DataType.Type.BIGINT})  # fmt: skip
TIMES = frozenset({exp.DataType.Type.TIMESTAMP, exp.DataType.Type.TIMESTAMPTZ, exp.DataType.Type.TIMESTAMPLTZ,
                   exp.DataType.Type.TIMESTAMPNTZ, exp.DataType.Type.DATE})  # fmt: skip


def repaired(tree: exp.Expr) -> exp.Expr:
    """The same statement, whose types are known, for DuckDB."""
    return tree.transform(_repaired)


def _repaired(node: exp.Expr) -> exp.Expr:
    repair = REPAIRS.get(type(node))
    return node if repair is None else repair(node)


def _whole_sum(node: exp.Expr) -> exp.Expr:
    """DuckDB adds whole numbers up to one of 128 bits, Spark to a bigint."""
    inside = node.this.expressions[0] if isinstance(node.this, exp.Distinct) else node.this
    return _as_bigint(node) if inside.type is not None and inside.type.this in INTEGERS else node


def _as_bigint(node: exp.Expr) -> exp.Expr:
    if isinstance(node.parent, exp.Window | exp.Filter):
        return node  # the cast would have to stand around these
    return exp.Cast(this=node.copy(), to=exp.DataType.build("bigint"))


def _around(node: exp.Expr) -> exp.Expr:
    """The cast of an aggregate that has a window or a filter."""
    inner = node.this.this if isinstance(node.this, exp.Filter) else node.this
    summed = isinstance(inner, exp.CountIf) or (
        isinstance(inner, exp.Sum) and inner.this.type is not None and inner.this.type.this in INTEGERS
    )
    if not summed or isinstance(node.parent, exp.Window | exp.Cast):
        return node
    return exp.Cast(this=node.copy(), to=exp.DataType.build("bigint"))


def _seconds(node: exp.Expr) -> exp.Expr:
    """unix_timestamp, also of a time, which DuckDB would read as a text; in whole seconds."""
    if isinstance(node.parent, exp.Cast):
        return node
    timed = node.this is not None and node.this.type is not None and node.this.type.this in TIMES
    inner = exp.TimeToUnix(this=node.this.copy()) if timed else node.copy()
    return exp.Cast(this=inner, to=exp.DataType.build("bigint"))


REPAIRS: dict[type[exp.Expr], Callable[[exp.Expr], exp.Expr]] = {
    exp.Sum: _whole_sum,
    exp.CountIf: _as_bigint,
    exp.Window: _around,
    exp.Filter: _around,
    exp.StrToUnix: _seconds,
}
