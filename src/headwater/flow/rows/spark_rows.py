"""Rows that Spark evaluates: a frame whose tasks prepare them for an operator's shards."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from headwater.flow.exchange.blocks import BLOCKS, Address, Exchange, first_sequence, report_block
from headwater.flow.exchange.partition_number import partition_number
from headwater.flow.rows.arrow_types import spark_schema
from headwater.flow.rows.prepared_blocks import Preparation, Prepare
from headwater.flow.rows.row_batch import from_spark


@dataclass(frozen=True)
class PrepareTask:
    """Prepares the rows of a frame for one input of an operator."""

    operator: str
    prepare: Prepare
    to: Address
    exchange: Exchange

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        preparation = Preparation(self.operator, self.prepare, self.to, self.exchange)
        sequence = first_sequence()
        for batch in batches:
            for block in preparation.add(from_spark(batch), sequence):
                yield block
                sequence += 1
        yield from preparation.flush(sequence)
        if report := preparation.report():
            yield report_block(report, partition_number() % self.exchange.shards, sequence + 1, self.to.operator)


def spark_blocks(frame: DataFrame, task: PrepareTask) -> DataFrame:
    return frame.mapInArrow(task, spark_schema(BLOCKS))
