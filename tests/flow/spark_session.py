"""One Spark session for all tests of a process: starting one takes seconds, and a process cannot have two."""

import atexit
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from pyspark.sql import SparkSession

from headwater.flow.commit.batch_evaluation import DRIVER_ROWS
from headwater.flow.session import start_session, stop_session

SETTINGS = {"spark.sql.shuffle.partitions": "2", "spark.log.level": "ERROR", DRIVER_ROWS: "0"}
"""The batches of tests are small, and yet run by Spark's tasks; what the driver runs itself has tests of its own."""
NOT_COMPILED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""A test runs a plan a few times over a few rows: to compile it takes a third of all its time. What runs in processes
of its own (the command line, the demo, commands of the guide) is compiled, and so is all of it with COMPILED_PLANS."""
COMPILED_PLANS = "HEADWATER_COMPILED_PLANS"


@cache
def shared_session() -> SparkSession:
    folder = tempfile.TemporaryDirectory(prefix="headwater-spark-")
    settings = SETTINGS if os.environ.get(COMPILED_PLANS) else SETTINGS | NOT_COMPILED
    session = start_session("headwater tests", Path(folder.name), master="local[2,4]", settings=settings)
    atexit.register(folder.cleanup)
    atexit.register(stop_session, session)
    return session


@contextmanager
def spark_session() -> Iterator[SparkSession]:
    """The session of this process; it goes on after the block."""
    yield shared_session()
