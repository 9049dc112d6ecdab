"""What a task does with a chain of joins on the same columns: one join after the other, shard by shard, in one go.

    _which 0 ─┐
    _which 1 ─┴─ first join ──┐
    _which 2 ─────────────────┴─ second join ──┐
    _which 3 ──────────────────────────────────┴─ …

Each join keeps its own state under its own name, and reports by itself; what it tells goes to the next without leaving
the task. Out comes what the last one tells. Rows of the others that had to have a partner, and have none, come with it:
`_link` says whose they are.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import FlowError
from headwater.flow.exchange.blocks import rows_in_order
from headwater.flow.joins.stream_join_task import StreamJoinTask
from headwater.flow.joins.table_join_task import BESIDE, PARTS, TableJoinTask, marked, side_rows
from headwater.flow.operate.reports import COMMIT, ShardReport, by_shard, with_report
from headwater.flow.operators.joins.as_of import AsOfJoin
from headwater.flow.operators.joins.chaining import changes_given_on, events_given_on, without_null_keys
from headwater.flow.operators.joins.events import GIVEN, MISSING, TIME, Shard
from headwater.flow.operators.joins.latest import LatestJoin
from headwater.flow.state.shard import ShardState, StateHandle

LINK = "_link"
"""The place of a join in its chain."""
Handles = Mapping[str, StateHandle]


@dataclass(frozen=True)
class StreamChainTask:
    links: tuple[StreamJoinTask, ...]
    dealt: pa.Schema | None = None
    """Of what it is given, where that comes in pieces."""

    @property
    def told(self) -> pa.Schema:
        return linked_schema(self.links[-1].operator.told)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        handles = [_opened(link.handles) for link in self.links]
        shards = next(iter(handles[0].values())).shards
        given = dict(by_shard(batches if self.dealt is None else rows_in_order(batches, self.dealt), shards))
        own = {shard for link in self.links for shard in link.own(shards)}
        for shard in sorted({*given, *own}):
            yield from self._shard(shard, shards, handles, given.get(shard))

    def _shard(
        self, number: int, shards: int, handles: Sequence[Handles], rows: pa.RecordBatch | None
    ) -> Iterator[pa.RecordBatch]:
        onward, last = side_rows(rows, 0, GIVEN), len(self.links) - 1
        for place, (link, parts) in enumerate(zip(self.links, handles, strict=True)):
            operator, made = link.operator, onward.num_rows if place and onward is not None else 0
            ours = self._taken(link, onward) if place and onward is not None else onward
            filtered = made - ours.num_rows if place and ours is not None else 0
            theirs = side_rows(rows, place + 1, operator.beside)
            step, (first, *others) = link.worked(Shard(parts, number), (ours, theirs))
            first = replace(first, made=made, filtered=first.filtered + filtered)
            after = step.after if place == last else step.after.filter(step.after.column(MISSING))
            yield self._with_report(after, place, 1, first)
            for other in others:
                yield self._with_report(step.before, place, 0, other)
            if place != last:
                names, on = _left_of(self.links[place + 1])
                onward = events_given_on(step.after, names, on, shard=number, shards=shards)

    def _taken(self, link: StreamJoinTask, rows: pa.RecordBatch) -> pa.RecordBatch:
        """What a join takes of rows that the one before it has made: none of them can be too late (declare/chains.py),
        and what can meet none is of no use to some."""
        work, clock = link.operator.work, link.operator.clock
        if isinstance(work, LatestJoin):
            return rows
        kept_us = work.kept_us if isinstance(work, AsOfJoin) else 0
        if rows.num_rows and pc.min(rows.column(TIME)).as_py() < clock.forgotten_us - kept_us:
            raise FlowError(
                f"a row comes too late to {link.operator.name}, from the join before it",
                "This is a bug in headwater; nothing of the batch was written. Please report it with this sentence.",
            )
        if isinstance(work, AsOfJoin) or work.pairing.keeps_left:
            return rows
        return without_null_keys(rows, work.left.on)

    def _with_report(self, rows: pa.RecordBatch, place: int, side: int, told: ShardReport) -> pa.RecordBatch:
        fitting = fitted(marked(rows, side), place, self.told)
        return with_report(fitting, told, self.told)


@dataclass(frozen=True)
class TableChainTask:
    """Of joins none of whose keys is split in this batch."""

    links: tuple[TableJoinTask, ...]

    @property
    def told(self) -> pa.Schema:
        return self.links[-1].operator.told

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        handles = [_opened(link.handles) for link in self.links]
        shards = handles[0][PARTS[0]].shards
        for shard, rows in by_shard(batches, shards):
            yield from self._shard(shard, shards, handles, rows)

    def _shard(
        self, number: int, shards: int, handles: Sequence[Handles], rows: pa.RecordBatch
    ) -> Iterator[pa.RecordBatch]:
        onward = side_rows(rows, 0, BESIDE)
        for place, (link, parts) in enumerate(zip(self.links, handles, strict=True)):
            left, right = (ShardState(parts[part], number) for part in PARTS)
            step, told = link.worked(number, left, right, (onward, side_rows(rows, place + 1, BESIDE)))
            if place + 1 == len(self.links):
                yield with_report(marked(step.before, 0), told[0], self.told)
                yield with_report(marked(step.after, 1), told[1], self.told)
                return
            for one in told:
                yield with_report(fitted(step.after.slice(0, 0), place, self.told), one, self.told)
            names, on = _left_of(self.links[place + 1])
            onward = changes_given_on(
                step.before, step.after, names, link.operator.key, on, shard=number, shards=shards
            )
            if not self.links[place + 1].operator.work.pairing.keeps_left:
                onward = without_null_keys(onward, on)


def chain_task(links: Sequence[StreamJoinTask | TableJoinTask]) -> StreamChainTask | TableChainTask:
    """They are all of one kind."""
    streams = tuple(link for link in links if isinstance(link, StreamJoinTask))
    return (
        StreamChainTask(streams)
        if streams
        else TableChainTask(tuple(link for link in links if isinstance(link, TableJoinTask)))
    )


def linked_schema(told: pa.Schema) -> pa.Schema:
    """With the place of the join that a row is told by."""
    own = [field for field in told if field.name != COMMIT]
    return pa.schema([*own, pa.field(LINK, pa.int32()), told.field(COMMIT)])


def fitted(rows: pa.RecordBatch, place: int, schema: pa.Schema) -> pa.RecordBatch:
    """Rows with the columns that tasks tell; a join has some of those of the joins behind it."""
    found = {name: rows.column(name) for name in rows.schema.names}
    found[LINK] = pa.array(np.full(rows.num_rows, place, np.int32))
    own = [field for field in schema if field.name != COMMIT]
    columns = [found[field.name] if field.name in found else pa.nulls(rows.num_rows, field.type) for field in own]
    return pa.RecordBatch.from_arrays(columns, names=[field.name for field in own])


def _left_of(link: StreamJoinTask | TableJoinTask) -> tuple[list[str], list[str]]:
    """The columns of what a join is given on its left, and those that it is joined on."""
    pairing = link.operator.work.pairing
    return list(pairing.left.names), [name for name, _ in pairing.on]


def _opened(handles: Mapping[str, str]) -> dict[str, StateHandle]:
    return {part: StateHandle.from_json(text) for part, text in handles.items()}
