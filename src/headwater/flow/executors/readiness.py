"""Whether the executors of a cluster can do the work of flows, asked before the first batch.

What is wrong with one of them would show late and badly: state in a folder that only it has, or rows that another
version of a library reads otherwise.
"""

import json
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from socket import gethostname
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import SparkSession

from headwater.clock import Clock, SystemClock
from headwater.errors import FlowError
from headwater.flow.executors.masters import EXECUTOR_PYTHON
from headwater.flow.rows.arrow_types import spark_schema

PATIENCE_MS, SETTLED_MS, LOOK_SECONDS = 300_000, 1_500, 0.1
TASKS_PER_CORE = 2
LIBRARIES = ("numba", "numpy", "pyarrow")
"""What makes results: a state that one version has written is read by all."""
ANSWER = pa.schema([("_answer", pa.string())])


@dataclass(frozen=True)
class Answer:
    """What a task of an executor has found there."""

    host: str
    python: str
    versions: dict[str, str]
    shared: bool
    """Whether it has read in the job's folder what the driver has written there, and could write."""


@dataclass(frozen=True)
class ReadinessTask:
    """Looks at the Python of its executor, and at the folder that it has to share with the driver."""

    file: str
    token: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            answers = [json.dumps(asdict(self.answer())) for _ in range(batch.num_rows)]
            yield pa.RecordBatch.from_arrays([pa.array(answers, pa.string())], schema=ANSWER)

    def answer(self) -> Answer:
        return Answer(gethostname(), own_python(), own_versions(), self._shares())

    def _shares(self) -> bool:
        file, beside = Path(self.file), Path(f"{self.file}.{uuid4().hex}")
        try:
            beside.write_text(self.token)
            beside.unlink()
            return file.read_text() == self.token
        except OSError:
            return False


def own_python() -> str:
    return ".".join(map(str, sys.version_info[:2]))


def own_versions() -> dict[str, str]:
    """Of the libraries that make results; "missing" if there is none."""
    found = dict.fromkeys(LIBRARIES, "missing")
    for name in LIBRARIES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def check_executors(session: SparkSession, folder: Path, clock: Clock | None = None) -> None:
    """FlowError if no executor comes, or if one cannot work: one sentence that names its host."""
    wait_for_executors(session, clock or SystemClock())
    file, token = folder / f".readiness-{uuid4().hex}", uuid4().hex
    count = TASKS_PER_CORE * int(session.sparkContext.defaultParallelism)
    try:
        file.write_text(token)
        task = ReadinessTask(str(file), token)
        answers = session.range(0, count, 1, count).mapInArrow(task, spark_schema(ANSWER)).toArrow()
    finally:
        file.unlink(missing_ok=True)
    found = [Answer(**json.loads(one)) for one in answers.column(0).to_pylist()]
    refuse_unfit(found, folder)


def wait_for_executors(session: SparkSession, clock: Clock) -> None:
    """Until there is one, and no more come: the number of cores decides how many shards a new job gets."""
    context, pause = session.sparkContext, threading.Event()
    begun_ms = clock.elapsed_ms()
    cores, since_ms = 0, begun_ms
    while True:
        now_ms = clock.elapsed_ms()
        # The driver is in it too.
        there = int(context._jsc.sc().getExecutorMemoryStatus().size()) - 1
        known = int(context.defaultParallelism) if there > 0 else 0
        if known != cores:
            cores, since_ms = known, now_ms
        if cores and now_ms - since_ms >= SETTLED_MS:
            return
        if not cores and now_ms - begun_ms > PATIENCE_MS:
            raise FlowError(
                f"no executor has come from {context.master} within {PATIENCE_MS // 1000} s",
                "Look whether it has workers with free cores and memory (spark.cores.max, spark.executor.memory), and "
                "whether they reach the driver at its spark.driver.host.",
            )
        pause.wait(LOOK_SECONDS)


def refuse_unfit(answers: Iterable[Answer], folder: Path) -> None:
    """FlowError for the first thing that keeps an executor from its work."""
    python, own = own_python(), own_versions()
    for one in sorted(answers, key=lambda answer: answer.host):
        if one.python != python:
            raise FlowError(
                f"executors on {one.host} run Python {one.python}, and the driver runs {python}",
                f"Name the same version with --conf {EXECUTOR_PYTHON}=PATH.",
            )
        if one.versions != own:
            raise FlowError(
                f"executors on {one.host} have {listed(one.versions)}, and the driver has {listed(own)}",
                "Install the driver's versions there; headwater itself is sent along.",
            )
        if not one.shared:
            raise FlowError(
                f"executors on {one.host} do not see {folder} as the driver does",
                "Put the data directory on a file system that the driver and all executors share, under one path.",
            )


def listed(versions: Mapping[str, str]) -> str:
    """
    >>> listed({"numpy": "2.2.0", "pyarrow": "missing"})
    'numpy 2.2.0, pyarrow missing'
    """
    return ", ".join(f"{name} {said}" for name, said in sorted(versions.items()))
