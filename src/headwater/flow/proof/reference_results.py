"""The result of an aggregate over all rows of a group at once, as Spark computes it."""

from zlib import crc32

from pyspark.sql import Column
from pyspark.sql import functions as f

from headwater.flow.operators.aggregation.aggregates import Aggregate
from headwater.flow.proof.tolerances import BOUNDS, RULE


def reference_columns(spec: Aggregate, result: Column | None = None) -> list[Column]:
    """The result under its name and, where another is accepted as well, beside it what that may be."""
    own, tolerance = spec.rules.reference(spec) if result is None else result, spec.rules.tolerance(spec)
    if tolerance is None:
        return [own.alias(spec.name)]
    beside = f"_bounds_{crc32(spec.name.encode()):08x}"
    named = own.alias(spec.name, metadata={RULE: tolerance.rule, BOUNDS: beside})
    return [named, f.expr(tolerance.accepted).alias(beside)]
