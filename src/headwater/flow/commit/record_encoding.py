"""Rows and changes as records: keys and values in JSON, made by Spark.

Changes travel in the envelope that consumers of Debezium know: before, after, op, ts_ms, source.
"""

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from headwater.flow.formats.schema import quoted
from headwater.flow.operators.changes import OPERATION
from headwater.flow.rows.evaluation import as_facts
from headwater.flow.rows.row_steps import visible
from headwater.flow.rows.sources import AT

KEY, VALUE, TIME, ORDER = "_key", "_value", "_timestamp_ms", "_order"
WHOLE = {"ignoreNullFields": "false"}


def change_records(changes: DataFrame, key: Sequence[str], *, time_ms: int, source: Mapping[str, object]) -> DataFrame:
    """Changes of a table as records."""
    origin = f.struct(*(f.lit(value).alias(name) for name, value in source.items()))
    envelope = f.struct("before", "after", origin.alias("source"), "op", f.lit(time_ms).alias("ts_ms"))
    own_key = _json(_struct(key)) if key else f.lit("{}").cast("binary")
    return as_facts(changes, tuple(key)).select(
        own_key.alias(KEY), _json(envelope).alias(VALUE), f.lit(time_ms).cast("long").alias(TIME),
        f.col("op").alias(OPERATION),
    )  # fmt: skip


def row_records(rows: DataFrame, key: Sequence[str], *, time_ms: int) -> DataFrame:
    """Rows of a stream as records, in the order of the log they came from. `time_ms` is that of rows without one."""
    own_key = _json(_struct(key)) if key else f.lit(None).cast("binary")
    placed = AT in rows.columns
    now = f.lit(time_ms).cast("long")
    time = f.coalesce(f.unix_millis(f.col(AT)["time"]), now) if placed else now
    columns = [own_key.alias(KEY), _json(_struct(visible(rows))).alias(VALUE), time.alias(TIME)]
    return rows.select(*columns, *([f.col(AT).alias(ORDER)] if placed else []))


def _struct(names: Sequence[str]) -> Column:
    return f.struct(*(f.col(quoted(name)) for name in names))


def _json(value: Column) -> Column:
    return f.to_json(value, WHOLE).cast("binary")
