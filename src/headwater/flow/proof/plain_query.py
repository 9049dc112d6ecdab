"""The newest row of each key, and aggregates of each key, as Spark's own groupBy gives them.

`known` is what a checkpoint has of the records before those that are read (checkpoint.py): of tables the newest row of
each key, as it was read; of aggregates their results, which are put together with those of the rest.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from headwater.flow.declare.topology.nodes import Aggregate
from headwater.flow.formats.schema import quoted
from headwater.flow.prepare.aggregates import read_aggregates
from headwater.flow.proof.tolerances import reference_columns
from headwater.flow.rows.row_steps import PATH, visible
from headwater.flow.rows.sources import AT, DELETED
from headwater.flow.rows.tie_breaking import path_order

MERGED = {"count": f.sum, "sum": f.sum, "min": f.min, "max": f.max}
"""How results of two parts of the rows make the result of all of them."""
POSITION = (f"{AT}.partition", f"{AT}.offset")
"""Of a table that is read, what says which of two rows is newer."""


def newest(frame: DataFrame, key: tuple[str, ...], *by: str, known: DataFrame | None = None) -> DataFrame:
    frame = frame if known is None else frame.unionByName(known)
    values = [name for name in visible(frame) if name not in key]
    gone = f.col(DELETED) if DELETED in frame.columns else f.lit(False)
    row = f.struct(*(f.col(quoted(name)) for name in values), gone.alias("_gone"))
    found = frame.groupBy(*map(quoted, key)).agg(f.max_by(row, _order(frame, by)).alias("_row"))
    return found.where(~f.col("_row._gone")).select(
        *map(quoted, key), *(f.col("_row")[name].alias(name) for name in values)
    )


def newest_whole(frame: DataFrame, key: tuple[str, ...], *by: str, known: DataFrame | None = None) -> DataFrame:
    """The same rows as they were read, deleted ones too: all that later rows are compared with."""
    frame = frame if known is None else frame.unionByName(known)
    row = f.struct(*(f.col(quoted(name)) for name in frame.columns))
    found = frame.groupBy(*map(quoted, key)).agg(f.max_by(row, _order(frame, by)).alias("_row"))
    return found.select(*(f.col("_row")[name].alias(name) for name in frame.columns))


def _order(frame: DataFrame, by: tuple[str, ...]) -> Column:
    there = [name for name in by if name.split(".")[0] in frame.columns]
    return f.struct(*(path_order(frame) if name == PATH else f.col(name) for name in there))


def aggregated(node: Aggregate, frame: DataFrame, known: DataFrame | None = None) -> DataFrame:
    read = read_aggregates(node, frame)
    columns = [column for spec in read.specs for column in reference_columns(spec)]
    found = read.inputs.groupBy(*map(quoted, node.key)).agg(*columns)
    if known is None:
        return found
    both = found.unionByName(known).groupBy(*map(quoted, node.key))
    return both.agg(
        *(
            MERGED[spec.kind](quoted(spec.name)).cast(found.schema[spec.name].dataType).alias(spec.name)
            for spec in read.specs
        )
    )
