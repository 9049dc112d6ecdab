"""Comparison and boolean logic as in Spark: three-valued, NaN equal to itself and above all numbers (pure)."""

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from headwater.flow.expressions.evaluated import Evaluated, Values, as_array, first_errors, of_type, only_where
from headwater.flow.expressions.tree import Expression
from headwater.flow.state.runs.equality import equal

Evaluate = Callable[[Expression], Evaluated]


def compared(node: Expression, rows: int, one: Values, other: Values) -> Evaluated:
    return Evaluated(compared_values(node.kind, one, other))


def compared_values(kind: str, one: Values, other: Values) -> Values:
    """`kind` of two columns: equal, less, less_equal, greater, greater_equal."""
    if kind in ("greater", "greater_equal"):
        return compared_values({"greater": "less", "greater_equal": "less_equal"}[kind], other, one)
    plain = {"equal": pc.equal, "less": pc.less, "less_equal": pc.less_equal}[kind](one, other)
    if not pa.types.is_floating(one.type) or not (_has_nan(one) or _has_nan(other)):
        return plain
    left, right = pc.is_nan(one), pc.is_nan(other)
    if kind == "equal":
        return pc.or_(plain, pc.and_(left, right))
    return pc.or_(plain, pc.and_(right, pc.invert(left)) if kind == "less" else right)


def _has_nan(values: Values) -> bool:
    found = pc.is_nan(values)
    if isinstance(found, pa.Scalar):
        return bool(found.as_py())
    return bool(pc.any(found).as_py())


def equal_or_both_null(node: Expression, rows: int, one: Values, other: Values) -> Evaluated:
    if pa.types.is_nested(one.type):
        return Evaluated(pa.array(equal(as_array(one, rows), as_array(other, rows))))
    missing = pc.and_(pc.is_null(one), pc.is_null(other))
    return Evaluated(pc.or_(pc.fill_null(compared_values("equal", one, other), False), missing))


def inverted(node: Expression, rows: int, value: Values) -> Evaluated:
    return Evaluated(pc.invert(value))


def null_test(node: Expression, rows: int, value: Values) -> Evaluated:
    return Evaluated(pc.is_null(value) if node.kind == "is_null" else pc.is_valid(value))


def nan_test(node: Expression, rows: int, value: Values) -> Evaluated:
    return Evaluated(pc.fill_null(pc.is_nan(value), False))


def both(node: Expression, rows: int, evaluate: Evaluate) -> Evaluated:
    """The right is not looked at where the left is false."""
    left, right = (evaluate(one) for one in node.inputs)
    needed = pc.fill_null(left.values, True)
    errors = first_errors([left.errors, only_where(needed, right.errors)])
    return Evaluated(pc.and_kleene(left.values, right.values), errors)


def either(node: Expression, rows: int, evaluate: Evaluate) -> Evaluated:
    """The right is not looked at where the left is true."""
    left, right = (evaluate(one) for one in node.inputs)
    needed = pc.invert(pc.fill_null(left.values, False))
    errors = first_errors([left.errors, only_where(needed, right.errors)])
    return Evaluated(pc.or_kleene(left.values, right.values), errors)


def among(node: Expression, rows: int, value: Values) -> Evaluated:
    """`in` a list of literals. Without a match the answer is null if one of them is."""
    known, has_null = node.option("known"), node.option("has_null")
    if isinstance(value, pa.Scalar):
        value = pa.array([value.as_py()], value.type)
        return Evaluated(_among(value, known, has_null=has_null)[0])
    return Evaluated(_among(value, known, has_null=has_null))


def _among(value: pa.Array, known: pa.Array, *, has_null: bool) -> pa.Array:
    found = pc.is_in(value, value_set=known)
    if pa.types.is_floating(value.type):  # 0.0 is −0.0, NaN is NaN
        found = pc.is_in(pc.add(value, 0.0), value_set=pc.add(known, 0.0))
    unknown = pc.or_(pc.is_null(value), pc.and_(pc.invert(found), pa.scalar(has_null)))
    return pc.if_else(unknown, pa.scalar(None, pa.bool_()), found)


def chosen(node: Expression, rows: int, evaluate: Evaluate) -> Evaluated:
    """case when … then … [else …] end: a branch is looked at only where no earlier condition is true."""
    pairs = list(zip(node.inputs[0::2], node.inputs[1::2], strict=False))
    last = evaluate(node.inputs[-1]) if len(node.inputs) % 2 else Evaluated(pa.scalar(None, node.type))
    conditions, values, errors = [], [], []
    open_rows: Values = pa.scalar(True)
    for when, then in pairs:
        condition, value = evaluate(when), evaluate(then)
        met = pc.and_(open_rows, pc.fill_null(condition.values, False))
        errors += [only_where(open_rows, condition.errors), only_where(met, value.errors)]
        conditions.append(met)
        values.append(of_type(value.values, node.type))
        open_rows = pc.and_(open_rows, pc.invert(met))
    errors.append(only_where(open_rows, last.errors))
    result = of_type(last.values, node.type)
    for met, value in zip(reversed(conditions), reversed(values), strict=True):
        result = pc.if_else(met, value, result)
    return Evaluated(result, first_errors(errors))


def first_known(node: Expression, rows: int, evaluate: Evaluate) -> Evaluated:
    """coalesce: an input is looked at only where all before it are null."""
    result: Values = pa.scalar(None, node.type)
    errors = []
    for one in node.inputs:
        found = evaluate(one)
        errors.append(only_where(pc.is_null(result), found.errors))
        result = pc.coalesce(result, of_type(found.values, node.type))
    return Evaluated(result, first_errors(errors))


def extreme(node: Expression, rows: int, *several: Values) -> Evaluated:
    """greatest and least, which pass over nulls; NaN is the greatest of all."""
    result = several[0]
    for other in several[1:]:
        above = compared_values("less" if node.kind == "greatest" else "greater", result, other)
        take_other = pc.or_(pc.is_null(result), pc.fill_null(above, False))
        result = pc.if_else(pc.and_(take_other, pc.is_valid(other)), other, result)
    return Evaluated(result)


def number_or(node: Expression, rows: int, evaluate: Evaluate) -> Evaluated:
    """nanvl: the second is looked at only where the first is NaN."""
    first, second = (evaluate(one) for one in node.inputs)
    nan = pc.fill_null(pc.is_nan(first.values), False)
    errors = first_errors([first.errors, only_where(nan, second.errors)])
    return Evaluated(pc.if_else(nan, second.values, first.values), errors)
