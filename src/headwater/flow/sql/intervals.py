"""Intervals of time in queries: how long they are, and how far apart rows may be that are joined (pure)."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.duration import duration_us
from headwater.flow.sql.reading.source_text import SourceText, start_of
from headwater.flow.sql.relations import Rows

Sign = type[exp.Expr]

MIRRORED: dict[Sign, Sign] = {
    exp.EQ: exp.EQ, exp.NEQ: exp.NEQ, exp.LT: exp.GT, exp.GT: exp.LT, exp.LTE: exp.GTE, exp.GTE: exp.LTE,
}  # fmt: skip


NOW = ("current_timestamp", "now", "proctime", "localtimestamp")


def is_now(node: exp.Expr) -> bool:
    """Whether it is the time at which rows are processed."""
    if isinstance(node, exp.CurrentTimestamp | exp.Localtimestamp):
        return True
    return isinstance(node, exp.Anonymous) and str(node.this).lower() in NOW


def interval_us(node: exp.Expr, source: SourceText) -> int:
    """Of INTERVAL '5' MINUTES, or a text such as '5 minutes'. InvalidDeclaration if its length is not fixed."""
    text = ""
    if isinstance(node, exp.Interval) and isinstance(node.this, exp.Literal):
        text = f"{node.this.this} {node.args['unit'].name.lower() if node.args.get('unit') else ''}"
    elif isinstance(node, exp.Literal) and node.is_string:
        text = str(node.this)
    try:
        return duration_us(text.strip())
    except InvalidDeclaration:
        said = node.sql(dialect="spark")
        raise source.refusal(
            start_of(node), f"{said} has no fixed length", "Write for example INTERVAL '5' MINUTES or '5 minutes'."
        ) from None


@dataclass(frozen=True)
class Bounds:
    """How much later than a row of the left one of the right may be, in microseconds."""

    low_us: int | None = None
    high_us: int | None = None

    def narrowed(self, sign: type[exp.Expr], by_us: int) -> "Bounds":
        """With right − left `sign` by_us as well."""
        least: dict[Sign, int] = {exp.GTE: by_us, exp.GT: by_us + 1, exp.EQ: by_us}
        most: dict[Sign, int] = {exp.LTE: by_us, exp.LT: by_us - 1, exp.EQ: by_us}
        low, high = least.get(sign), most.get(sign)
        lows = [one for one in (self.low_us, low) if one is not None]
        highs = [one for one in (self.high_us, high) if one is not None]
        return Bounds(max(lows, default=None), min(highs, default=None))


def time_bounds(conditions: Sequence[exp.Expr], rows: Rows, right: int) -> tuple[Bounds, list[exp.Expr]]:
    """What conditions say of the event times of both sides, and the other conditions. `right` is the right's item."""
    bounds, others = Bounds(), list[exp.Expr]()
    for one in conditions:
        found = _bound(one, rows, right)
        if found is None:
            others.append(one)
        else:
            for sign, by_us in found:
                bounds = bounds.narrowed(sign, by_us)
    return bounds, others


def _bound(node: exp.Expr, rows: Rows, right: int) -> list[tuple[type[exp.Expr], int]] | None:
    if isinstance(node, exp.Between):
        low = _bound(exp.GTE(this=node.this, expression=node.args["low"]), rows, right)
        high = _bound(exp.LTE(this=node.this, expression=node.args["high"]), rows, right)
        return None if low is None or high is None else [*low, *high]
    if type(node) not in MIRRORED or isinstance(node, exp.NEQ):
        return None
    one, other = _moment(node.this, rows), _moment(node.expression, rows)
    if one is None or other is None:
        return None
    if one[0] == right and other[0] != right:
        return [(type(node), other[1] - one[1])]
    if other[0] == right and one[0] != right:
        return [(MIRRORED[type(node)], one[1] - other[1])]
    return None


def _moment(node: exp.Expr, rows: Rows) -> tuple[int, int] | None:
    """The item whose event time it is, and how much is added to that."""
    inner = node.unnest() if isinstance(node, exp.Paren) else node
    if isinstance(inner, exp.Add | exp.Sub) and isinstance(inner.expression, exp.Interval):
        before = _moment(inner.this, rows)
        if before is None:
            return None
        by_us = interval_us(inner.expression, rows.source)
        return before[0], before[1] + (by_us if isinstance(inner, exp.Add) else -by_us)
    if isinstance(inner, exp.Column) and (column := rows.plain(inner)) is not None and column.event_time:
        return rows.resolve(inner).item, 0
    return None
