"""Evaluates typed expressions over the columns of a batch (pure): the table of all kinds there are.

An input of most functions is looked at only where the inputs before it are not null, as in Spark: what it would raise
in other rows does not count.
"""

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from headwater.flow.expressions.evaluated import Evaluated, Values, as_array, first_errors, only_where
from headwater.flow.expressions.functions import (
    arithmetic,
    bits,
    casts,
    dates,
    decimals,
    json_text,
    nested,
    patterns,
    strings,
    time_texts,
    times,
)
from headwater.flow.expressions.functions import comparisons as comparing
from headwater.flow.expressions.tree import COLUMN, LITERAL, Expression

Kernel = Callable[..., Evaluated]
"""Called with the node, the number of rows, and the values of the inputs."""

FUNCTIONS: dict[str, Kernel] = {
    **dict.fromkeys(("add", "subtract", "multiply", "negate", "abs"), arithmetic.calculated),
    "divide": arithmetic.divided,
    "divide_whole": arithmetic.divided_whole,
    "remainder": arithmetic.remainder,
    "floor": arithmetic.rounded_whole,
    "ceil": arithmetic.rounded_whole,
    "sqrt": arithmetic.square_root,
    **dict.fromkeys(("divide_decimal", "remainder_decimal"), decimals.divided),
    **dict.fromkeys(("add_decimal", "subtract_decimal", "multiply_decimal"), decimals.calculated),
    **dict.fromkeys(("round", "bround"), decimals.rounded),
    **dict.fromkeys(("floor_decimal", "ceil_decimal"), decimals.rounded_whole),
    "signum": decimals.signed,
    "rint": decimals.nearest_whole,
    **dict.fromkeys(bits.BITWISE, bits.bitwise),
    **dict.fromkeys(("shift_left", "shift_right", "shift_right_unsigned"), bits.shifted),
    "bit_count": bits.counted,
    **dict.fromkeys(("equal", "less", "less_equal", "greater", "greater_equal"), comparing.compared),
    "not": comparing.inverted,
    "is_null": comparing.null_test,
    "is_not_null": comparing.null_test,
    "is_nan": comparing.nan_test,
    "in": comparing.among,
    "cast": casts.cast,
    "upper": strings.in_case,
    "lower": strings.in_case,
    **dict.fromkeys(("trim", "ltrim", "rtrim"), strings.trimmed),
    "length": strings.length,
    "substring": strings.part_of,
    **dict.fromkeys(("like", "starts_with", "ends_with", "contains"), strings.matched),
    "replace": strings.replaced,
    "split": strings.split,
    **dict.fromkeys(("lpad", "rpad"), strings.padded),
    "repeat": strings.repeated,
    "reverse": strings.reversed_text,
    "place_of": strings.place_of,
    "translate": strings.exchanged,
    "substring_index": strings.before_nth,
    "rlike": patterns.matched,
    "regexp_extract": patterns.extracted,
    "regexp_replace": patterns.replaced,
    **dict.fromkeys((*times.FIELDS, "day_of_week"), times.field),
    "date_trunc": times.truncated,
    "shift_time": times.shifted,
    "add_days": times.day_added,
    "days_between": times.days_between,
    "since_epoch": times.since_epoch,
    "from_epoch": times.from_epoch,
    "trunc_date": dates.truncated,
    "last_day": dates.last_day,
    "add_months": dates.months_added,
    "add_months_to_time": dates.time_months_added,
    "make_date": dates.made,
    "time_between": dates.since,
    "as_number": dates.as_number,
    "unix_seconds": dates.unix_seconds,
    "weekday": dates.weekday,
    "date_format": time_texts.written,
    "field": nested.struct_field,
    "element": nested.element,
    "size": nested.size,
    "sequence": nested.numbers,
    "map_value": nested.value_at,
    "array_contains": nested.contains,
    "array_join": nested.texts_joined,
    "to_json": json_text.to_json,
}

TOLERANT: dict[str, Kernel] = {
    "equal_or_both_null": comparing.equal_or_both_null,
    "concat": strings.joined,
    "greatest": comparing.extreme,
    "least": comparing.extreme,
    "struct": nested.struct,
    "array": nested.array,
    "concat_ws": strings.joined_with,
    **dict.fromkeys(("xxhash64", "murmur3"), bits.hashed),
}
"""Functions that look at all of their inputs in every row."""

CONDITIONAL: dict[str, Kernel] = {
    "and": comparing.both,
    "or": comparing.either,
    "case": comparing.chosen,
    "coalesce": comparing.first_known,
    "nanvl": comparing.number_or,
}
"""These decide themselves in which rows an input is looked at, and are given a function that evaluates one."""

RIGHT_FIRST = frozenset({"divide", "divide_whole", "remainder", "divide_decimal", "remainder_decimal"})


def evaluate(node: Expression, columns: Mapping[str, pa.Array], rows: int) -> Evaluated:
    """The values of an expression; a scalar if it is the same in every row."""
    if node.kind == COLUMN:
        return Evaluated(columns[node.option("name")])
    if node.kind == LITERAL:
        return Evaluated(node.option("value"))
    if node.kind in CONDITIONAL:
        return CONDITIONAL[node.kind](node, rows, lambda one: evaluate(one, columns, rows))
    inputs = [evaluate(one, columns, rows) for one in node.inputs]
    tolerant = TOLERANT.get(node.kind)
    kernel = FUNCTIONS[node.kind] if tolerant is None else tolerant
    result = kernel(node, rows, *(one.values for one in inputs))
    if result.errors is None and all(one.errors is None for one in inputs):
        return result
    ordered = inputs[::-1] if node.kind in RIGHT_FIRST else inputs
    errors = [one.errors for one in inputs] if tolerant else _counting(ordered)
    return Evaluated(result.values, first_errors([*errors, result.errors]))


def _counting(inputs: Sequence[Evaluated]) -> list[pa.Array | None]:
    """The errors of each input in rows where all before it are there."""
    errors: list[pa.Array | None] = []
    there: Values = pa.scalar(True)
    for one in inputs:
        errors.append(only_where(there, one.errors))
        there = pc.and_(there, pc.is_valid(one.values))
    return errors


def evaluate_column(node: Expression, columns: Mapping[str, pa.Array], rows: int) -> Evaluated:
    """The same, as a column of the declared type."""
    if node.kind == COLUMN:
        return Evaluated(columns[node.option("name")])
    if not rows:
        return Evaluated(pa.array([], node.type))
    found = evaluate(node, columns, rows)
    values = as_array(found.values, rows)
    return Evaluated(values if values.type.equals(node.type) else values.cast(node.type), found.errors)
