"""Crashes without killing anything: what was under way is thrown away, and all begins again from what is on disk."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from headwater.flow.declare.topology.graph import plan
from headwater.flow.plan.batch_loop import BatchRunner
from headwater.flow.plan.explanations import explain
from headwater.flow.plan.planned_batches import Offsets, PlannedBatch
from headwater.flow.plan.resolution import resolve
from headwater.flow.run.running_app import RunningApp, RunSettings
from headwater.node import Node
from headwater.record import Record
from tests.crash.flow import shop
from tests.crash.flow.feeding import Fed, Feed
from tests.crash.flow.moments import Moment, arm
from tests.crash.flow.oracle import Place, differences
from tests.flow.engines import Engine, session_of

ROWS = 30


class Crash(BaseException):
    """Nobody catches it by mistake."""


def crash() -> None:
    raise Crash


@dataclass
class Life:
    """An app on a node of this process, batch by batch."""

    engine: Engine
    node: Node
    feed: Feed = field(default_factory=lambda: Feed(Random(1), customers=False))
    batch: int = 0
    _read: Counter[int] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.node.log.create_topic(shop.ORDERS, partitions=shop.PARTITIONS)
        self.node.log.create_topic(shop.TOTALS)
        self.node.log.create_topic(shop.VISITS)

    @property
    def place(self) -> Place:
        data = Path(self.node.data)
        return Place(data, self.node.kafka_address, f"sqlite:///{data / 'other.sqlite'}")

    def write(self) -> list[Fed]:
        fresh = self.feed.more(ROWS)
        for one in fresh:
            self.node.log.append(shop.ORDERS, Record(one.value, timestamp_ms=one.time_ms), partition=one.partition)
        return fresh

    def step(self, *, crash_at: Moment | None = None, nth: int = 1) -> None:
        """One more batch; with a moment to crash at it comes twice, as after a restart."""
        start, end = dict(self._read), self._read + Counter(one.partition for one in self.write())
        span = {shop.ORDERS: start}, {shop.ORDERS: dict(end)}
        if crash_at is not None:
            disarm = arm(crash_at, nth, crash)
            try:
                self._process(*span)
            except Crash:
                pass
            else:
                raise AssertionError(f"{crash_at} did not come {nth} times")
            finally:
                disarm()
        self._process(*span)
        self._read, self.batch = end, self.batch + 1

    def _process(self, start: Offsets, end: Offsets) -> None:
        settings = RunSettings(self.place.data, self.place.address)
        session, columns = session_of(self.engine)
        running = RunningApp(shop.declare(self.place.store, self.place.files, customers=False), session, settings)
        whole = {topic: {number: parts.get(number, 0) for number in end[topic]} for topic, parts in start.items()}
        try:
            with columns():
                (job,) = plan(running.app, explain)
                processor = running.prepare(job, resolve(session, job))
                planned = PlannedBatch(self.batch, whole, end, time_ms=1)
                BatchRunner(processor).run(planned)
        finally:
            running.stop()

    def differences(self, *, least: int = shop.LEAST[0]) -> list[str]:
        return differences(self.place, self.feed.fed, least=least)


def found_after_a_crash(engine: Engine, node: Node, moment: Moment, nth: int = 1) -> list[str]:
    """What is wrong after a batch that crashed at a moment and came again, or after the next.

    The next may hide what is wrong, because it says of each key what now holds; or be the first to show it.
    """
    life = Life(engine, node)
    life.step()
    life.step(crash_at=moment, nth=nth)
    found = life.differences()
    life.step()
    return found + life.differences()
