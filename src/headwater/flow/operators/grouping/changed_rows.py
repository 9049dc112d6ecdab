"""What a batch changes of the rows of some groups: both sides of every change, rows that were with −1 (pure)."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.flow.operators.aggregation.segments import Segments
from headwater.flow.operators.windows.grouping import grouped, taken
from headwater.flow.state.manifest import HASH
from headwater.flow.state.runs.equality import Integers, Mask
from headwater.flow.state.shard import conformed

WEIGHT = "_weight"


@dataclass(frozen=True)
class ChangedRows:
    """Rows of a group lie side by side; `hashes` and `keys` are those of the groups."""

    rows: pa.RecordBatch
    weights: Integers
    segments: Segments
    hashes: Integers
    keys: pa.RecordBatch

    @classmethod
    def of(cls, given: pa.RecordBatch, key: pa.Schema) -> "ChangedRows":
        keys, hashes = conformed(given, key), given.column(HASH).to_numpy()
        order, firsts = grouped([hashes], keys)
        heads = order[firsts]
        rows, weights = taken(given, order), given.column(WEIGHT).to_numpy()[order]
        return cls(rows, weights, Segments.of(firsts), hashes[heads], keys.take(pa.array(heads)))

    def __len__(self) -> int:
        """How many groups they are."""
        return len(self.hashes)

    def column(self, name: str, kind: pa.DataType) -> pa.Array:
        column = self.rows.column(name)
        return column if column.type.equals(kind) else column.cast(kind)

    def counted(self, among: Mask | None = None) -> Integers:
        """How many more rows each group has; of those rows that are `among`."""
        weights = self.weights if among is None else np.where(among, self.weights, 0)
        return np.add.reduceat(weights, self.segments.begins) if len(self) else weights[:0]
