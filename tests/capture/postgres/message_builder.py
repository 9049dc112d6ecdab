"""A replication stream without a server: messages as bytes, a source that emits them, a log that keeps batches."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from headwater.capture.appender import batches, groups
from headwater.capture.change import CapturedTable
from headwater.capture.notes import Note, Notes
from headwater.capture.postgresql.assembler import Assembler, SourceBlock
from headwater.capture.postgresql.pgoutput import EPOCH_US, Column, Decoder, Relation
from headwater.capture.postgresql.replication import DATA, parse_data
from headwater.capture.postgresql.rows.run import RunFinder
from headwater.capture.postgresql.tables import Plan
from headwater.capture.postgresql.types import TypeFacts
from headwater.capture.runner import Runner
from headwater.capture.source import Batch, SourceStatus
from headwater.clock import ManualClock
from headwater.log.batch_format import decode_batch, encode_batch
from headwater.log.partitioner import partition_of
from headwater.log.record_contents import Contents, parts_of
from headwater.log.record_framing import encode_contents
from headwater.record import Record

NOW_MS = 1_700_000_000_000
UNCHANGED = "unchanged"
Cell = bytes | str | None
"""Text, or UNCHANGED, or NULL."""

NAMES = {
    16: "bool", 17: "bytea", 20: "int8", 23: "int4", 25: "text", 701: "float8", 1082: "date", 1114: "timestamp",
    1184: "timestamptz", 1266: "timetz", 1560: "bit", 1700: "numeric",
}  # fmt: skip
TYPES = {type: TypeFacts(name) for type, name in NAMES.items()}


@dataclass(frozen=True)
class Table:
    id: int
    types: tuple[int, ...]
    key: tuple[int, ...] = (0,)
    full: bool = False
    """Whether the whole row is its replica identity."""

    wide_bytes: int = 254
    partitions: int = 1

    @property
    def relation(self) -> Relation:
        columns = (
            Column(f'c{index} "%b"', type, 1 if type == 1560 else -1, self.full or index in self.key)
            for index, type in enumerate(self.types)
        )
        return Relation(self.id, "public", f"größe {self.id}", "f" if self.full else "d", tuple(columns))

    def plan(self, relation: Relation) -> Plan:
        names = tuple(column.name for column in relation.columns)
        captured = CapturedTable("public", relation.name, f"topic{self.id}", names, self.key, self.wide_bytes)
        return Plan(captured, relation, TYPES)


# -- messages ----------------------------------------------------------------------------------------------------------


def data_message(address: int, body: bytes) -> bytes:
    return b"w" + address.to_bytes(8, "big") + bytes(16) + body


def begin(commit: int, transaction: int, *, time_us: int = NOW_MS * 1000 - 5_000_001) -> bytes:
    time = (time_us - EPOCH_US).to_bytes(8, "big", signed=True)
    return b"B" + commit.to_bytes(8, "big") + time + transaction.to_bytes(4, "big")


def commit(commit: int, *, time_us: int = 0) -> bytes:
    return b"C\0" + commit.to_bytes(8, "big") + (commit + 8).to_bytes(8, "big") + time_us.to_bytes(8, "big")


def relation_message(table: Table) -> bytes:
    relation = table.relation
    columns = b"".join(
        bytes([column.identity]) + column.name.encode() + b"\0" + column.type.to_bytes(4, "big")
        + column.modifier.to_bytes(4, "big", signed=True)
        for column in relation.columns
    )  # fmt: skip
    head = b"R" + table.id.to_bytes(4, "big") + b"public\0" + relation.name.encode() + b"\0"
    return head + relation.identity.encode() + len(relation.columns).to_bytes(2, "big") + columns


def row(cells: Sequence[Cell]) -> bytes:
    return len(cells).to_bytes(2, "big") + b"".join(map(_cell, cells))


def _cell(cell: Cell) -> bytes:
    if cell is None:
        return b"n"
    return b"u" if isinstance(cell, str) else b"t" + len(cell).to_bytes(4, "big") + cell


def insert(table: Table, new: Sequence[Cell]) -> bytes:
    return b"I" + table.id.to_bytes(4, "big") + b"N" + row(new)


def update(table: Table, new: Sequence[Cell], *, old: Sequence[Cell] | None = None, whole: bool = False) -> bytes:
    before = b"" if old is None else (b"O" if whole else b"K") + row(old)
    return b"U" + table.id.to_bytes(4, "big") + before + b"N" + row(new)


def delete(table: Table, old: Sequence[Cell], *, whole: bool = False) -> bytes:
    return b"D" + table.id.to_bytes(4, "big") + (b"O" if whole else b"K") + row(old)


# -- a source and a log ------------------------------------------------------------------------------------------------


@dataclass
class ScriptedSource:
    """A ChangeSource; each list of messages is one poll. With `runs`, as many of them as can be are decoded in runs."""

    tables_by_id: Mapping[int, Table]
    polls: list[list[bytes]]
    runs: bool
    generation: int = 0
    taken_in_runs: int = 0
    wanted_rows: list[tuple[str, ...]] = field(default_factory=list)

    def open(self, notes: Mapping[str, Note]) -> None:
        source = SourceBlock(capture="shop", database="shop", version="1")
        self.assembler = Assembler(
            lambda relation: self.tables_by_id[relation.id].plan(relation), source, generation=self.generation
        )
        self.finder, self._decoder = RunFinder(self.assembler, messages_min=1), Decoder()

    def tables(self) -> Sequence[CapturedTable]:
        return []

    def poll(self, timeout_seconds: float) -> Batch:
        received, index = self.polls.pop(0) if self.polls else [], 0
        self.finder.begin(received)
        while index < len(received):
            if self.runs and (behind := self.finder.take(index)) > index:
                index = behind
                continue
            if received[index][0] == DATA:
                address, message = parse_data(received[index])
                if not self.assembler.take_row(address, message):
                    self.assembler.take(address, self._decoder.decode(message))
            index += 1
        changes, self.assembler.changes = self.assembler.changes, []
        runs = self.finder.take_found()
        self.taken_in_runs += sum(run.rows for _, run in runs)
        return Batch(changes, {}, self.assembler.end, list(runs))

    def confirm(self, address: int) -> None: ...

    def read_row(self, table: str, key: tuple[str, ...], *, moved: bool) -> None:
        self.wanted_rows.append((table, *key, str(moved)))

    def copy_again(self, tables: Sequence[str], *, where: str = "") -> None: ...

    def status(self) -> SourceStatus:
        return SourceStatus()

    def close(self) -> None: ...


@dataclass
class KeptBatches:
    """An Appender whose log is a list of batches for each partition."""

    partitions: Mapping[str, int]
    logs: dict[tuple[str, int], list[bytes]] = field(default_factory=dict)

    def ensure_topic(self, topic: str, *, partitions: int, configs: Mapping[str, str]) -> int:
        return self.partitions.get(topic, 1)

    def partition_count(self, topic: str) -> int:
        return max((number + 1 for name, number in self.logs if name == topic), default=0)

    def add_partitions(self, topic: str, total: int) -> None: ...

    def append(self, topic: str, partition: int, records: Sequence[Record], *, durable: bool = True) -> int:
        kept = self.logs.setdefault((topic, partition), [])
        kept += [bytes(encode_batch(group)) for group in batches(records)]
        return self.bounds(topic, partition)[1]

    def append_contents(self, topic: str, partition: int, pieces: Sequence[Contents]) -> int:
        kept = self.logs.setdefault((topic, partition), [])
        sizes = np.concatenate([piece.sizes for piece in pieces])
        kept += [bytes(encode_contents(parts_of(pieces, *group))) for group in groups(sizes)]
        return self.bounds(topic, partition)[1]

    def sync(self) -> None: ...

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        return 0, len(list(self.read(topic, partition, 0)))

    def read(self, topic: str, partition: int, offset: int) -> Iterator[Record]:
        decode = partial(decode_batch, bytes_max=2**30)
        records = [record for batch in self.logs.get((topic, partition), []) for record in decode(batch)]
        return iter(records[offset:])

    def partition_of(self, key: bytes | None, partitions: int) -> int:
        return 0 if key is None or partitions == 1 else partition_of(key, partitions)


def captured(source: ScriptedSource, appender: KeptBatches, folder: Path) -> Runner:
    """All that the source tells, in the log."""
    runner = Runner(source, appender, Notes(appender, "shop"), folder=folder, clock=ManualClock(NOW_MS))
    runner.open()
    while source.polls:
        runner.step(0)
    return runner
