"""Which rows of a view can matter to a SELECT: comparisons of a column with a constant, which a store can make. Pure.

Whatever is found here is checked once more by the SELECT itself. So it may leave rows in, and must never leave out one
that the SELECT would have kept: only forms are read that mean the same to the store as to the SELECT.
"""

from collections.abc import Iterator

import pyarrow as pa
from sqlglot import exp

from headwater.views.shape import Column, Shape

COMPARISONS: dict[type[exp.Expr], str] = {exp.EQ: "", exp.LT: " <", exp.LTE: " <=", exp.GT: " >", exp.GTE: " >="}
MIRRORED = {"": "", " <": " >", " <=": " >=", " >": " <", " >=": " <="}
SAFE_JOINS = frozenset({"", "INNER", "CROSS"})
VALUES_MAX = 500


def conditions_of(select: exp.Select, alias: str, shape: Shape) -> dict[str, object]:
    """As `parse_query` takes them; none where a join may keep rows that do not meet them."""
    joins = select.args.get("joins") or ()
    if any(join.side or join.kind.upper() not in SAFE_JOINS or join.method for join in joins):
        return {}
    where = select.args.get("where")
    found: dict[str, object] = {}
    for term in _conjuncts(where.this) if where else ():
        for said, value in _read(term, alias, {column.name.lower(): column for column in shape.columns}):
            found.setdefault(said, value)
    return found


def _conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    node = node.unnest()
    if isinstance(node, exp.And):
        yield from _conjuncts(node.this)
        yield from _conjuncts(node.expression)
    else:
        yield node


def _read(term: exp.Expr, alias: str, columns: dict[str, Column]) -> Iterator[tuple[str, object]]:
    sign = COMPARISONS.get(type(term))
    if sign is not None:
        for column, other, way in ((term.this, term.expression, sign), (term.expression, term.this, MIRRORED[sign])):
            known = _column(column, alias, columns)
            value = None if known is None else _constant(other, known)
            if known is not None and value is not None:
                yield f"{known.name}{way}", value
    elif isinstance(term, exp.Between) and (known := _column(term.this, alias, columns)) is not None:
        low, high = _constant(term.args["low"], known), _constant(term.args["high"], known)
        if low is not None and high is not None:
            yield from ((f"{known.name} >=", low), (f"{known.name} <=", high))
    elif isinstance(term, exp.In) and (known := _column(term.this, alias, columns)) is not None:
        values = [_constant(one, known) for one in term.expressions[: VALUES_MAX + 1]]
        if values and None not in values and len(values) <= VALUES_MAX:
            yield f"{known.name} in", values


def _column(node: exp.Expr, alias: str, columns: dict[str, Column]) -> Column | None:
    node = node.unnest()
    return columns.get(node.name.lower()) if isinstance(node, exp.Column) and node.table == alias else None


def _constant(node: exp.Expr, column: Column) -> object:
    """The constant, if the column's type compares with it as it is; None if that is not certain."""
    node, sign = node.unnest(), ""
    if isinstance(node, exp.Neg):
        node, sign = node.this, "-"
    if not isinstance(node, exp.Literal):
        return None
    text = sign + str(node.this)
    if node.is_string:
        return text if pa.types.is_string(column.type) and not sign else None
    if pa.types.is_integer(column.type) and text.lstrip("-").isdecimal() and len(text) < 19:
        number = int(text)
        bits = column.type.bit_width - 1
        return number if -(2**bits) <= number < 2**bits else None
    return None


def first_rows(select: exp.Select, where: dict[str, object]) -> int | None:
    """How many rows are enough, where any rows are: SELECT a, b FROM v LIMIT 10."""
    plain = {"expressions", "from", "from_", "limit", "offset", "kind", "hint", "with", "with_", "operation_modifiers"}
    limit = select.args.get("limit")
    if limit is None or where or any(value for name, value in select.args.items() if name not in plain):
        return None
    if select.find(exp.AggFunc, exp.Window, exp.UDTF, exp.Explode, exp.Subquery, exp.Anonymous):
        return None
    offset = select.args.get("offset")
    counts = [limit.expression, *([offset.expression] if offset else [])]
    if not all(isinstance(one, exp.Literal) and one.is_int for one in counts):
        return None
    return sum(int(one.this) for one in counts)
