"""Models that learn from windows, in one batch: complete windows come to the shard of their key, where its model is."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from headwater.flow.declare.topology.nodes import KMeans as Node
from headwater.flow.formats.schema import quoted
from headwater.flow.operate.shard_operator import ShardOperator, Worked
from headwater.flow.operators.clustering.learning import END, ONLY, POINTS, UNTIL, KMeans, learning_step
from headwater.flow.rows.arrow_types import arrow_type, spark_schema
from headwater.flow.state.shard import ShardState, StateHandle


class ModelOperator(ShardOperator[KMeans]):
    @property
    def meaning(self) -> str:
        return f"{self.work.by.names} {self.work.columns} {self.work.k} {self.work.half_life_us}"

    def step(self, handle: StateHandle, shard: int, rows: pa.RecordBatch) -> Worked:
        step = learning_step(ShardState(handle, shard), self.work, rows)
        return Worked(step.changes, (step.run,) if step.run else ())


def work_of(node: Node, windows: DataFrame) -> KMeans:
    by = pa.schema([pa.field(one, arrow_type(windows.schema[one].dataType)) for one in node.windowed.by])
    return KMeans(by, node.columns, node.k, node.half_life_us)


def model_points(node: Node, changes: DataFrame, name: str) -> tuple[ModelOperator, DataFrame]:
    """What the operator does, and the frame its shards are given: windows that have come to their end."""
    work = work_of(node, changes)
    key = [f.col(quoted(one)) for one in work.by.names]
    identity = key or [f.lit(0).alias(ONLY)]
    return ModelOperator(name, work), changes.select(*identity, f.unix_micros(END).alias(END), POINTS)


# -- the oracle --------------------------------------------------------------------------------------------------------


def model_rows(node: Node, windows: DataFrame) -> DataFrame:
    """The centres after all windows, learned from one after another in one go."""
    work = work_of(node, windows)
    key = [f.col(quoted(one)) for one in work.by.names]
    window = f.struct(f.unix_micros(END).alias("end"), f.col(POINTS).alias("points"))
    whole = windows.groupBy(*key).agg(f.collect_list(window).alias("_windows"))
    return whole.mapInArrow(Recomputed(work), spark_schema(pa.schema([*work.key, *work.values])))


@dataclass(frozen=True)
class Recomputed:
    work: KMeans

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = pa.schema([*self.work.key, *self.work.values])
        plain = pa.schema([pa.field(one.name, pa.int64()) if one.name == UNTIL else one for one in schema])
        for batch in batches:
            rows = []
            for row in batch.to_pylist():
                windows = sorted(((one["end"], one["points"]) for one in row.pop("_windows")), key=lambda one: one[0])
                rows += [{**row, **centre} for centre in self.work.centres(self.work.after(None, windows))]
            yield pa.RecordBatch.from_pylist(rows, schema=plain).cast(schema)
