"""Run an app in a test: feed rows, process them, look at what came out."""

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import SparkSession

from headwater.clock import Clock, SystemClock
from headwater.errors import HeadwaterError, JobRefused
from headwater.flow.commit.accounts import Account
from headwater.flow.commit.job_folder import JobFolder
from headwater.flow.declare.app import App
from headwater.flow.declare.topology.graph import Job, check, plan
from headwater.flow.declare.topology.registered import settle
from headwater.flow.kafka.client import LATEST, Client
from headwater.flow.late.replay_batches import ReplayedLate
from headwater.flow.local.columns import local_columns
from headwater.flow.local.handover import hand_over
from headwater.flow.local.jobs import is_untranslatable, local_jobs, reason_of
from headwater.flow.local.session import LocalSession
from headwater.flow.plan.batch_loop import BatchRunner
from headwater.flow.plan.explanations import explain
from headwater.flow.plan.planned_batches import PlannedBatch
from headwater.flow.plan.watermarks import Clocks
from headwater.flow.proof.proofs import prove
from headwater.flow.proof.verification import Verified
from headwater.flow.run.fed_records import flush_times, no_more_before, table_records
from headwater.flow.run.running_app import NO_RETRIES, ROWS_PER_BATCH, RunningApp, RunSettings
from headwater.log.log import Log
from headwater.record import Position, Record, TopicPartition
from headwater.views.view import View

Row = Mapping[str, Any] | bytes | str | None


class RunningNode(Protocol):
    """A node of this process (headwater.node.Node)."""

    data: Path

    @property
    def log(self) -> Log: ...

    @property
    def kafka_address(self) -> str: ...


class AppTester:
    """An app on a node.

    tester.feed("orders", [{"id": "a", "amount": 5}], at="2026-01-01T00:00:00Z")
    tester.run()
    tester.rows("totals")

    With a session, Spark runs all of it. With a function that starts one, jobs run in this process where they can, and
    Spark is started for the others, and for what compares with it.
    """

    def __init__(
        self, app: App, node: RunningNode, session: SparkSession | Callable[[], SparkSession], *,
        clock: Clock | None = None, state: str = "",
    ) -> None:  # fmt: skip
        """`state` is where jobs are kept, if not in the data of the node: the URL of a bucket, or a folder."""
        self._state = state
        self.app, self.node = app, node
        self.clock = clock or SystemClock()
        self.reported: list[str] = []
        self._start = session if callable(session) else None
        self._started = None if callable(session) else session
        self._fallen: dict[str, str] = {}
        """Jobs that ran without Spark until something came that only Spark can do, and what it was."""

    @property
    def session(self) -> SparkSession:
        """Spark's; started now if it was not."""
        if self._started is None:
            assert self._start is not None
            self._started = self._start()
        return self._started

    @property
    def needs_spark(self) -> dict[str, str]:
        """Outputs that cannot be run without Spark, and why; all outputs of one job go the same way."""
        if self._start is None:
            return dict.fromkeys(self.app.outputs, "its session was given")
        settle(self.app, self.node.data)
        return dict(local_jobs(self.app, self._fallen).reasons)

    def feed(
        self, topic: str, rows: Iterable[Row], *, partition: int = 0, at: str | None = None, key: str | None = None
    ) -> Position:
        """Append rows as JSON (or bytes and None as they are); `at` is the time of the records, `key` a column that
        is their key. The topic is made, with as many partitions as needed, if there is none."""
        time_ms = self._time_ms(at)
        return self._append(topic, [_record(row, key, time_ms) for row in rows], partition)

    def _time_ms(self, at: str | None) -> int:
        return self.clock.now_ms() if at is None else round(datetime.fromisoformat(at).timestamp() * 1000)

    def _append(self, topic: str, records: list[Record], partition: int = 0) -> Position:
        log = self.node.log
        if topic not in {one.name for one in log.topics()}:
            log.create_topic(topic, partitions=partition + 1)
        return log.append(topic, records, partition=partition)

    def feed_rows(
        self, table: str, rows: Iterable[Mapping[str, Any]] = (), *, deleted: Iterable[Any] = (), at: str | None = None
    ) -> Position:
        """Append rows of a table, as its capture would: `rows` as they are after a change, `deleted` the keys of rows
        that are gone (a value, or a mapping where the key has several columns)."""
        time_ms = self._time_ms(at)
        source = self.app.sources.get(table)
        records = table_records(source, table, rows, deleted, time_ms)
        assert source is not None
        return self._append(source.topic, records)

    def run(
        self, *, rows_per_batch: int = ROWS_PER_BATCH, rebuild: Iterable[str] = (), rollback: Iterable[str] = ()
    ) -> list[Account]:
        """Process everything there is, as `headwater run --once`; answers the accounts of every batch and output."""
        accounts: list[Account] = []
        settings = RunSettings(
            self.node.data,
            self.node.kafka_address,
            once=True,
            rows_per_batch=rows_per_batch,
            retries=NO_RETRIES,
            state=self._state,
        )

        def run_once(session: SparkSession, only: frozenset[str] | None) -> None:
            running = RunningApp(
                self.app,
                session,
                settings,
                clock=self.clock,
                watch=lambda job, progress: accounts.extend(progress.record.accounts.values()),
                report=self.reported.append,
                rebuild=frozenset([*rebuild, *rollback]),
                rollback=frozenset(rollback),
                only=only,
            )
            try:
                running.start()
                running.wait()
            finally:
                running.stop()

        self._run_each(run_once)
        return accounts

    def _run_each(self, run: Callable[[SparkSession, frozenset[str] | None], None]) -> None:
        """Without Spark the jobs that can, with it the others."""
        if self._start is None:
            run(self.session, None)
            return
        settle(self.app, self.node.data)
        found = local_jobs(self.app, self._fallen)
        if not found.names:
            check(self.app, explain)  # a mistake that shows without Spark is raised before it is started
        if found.names:
            try:
                with local_columns():
                    run(LocalSession.as_spark(), found.names)
            except JobRefused:  # whether the code has changed since Spark ran it, Spark has to say
                self._fallen |= dict.fromkeys(found.names, "its checkpoint is not of a run without Spark")
            except HeadwaterError as error:
                if not is_untranslatable(error):
                    raise
                self._hand_over(reason_of(error))
            found = local_jobs(self.app, self._fallen)
        if found.reasons:
            self._say(found.reasons)
            run(self.session, None if not found.names else self._jobs_of(found.reasons))

    def _hand_over(self, why: str) -> None:
        """Let Spark run all jobs from here on."""
        if self._start is None:
            return
        names = local_jobs(self.app, self._fallen).names
        if names:
            hand_over(self.app, self.session, names, self._folder)
            self._fallen |= dict.fromkeys(names, why)

    def _folder(self, job: str) -> JobFolder:
        return JobFolder(self.node.data / "flows" / self.app.name / job)

    def _jobs_of(self, outputs: Iterable[str]) -> frozenset[str]:
        with local_columns():
            jobs = plan(self.app, explain)
        return frozenset(job.name for job in jobs if any(one.name in outputs for one in job.outputs))

    def _say(self, reasons: Mapping[str, str]) -> None:
        for output, why in reasons.items():
            said = f"{output} needs Spark: {why}"
            if said not in self.reported:
                self.reported.append(said)
                sys.stderr.write(f"{said}\n")

    def flush(self) -> list[Account]:
        """Process everything there is, then move time past the last rows, as if their producers had said that nothing
        more comes: windows that they lie in are final, and what waited for more is emitted. Rows that are fed later
        with earlier times are late."""
        accounts = self.run()
        with local_columns() if self._start is not None else nullcontext():
            jobs = plan(self.app, explain)
        for topic, until_us in flush_times(jobs, self._newest).items():
            partitions = self.node.log.topic(topic).partitions
            for partition in range(partitions):
                self.node.log.append(topic, [no_more_before(until_us)], partition=partition)
        return accounts + self.run()

    def _newest(self, job: Job) -> Clocks:
        """How far the sources of a job have come in time."""
        last = self._folder(job.name).last_finished()
        return last.clocks if last else Clocks()

    def run_at(self, moment: str) -> None:
        """Process everything there is in one batch of each job, planned for a moment: all its rows are processed then,
        for windows by processing time. An app is run so from its beginning, or with `run`."""
        time_ms = round(datetime.fromisoformat(moment).timestamp() * 1000)

        def run_once(session: SparkSession, only: frozenset[str] | None) -> None:
            settings = RunSettings(self.node.data, self.node.kafka_address, state=self._state)
            running = RunningApp(self.app, session, settings, clock=self.clock, only=only)
            try:
                for processor in running.processors():
                    last = processor.context.folder.last_finished()
                    ends = {topic: self._ends(topic) for topic in processor.context.job.topics}
                    start = last.end if last else {topic: dict.fromkeys(parts, 0) for topic, parts in ends.items()}
                    planned = PlannedBatch(last.batch + 1 if last else 0, start, ends, time_ms)
                    BatchRunner(processor).run(planned)
            finally:
                running.stop()

        self._run_each(run_once)

    def _ends(self, topic: str) -> dict[int, int]:
        """Where the next record of each partition will be."""
        places = [TopicPartition(topic, number) for number in range(self.node.log.topic(topic).partitions)]
        with Client(self.node.kafka_address) as client:
            found = client.offsets(dict.fromkeys(places, LATEST))
        return {place.partition: offset for place, offset in found.items()}

    def replay_late(self) -> dict[str, ReplayedLate]:
        """Correct windows by the rows that were late for them, as `headwater late replay`; with Spark."""
        self._hand_over("late rows were replayed")
        running = RunningApp(
            self.app,
            self.session,
            RunSettings(self.node.data, self.node.kafka_address, state=self._state),
            clock=self.clock,
        )
        try:
            return running.replay_late()
        finally:
            running.stop()

    def view(self, name: str) -> View:
        return View.open(self.app.store or self.node.data, self.app.name, name)

    def rows(self, view: str) -> list[dict[str, Any]]:
        """All rows of a view, in the order of its key."""
        with self.view(view) as opened:
            return opened.rows(order=list(opened.key))

    def records(self, topic: str) -> list[Record]:
        """Everything in a topic, partition by partition."""
        partitions = self.node.log.topic(topic).partitions
        return [record for number in range(partitions) for record in self.node.log.read(topic, number)]

    def values(self, topic: str) -> list[Any]:
        """The same, only values, as what their JSON says."""
        return [None if record.value is None else json.loads(record.value) for record in self.records(topic)]

    def account(self, output: str) -> Account:
        """What became of all rows so far, from the accounts topic."""
        total = Account()
        for row in self.values(f"{self.app.name}.accounts"):
            if row["output"] == output:
                said = {name: row[name] for name in Account().to_json() if name in row}
                total += Account.from_json(said)
        return total

    def prove(self, view: str) -> Verified:
        """Recompute a view in batch, with Spark, and compare."""
        return prove(self.app, view, self.session, self.node.data, self.node.kafka_address, direct=True)


def _record(row: Row, key: str | None, time_ms: int) -> Record:
    if isinstance(row, str):
        row = row.encode()
    if isinstance(row, bytes) or row is None:
        return Record(row, timestamp_ms=time_ms)
    own = None if key is None else str(row[key]).encode()
    return Record(json.dumps(row, default=str).encode(), key=own, timestamp_ms=time_ms)
