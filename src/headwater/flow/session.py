"""One Spark session, set up for short batches, from two cores to a cluster."""

import logging
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from headwater.flow.class_archive import ClassArchive, find_archive
from headwater.flow.executors.masters import DRIVER_HOST, executor_python, executor_settings, executors_elsewhere
from headwater.flow.executors.package import package_settings, planning_environment, write_package
from headwater.flow.executors.readiness import check_executors
from headwater.flow.forking.starting import ForkServer, start_fork_server
from headwater.flow.java import find_java
from headwater.flow.jvm import Jvm, launch, spark_home
from headwater.flow.worker_daemon import compile_kernels

__all__ = ["SPARK_ERRORS", "SparkSession", "begin_session", "session_for", "start_session", "stop_session"]

SPARK_ERRORS = (PySparkException, Py4JError)
"""What Spark raises, on either side of the gateway."""

SPARK_LOG = "spark.log"
PYSPARK_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")

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
    # What a batch keeps is gone in a second: looking for the best way to compress it costs more than it saves.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    "spark.locality.wait": "0s",
    # Otherwise every call that makes a column asks the JVM three times more, only to note where it was made.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.warehouse.dir": "",
}

FORK_WORKERS = "spark.headwater.forkWorkers"
"""A setting of ours: "false" lets Spark start every Python process by itself."""

CLASS_ARCHIVE = "spark.headwater.classArchive"
"""A setting of ours: "false" lets the JVM read its classes from jars, and keeps nothing for the next start."""

JAVA_OPTIONS = "spark.driver.extraJavaOptions"
CLASS_PATH_VARIABLES = ("SPARK_CONF_DIR", "SPARK_DIST_CLASSPATH", "HADOOP_CONF_DIR", "YARN_CONF_DIR")

LOCAL = "local[*,4]"
"""All cores; a task whose worker dies is tried again, as on a cluster."""

LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
"""Without a cluster no other machine has to reach the driver."""


def young_mib(memory: str) -> int:
    """How much of the heap is for what is new: a quarter, up to what a batch of many rows needs.

    Pieces of rows are large and soon gone. In the little room that a JVM begins with they count as old before they are,
    and all of the heap is collected for them.

    >>> young_mib("1g"), young_mib("512m"), young_mib("8G"), young_mib("2048")
    (256, 128, 640, 512)
    """
    found = re.fullmatch(r"(\d+)([kmgt]?)b?", memory.strip().lower())
    if found is None:  # Spark will say so
        return 256
    mib = int(found[1]) * {"k": 1 / 1024, "": 1, "m": 1, "g": 1024, "t": 1024**2}[found[2]]
    return max(64, min(int(mib) // 4, 640))


def jvm_options(cores: int, memory: str) -> list[str]:
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
    return [
        "-Xss4m",
        f"-Xmn{young_mib(memory)}m",
        collector,
        *(f"-XX:{name}={count}" for name, count in patience.items()),
    ]


@dataclass
class Starting:
    """A session whose JVM is on its way up. The caller that begins one ends it."""

    conf: SparkConf
    jvm: Jvm
    folder: Path
    server: ForkServer | None
    archive: ClassArchive | None
    app: Path | None = None
    session: SparkSession | None = None

    def finish(self) -> SparkSession:
        global _running
        if executors_elsewhere(str(self.conf.get("spark.master"))):
            compile_kernels()  # before they are packed: no executor has to
            write_package(self.folder, self.app)
        context = SparkContext(conf=self.conf, gateway=self.jvm.gateway())
        self.session = SparkSession(context)
        _running = self
        if executors_elsewhere(str(context.master)):
            check_executors(self.session, self.folder)
        return self.session

    def end(self) -> None:
        """The JVM too: another session of this process starts afresh."""
        class_path = ""
        try:
            if self.session is not None:
                class_path = self._end_session(self.session)
        finally:
            self._end_processes()
        if self.archive is not None and class_path:
            self.archive.make_in_background(Path(os.environ["JAVA_HOME"]), class_path)

    def _end_processes(self) -> None:
        global _running
        _running = None
        self.jvm.end()
        if self.server is not None:
            self.server.stop()
        name_python(sys.executable)

    def _end_session(self, session: SparkSession) -> str:
        """What its class path was; nothing if the JVM has ended before."""
        gateway = session.sparkContext._gateway
        class_path = ""
        if gateway is not None:
            with suppress(*SPARK_ERRORS, ConnectionError):
                class_path = str(gateway.jvm.java.lang.System.getProperty("java.class.path"))
        try:
            session.stop()
            if gateway is not None:
                gateway.shutdown()
        finally:
            SparkContext._gateway = None
            SparkContext._jvm = None
        return class_path


_running: Starting | None = None
"""A process has one Spark context."""


def begin_session(
    name: str, folder: Path, *, master: str = LOCAL, settings: Mapping[str, str] | None = None, app: Path | None = None
) -> Starting:
    """Start what takes long and needs nothing of ours; what it prints goes to `folder`/spark.log. `app` is the file
    whose functions run in tasks, for executors on other machines."""
    os.environ["JAVA_HOME"] = str(find_java())
    local, settings = not executors_elsewhere(master), dict(settings or {})
    if local:
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    folder.mkdir(parents=True, exist_ok=True)
    log_to(folder / SPARK_LOG)
    if not local:
        settings |= executor_settings(master, settings, os.environ)
        if DRIVER_HOST in settings:
            os.environ.setdefault("SPARK_LOCAL_IP", settings[DRIVER_HOST])
        settings |= package_settings(folder, settings)
    conf = configuration(name, folder, master, settings)
    archive = archive_for(conf)
    add_java_options(conf, [] if archive is None else archive.options())
    with (folder / SPARK_LOG).open("ab") as log:
        forks = local and conf.get(FORK_WORKERS, "true") == "true"
        server = start_fork_server(log) if forks else None
        # Workers would take whatever "python3" is on the PATH.
        python = sys.executable if server is None else str(server.python)
        name_python(python if local else executor_python(settings, python))
        return Starting(
            conf, launch(conf.getAll(), log, {} if local else planning_environment(app)), folder, server, archive, app
        )


def log_to(file: Path) -> None:
    """PySpark's own loggers print errors that are also raised, as JSON with a stack trace of Java's, to standard error;
    they belong to what else Spark has to say."""
    for name in PYSPARK_LOGGERS:
        logger = PySparkLogger.getLogger(name)
        for handler in list(logger.handlers):
            logger.removeHandler(handler)
            handler.close()
        logger.propagate = False
        logger.addHandler(logging.FileHandler(file, delay=True))


def name_python(program: str) -> None:
    """What Spark starts when it needs a Python process."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = program


def configuration(name: str, folder: Path, master: str, settings: Mapping[str, str]) -> SparkConf:
    logging = folder / "log4j2.properties"
    logging.write_text(LOGGING)
    conf = SparkConf().setAppName(name).setMaster(master)
    local = {} if executors_elsewhere(master) else LOOPBACK
    own = {**SETTINGS, **local, "spark.sql.warehouse.dir": str(folder / "warehouse")}
    for key, value in {**own, **settings}.items():
        conf.set(key, value)
    own_options = jvm_options(os.cpu_count() or 1, conf.get("spark.driver.memory", "1g"))
    add_java_options(conf, [f"-Dlog4j2.configurationFile={logging.as_uri()}", *own_options])
    return conf


def add_java_options(conf: SparkConf, options: list[str]) -> None:
    """Before those that are there: of two that say the same the JVM takes the last."""
    there = conf.get(JAVA_OPTIONS, "")
    conf.set(JAVA_OPTIONS, f"{shlex.join(options)} {there}".strip())


def archive_for(conf: SparkConf) -> ClassArchive | None:
    if conf.get(CLASS_ARCHIVE, "true") != "true":
        return None
    path = [conf.get("spark.driver.extraClassPath", ""), *(os.environ.get(name, "") for name in CLASS_PATH_VARIABLES)]
    return find_archive(Path(os.environ["JAVA_HOME"]), spark_home() / "jars", os.pathsep.join(map(str, path)))


def start_session(
    name: str, folder: Path, *, master: str = LOCAL, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """A session of this process; what the JVM and its workers print goes to `folder`/spark.log."""
    starting = begin_session(name, folder, master=master, settings=settings)
    try:
        return starting.finish()
    except BaseException:
        starting.end()
        raise


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
    """End a session that `start_session` gave; one that has ended stays so."""
    if _running is not None and _running.session is session:
        _running.end()
