"""What a job relies on from a place that its rows go to.

A batch may come again after a crash, with the same rows under the same number. A sink that is `exactly_once` keeps the
number together with the rows and takes each batch once; the others take it at least once, and their readers
can recognise a repetition by job and batch.

Rows of a keyed output: `_op` (c, u, d), key columns, value columns, perhaps `_before`. Of a stream: its columns.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import pyarrow as pa

from headwater.views.mark import Epoch, Mark

__all__ = ["Epoch", "FencedSink", "Mark", "Sink"]


class Sink(Protocol):
    name: str
    exactly_once: bool

    def prepare(self, schema: pa.Schema, key: Sequence[str]) -> None:
        """Make what is missing, or add columns; JobRefused for what does not fit. Comes before any write."""

    def committed(self, job: str) -> int | None:
        """The newest batch of this job that is in; None if there is none, or if the sink keeps no count."""

    def write(self, mark: Mark, rows: pa.Table) -> bool:
        """Take a batch, as a whole; False if it is in already. After any failure the same call may be made again.

        JobRefused if another job writes here. A batch without rows counts too.
        """

    def close(self) -> None: ...


@runtime_checkable
class FencedSink(Protocol):
    """A place that knows the drivers of a job apart by itself."""

    def fence(self, job: str, epoch: Epoch) -> None:
        """Comes before all others: from now on what older drivers of the job write is refused.

        JobTakenOver if this one is older than another. Epoch 0 fences nothing.
        """
