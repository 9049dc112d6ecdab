"""The work of joins on one shard: the rows of both inputs are brought together with the state.

Every shard of a join of events is visited in every batch in which the watermark has moved, also one without rows: that
an event has no partner is emitted because of time alone.

State has a part for each side, in a store of its own: `<operator>.left`, `<operator>.right`. Pairs of keys of tables
with very many rows are made by several tasks, each of a slice of the rows (operators/joins/splitting.py); only the
shard's own task writes, and reports.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.flow.exchange.blocks import Inputs
from headwater.flow.operate.join_operators import StreamJoinOperator, TableJoinOperator
from headwater.flow.operate.reports import ShardReport
from headwater.flow.operate.shard_task import Emitted
from headwater.flow.operators.joins.emission import (
    AFTER_SIDE,
    BEFORE_SIDE,
    named_results,
    paired_changes,
    record_names,
    stream_rows,
    with_side,
)
from headwater.flow.operators.joins.events import LEFT_AT, MISSING, PARTITION, RIGHT_AT, Given, Shard, StreamStep
from headwater.flow.operators.joins.splitting import LEFT, RIGHT, owner_step, slice_bounds, slice_step
from headwater.flow.operators.joins.tables import ALL_ROWS
from headwater.flow.state.manifest import HASH
from headwater.flow.state.runs.equality import Integers
from headwater.flow.state.shard import ShardState, StateHandle, shard_of


@dataclass(frozen=True)
class Named:
    """How the results of a join that are a table's rows are named: the topics of the job's sources by number, and
    whether records of the left and the right may have made several rows."""

    topics: tuple[str, ...]
    several: tuple[bool, bool]


@dataclass(frozen=True)
class StreamJoinWork:
    """Interval, as-of and latest joins."""

    operator: StreamJoinOperator
    handles: Mapping[str, str]
    inputs: Sequence[pa.Schema]
    named: Named
    shards: int
    counts_misplaced: bool = False
    """Whether rows of partitions that belong to other shards are counted (exchange/co_partitioning.py)."""

    @property
    def results(self) -> pa.Schema:
        return self.operator.results

    @property
    def visits_all(self) -> bool:
        return self.operator.clock.moved

    def run(self, shard: int, inputs: Inputs) -> Iterator[Emitted]:
        operator, given = self.operator, (inputs[0], inputs[-1])  # what every shard is given comes as copies
        handles = {part: StateHandle.from_json(text) for part, text in self.handles.items()}
        step = operator.work.step(Shard(handles, shard), given, operator.clock)
        first, *others = operator.work.parts
        counted = self._counted(given, step.after)
        report = replace(
            counted, rows=counted.rows + step.counted, notes=step.notes, shard=shard,
            runs=tuple(step.runs.get(first, [])), part=first,
            misplaced=self._misplaced(shard, given) if self.counts_misplaced else None,
        )  # fmt: skip
        yield Emitted(self._emitted(step), report)
        for part in others:
            yield Emitted(None, ShardReport(operator.name, shard, 0, tuple(step.runs.get(part, [])), part=part))

    def _emitted(self, step: StreamStep) -> pa.RecordBatch:
        operator, pairing = self.operator, self.operator.work.pairing
        if not operator.key:  # of rows of a stream nothing is ever retracted
            return stream_rows(step.after, pairing)
        before, after = (named_results(rows, self._names(rows), pairing) for rows in (step.before, step.after))
        return paired_changes(before, after, operator.key)

    def _names(self, results: pa.RecordBatch) -> dict[str, pa.Array]:
        """The key of results: of the left and, where it is in the key, of the right."""
        sides = zip(self.operator.key, (LEFT_AT, RIGHT_AT), self.named.several, strict=False)
        return {name: record_names(results, side, self.named.topics, several=several) for name, side, several in sides}

    def _misplaced(self, shard: int, given: Given) -> int:
        """How many rows lie in partitions of other shards."""
        partitions = [rows.column(PARTITION).to_numpy() for rows in given if rows is not None]
        return sum(int(np.count_nonzero(own % self.shards != shard)) for own in partitions)

    def _counted(self, given: Given, after: pa.RecordBatch) -> ShardReport:
        """Facts that were taken in, less those without a partner that had to have one: these may have been taken in
        by an earlier batch."""
        work, missing = self.operator.work, int(np.count_nonzero(after.column(MISSING)))
        late, filtered = (missing, 0) if work.missing_is_late else (0, missing)
        count = work.accepted(given, self.operator.clock) - missing
        return ShardReport(self.operator.name, 0, count, (), late=late, filtered=filtered, missing=missing)


@dataclass(frozen=True)
class TableJoinWork:
    """Joins of two tables. Its third and fourth input are rows of keys that are split, for the slices that make their
    pairs: a slice may be worked on by the task of any shard."""

    operator: TableJoinOperator
    handles: Mapping[str, str]
    inputs: Sequence[pa.Schema]
    shards: int
    paired: bool
    """Whether changes are emitted, which the driver alone reads, or both sides of them."""

    visits_all = False

    @property
    def results(self) -> pa.Schema:
        return self.operator.output if self.paired else self.operator.sides

    def run(self, shard: int, inputs: Inputs) -> Iterator[Emitted]:
        left, right, *sliced = inputs
        if left is not None or right is not None:
            yield from self._shard(shard, (left, right))
        owners = {int(one) for rows in sliced if rows is not None for one in np.unique(self._owners(rows))}
        for owner in sorted(owners):
            ours, theirs = (
                None if rows is None else rows.filter(pa.array(self._owners(rows) == owner)) for rows in sliced
            )
            yield from self._slice((shard - owner) % self.shards, owner, (ours, theirs))

    def _owners(self, rows: pa.RecordBatch) -> Integers:
        return shard_of(rows.column(HASH).to_numpy(), self.shards)

    def _states(self, shard: int) -> tuple[ShardState, ShardState]:
        left, right = (ShardState(StateHandle.from_json(self.handles[part]), shard) for part in self.operator.parts)
        return left, right

    def _shard(self, shard: int, given: Given) -> Iterator[Emitted]:
        operator = self.operator
        step, hot = owner_step(operator.work, *self._states(shard), given, operator.hot, operator.hot_rows)
        reports = [
            ShardReport(operator.name, shard, 0, (run,) if run else (), part=part)
            for part, run in zip(operator.parts, step.runs, strict=True)
        ]
        yield from self._emitted(step.before, step.after)
        yield Emitted(None, replace(reports[0], hot=hot))
        yield Emitted(None, reports[1])

    def _slice(self, number: int, owner: int, given: Given) -> Iterator[Emitted]:
        """Pairs of keys whose left is split, and of those whose right is."""
        own, (left, right) = slice_bounds(number, self.shards), self._states(owner)
        for side, bounds in ((LEFT, (own, ALL_ROWS)), (RIGHT, (ALL_ROWS, own))):
            hashes = pa.array([one.hash for one in self.operator.hot if one.side == side], pa.int64())
            ours, theirs = (
                None if rows is None else rows.filter(pc.is_in(rows.column(HASH), hashes)) for rows in given
            )
            yield from self._emitted(*slice_step(self.operator.work, left, right, (ours, theirs), bounds))

    def _emitted(self, before: pa.RecordBatch, after: pa.RecordBatch) -> Iterator[Emitted]:
        if self.paired:
            yield Emitted(paired_changes(before, after, self.operator.key), None)
        else:
            yield Emitted(with_side(before, BEFORE_SIDE), None)
            yield Emitted(with_side(after, AFTER_SIDE), None)
