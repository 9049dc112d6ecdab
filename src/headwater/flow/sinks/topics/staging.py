"""Rows for a topic that tasks stage, and the record batches that tasks make of them, partition by partition.

    <staging>/00003-5f0c….rows       rows of task 3 in Arrow's file form, each of its batches for one partition
    <staging>/00002-a81e….records    the record batches of partition 2, as they are sent

The rows of a partition lie in the order of the log, and keys of it in one partition: so all of them have to meet, in
one task, before they are encoded. Nothing here has to survive a crash: the batch comes again.
"""

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import overload

import numpy as np
import pyarrow as pa

from headwater.flow.sinks.staged import Part, RunTasks, attempt_name, in_chunks
from headwater.flow.sinks.topics.partitioning import in_order, partitions_of
from headwater.flow.sinks.topics.producer_state import ProducerState
from headwater.flow.sinks.topics.records import Encoded, encode_partition, hidden_columns
from headwater.record import TopicPartition

FILE, PIECES = "file", "pieces"


@dataclass(frozen=True)
class TopicStager:
    """Divides the rows of a task by the partition that they go to."""

    folder: str
    partitions: int
    batch: int

    def stage(self, task: int, batches: Iterable[pa.RecordBatch]) -> Part:
        os.makedirs(self.folder, exist_ok=True)
        path = f"{self.folder}/{attempt_name(task)}.rows"
        pieces: dict[int, list[int]] = {}
        count = written = 0
        writer: pa.ipc.RecordBatchFileWriter | None = None
        with pa.OSFile(path, "wb") as file:
            for chunk in in_chunks(batches):
                rows = hidden_columns(chunk)
                writer = writer or pa.ipc.new_file(file, rows.schema)
                count += rows.num_rows
                for partition, own in self._divided(rows):
                    pieces.setdefault(partition, []).append(written)
                    writer.write_batch(own)
                    written += 1
            if writer is not None:
                writer.close()
        return Part(task, count, {FILE: path, PIECES: pieces})

    def _divided(self, rows: pa.Table) -> Iterable[tuple[int, pa.RecordBatch]]:
        partitions = partitions_of(rows, self.partitions, batch=self.batch)
        sorted_rows = rows.take(pa.array(np.argsort(partitions, kind="stable")))
        counts = np.bincount(partitions, minlength=self.partitions)
        for partition, (count, end) in enumerate(zip(counts.tolist(), np.cumsum(counts).tolist(), strict=True)):
            for own in sorted_rows.slice(end - count, count).to_batches():
                yield partition, own


def encode_staged(
    parts: Sequence[Part], rows: pa.Table, folder: str, state: ProducerState, batch: int, run: RunTasks
) -> Encoded:
    """The record batches of each partition, of staged rows and of some that are not; tasks encode them."""
    if rows.num_rows:
        parts = [*parts, TopicStager(folder, state.partitions, batch).stage(len(parts), rows.to_batches())]
    # JSON has made texts of partitions that have come from tasks.
    pieces = [({int(one): own for one, own in part.content[PIECES].items()}, part.content[FILE]) for part in parts]
    wanted = sorted({partition for own, _ in pieces for partition in own})
    items = [
        json.dumps([partition, [(file, own[partition]) for own, file in pieces if partition in own]])
        for partition in wanted
    ]
    encoded = Encoded({}, {})
    for answer in run(EncodePartition(folder, state), items):
        partition, path, lengths, records = json.loads(answer)
        encoded.batches[TopicPartition(state.topic, partition)] = StagedBatches(path, lengths)
        encoded.records[partition] = records
    return encoded


@dataclass(frozen=True)
class EncodePartition:
    """Encodes the rows of a partition that all tasks staged."""

    folder: str
    state: ProducerState

    def __call__(self, item: str) -> str:
        partition, runs = json.loads(item)
        found: list[pa.RecordBatch] = []
        for file, numbers in runs:
            reader = pa.ipc.open_file(pa.memory_map(file))
            found += [reader.get_batch(number) for number in numbers]
        batches, records = encode_partition(in_order(pa.Table.from_batches(found)), self.state, partition)
        path = f"{self.folder}/{attempt_name(partition)}.records"
        with open(path, "wb") as target:
            target.writelines(batches)
        return json.dumps([partition, path, [len(one) for one in batches], records])


class StagedBatches(Sequence[bytearray]):
    """Record batches in a file, read when they are asked for."""

    def __init__(self, path: str, lengths: Sequence[int]) -> None:
        self._path, self._lengths = path, lengths
        self._starts = [0, *accumulate(lengths)]

    def __len__(self) -> int:
        return len(self._lengths)

    @overload
    def __getitem__(self, index: int) -> bytearray: ...

    @overload
    def __getitem__(self, index: slice) -> list[bytearray]: ...

    def __getitem__(self, index: int | slice) -> bytearray | list[bytearray]:
        numbers = range(len(self._lengths))[index]
        if isinstance(numbers, int):
            return self[numbers : numbers + 1][0]
        with open(self._path, "rb") as file:
            found = []
            for number in numbers:
                file.seek(self._starts[number])
                found.append(bytearray(file.read(self._lengths[number])))
        return found
