"""One Spark session for all tests of a process: starting one takes seconds, and a process cannot have two."""

import atexit
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from pyspark.sql import SparkSession

from headwater.flow.session import start_session, stop_session

SETTINGS = {"spark.sql.shuffle.partitions": "2", "spark.log.level": "ERROR"}


@cache
def shared_session() -> SparkSession:
    folder = tempfile.TemporaryDirectory(prefix="headwater-spark-")
    session = start_session("headwater tests", Path(folder.name), master="local[2,4]", settings=SETTINGS)
    atexit.register(folder.cleanup)
    atexit.register(stop_session, session)
    return session


@contextmanager
def spark_session() -> Iterator[SparkSession]:
    """The session of this process; it goes on after the block."""
    yield shared_session()
