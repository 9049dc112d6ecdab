"""Rows of joins of events, as Spark has made them, to their shards in pieces.

Where rows lie that are joined on one column of text (operators/joins/placing.py) Spark cannot work out; and it hands on
pieces faster than rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from headwater.flow.exchange.blocks import BLOCKS, PartitionTask, in_shards
from headwater.flow.joins.join_rows import SPREAD
from headwater.flow.operators.joins.placing import event_hashes
from headwater.flow.rows.arrow_types import arrow_schema, spark_schema
from headwater.flow.state.manifest import HASH

KEY = "_k0"


def with_hashes(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows that have none; others are as they were."""
    if HASH in rows.schema.names:
        return rows
    hashes = event_hashes([rows.column(KEY)], rows.column(SPREAD), rows.num_rows)
    return rows.append_column(HASH, pa.array(hashes))


@dataclass(frozen=True)
class HashingTask:
    dealing: PartitionTask

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self.dealing(map(with_hashes, batches))


def given_schema(rows: DataFrame) -> pa.Schema:
    """Of what tasks are given."""
    own = arrow_schema(rows.schema)
    return pa.schema([*(pa.field(field.name, field.type) for field in own), pa.field(HASH, pa.int64())])


def in_pieces(rows: DataFrame, shards: int) -> DataFrame:
    """Pieces of rows, in the partition of their shard."""
    task = HashingTask(PartitionTask(given_schema(rows), shards))
    return in_shards(rows.mapInArrow(task, spark_schema(BLOCKS)), shards)
