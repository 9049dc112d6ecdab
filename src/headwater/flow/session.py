"""One Spark session, set up for short batches, from two cores to a cluster."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from headwater.flow.java import find_java

__all__ = ["SPARK_ERRORS", "SparkSession", "session_for", "start_session", "stop_session"]

SPARK_ERRORS = (PySparkException, Py4JError)
"""What Spark raises, on either side of the gateway."""

LOGGING = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{yyyy-MM-dd HH:mm:ss} %p %c{1}: %m%n%ex
"""

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # A shard of state is a partition of the shuffle: none may be split or joined on the way.
    "spark.sql.adaptive.enabled": "false",
    "spark.python.daemon.module": "headwater.flow.worker_daemon",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # How long an idle query waits before it asks for new data again.
    "spark.sql.streaming.pollingDelay": "50ms",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.locality.wait": "0s",
    "spark.sql.warehouse.dir": "",
}

LOCAL = "local[*,4]"
"""All cores; a task whose worker dies is tried again, as on a cluster."""

LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
"""Without a cluster nobody else has to reach the driver."""


def jvm_options(cores: int) -> str:
    """A third less to do until the first batch is done (measured), at no cost later.

    The second compiler begins only with what is really hot, and no more threads collect garbage than there are cores to
    spare. The stack is deeper because Spark's own pattern matching recurses on long texts, such as plans.
    """
    collector = "-XX:+UseSerialGC" if cores <= 2 else "-XX:+UseParallelGC"
    patience = {
        "Tier4InvocationThreshold": 50_000,
        "Tier4MinInvocationThreshold": 20_000,
        "Tier4CompileThreshold": 100_000,
    }
    return " ".join(["-Xss4m", collector, *(f"-XX:{name}={count}" for name, count in patience.items())])


def start_session(
    name: str, folder: Path, *, master: str = LOCAL, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """A session of this process; what the JVM and its workers print goes to `folder`/spark.log."""
    os.environ["JAVA_HOME"] = str(find_java())
    # Workers would take whatever "python3" is on the PATH.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if master.startswith("local"):
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    folder.mkdir(parents=True, exist_ok=True)
    logging = folder / "log4j2.properties"
    logging.write_text(LOGGING)
    conf = SparkConf().setAppName(name).setMaster(master)
    local = LOOPBACK if master.startswith("local") else {}
    for key, value in {
        **SETTINGS,
        **local,
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        **(settings or {}),
    }.items():
        conf.set(key, value)
    options = conf.get("spark.driver.extraJavaOptions", "")
    ours = f"-Dlog4j2.configurationFile={logging.as_uri()} {jvm_options(os.cpu_count() or 1)}"
    conf.set("spark.driver.extraJavaOptions", f"{ours} {options}".strip())
    with (folder / "spark.log").open("ab") as log:
        gateway = launch_gateway(conf, {"stderr": log, "stdout": log})  # type: ignore[no-untyped-call]
    context = SparkContext(conf=conf, gateway=gateway)
    return SparkSession(context)


@contextmanager
def session_for(name: str, folder: Path) -> Iterator[SparkSession]:
    """The session that this process has, or one that ends with the block."""
    there = SparkContext._active_spark_context
    if there is not None:
        yield SparkSession(there)
        return
    session = start_session(name, folder)
    try:
        yield session
    finally:
        stop_session(session)


def stop_session(session: SparkSession) -> None:
    """End the JVM too: another session of this process starts afresh."""
    gateway = session.sparkContext._gateway
    session.stop()
    if gateway is None:
        return
    gateway.shutdown()
    process = getattr(gateway, "proc", None)
    if process is not None:
        process.stdin.close()  # the JVM ends when nobody holds the other end
        process.wait()
    SparkContext._gateway = None
    SparkContext._jvm = None
