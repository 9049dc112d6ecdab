"""Sinks whose rows tasks write: each task stages its rows, the driver publishes them together with the batch's mark.

    task      Stager.stage         a file or table that no reader sees, under a name that no other attempt has
    driver    StagedSink.publish   the parts of the attempts that Spark reports as successful, and the mark

A task that fails, or that another attempt overtakes, leaves a part that is not published; the next batch removes it.
Tasks with few rows give them to the driver, which publishes them with the parts.
"""

import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from headwater.flow.sinks.sink import Sink
from headwater.views.mark import Mark

CHUNK_ROWS, CHUNK_BYTES = 200_000, 64 * 1024**2
"""About what a task holds of its rows at a time."""


@dataclass(frozen=True)
class Part:
    """What one task has staged. `content` is for the sink alone."""

    task: int
    rows: int
    content: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Part":
        return cls(**json.loads(text))


class Stager(Protocol):
    """Sent to tasks, so it holds nothing but data."""

    def stage(self, task: int, batches: Iterable[pa.RecordBatch]) -> Part:
        """Write the rows of a task, durably, where no other attempt writes and no reader looks."""


class RunTasks(Protocol):
    def __call__(self, function: Callable[[str], str], items: Sequence[str]) -> list[str]:
        """The function's answer for each item, worked out by tasks."""


def run_here(function: Callable[[str], str], items: Sequence[str]) -> list[str]:
    """The same without tasks."""
    return [function(item) for item in items]


@runtime_checkable
class StagedSink(Sink, Protocol):
    def stager(self, mark: Mark) -> Stager | None:
        """How tasks stage the rows of a batch that is about to run; parts of earlier runs are removed. None if the
        driver has to take this batch."""

    def publish(self, mark: Mark, parts: Sequence[Part], rows: pa.Table, run: RunTasks = run_here) -> bool:
        """Take a batch, as a whole: its parts, and rows that no task staged. False if it is in already."""


@dataclass(frozen=True)
class CountOnly:
    """The stager of a batch that is in already: rows are counted, for the accounts."""

    def stage(self, task: int, batches: Iterable[pa.RecordBatch]) -> Part:
        return Part(task, sum(batch.num_rows for batch in batches))


def attempt_name(task: int) -> str:
    """A name for what an attempt of a task writes."""
    return f"{task:05}-{uuid.uuid4().hex}"


def in_chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Rows in tables of a size that is worth writing, in their order."""
    gathered: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        gathered.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= CHUNK_ROWS or size >= CHUNK_BYTES:
            yield pa.Table.from_batches(gathered)
            gathered, rows, size = [], 0, 0
    if gathered:
        yield pa.Table.from_batches(gathered)
