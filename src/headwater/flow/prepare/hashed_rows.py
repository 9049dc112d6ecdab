"""Rows that are sent to the shard of their key as they are (pure)."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.flow.operators.spark_hashes import shard_hashes
from headwater.flow.rows.prepared_blocks import Prepared
from headwater.flow.state.manifest import HASH
from headwater.flow.state.shard import conformed


@dataclass(frozen=True)
class HashByKey:
    """`columns` are those that shards want; without a key all rows belong to the first shard."""

    key: tuple[str, ...]
    columns: pa.Schema

    @property
    def schema(self) -> pa.Schema:
        plain = [pa.field(one.name, one.type) for one in self.columns]
        return pa.schema([pa.field(HASH, pa.int64()), *plain])

    def prepare(self, rows: pa.RecordBatch) -> Prepared:
        keys = [rows.column(name) for name in self.key]
        hashes = shard_hashes(keys, rows.num_rows) if keys else np.zeros(rows.num_rows, np.int64)
        return Prepared(conformed(rows.append_column(HASH, pa.array(hashes)), self.schema))
