"""Run an app in a test: feed rows, process them, look at what came out."""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import SparkSession

from headwater.clock import Clock, SystemClock
from headwater.flow.commit.accounts import Account
from headwater.flow.declare.app import App
from headwater.flow.kafka.client import LATEST, Client
from headwater.flow.late.replay_batches import TakenBack
from headwater.flow.plan.batch_loop import BatchRunner
from headwater.flow.plan.planned_batches import PlannedBatch
from headwater.flow.proof.proofs import prove
from headwater.flow.proof.verification import Verified
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
    """

    def __init__(self, app: App, node: RunningNode, session: SparkSession, *, clock: Clock | None = None) -> None:
        self.app, self.node, self.session = app, node, session
        self.clock = clock or SystemClock()
        self.told: list[str] = []

    def feed(
        self, topic: str, rows: Iterable[Row], *, partition: int = 0, at: str | None = None, key: str | None = None
    ) -> Position:
        """Append rows as JSON (or bytes and None as they are); `at` is the time of the records, `key` a column that
        is their key. The topic is made, with as many partitions as needed, if there is none."""
        log = self.node.log
        if topic not in {one.name for one in log.topics()}:
            log.create_topic(topic, partitions=partition + 1)
        time_ms = self.clock.now_ms() if at is None else round(datetime.fromisoformat(at).timestamp() * 1000)
        records = [_record(row, key, time_ms) for row in rows]
        return log.append(topic, records, partition=partition)

    def run(self, *, rows_per_batch: int = ROWS_PER_BATCH, rebuild: Iterable[str] = ()) -> list[Account]:
        """Process everything there is, as `headwater run --once`; answers the accounts of every batch and output."""
        accounts: list[Account] = []
        running = RunningApp(
            self.app,
            self.session,
            RunSettings(
                self.node.data, self.node.kafka_address, once=True, rows_per_batch=rows_per_batch, retries=NO_RETRIES
            ),
            clock=self.clock,
            watch=lambda job, progress: accounts.extend(progress.record.accounts.values()),
            tell=self.told.append,
            rebuild=frozenset(rebuild),
        )
        try:
            running.start()
            running.wait()
        finally:
            running.stop()
        return accounts

    def run_at(self, moment: str) -> None:
        """Process everything there is in one batch of each job, planned for a moment: all its rows are processed then,
        for windows by processing time. An app is run so from its beginning, or with `run`."""
        running = RunningApp(
            self.app, self.session, RunSettings(self.node.data, self.node.kafka_address), clock=self.clock
        )
        time_ms = round(datetime.fromisoformat(moment).timestamp() * 1000)
        try:
            for job, folder, processor in running.standing():
                last = folder.last_finished()
                ends = {topic: self._ends(topic) for topic in job.topics}
                start = last.end if last else {topic: dict.fromkeys(parts, 0) for topic, parts in ends.items()}
                runner = BatchRunner(self.session, job, folder, processor, running.settings.where(self.app))
                runner.run(PlannedBatch(last.batch + 1 if last else 0, start, ends, time_ms))
        finally:
            running.stop()

    def _ends(self, topic: str) -> dict[int, int]:
        """Where the next record of each partition will be."""
        places = [TopicPartition(topic, number) for number in range(self.node.log.topic(topic).partitions)]
        with Client(self.node.kafka_address) as client:
            found = client.offsets(dict.fromkeys(places, LATEST))
        return {place.partition: offset for place, offset in found.items()}

    def take_back_late(self) -> dict[str, TakenBack]:
        """Correct windows by the rows that came too late for them, as `headwater late replay`."""
        running = RunningApp(
            self.app, self.session, RunSettings(self.node.data, self.node.kafka_address), clock=self.clock
        )
        try:
            return running.take_back_late()
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
                said = {name: row[name] for name in (*Account().to_json(),)}
                total += Account.from_json(said)
        return total

    def prove(self, view: str) -> Verified:
        """Recompute a view in batch and compare."""
        return prove(self.app, view, self.session, self.node.data, self.node.kafka_address, direct=True)


def _record(row: Row, key: str | None, time_ms: int) -> Record:
    if isinstance(row, str):
        row = row.encode()
    if isinstance(row, bytes) or row is None:
        return Record(row, timestamp_ms=time_ms)
    own = None if key is None else str(row[key]).encode()
    return Record(json.dumps(row, default=str).encode(), key=own, timestamp_ms=time_ms)
