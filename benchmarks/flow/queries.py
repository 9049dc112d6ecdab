"""A Spark session for a section, and how long the batches of a query took."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter
from pyspark.sql.streaming.query import StreamingQuery

from headwater.flow.session import start_session, stop_session

Contender = TypeVar("Contender")

MEMORY = "4g"
"""Of the JVM, for all alike: state that Spark keeps in memory lies there."""


@contextmanager
def session(folder: Path, *, jars: Sequence[str] = (), settings: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """The session that `headwater run` starts, with more memory and the jars of peers."""
    more = {"spark.jars": ",".join(jars)} if jars else {}
    started = start_session(
        "benchmarks", folder / "spark", settings={"spark.driver.memory": MEMORY, **more, **(settings or {})}
    )
    try:
        yield started
    finally:
        stop_session(started)


def finished(writer: DataStreamWriter, checkpoint: Path) -> float:
    """Process what is there; the seconds of all batches, from Spark's own progress."""
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    return batch_seconds(query)


def into_nothing(frame: DataFrame, checkpoint: Path, *, mode: str = "append") -> float:
    return finished(frame.writeStream.format("noop").outputMode(mode), checkpoint)


def batch_seconds(query: StreamingQuery) -> float:
    """Everything from planning a batch to noting its end; not the start of the query or of the JVM."""
    took = [float(one["durationMs"]["triggerExecution"]) for one in query.recentProgress if one["durationMs"]]
    return sum(took) / 1000


def in_turn(contenders: Mapping[str, Callable[..., Contender]], round_number: int) -> list[str]:
    """Another one first in each round: what one leaves behind meets the next."""
    names = list(contenders)
    first = round_number % len(names)
    return names[first:] + names[:first]
