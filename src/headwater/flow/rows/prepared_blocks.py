"""Rows to the blocks that an operator's shards receive, whichever tasks the rows come from."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import pyarrow as pa

from headwater.flow.exchange.blocks import Address, Exchange, partitioned
from headwater.flow.operate.reports import NO_SHARD, ShardReport
from headwater.flow.state.runs.equality import Integers

BUFFER_ROWS = 1 << 18
"""Rows that are prepared together: partial aggregation gains with their number, and they lie in memory."""


class Copied(NamedTuple):
    """Rows that go to other shards as well, each to the one of its number; they are an input of their own."""

    rows: pa.RecordBatch
    shards: Integers


class Prepared(NamedTuple):
    """Rows as an operator's shards take them, with `_hash`, and how many were late or dropped."""

    rows: pa.RecordBatch
    late: int = 0
    filtered: int = 0
    copies: tuple[Copied, ...] = ()


COPIES = 2
"""The number of an input of copies is that of its own input and this."""


class Prepare(Protocol):
    """What an operator does to rows before they are sent to their shards; pure."""

    def prepare(self, rows: pa.RecordBatch) -> Prepared: ...


@dataclass
class Preparation:
    """Collects the rows of one input of one operator in a task, and turns them into blocks."""

    operator: str
    prepare: Prepare
    to: Address
    exchange: Exchange
    filtered: int = 0
    expanded: int = 0
    late: int = 0
    _rows: list[pa.RecordBatch] = field(default_factory=list)
    _count: int = 0

    def add(self, rows: pa.RecordBatch, sequence: int) -> Iterator[pa.RecordBatch]:
        """Blocks, once enough rows have come together."""
        if rows.num_rows:
            self._rows.append(rows)
            self._count += rows.num_rows
        if self._count >= BUFFER_ROWS:
            yield from self.flush(sequence)

    def flush(self, sequence: int) -> Iterator[pa.RecordBatch]:
        if not self._count:
            return
        rows = self._rows[0] if len(self._rows) == 1 else pa.concat_batches(self._rows)
        self._rows, self._count = [], 0
        found = self.prepare.prepare(rows)
        self.late += found.late
        self.filtered += found.filtered
        if found.rows.num_rows:
            yield partitioned(found.rows, self.exchange, sequence, self.to)
        for copied in found.copies:
            to = Address(self.to.operator, self.to.input + COPIES)
            yield partitioned(copied.rows, self.exchange, sequence, to, copied.shards)

    def report(self) -> ShardReport | None:
        """What left before the shards; None if nothing did."""
        if not (self.late or self.filtered or self.expanded):
            return None
        return ShardReport(self.operator, NO_SHARD, 0, (), late=self.late, filtered=self.filtered, made=self.expanded)
