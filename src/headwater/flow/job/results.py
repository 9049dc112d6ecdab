"""The result of an aggregate over all rows of a group at once, as Spark computes it."""

from pyspark.sql import Column
from pyspark.sql import functions as f

from headwater.flow.job.stateless import quoted
from headwater.flow.operators import aggregates
from headwater.flow.operators.kinds.moments import MOMENTS
from headwater.flow.operators.kinds.options import Limit
from headwater.flow.operators.kinds.pairs import PAIRS
from headwater.flow.operators.kinds.plain import BITS

BY_SPARK = ("count", "sum", "avg", "min", "max", *BITS, *MOMENTS)


def result_of(spec: aggregates.Aggregate) -> Column:
    column = quoted(spec.column) if spec.column else "1"
    if spec.kind in BY_SPARK:
        return f.expr(f"{spec.kind}({column})")
    if spec.kind in PAIRS:
        return f.expr(f"{spec.kind}({column}, {quoted(spec.other or '')})")
    if spec.kind.endswith("_distinct"):
        return f.expr(f"{spec.kind.removesuffix('_distinct')}(distinct {column})")
    if spec.kind == "product":
        return f.product(f.col(column))
    if spec.kind == "collect_set":
        return f.expr(f"array_sort(collect_set({column}))")
    if spec.kind == "collect":
        given = f"case when {column} is not null then {aggregates.ordered_sql(spec)} end"
        whole = f.expr(f"transform(array_sort(collect_list({given})), one -> one.value)")
        return f.slice(whole, 1, spec.options.limit) if isinstance(spec.options, Limit) else whole
    return f.expr(aggregates.extreme_sql(spec))["value"]
