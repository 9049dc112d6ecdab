"""A Spark session for a section, and how long the batches of a query took."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from benchmarks.warm_memory import warm_memory
from headwater.flow.session import start_session, stop_session

Contender = TypeVar("Contender")

MEMORY = "4g"
"""Of the JVM, for all alike: state that Spark keeps in memory lies there."""
WARM_BYTES = 1 << 30


@contextmanager
def session(
    folder: Path, *, jars: Sequence[str] = (), settings: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """The session that `headwater run` starts, with more memory and the jars of peers."""
    more = {"spark.jars": ",".join(jars)} if jars else {}
    started = start_session(
        "benchmarks", folder / "spark", settings={"spark.driver.memory": MEMORY, **more, **(settings or {})}
    )
    try:
        yield started
    finally:
        stop_session(started)


def settle() -> None:
    """Before each measured run: what the run before left unwritten is written, and memory is at hand."""
    os.sync()
    warm_memory(WARM_BYTES)


def finished(writer: DataStreamWriter, checkpoint: Path, *, rows: int) -> float:
    """Process what is there, which must be so many rows; the seconds of all batches."""
    settle()
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    return batch_seconds(query, rows)


def into_nothing(frame: DataFrame, checkpoint: Path, *, rows: int, mode: str = "append") -> float:
    return finished(frame.writeStream.format("noop").outputMode(mode), checkpoint, rows=rows)


def batch_seconds(query: StreamingQuery, rows: int) -> float:
    """Everything from planning a batch to noting its end, from Spark's own progress; not the start of the query."""
    batches = [one for one in query.recentProgress if one["numInputRows"]]
    read = sum(one["numInputRows"] for one in batches)
    if read != rows:
        raise RuntimeError(f"a query has read {read:,} rows of {rows:,}")
    return sum(float(one["durationMs"]["triggerExecution"]) for one in batches) / 1000


def in_turn(contenders: Mapping[str, Callable[..., Contender]], round_number: int) -> list[str]:
    """Another one first in each round: what one leaves behind meets the next."""
    names = list(contenders)
    first = round_number % len(names)
    return names[first:] + names[:first]
