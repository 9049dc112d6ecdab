"""One shard of a version of state, as a task sees it: look up keys, write what changed.

A task never changes what is there. It writes a new run beside the others and reports it; only what the driver then
commits counts, so that a task may be run twice, late, or in vain.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
import pyarrow as pa

from headwater.errors import FlowError
from headwater.flow.state.manifest import DELETED, EVERYTHING, HASH, RUNS, RunInfo, Slot, StateSchema, slots_of
from headwater.flow.state.runs.equality import Integers, Mask, as_mask, rows_equal
from headwater.flow.state.runs.leading_rows import leading_rows
from headwater.flow.state.runs.merge_plan import TASK_BYTES_MAX, absorbed, weight
from headwater.flow.state.runs.open_runs import OpenedRuns, opened
from headwater.flow.state.runs.run import Hits, Run, Times, in_batches, write_run
from headwater.flow.state.runs.run_union import combined, followers_of, hidden, newest_rows, order_of, sort_columns
from headwater.flow.state.runs.sorting import rises, sorted_order


class Found(NamedTuple):
    """What was looked up, row by row as it was asked for."""

    mask: Mask
    values: pa.RecordBatch


class Fetched(NamedTuple):
    """Rows of some keys: the place of each one's key among those asked for, and the whole row."""

    places: Integers
    rows: pa.RecordBatch


@dataclass(frozen=True)
class StateHandle:
    """All that a task needs to work on any shard of one version; small, plain data."""

    url: str
    version: int
    token: str
    schema: StateSchema
    runs: tuple[tuple[RunInfo, ...], ...]
    reserved: tuple[str, ...] = ()
    task_bytes_max: int = TASK_BYTES_MAX

    @property
    def shards(self) -> int:
        return len(self.runs)

    def slots(self, shard: int) -> list[Slot]:
        """Those that hold anything, in the order of time."""
        return slots_of(self.runs[shard])

    def to_json(self) -> str:
        return json.dumps(
            {
                "url": self.url,
                "version": self.version,
                "token": self.token,
                "schema": self.schema.to_json(),
                "runs": [[asdict(run) for run in runs] for runs in self.runs],
                "reserved": list(self.reserved),
                "task_bytes_max": self.task_bytes_max,
            }
        )

    @classmethod
    def from_json(cls, text: str) -> "StateHandle":
        content: Mapping[str, Any] = json.loads(text)
        return cls(
            content["url"],
            content["version"],
            content["token"],
            StateSchema.from_json(content["schema"]),
            tuple(tuple(map(RunInfo.of, runs)) for runs in content["runs"]),
            tuple(content["reserved"]),
            content["task_bytes_max"],
        )


def shard_of(hashes: Integers, shards: int) -> Integers:
    """The shard a hash belongs to, as pmod of Spark SQL has it: never negative.

    >>> shard_of(np.array([-1, 0, 5]), 4).tolist()
    [3, 0, 1]
    """
    return np.mod(hashes, shards)


class ShardState:
    """One slot of a shard; of state without time, all of it."""

    def __init__(
        self, handle: StateHandle, shard: int, runs: OpenedRuns | None = None, *, slot: Slot = EVERYTHING
    ) -> None:
        self._handle, self._shard, self._slot = handle, shard, slot
        self._infos = tuple(run for run in handle.runs[shard] if run.slot == slot)
        self._opened = runs or opened(handle.url)
        self._rows = handle.schema.rows
        self._key: list[str] = handle.schema.key.names
        self._values: list[str] = handle.schema.values.names
        self._order = handle.schema.order
        self._opened.working_on(handle.token, (run.name for runs in handle.runs for run in runs))

    @property
    def schema(self) -> StateSchema:
        return self._handle.schema

    def _newest_first(self) -> list[Run]:
        return [self._opened.run(info, self._rows) for info in reversed(self._infos)]

    def lookup(self, hashes: Integers, keys: pa.RecordBatch) -> Found:
        """What is kept for these keys, in whatever order they come; `keys` may have more columns than the key."""
        keys = conformed(keys, self.schema.key)
        columns = [hashes, *(keys.column(name).to_numpy() for name in self._order)]
        order = np.arange(len(hashes)) if rises(columns) else sorted_order(columns)
        wanted, *times = (column[order] for column in columns)
        sorted_keys = keys.take(order)
        pending = np.ones(len(wanted), np.bool_)
        matches: list[tuple[Integers, pa.RecordBatch]] = []
        for run in self._newest_first():
            asked = np.flatnonzero(pending)
            if not len(asked):
                break
            for hits in run.find(wanted[asked], Times(self._order[0], times[0][asked]) if times else None):
                hits = hits._replace(wanted=asked[hits.wanted])
                for places, rows in self._matching(hits, sorted_keys):
                    pending[places] = False
                    matches.append((order[places], rows))
        return self._aligned(len(wanted), matches)

    def fetch(self, hashes: Integers, keys: pa.RecordBatch, low: Integers, high: Integers) -> Fetched:
        """All rows whose first column of order lies in [low, high), for each of some keys without their order.

        They are sorted by the place of the key among those asked for, then as runs are.
        """
        key = pa.schema([field for field in self.schema.key if field.name not in self._order])
        keys = conformed(keys, key)
        order = sorted_order([hashes])
        wanted, ranges = hashes[order], (low[order], high[order])
        places, pieces = [np.empty(0, np.int64)], [pa.RecordBatch.from_pylist([], self._rows)]
        for run in self._newest_first():
            for batch, among, rows in run.within(wanted, *ranges, self._order[0]):
                places.append(order[among])
                pieces.append(batch.take(rows))
        return self._newest(np.concatenate(places), pa.concat_batches(pieces), keys)

    def matches(self, hashes: Integers, keys: pa.RecordBatch, low: int = -(2**63), high: int = 2**63 - 1) -> Fetched:
        """All rows whose key has these values in some of its columns, those that the hash is of, and whose first column
        of order lies in [low, high).

        No key is asked for twice. Rows are sorted as runs are.
        """
        keys = conformed(keys, pa.schema([self.schema.key.field(name) for name in keys.schema.names]))
        order = sorted_order([hashes])
        lowest, highest = (np.full(len(hashes), bound) for bound in (low, high))
        places, pieces = [np.empty(0, np.int64)], [pa.RecordBatch.from_pylist([], self._rows)]
        for run in self._newest_first():
            for batch, among, rows in run.within(hashes[order], lowest, highest, self._order[0]):
                places.append(order[among])
                pieces.append(batch.take(rows))
        found, rows = np.concatenate(places), pa.concat_batches(pieces)
        same = rows_equal(rows.select(keys.schema.names).columns, keys.take(found).columns, len(found))
        if not same.all():
            found, rows = found[same], rows.filter(pa.array(same))
        order = order_of(rows, self.schema)
        order = order[~hidden(rows, order, self.schema) & ~as_mask(rows.column(DELETED))[order]]
        return Fetched(found[order], rows.take(order))

    def held(self, hashes: Integers) -> Integers:
        """About how many rows each hash has: those that were changed or deleted since are counted as well."""
        order = sorted_order([hashes])
        counts = np.zeros(len(hashes), np.int64)
        for run in self._newest_first():
            counts[order] += run.counts(hashes[order])
        return counts

    def leading(self, hashes: Integers, keys: pa.RecordBatch, counts: Integers) -> Fetched:
        """At least so many of the first rows of each key, in the order of runs, or all; as `matches` has them."""
        keys = conformed(keys, pa.schema([self.schema.key.field(name) for name in keys.schema.names]))
        return Fetched(*leading_rows(self._newest_first(), self.schema, hashes, keys, counts))

    def _newest(self, places: Integers, rows: pa.RecordBatch, keys: pa.RecordBatch) -> Fetched:
        """What the first of several rows with the same key says; other keys may share its hash."""
        same = rows_equal(rows.select(keys.schema.names).columns, keys.take(places).columns, len(places))
        if not same.all():
            places, rows = places[same], rows.filter(pa.array(same))
        ordered_by = [rows.column(name).to_numpy() for name in self._order]
        order = sorted_order([places, *ordered_by])
        hidden_rows = followers_of([column[order] for column in (places, *ordered_by)])
        order = order[~hidden_rows & ~as_mask(rows.column(DELETED))[order]]
        return Fetched(places[order], rows.take(order))

    def _matching(self, hits: Hits, keys: pa.RecordBatch) -> Iterator[tuple[Integers, pa.RecordBatch]]:
        """The hits whose key is the wanted one; where another key has the same hash, the rows behind it are tried."""
        places, rows = hits.wanted, hits.rows
        while len(places):
            found = hits.batch.take(rows)
            same = rows_equal(found.select(self._key).columns, keys.take(places).columns, len(places))
            if same.all():
                yield places, found
                return
            yield places[same], found.filter(pa.array(same))
            behind = rows[~same] + 1
            places = places[~same]
            inside = behind < len(hits.hashes)
            places, behind = places[inside], behind[inside]
            still = hits.hashes[behind] == hits.hashes[behind - 1]
            places, rows = places[still], behind[still]

    def _aligned(self, length: int, matches: Sequence[tuple[Integers, pa.RecordBatch]]) -> Found:
        values = pa.schema([self._rows.field(name) for name in self._values])
        if not matches:
            return Found(np.zeros(length, np.bool_), empty_rows(values, length))
        rows = pa.concat_batches([rows for _, rows in matches])
        places = np.concatenate([places for places, _ in matches])
        kept = ~as_mask(rows.column(DELETED))
        source = np.full(length, -1, np.int64)
        source[places[kept]] = np.flatnonzero(kept)
        mask = source >= 0
        taken = rows.select(self._values).take(pa.array(source, mask=~mask))
        return Found(mask, taken)

    def write(self, rows: pa.RecordBatch, *, existed: Mask | None = None) -> RunInfo | None:
        """Write the changed keys, each once, as a run that survives a power cut; None if there are none.

        `existed` says which of them the last look-up found; without it they are looked up again, to keep count of
        the keys. Rows without `_deleted` are none. A few small runs may be merged into the new one on the way.
        """
        if not rows.num_rows:
            return None
        rows = self._checked(conformed(with_deleted(rows), self._rows))
        hashes = rows.column(HASH).to_numpy()
        if existed is None:
            existed = self.lookup(hashes, rows).mask
        change = keys_change(existed, as_mask(rows.column(DELETED)))
        fresh = self._sorted(rows)
        taken = self._absorbed(fresh.nbytes)
        return self._written(fresh, taken, change)

    def _checked(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        owners = shard_of(rows.column(HASH).to_numpy(), self._handle.shards)
        strayed = np.flatnonzero(owners != self._shard)
        if len(strayed):
            place = f"shard {int(owners[strayed[0]])} of {self._handle.shards}"
            raise FlowError(
                f"row {int(strayed[0])} of a write to shard {self._shard} belongs to {place}",
                "Partition rows by pmod(_hash, shards).",
            )
        return rows

    def _sorted(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        if rises(sort_columns(rows, self.schema)):
            return rows
        order = order_of(rows, self.schema)
        if hidden(rows, order, self.schema).any():
            raise FlowError(
                f"a write to shard {self._shard} of {self._handle.url} has a key twice",
                "Reduce the batch to one row for each key before it is written.",
            )
        return rows.take(order)

    def _absorbed(self, incoming_bytes: int) -> tuple[RunInfo, ...]:
        """The newest runs that go into the one to be written; never one that is being merged elsewhere."""
        runs = self._infos
        reserved = [place for place, run in enumerate(runs) if run.name in self._handle.reserved]
        free = runs[max(reserved) + 1 :] if reserved else runs
        sizes = [weight(run.bytes) for run in free]
        count = absorbed(sizes, weight(incoming_bytes), limit=self._handle.task_bytes_max)
        return free[len(free) - count :]

    def _written(self, fresh: pa.RecordBatch, taken: Sequence[RunInfo], change: int) -> RunInfo:
        oldest = len(taken) == len(self._infos)
        older = [piece for info in reversed(taken) for piece in self._opened.run(info, self._rows).batches]
        merged = newest_rows([fresh, *older], self.schema, drop_deleted=oldest)
        name = run_name(self._shard)
        info = write_run(self._opened.files, self._shard, name, self._rows, in_batches(merged))
        # All keys may be gone: then there is nothing to write, but what it replaces still goes.
        info = info or RunInfo(self._shard, "", 0, 0, 0, 0, 0)
        replaces = tuple(run.name for run in taken)
        info = replace(info, keys_change=change, base=self._handle.token, reaches_oldest=oldest, replaces=replaces)
        return replace(info, slot=self._slot, keys=change + sum(run.keys for run in taken))

    def scan(self) -> Iterator[pa.RecordBatch]:
        """All live rows in ascending order of their hashes, batch by batch."""
        for batch in combined(self._newest_first(), self.schema, drop_deleted=True):
            if batch.num_rows:
                yield batch

    def select(self, wanted: Callable[[Integers], Mask]) -> pa.RecordBatch:
        """All live rows whose first column of order is wanted; nothing else is copied."""
        pieces = []
        for run in self._newest_first():
            for batch in run.batches:
                chosen = wanted(batch.column(self._order[0]).to_numpy())
                pieces.append(batch if chosen.all() else batch.filter(pa.array(chosen)))
        filled = [piece for piece in pieces if piece.num_rows]
        return newest_rows(filled, self.schema, drop_deleted=True) if filled else empty_rows(self._rows, 0)

    def between(self, first: int | None, end: int | None) -> pa.RecordBatch:
        """All live rows whose hashes are in [first, end); the caller sees to it that these are not too many."""
        pieces = []
        for run in self._newest_first():
            begin = 0 if first is None else run.place(first)
            pieces += run.between(begin, run.info.rows if end is None else run.place(end))
        if not pieces:
            return empty_rows(self._rows, 0)
        return newest_rows(pieces, self.schema, drop_deleted=True)


def run_name(shard: int) -> str:
    """A name that no other attempt at the same work has."""
    return f"{RUNS}/{shard:05d}-{uuid4().hex}.arrow"


def keys_change(existed: Mask, deleted: Mask) -> int:
    return int(np.count_nonzero(~existed & ~deleted)) - int(np.count_nonzero(existed & deleted))


def with_deleted(rows: pa.RecordBatch) -> pa.RecordBatch:
    if DELETED in rows.schema.names:
        return rows
    return rows.append_column(DELETED, pa.array(np.zeros(rows.num_rows, np.bool_)))


def conformed(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of a schema, in its order and types. Spark's nullability and field names inside lists differ."""
    columns = [rows.column(field.name) for field in schema]
    fitting = [
        column if column.type.equals(field.type) else column.cast(field.type)
        for column, field in zip(columns, schema, strict=True)
    ]
    nullable = pa.schema([pa.field(field.name, field.type) for field in schema])
    return pa.RecordBatch.from_arrays(fitting, schema=nullable)


def empty_rows(schema: pa.Schema, length: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(length, field.type) for field in schema], schema=schema)
