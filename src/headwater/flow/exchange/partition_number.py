"""The number of the partition that a task works on, in Spark and without it."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from pyspark import TaskContext

_number: ContextVar[int | None] = ContextVar("partition", default=None)


def partition_number() -> int:
    """As Spark numbers them; 0 outside of tasks."""
    own = _number.get()
    if own is not None:
        return own
    context = TaskContext.get()
    return context.partitionId() if context else 0


@contextmanager
def numbered_partition(number: int) -> Iterator[None]:
    """Within it a task is run for a partition without Spark."""
    token = _number.set(number)
    try:
        yield
    finally:
        _number.reset(token)
