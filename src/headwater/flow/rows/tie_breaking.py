"""Distinguishes rows that lie at one offset of the log."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from headwater.flow.formats.schema import quoted
from headwater.flow.rows.row_steps import PATH, visible

PLACES = 62
"""Columns whose nulls are distinguished from each other's: so many bits are there."""


def content_hash(names: Sequence[str]) -> Column:
    """Of some columns. Spark's hash passes over nulls: which columns have none is hashed beside it, of rows that have
    any. The same on Arrow: prepare/join_sides.py."""
    nulls = f.lit(0).cast("long")
    for place, name in enumerate(names):
        nulls = nulls + f.when(f.col(quoted(name)).isNull(), f.lit(1 << place % PLACES)).otherwise(0).cast("long")
    return f.xxhash64(*(f.col(quoted(name)) for name in names), f.when(nulls != 0, nulls))


def path_order(frame: DataFrame) -> Column:
    """Puts rows that a join has made in an order: by their path and, for an event meets several rows of a table on one
    path, by what is in them. Spark has no hash of maps."""
    names = [name for name in visible(frame) if "map<" not in frame.schema[name].dataType.simpleString()]
    return content_hash([PATH, *names])
