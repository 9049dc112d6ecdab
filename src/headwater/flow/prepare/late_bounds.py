"""Which rows are late for an operator that remembers keys for a limited time (pure)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from headwater.flow.operate.deduplicator import LATE
from headwater.flow.operators.joins.events import PARTITION, SOURCE, TIME
from headwater.flow.operators.spark_hashes import shard_hashes
from headwater.flow.operators.windows.clock import NEVER_US
from headwater.flow.rows.prepared_blocks import Prepared
from headwater.flow.state.manifest import HASH
from headwater.flow.state.runs.equality import Mask
from headwater.flow.state.shard import conformed


@dataclass(frozen=True)
class LateBounds:
    """Rows before `below_us` are late; of some partitions, by source and number, those before another time."""

    below_us: int = NEVER_US
    partitions: Mapping[tuple[int, int], int] = field(default_factory=dict)

    def late(self, rows: pa.RecordBatch) -> Mask:
        """Rows without a time are not late."""
        source, partition = (rows.column(name).to_numpy() for name in (SOURCE, PARTITION))
        bounds = np.full(rows.num_rows, self.below_us)
        for (number, own), bound_us in self.partitions.items():
            bounds[(source == number) & (partition == own)] = bound_us
        times = rows.column(TIME)
        return np.asarray(times.is_valid(), np.bool_) & np.asarray(times.fill_null(0).to_numpy() < bounds, np.bool_)


@dataclass(frozen=True)
class MarkLate:
    """Sends rows to the shard of their key, those that are late with a mark."""

    key: pa.Schema
    schema: pa.Schema
    bounds: LateBounds = field(default_factory=LateBounds)
    """As far as time has come in a batch."""

    def prepare(self, rows: pa.RecordBatch) -> Prepared:
        hashes = shard_hashes([rows.column(name) for name in self.key.names], rows.num_rows)
        marked = rows.append_column(LATE, pa.array(self.bounds.late(rows))).append_column(HASH, pa.array(hashes))
        return Prepared(conformed(marked, self.schema))
