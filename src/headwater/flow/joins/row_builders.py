"""Rows of a source as an operator's tasks want them, made by the task that reads them (pure).

What Spark makes of a source's columns before a join (sources.py, join_inputs.py, join_rows.py), without Spark: when
and where an event lies, the hash that says in which shard, and of a version of a table's row how long it holds. It must
be the same to the bit, since a batch may go either way and finds the state of the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import FlowError
from headwater.flow.expressions.steps import Steps
from headwater.flow.operators import latest
from headwater.flow.operators.joins.as_of import GONE, SEEN, UNTIL
from headwater.flow.operators.joins.events import CONTENT, OFFSET, PARTITION, SOURCE, TIME
from headwater.flow.operators.joins.pairing import without_nulls
from headwater.flow.operators.joins.placing import event_hashes
from headwater.flow.operators.spark_hashes import shard_hashes, xxhash64
from headwater.flow.rows.deletion_keys import with_keys
from headwater.flow.rows.sources import AT, DELETED
from headwater.flow.source.ranges import Columns
from headwater.flow.state.manifest import HASH
from headwater.flow.state.shard import conformed

ORDER_PARTITION, ORDER_OFFSET = "_order__at_partition", "_order__at_offset"
"""What says which row of a key is newer, as a table keeps it (job_operators.py)."""


@dataclass
class StepCounts:
    """What leaves at the steps before a join, in a task that reads."""

    filtered: int = 0


@dataclass(frozen=True)
class EventRowBuilder:
    """Events of a stream, or versions of a table's rows."""

    which: int
    """The side of the join."""
    source: int
    """The number of the source in its job."""
    on: tuple[str, ...]
    schema: pa.Schema
    """Of what tasks are given."""
    time: str | None
    key: tuple[str, ...] = ()
    """Of a table: deletions have it in the key of their record."""
    valid_from: str | None = None
    valid_to: str | None = None
    version_id: str = ""
    topic: str = ""
    read: pa.Schema | None = None
    """Of what is read, where it is not what tasks are given:"""
    steps: Steps | None = None
    """what the user does with it in between."""

    def rows(self, columns: Columns, counts: StepCounts) -> pa.RecordBatch:
        made = with_keys(_typed(columns, self.schema if self.read is None else self.read), self.key)
        if self.version_id:
            made[self.version_id] = _record_names(self.topic, columns)
        times = _first_known(made, (self.time,))
        if self.steps is not None:
            columns, made, times = self._stepped(self.steps, columns, made, times, counts)
        if self.valid_from is not None:
            times = pc.coalesce(made[self.valid_from], times)
        count = len(columns["_offset"])
        place = [
            times,
            pa.array(np.full(count, self.source, np.int32)),
            columns["_partition"],
            columns["_offset"],
        ]
        made |= dict(zip((TIME, SOURCE, PARTITION, OFFSET), place, strict=True))
        keys = [made[name] for name in self.on]
        hashes = event_hashes(keys, spread_of(keys, place, count), count)
        made |= {CONTENT: pa.array(np.zeros(count, np.int64)), HASH: pa.array(hashes)}
        if self.key:
            until = pa.nulls(count, pa.int64()) if self.valid_to is None else made[self.valid_to].cast(pa.int64())
            made |= {GONE: columns["_tombstone"], UNTIL: until, SEEN: pa.nulls(count, pa.int64())}
        made[TIME] = times.cast(pa.int64())
        return conformed(pa.RecordBatch.from_arrays(list(made.values()), names=list(made)), self.schema)

    def _stepped(
        self, steps: Steps, columns: Columns, made: Columns, times: pa.Array, counts: StepCounts
    ) -> tuple[Columns, Columns, pa.Array]:
        """What is left of the rows behind the user's steps, with where they lie and when they happened."""
        count = len(columns["_offset"])
        hidden = {AT: pa.array(np.arange(count))} | ({DELETED: columns["_tombstone"]} if self.key else {})
        found = steps.apply(made | hidden, count)
        if found.failed:
            raise FlowError(f"a step before a join fails for a row of topic {self.topic}: {found.failed[0].reasons[0]}")
        counts.filtered += found.filtered
        left = found.columns.pop(AT)
        if found.rows < count:
            columns, times = {name: column.take(left) for name, column in columns.items()}, times.take(left)
        return columns, found.columns, times


@dataclass(frozen=True)
class TableRowBuilder:
    """Rows of a table, and deletions, as they lie in its topic."""

    which: int
    key: tuple[str, ...]
    schema: pa.Schema
    version_id: str
    topic: str

    def rows(self, columns: Columns, counts: StepCounts) -> pa.RecordBatch:
        made = with_keys(_typed(columns, self.schema), self.key)
        if self.version_id:
            made[self.version_id] = _record_names(self.topic, columns)
        count = len(columns["_offset"])
        made |= {ORDER_PARTITION: columns["_partition"], ORDER_OFFSET: columns["_offset"]}
        made |= {latest.GONE: columns["_tombstone"]}
        made[HASH] = pa.array(shard_hashes([made[name] for name in self.key], count))
        return conformed(pa.RecordBatch.from_arrays(list(made.values()), names=list(made)), self.schema)


RowBuilder = EventRowBuilder | TableRowBuilder


def spread_of(keys: Sequence[pa.Array], own: Sequence[pa.Array], count: int) -> pa.Array | None:
    """Of rows that can meet none, a hash of what tells them apart (`_spread` in join_rows.py); None if all can."""
    able = without_nulls(pa.RecordBatch.from_arrays(list(keys), names=[str(place) for place in range(len(keys))]))
    return None if able.all() else pa.array(xxhash64(own, count), mask=able)


def _typed(columns: Columns, schema: pa.Schema) -> Columns:
    """Hashes are of values in the types that Spark has them in."""
    wanted = {field.name: field.type for field in schema}
    return {name: column.cast(wanted.get(name, column.type)) for name, column in columns.items()}


def _first_known(columns: Columns, names: tuple[str | None, ...]) -> pa.Array:
    """The first of some times that is there; that of the record always is."""
    known = [columns[name] for name in names if name is not None]
    return pc.coalesce(*known, columns["_timestamp"]) if known else columns["_timestamp"]


def _record_names(topic: str, columns: Columns) -> pa.Array:
    partitions, offsets = (columns[name].cast(pa.string()) for name in ("_partition", "_offset"))
    return pc.binary_join_element_wise(pc.binary_join_element_wise(f"{topic}/", partitions, ""), offsets, "@")
