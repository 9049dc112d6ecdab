"""The inputs of joins, as they are prepared for shards (pure): keys and hashes, late rows, null keys, hot keys."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.flow.operators.joins.as_of import EXTRA, GONE, SEEN, UNTIL
from headwater.flow.operators.joins.emission import AFTER_SIDE, SIDE
from headwater.flow.operators.joins.events import CONTENT, OFFSET, PARTITION, SOURCE, TIME, Events
from headwater.flow.operators.joins.hot_keys import HotKey
from headwater.flow.operators.joins.pairing import without_nulls
from headwater.flow.operators.joins.placing import by_partition, event_hashes
from headwater.flow.operators.joins.splitting import slices_of
from headwater.flow.operators.joins.tables import AFTER, ROW, Side, incoming
from headwater.flow.operators.spark_hashes import can_hash, shard_hashes, xxhash64
from headwater.flow.rows.prepared_blocks import Copied, Prepared
from headwater.flow.rows.row_batch import DELETED, PATH
from headwater.flow.state.manifest import HASH
from headwater.flow.state.runs.equality import Integers, Mask
from headwater.flow.state.shard import conformed, shard_of

MOMENT = pa.timestamp("us", "UTC")
NULL_BITS = 62
"""Columns whose nulls are distinguished from each other's."""


@dataclass(frozen=True)
class ValidTimes:
    """The columns that say from when and until when a version holds; None: from when its record was written, and
    until the next one."""

    valid_from: str | None = None
    valid_to: str | None = None


@dataclass(frozen=True)
class PrepareEvents:
    """Events of one side of a join, or versions of a table's rows: each with its position and the hash of its key."""

    events: Events
    late_below_us: int | None = None
    keeps_late: bool = False
    """Whether late rows are counted, and yet sent to their shard."""
    keeps_nulls: bool = True
    """Whether rows without a key count, which can meet none."""
    several: bool = False
    """Whether a record may have made several rows, which are distinguished by what is in them."""
    versions: ValidTimes | None = None
    everywhere: int = 0
    """The number of shards if every one of them is given all rows."""

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(field.name, field.type) for field in self.events.incoming])

    @property
    def _columns(self) -> pa.Schema:
        own = [field for field in self.events.columns if self.versions is None or field.name not in EXTRA]
        return pa.schema([pa.field(field.name, field.type) for field in own])

    def prepare(self, rows: pa.RecordBatch) -> Prepared:
        if self.versions is not None and self.versions.valid_from is not None:
            since = rows.column(self.versions.valid_from).cast(MOMENT).cast(pa.int64())
            times = pc.coalesce(since, rows.column(TIME))
            rows = rows.set_column(rows.schema.get_field_index(TIME), TIME, times)
        late = self._late(rows)
        count = int(np.count_nonzero(late))
        if count and not self.keeps_late:
            rows = rows.filter(pa.array(~late))
        filtered = 0
        if not self.keeps_nulls:
            has_key = without_nulls(rows.select(list(self.events.on)))
            filtered = int(np.count_nonzero(~has_key))
            rows = rows.filter(pa.array(has_key)) if filtered else rows
        placed = self._placed(rows)
        if self.everywhere:
            return Prepared(placed.slice(0, 0), count, filtered, _to_every_shard(placed, self.everywhere))
        return Prepared(placed, count, filtered)

    def _late(self, rows: pa.RecordBatch) -> Mask:
        if self.late_below_us is None:
            return np.zeros(rows.num_rows, np.bool_)
        return np.asarray(pc.fill_null(pc.less(rows.column(TIME), self.late_below_us), False), np.bool_)

    def _placed(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        own = conformed(rows, self._columns)
        columns = {name: own.column(name) for name in own.schema.names}
        columns |= {name: rows.column(name) for name in (TIME, SOURCE, PARTITION, OFFSET)}
        columns[CONTENT] = pa.array(self._contents(rows, own))
        columns[HASH] = pa.array(self._hashes(rows, own))
        if self.versions is not None:
            nothing = pa.nulls(rows.num_rows, pa.int64())
            until = self.versions.valid_to
            columns |= {GONE: rows.column(DELETED), SEEN: nothing}
            columns[UNTIL] = nothing if until is None else rows.column(until).cast(MOMENT).cast(pa.int64())
        made = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        return conformed(made, self.schema)

    def _contents(self, rows: pa.RecordBatch, own: pa.RecordBatch) -> Integers:
        if not self.several:
            return np.zeros(rows.num_rows, np.int64)
        path = [rows.column(PATH)] if PATH in rows.schema.names else []
        return content_hashes([*own.columns, *path], rows.num_rows)

    def _hashes(self, rows: pa.RecordBatch, own: pa.RecordBatch) -> Integers:
        """Rows that can meet none are in no state, and lie in the shard of their partition. Those that may meet any
        are spread."""
        if not self.events.on:
            return xxhash64([rows.column(name) for name in (PARTITION, OFFSET)], rows.num_rows)
        keys = own.select(list(self.events.on))
        hashes = event_hashes(keys.columns, None, rows.num_rows)
        has_key = without_nulls(keys)
        if has_key.all():
            return hashes
        if by_partition([key.type for key in keys.columns]):
            return np.where(has_key, hashes, rows.column(PARTITION).to_numpy())
        return np.where(has_key, hashes, xxhash64([rows.column(name) for name in (PARTITION, OFFSET)], rows.num_rows))


def content_hashes(columns: Sequence[pa.Array], rows: int) -> Integers:
    """Hashes of rows that lie at one offset of the log. Spark's hash passes over nulls: which columns have none is
    hashed as well, for rows that have any. The same as rows/tie_breaking.py; maps have no hash."""
    hashed = [column for column in columns if can_hash(column.type)]
    bits = np.zeros(rows, np.int64)
    for number, column in enumerate(hashed):
        bits += np.asarray(column.is_null(), np.int64) << number % NULL_BITS
    return xxhash64([*hashed, pa.array(bits, mask=bits == 0)], rows)


@dataclass(frozen=True)
class PrepareTable:
    """Both sides of the changes of a table that is joined, each in the shard of its join key.

    Rows of keys that are split go to slices as well: those of the larger side to one, those of the other to all.
    """

    side: Side
    keeps_nulls: bool
    which: int = 0
    """0 left, 1 right."""
    hot: tuple[HotKey, ...] = ()
    shards: int = 1
    everywhere: bool = False
    """Whether every shard is given all rows."""
    met_by_events: bool = False
    """Whether its rows lie in the shards of events (operators/joins/placing.py)."""

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(field.name, field.type) for field in incoming(self.side)])

    def prepare(self, rows: pa.RecordBatch) -> Prepared:
        if not self.keeps_nulls:
            has_key = without_nulls(rows.select(list(self.side.on)))
            rows = rows if has_key.all() else rows.filter(pa.array(has_key))
        own = conformed(rows, pa.schema([pa.field(field.name, field.type) for field in self.side.columns]))
        keys, identity = (own.select(list(names)) for names in (self.side.on, self.side.key))
        has_key = without_nulls(keys)
        if self.met_by_events:
            hashes = event_hashes(keys.columns, None, rows.num_rows)
        else:
            hashes = shard_hashes([*keys.columns, *_spread(has_key, identity)], rows.num_rows)
        columns = {name: own.column(name) for name in own.schema.names}
        columns[HASH] = pa.array(hashes)
        columns[ROW] = pa.array(xxhash64(identity.columns, rows.num_rows) >> 1)  # halved: within the bounds of searches
        columns[AFTER] = pc.equal(rows.column(SIDE), AFTER_SIDE)
        made = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        placed = conformed(made, self.schema)
        if self.everywhere:
            return Prepared(placed.slice(0, 0), copies=_to_every_shard(placed, self.shards))
        return Prepared(placed, copies=tuple(self._slices(placed)))

    def _slices(self, rows: pa.RecordBatch) -> list[Copied]:
        """Rows of split keys, with the shard whose task works on the slice."""
        if not self.hot:
            return []
        hashes, own = (rows.column(name).to_numpy() for name in (HASH, ROW))
        larger = np.isin(hashes, [one.hash for one in self.hot if one.side == self.which])
        smaller = np.isin(hashes, [one.hash for one in self.hot if one.side != self.which])
        indexes, slices = [np.flatnonzero(larger)], [slices_of(own[larger], self.shards)]
        for number in range(self.shards):
            indexes.append(np.flatnonzero(smaller))
            slices.append(np.full(len(indexes[-1]), number))
        chosen = np.concatenate(indexes)
        if not len(chosen):
            return []
        shards = (shard_of(hashes[chosen], self.shards) + np.concatenate(slices)) % self.shards
        return [Copied(rows.take(pa.array(chosen)), np.asarray(shards, np.int64))]


def _to_every_shard(rows: pa.RecordBatch, shards: int) -> tuple[Copied, ...]:
    count = rows.num_rows
    return (Copied(rows.take(np.tile(np.arange(count), shards)), np.repeat(np.arange(shards), count)),) * bool(count)


def _spread(has_key: Mask, identity: pa.RecordBatch) -> list[pa.Array]:
    """Of rows that can meet none, a hash of their own key, so that they do not all lie in one shard."""
    return [] if has_key.all() else [pa.array(xxhash64(identity.columns, identity.num_rows), mask=has_key)]
