"""The result of an aggregate over all rows of a group at once, as Spark computes it."""

from typing import Any, cast
from zlib import crc32

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.pandas.functions import arrow_udf

from headwater.flow.operators.aggregation import aggregates
from headwater.flow.operators.kinds.moments import MOMENTS
from headwater.flow.operators.kinds.options import Limit
from headwater.flow.operators.kinds.pairs import PAIRS
from headwater.flow.operators.kinds.placing import ordered_list_sql
from headwater.flow.operators.kinds.plain import BITS
from headwater.flow.operators.kinds.sketched import SKETCHED
from headwater.flow.operators.kinds.users import User
from headwater.flow.proof.sketch_results import sketch_result
from headwater.flow.proof.tolerances import BOUNDS, RULE, bounds_of
from headwater.flow.rows.arrow_types import spark_type
from headwater.flow.rows.row_steps import quoted

BY_SPARK = ("count", "sum", "avg", "min", "max", *BITS, *MOMENTS)


def judged(spec: aggregates.Aggregate, result: Column | None = None) -> list[Column]:
    """The result under its name and, where another is accepted as well, beside it what that may be."""
    own, bounds = result_of(spec) if result is None else result, bounds_of(spec)
    if bounds is None:
        return [own.alias(spec.name)]
    beside = f"_bounds_{crc32(spec.name.encode()):08x}"
    told = own.alias(spec.name, metadata={RULE: bounds.rule, BOUNDS: beside})
    return [told, bounds.accepted.alias(beside)]


def user_result(spec: aggregates.Aggregate, options: User) -> Column:
    """All rows added one after another; nothing is merged."""

    def whole(lists: pa.Array) -> pa.Array:
        return options.of_rows(lists, spec.name)

    make: Any = arrow_udf  # its overloads lack the plainest
    from_list = make(whole, spark_type(options.returns))
    return cast("Column", from_list(f.expr(ordered_list_sql(spec))))


def result_of(spec: aggregates.Aggregate) -> Column:
    column = quoted(spec.column) if spec.column else "1"
    if spec.kind in BY_SPARK:
        return f.expr(f"{spec.kind}({column})")
    if spec.kind in SKETCHED:
        return sketch_result(spec)
    if isinstance(spec.options, User):
        return user_result(spec, spec.options)
    if spec.kind in PAIRS:
        return f.expr(f"{spec.kind}({column}, {quoted(spec.other or '')})")
    if spec.kind.endswith("_distinct"):
        return f.expr(f"{spec.kind.removesuffix('_distinct')}(distinct {column})")
    if spec.kind == "product":
        return f.product(f.col(column))
    if spec.kind == "collect_set":
        return f.expr(f"array_sort(collect_set({column}))")
    if spec.kind == "collect":
        whole = f.expr(f"transform({ordered_list_sql(spec)}, one -> one.value)")
        return f.slice(whole, 1, spec.options.limit) if isinstance(spec.options, Limit) else whole
    return f.expr(aggregates.extreme_sql(spec))["value"]
