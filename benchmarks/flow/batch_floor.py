"""The floor of a batch: from a record that an idle job is to process to a finished batch, and where the time goes.

One job counts by key, in two shards. Each batch has ten records. Node, loop and Spark's driver share a process.
"""

import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any
from unittest.mock import patch

import headwater as hw
from benchmarks.flow.apart import Bench
from benchmarks.flow.names import HEADWATER
from benchmarks.results import Case, percentile
from headwater.flow.commit.batch_evaluation import BatchEvaluator
from headwater.flow.commit.batch_processor import Processor, Progress
from headwater.flow.commit.job_folder import JobFolder
from headwater.flow.operate.job_operators import Operators
from headwater.flow.rows.batch_frames import BatchFrames
from headwater.flow.run.app_tester import AppTester
from headwater.flow.run.running_app import RunningApp, RunSettings
from headwater.flow.session import start_session, stop_session
from headwater.flow.sinks.topics.topic import TopicSink
from headwater.flow.sinks.view import ViewSink
from headwater.flow.source.batch_plan.planner import BatchPlanner
from headwater.testing import running_node

SECTION = "batch-floor"
PAUSE_SECONDS = 0.2
WARM_UP = 10
ROWS = 10
STAGES: dict[str, tuple[Any, str]] = {
    "plan: ask the log": (BatchPlanner, "next"),
    "plan: write planned.json": (JobFolder, "plan"),
    "make the frame": (BatchFrames, "frame"),
    "process": (Processor, "process"),
    "process: tasks": (BatchEvaluator, "_collect"),
    "process: commit state": (Operators, "commit"),
    "process: write the view": (ViewSink, "publish"),
    "process: write topics": (TopicSink, "publish"),
    "process: request a wakeup": (Processor, "_request_wakeup"),
    "process: write batches/N.json": (JobFolder, "finish"),
    "process: commit offsets": (Processor, "_commit_offsets"),
    "process: clean": (Processor, "_clean"),
}


class Stopwatch:
    """Milliseconds of each stage, batch by batch."""

    def __init__(self) -> None:
        self.batches: list[dict[str, float]] = []
        self._now: dict[str, float] = defaultdict(float)

    def next_batch(self) -> None:
        self.batches.append(dict(self._now))
        self._now.clear()

    @contextmanager
    def installed(self) -> Iterator[None]:
        patches = [patch.object(owner, name, self._timed(stage, getattr(owner, name)))
                   for stage, (owner, name) in STAGES.items()]  # fmt: skip
        for one in patches:
            one.start()
        try:
            yield
        finally:
            for one in patches:
                one.stop()

    def _timed(self, stage: str, function: Any) -> Any:
        @wraps(function)
        def timed(*arguments: Any, **named: Any) -> Any:
            begin = time.perf_counter()
            if stage.startswith("plan: ask"):
                self._now[stage] = 0.0  # only the look that found something
            try:
                return function(*arguments, **named)
            finally:
                self._now[stage] += 1000 * (time.perf_counter() - begin)

        return timed


def app_of() -> hw.App:
    app = hw.App("floor", shards=2)
    events = app.stream("events", "k long, v long")
    app.view(key="k", name="counts")(lambda: events.by("k").count())
    return app


def measure(bench: Bench) -> None:
    bench.progress.say(f"batch-floor: {bench.plan.floor_batches} batches of {ROWS} records")
    for part, values in milliseconds(bench.plan.floor_batches).items():
        shown = {"p50": percentile(values, 0.5), "p99": percentile(values, 0.99)}
        bench.results.add(Case(SECTION, (part,)), HEADWATER, **shown)


def milliseconds(batches: int) -> dict[str, list[float]]:
    """Milliseconds by stage."""
    watch, whole = Stopwatch(), list[float]()
    done = threading.Semaphore(0)
    finished_at = [0.0]

    def finished(job: str, progress: Progress) -> None:
        finished_at[0] = time.perf_counter()
        done.release()

    with tempfile.TemporaryDirectory() as folder, running_node(Path(folder) / "data") as node:
        session = start_session("batch floor", Path(folder) / "spark")
        tester = AppTester(app_of(), node, session)
        tester.feed("events", rows(0))
        running = RunningApp(tester.app, session, RunSettings(node.data, node.kafka_address), watch=finished)
        try:
            with watch.installed():
                running.start()
                done.acquire()
                for number in range(WARM_UP + batches):
                    time.sleep(PAUSE_SECONDS)
                    watch.next_batch()
                    tester.feed("events", rows(number))
                    fed = time.perf_counter()
                    done.acquire()
                    whole.append(1000 * (finished_at[0] - fed))
                time.sleep(PAUSE_SECONDS)
                watch.next_batch()
        finally:
            running.stop()
            stop_session(session)
    found = {"acknowledged to finished": whole[-batches:]}
    for stage in STAGES:
        found[stage] = [one.get(stage, 0.0) for one in watch.batches[-batches:]]
    return found


def rows(number: int) -> list[dict[str, int]]:
    return [{"k": (ROWS * number + one) % 100, "v": 1} for one in range(ROWS)]
