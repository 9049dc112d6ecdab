"""An app's jobs as running queries."""

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headwater.clock import Clock, SystemClock
from headwater.errors import FlowError, HeadwaterError, InvalidDeclaration, JvmEnded
from headwater.flow.declare.app import App
from headwater.flow.declare.graph import Job, plan
from headwater.flow.declare.naming import accounts_topic, group_of, late_topic, poisoned_topic
from headwater.flow.declare.registered import settle
from headwater.flow.job.admitting import Admitting
from headwater.flow.job.comparing import CompareOperator
from headwater.flow.job.controlling import Control, control_of
from headwater.flow.job.deploying import Deployment, refuse_strangers
from headwater.flow.job.explaining import explain
from headwater.flow.job.folder import JobFolder
from headwater.flow.job.identity import identify
from headwater.flow.job.operating import Operators
from headwater.flow.job.outputs import sink_of, topic_sink
from headwater.flow.job.processing import Outputs, Processor, Progress
from headwater.flow.job.resharding import finish_resharding
from headwater.flow.job.resolving import Resolved, resolve
from headwater.flow.job.sources import load, source_options
from headwater.flow.job.spark_checkpoint import mend
from headwater.flow.job.taking_back import TakenBack, Taking
from headwater.flow.job.windowing import WindowOperator
from headwater.flow.kafka.client import Client

ROWS_PER_BATCH = 1_000_000
BYTES_PER_BATCH = 256 * 1024**2


@dataclass(frozen=True)
class RunSettings:
    data: Path
    address: str
    once: bool = False
    rows_per_batch: int = ROWS_PER_BATCH
    bytes_per_batch: int = BYTES_PER_BATCH
    direct: bool = True
    """Read segment files of the log, which is on this machine."""

    def where(self) -> dict[str, str]:
        reach = {"data": str(self.data)} if self.direct else {"address": self.address}
        return {
            **reach,
            "maxRowsPerBatch": str(self.rows_per_batch),
            "maxBytesPerBatch": str(self.bytes_per_batch),
        }


Watch = Callable[[str, Progress], None]


@contextmanager
def speaking_to_spark() -> Iterator[None]:
    """JvmEnded for all that Spark's Python side raises when nobody answers it."""
    try:
        yield
    except Py4JJavaError:
        raise
    except (Py4JError, ConnectionError) as error:
        raise JvmEnded from error


@dataclass
class Standing:
    """A job that can be run, and what is asked of it."""

    job: Job
    folder: JobFolder
    process: Callable[[Any, int], None]
    control: Control

    @property
    def paused(self) -> bool:
        return self.control.paused


def paused_sentence(app: str, job: str) -> str:
    return f'job {job} is paused; "headwater flow resume {app}.{job}" lets it go on'


@dataclass
class RunningApp:
    """Start with `start`; `wait` returns when all queries have ended, and raises what ended one of them."""

    app: App
    session: SparkSession
    settings: RunSettings
    clock: Clock = field(default_factory=SystemClock)
    watch: Watch = lambda job, progress: None
    tell: Callable[[str], None] = lambda sentence: None
    rebuild: frozenset[str] = frozenset()
    """Outputs to build anew from the log."""
    queries: dict[str, StreamingQuery] = field(default_factory=dict)
    failures: dict[str, HeadwaterError] = field(default_factory=dict)
    _ending: ExitStack = field(default_factory=ExitStack)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _under_way: dict[str, threading.Lock] = field(default_factory=dict)
    """Held by each job while it works on a batch."""
    _standing: dict[str, "Standing"] = field(default_factory=dict)
    """All jobs that were started, whether a query runs for them or not."""

    def start(self) -> None:
        """Check the whole app, then start a query for each job."""
        if unknown := sorted(self.rebuild - self.app.outputs.keys()):
            known = ", ".join(self.app.outputs)
            raise InvalidDeclaration(f"app {self.app.name} has no output {unknown[0]} to rebuild", f"It has: {known}.")
        settle(self.app, self.settings.data)
        jobs = plan(self.app, explain)
        with speaking_to_spark():
            resolved = [resolve(self.session, job) for job in jobs]
            self._make_topics(jobs)
            for job, columns in zip(jobs, resolved, strict=True):
                folder, processor = self.prepare(job, columns)
                process = self._guarded(job.name, processor.process)
                self._standing[job.name] = Standing(job, folder, process, control_of(folder.path))
                if not self._standing[job.name].paused or self.settings.once:
                    self.queries[job.name] = self._query(job, folder, process)
                else:
                    self.tell(paused_sentence(self.app.name, job.name))

    def standing(self, only: str = "") -> Iterator[tuple[Job, JobFolder, Processor]]:
        """All jobs, or one, ready for a batch that no query asks for."""
        settle(self.app, self.settings.data)
        jobs = [job for job in plan(self.app, explain) if only in ("", job.name)]
        with speaking_to_spark():
            self._make_topics(jobs)
            for job in jobs:
                yield job, *self.prepare(job, resolve(self.session, job))

    def take_back_late(self, only: str = "") -> dict[str, TakenBack]:
        """Correct windows by the rows that came too late for them, for every job or one; answers by name of the job."""
        return {
            job.name: Taking(self.session, job, folder, processor, self.clock).run()
            for job, folder, processor in self.standing(only)
        }

    def _make_topics(self, jobs: list[Job]) -> None:
        """An app may be started before the first producer is."""
        with Client(self.settings.address) as client:
            there = client.topics()
            for topic in sorted({topic for job in jobs for topic in job.topics} - there.keys()):
                client.create_topic(topic)

    def prepare(self, job: Job, resolved: Mapping[str, Resolved]) -> tuple[JobFolder, Processor]:
        """Everything a job needs before its first batch; JobRefused if its checkpoint or outputs are not its own."""
        settings, app = self.settings, self.app.name
        folder = JobFolder(settings.data / "flows" / app / job.name)
        folder.lock()
        self._ending.callback(folder.unlock)
        finish_resharding(folder)
        client = Client(settings.address)
        self._ending.callback(client.close)
        identity = identify(folder, app=app, job=job.name, cluster=client.cluster_id(), shards=self._shards())
        mend(folder)  # only now: a folder without an identity has no checkpoint
        deployment = Deployment(
            self.session, app, job, resolved, identity, folder, client, settings.where(), self.clock,
            settings.rows_per_batch, settings.data, self.tell,
        )  # fmt: skip
        deployment.settle(self.rebuild)
        outputs = self._outputs(job, resolved, folder, client)
        refuse_strangers(job, folder, identity, outputs.sinks)
        operators = Operators(folder.state, job.operators, shards=identity.shards)
        self._ending.callback(operators.close)
        windows = {
            node: one for output in resolved.values() for node, one in output.operators.items()
            if isinstance(one, WindowOperator | CompareOperator)
        }  # fmt: skip
        admitting = Admitting(self.session, app, job, folder, windows, settings.where(), client)
        processor = Processor(
            app, job, identity.job_id, folder, operators, outputs,
            resolved, client, shards=identity.shards, clock=self.clock, group=group_of(app, job.name),
            where=settings.where(), admitting=admitting, watch=lambda progress: self.watch(job.name, progress),
        )  # fmt: skip
        return folder, processor

    def _outputs(self, job: Job, resolved: Mapping[str, Resolved], folder: JobFolder, client: Client) -> Outputs:
        app, data = self.app.name, self.settings.data
        sinks = {}
        for one in job.outputs:
            sinks[one.name] = sink_of(
                app, one, resolved[one.name], data=data, folder=folder.sinks, client=client, stopping=self._stopping
            )
            self._ending.callback(sinks[one.name].close)
        own = [poisoned_topic(app, job.name), late_topic(app, job.name), accounts_topic(app)]
        return Outputs(sinks, *(topic_sink(topic, folder.sinks, client) for topic in own))

    def _guarded(self, name: str, process: Callable[[Any, int], None]) -> Callable[[Any, int], None]:
        """Spark makes a text of what is raised in a batch; what we raise ourselves is kept as it is."""

        batch_under_way = self._under_way.setdefault(name, threading.Lock())

        def guarded(frame: Any, batch: int) -> None:
            try:
                with batch_under_way:
                    if self._stopping.is_set() or self._standing[name].paused:
                        # To return would be to say that the batch is done.
                        raise FlowError(f"job {name} is being stopped before batch {batch}")
                    process(frame, batch)
            except HeadwaterError as error:
                self.failures[name] = error
                raise

        return guarded

    def _query(self, job: Job, folder: JobFolder, process: Callable[[Any, int], None]) -> StreamingQuery:
        options = {**source_options(job, self.settings.where()), "poisoned": "stage", "stage": str(folder.stage)}
        frame = load(self.session.readStream, options)
        writer = frame.writeStream.queryName(f"{self.app.name}.{job.name}").foreachBatch(process)
        writer = writer.option("checkpointLocation", str(folder.spark))
        if self.settings.once:
            writer = writer.trigger(availableNow=True)
        return writer.start()

    def _shards(self) -> int:
        """A power of two: so a shard of state is a partition of Spark's shuffle (operating.py)."""
        wanted = self.app.shards or int(self.session.sparkContext.defaultParallelism) or os.cpu_count() or 1
        return 1 << max(0, wanted - 1).bit_length()

    def obey(self) -> None:
        """Pause, go on and start anew as it was asked of jobs. Not where all that is there is to be done once."""
        if self.settings.once:
            return
        for name, standing in self._standing.items():
            before, asked = standing.control, control_of(standing.folder.path)
            if asked == before:
                continue
            standing.control = asked
            if not before.paused:
                self._end_query(name)
            if asked.paused:
                self.tell(paused_sentence(self.app.name, name))
            else:
                self.tell(f"job {name} goes on")
                with speaking_to_spark():
                    self.queries[name] = self._query(standing.job, standing.folder, standing.process)

    def _end_query(self, name: str) -> None:
        """Between two batches, so that none has to be run again."""
        standing, asked = self._standing[name], self._standing[name].control
        standing.control = replace(asked, paused=True)  # from here on no batch begins
        with self._under_way[name]:
            pass  # let go before Spark is asked to stop: a batch that waits here has to be refused first
        with speaking_to_spark():
            self.queries.pop(name).stop()
        self.failures.pop(name, None)  # that of the batch which did not begin
        standing.control = asked

    def wait(self, seconds: float | None = None) -> bool:
        """Did all queries end within the time? Raises the first failure, as a sentence. Jobs that are paused have not
        ended."""
        self.obey()
        ended = self._queries_ended(seconds)
        paused = not self.settings.once and any(one.paused for one in self._standing.values())
        if ended and paused:
            self._stopping.wait(seconds)
        return ended and not paused

    def _queries_ended(self, seconds: float | None) -> bool:
        deadline = None if seconds is None else self.clock.elapsed_ms() + round(1000 * seconds)
        for name, query in self.queries.items():
            left = None if deadline is None else max(0.001, (deadline - self.clock.elapsed_ms()) / 1000)
            try:
                with speaking_to_spark():
                    ended = query.awaitTermination() if left is None else query.awaitTermination(left)  # type: ignore[arg-type]  # seconds may have a fraction
            except StreamingQueryException as error:
                raise self.failures.get(name) or FlowError(f"job {name} stopped: {explain(error)}") from error
            if left is not None and not ended:
                return False
        return True

    def stop(self) -> None:
        """Let the batches under way end, and give everything back."""
        self._stopping.set()
        for batch in self._under_way.values():
            with batch:  # Spark would tear it in two; whole, it need not be run again
                continue
        try:
            with speaking_to_spark():
                for query in self.queries.values():
                    query.stop()
        except JvmEnded:
            return  # a batch may still be writing what it has: until this process ends, nobody else may
        self._ending.close()
