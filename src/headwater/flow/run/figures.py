"""How the jobs of a data directory are doing, gathered from their folders and their accounts. Needs no Spark."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from headwater.clock import Clock
from headwater.errors import HeadwaterError
from headwater.flow.commit.accounts import Account
from headwater.flow.commit.ledger import Entry, Ledger
from headwater.flow.declare.topology.naming import group_of
from headwater.flow.deploy.inventory import KeptJob, jobs_in
from headwater.flow.kafka.client import Client
from headwater.flow.operators.joins.hot_keys import SIDES, Hot
from headwater.flow.plan.timestamps import behind_us, times_json
from headwater.flow.run.health import condition_of
from headwater.flow.run.supervision import Condition, State
from headwater.record import TopicPartition

STOPPED = Condition(State.STOPPED)
Places = Mapping[TopicPartition, int]


@dataclass(frozen=True)
class OutputFigures:
    name: str
    total: Account
    last: Account


@dataclass(frozen=True)
class HotFigures:
    operator: str
    key: str
    side: str
    rows: int
    """About: those that were changed or deleted since count until state is merged."""


@dataclass(frozen=True)
class JobFigures:
    name: str
    running: bool
    """Not where it fails, is paused, or no process runs it."""
    batch: int | None
    per_second: float | None
    """Rows of the last batch by the time it took."""
    state_bytes: int
    lag: int | None
    since_ms: int | None
    """How long ago the last batch ended."""
    outputs: tuple[OutputFigures, ...]
    watermark_us: int | None = None
    """Nothing before it is waited for."""
    behind_us: int | None = None
    """How far that is behind the newest time."""
    idle: tuple[str, ...] = ()
    """Partitions that are not waited for."""
    topics: tuple[str, ...] = ()
    """What it reads."""
    hot: tuple[HotFigures, ...] = ()
    """Keys of joins with so many rows that they are split, those with the most first."""
    condition: Condition = STOPPED
    """Whether it runs, fails, is paused; and why."""

    @property
    def state(self) -> State:
        return self.condition.state

    def to_json(self) -> dict[str, Any]:
        outputs = [
            {"name": one.name, "total": one.total.to_json(), "last": one.last.to_json(),
             "balanced": one.total.balanced}
            for one in self.outputs
        ]  # fmt: skip
        own = {name: value for name, value in asdict(self).items() if name != "condition"}
        paused = self.state == State.PAUSED
        return {**own, "outputs": outputs, "paused": paused, **self.condition.to_json()}


class JobObserver:
    """Looks again and again; reads accounts on from where it ended."""

    def __init__(self, data: Path, client: Client, clock: Clock) -> None:
        self._data, self._client, self._clock = data, client, clock
        self._ledgers: dict[str, Ledger] = {}

    def look(self, ends: Places) -> list[JobFigures]:
        """`ends` are the next offsets of all partitions."""
        return [self._told(job, ends) for job in jobs_in(self._data)]

    def _told(self, job: KeptJob, ends: Places) -> JobFigures:
        """A folder that cannot be read is the trouble of its own job."""
        try:
            return self._job(job, ends)
        except (HeadwaterError, OSError, ValueError, KeyError) as error:
            now = condition_of(job.path)
            reason = f"its figures cannot be read: {error}"
            shown = replace(now, reason=now.reason or reason)
            return JobFigures(group_of(job.app, job.name), now.state == State.RUNNING, None, None, 0, None, None, (),
                              condition=shown)  # fmt: skip

    def _job(self, job: KeptJob, ends: Places) -> JobFigures:
        entries = self._entries(job)
        outputs = tuple(OutputFigures(name, entry.total, entry.last) for name, entry in sorted(entries.items()))
        newest = [found for operator in job.operators() if (found := operator.newest())]
        last = job.last_batch()
        rows = max((output.last.rows_in for output in outputs), default=0)
        now = condition_of(job.path)
        return JobFigures(
            group_of(job.app, job.name),
            now.state == State.RUNNING,
            last.record.batch if last else None,
            rows / last.seconds if last and last.seconds > 0 else None,
            sum(version.bytes for version in newest),
            _lag(last.record.end, ends) if last else None,
            max(0, self._clock.now_ms() - last.finished_ms) if last else None,
            outputs,
            last.record.watermark_us if last else None,
            behind_us(last.record) if last else None,
            tuple(times_json(last.record)["idle"]) if last else (),
            tuple(sorted(last.record.end)) if last else (),
            _hot(last.record.hot) if last else (),
            now,
        )

    def _entries(self, job: KeptJob) -> dict[str, Entry]:
        ledger = self._ledgers.setdefault(job.app, Ledger(job.app))
        ledger.read_on(self._client)
        return {output: entry for (name, output), entry in ledger.entries.items() if name == job.name}


def _hot(hot: Hot) -> tuple[HotFigures, ...]:
    found = [HotFigures(name, one.key, SIDES[one.side], one.rows) for name, keys in hot.items() for one in keys]
    return tuple(sorted(found, key=lambda one: -one.rows))


def _lag(position: Mapping[str, Mapping[int, int]], ends: Places) -> int:
    """Records that the job has not read yet, also those of partitions it has not seen."""
    return sum(
        max(0, end - position[place.topic].get(place.partition, 0))
        for place, end in ends.items()
        if place.topic in position
    )
