"""A merge task, as workers run it, in which one attempt kills: itself, or another process."""

import os
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from headwater.flow.job.merging import MergeTask
from tests.crash.flow.moments import Flag, kill


@dataclass(frozen=True)
class DeadlyTask(MergeTask):
    flag: Flag
    victim: int | None
    """The process that dies; none: the worker itself."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for told in super().__call__(batches):
            if self.flag.taken():
                kill(self.victim or os.getpid())
            yield told
