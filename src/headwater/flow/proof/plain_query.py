"""The newest row of each key, and aggregates of each key, as Spark's own groupBy gives them."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from headwater.flow.declare.topology.nodes import Aggregate
from headwater.flow.formats.schema import quoted
from headwater.flow.prepare.aggregates import read_aggregates
from headwater.flow.proof.tolerances import reference_columns
from headwater.flow.rows.row_steps import PATH, visible
from headwater.flow.rows.sources import DELETED
from headwater.flow.rows.tie_breaking import path_order


def newest(frame: DataFrame, key: tuple[str, ...], *by: str) -> DataFrame:
    values = [name for name in visible(frame) if name not in key]
    gone = f.col(DELETED) if DELETED in frame.columns else f.lit(False)
    row = f.struct(*(f.col(quoted(name)) for name in values), gone.alias("_gone"))
    there = [name for name in by if name.split(".")[0] in frame.columns]
    order = f.struct(*(path_order(frame) if name == PATH else f.col(name) for name in there))
    found = frame.groupBy(*map(quoted, key)).agg(f.max_by(row, order).alias("_row"))
    return found.where(~f.col("_row._gone")).select(
        *map(quoted, key), *(f.col("_row")[name].alias(name) for name in values)
    )


def aggregated(node: Aggregate, frame: DataFrame) -> DataFrame:
    read = read_aggregates(node, frame)
    columns = [column for spec in read.specs for column in reference_columns(spec)]
    return read.inputs.groupBy(*map(quoted, node.key)).agg(*columns)
