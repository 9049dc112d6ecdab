"""What a job keeps between batches.

<data>/flows/<app>/<job>/
├── identity.json        whose checkpoint this is: app, job, log, a number of its own, and where it lies
├── plan.json            what outputs and operators were made from, to notice a change of code
├── batches/12.json      what batch 12 read, did and counted; written when all its outputs hold it
├── spark/               Spark's own checkpoint: which offsets belong to which batch
├── stage/               rows that did not decode, and counts, of batches that are not finished
├── state/<operator>/    versioned state (flow/state)
├── sinks/<output>.json  what a sink has to remember (producer ids and sequences)
└── .lock                held by whoever runs or changes the job, with the number of its process
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headwater.errors import JobRefused
from headwater.flow.job.accounts import Account
from headwater.flow.job.delays import Passed
from headwater.flow.job.watermarks import Clocks
from headwater.flow.operators.joins.hot_keys import Hot, hot_of_json, hot_to_json
from headwater.flow.source.ticks import NO_TICK, TICK, WISH_FILE, Tick, Wish, tick_of, with_tick
from headwater.log.storage import LocalStorage, read_whole, replace_durably
from headwater.record import TopicPartition

Offsets = dict[str, dict[int, int]]
"""Topic → partition → next offset."""

BATCHES_KEPT = 100
LOCK = ".lock"


@dataclass(frozen=True)
class BatchRecord:
    """A finished batch."""

    batch: int
    start: Offsets
    end: Offsets
    accounts: Mapping[str, Account]
    clocks: Clocks = field(default_factory=Clocks)
    """How far the sources have come in time, this batch included."""
    watermark_us: int | None = None
    """That the batch was run with: known before it, and nothing before it was waited for."""
    idle: frozenset[TopicPartition] = frozenset()
    """Partitions it did not wait for."""
    processed_us: int | None = None
    """When its rows were processed, if windows want to know (processing_time.py)."""
    earlier_us: Passed = ()
    """Watermarks of the batches before it, as many as operators behind joins want to know (delays.py)."""

    hot: Hot = field(default_factory=dict)
    """Keys of joins with so many rows that the next batch splits them (operators/joins/splitting.py)."""
    repeating: frozenset[str] = frozenset()
    """Operators whose rows repeat so often that Spark reduces those of the next batch first (repeating.py)."""
    home: frozenset[str] = frozenset()
    """Joins all of whose rows lay in the partitions of their shards (at_home.py)."""

    @property
    def passed(self) -> Passed:
        """Its watermark, and those before it."""
        return (self.watermark_us, *self.earlier_us)

    @property
    def newest_us(self) -> int | None:
        """The newest event time of all sources."""
        return max((one for parts in self.clocks.newest_us.values() for one in parts.values()), default=None)

    def to_json(self) -> dict[str, Any]:
        return {
            "batch": self.batch,
            "start": self.start,
            "end": self.end,
            "accounts": {name: account.to_json() for name, account in self.accounts.items()},
            "clocks": self.clocks.to_json(),
            "watermark_us": self.watermark_us,
            "idle": sorted(self.idle),
            **({} if self.processed_us is None else {"processed_us": self.processed_us}),
            **({"hot": hot_to_json(self.hot)} if self.hot else {}),
            **({"earlier_us": self.earlier_us} if self.earlier_us else {}),
            **({"repeating": sorted(self.repeating)} if self.repeating else {}),
            **({"home": sorted(self.home)} if self.home else {}),
        }

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> "BatchRecord":
        accounts = {name: Account.from_json(account) for name, account in row["accounts"].items()}
        # A record of a release before clocks has `times`, the newest of each partition.
        clocks = Clocks.from_json(row["clocks"]) if "clocks" in row else Clocks(offsets(row["times"]))
        idle = frozenset(TopicPartition(*one) for one in row.get("idle", ()))
        start, end = offsets(row["start"]), offsets(row["end"])
        moments = row.get("watermark_us"), idle, row.get("processed_us"), tuple(row.get("earlier_us", ()))
        hot, repeating = hot_of_json(row.get("hot", {})), frozenset(row.get("repeating", ()))
        home = frozenset(row.get("home", ()))
        return cls(row["batch"], start, end, accounts, clocks, *moments, hot=hot, repeating=repeating, home=home)


def offsets(row: Mapping[str, Mapping[str, Any]]) -> Offsets:
    """JSON has no numbers as names; and what else an offset says is no topic."""
    return {
        topic: {int(number): offset for number, offset in parts.items()}
        for topic, parts in row.items()
        if topic != TICK
    }


def places(position: Mapping[str, Mapping[int, int]]) -> dict[TopicPartition, int]:
    """
    >>> places({"orders": {0: 12}})
    {TopicPartition(topic='orders', partition=0): 12}
    """
    return {TopicPartition(topic, number): at for topic, parts in position.items() for number, at in parts.items()}


class JobFolder:
    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "batches").mkdir(parents=True, exist_ok=True)
        self._storage = LocalStorage(path)

    @property
    def spark(self) -> Path:
        return self.path / "spark"

    @property
    def stage(self) -> Path:
        return self.path / "stage"

    @property
    def state(self) -> Path:
        return self.path / "state"

    @property
    def sinks(self) -> Path:
        return self.path / "sinks"

    def lock(self) -> None:
        """Until `unlock`, or the end of the process, nobody else may run the job or change its state."""
        try:
            self._storage.lock(LOCK)
        except BlockingIOError:
            owner = read_whole(self._storage, LOCK).decode(errors="replace").strip()
            raise JobRefused(
                f"job {self.path.name} is being run by process {owner or 'unknown'}", "Stop that one first."
            ) from None

    def unlock(self) -> None:
        self._storage.close()

    # -- small files ---------------------------------------------------------------------------------------------------

    def read(self, name: str) -> dict[str, Any] | None:
        """A JSON file, or None if there is none."""
        try:
            content = json.loads(read_whole(self._storage, name))
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise JobRefused(
                f"{self.path / name} is damaged: {error}", "Restore the job's folder, or rebuild its views."
            ) from None
        assert isinstance(content, dict)
        return content

    def write(self, name: str, content: Mapping[str, Any]) -> None:
        """Durably: whole, or not at all."""
        (self.path / name).parent.mkdir(parents=True, exist_ok=True)
        replace_durably(self._storage, name, json.dumps(content, sort_keys=True).encode())

    def sync(self, name: str) -> None:
        """What was renamed into or out of this folder of ours survives a power cut."""
        self._storage.sync_directory(name)

    def remove(self, name: str) -> None:
        """Durably; one that is missing is no error."""
        self._storage.delete(name)
        self._storage.sync_directory("")

    def wish(self, wish: Wish) -> None:
        """Ask the source for batches that it would not make by itself."""
        self.write(f"stage/{WISH_FILE}", wish.to_json())

    # -- batches -------------------------------------------------------------------------------------------------------

    def finished(self, batch: int) -> BatchRecord | None:
        row = self.read(f"batches/{batch}.json")
        return BatchRecord.from_json(row) if row else None

    def last_finished(self) -> BatchRecord | None:
        numbers = [int(file.stem) for file in (self.path / "batches").glob("*.json") if file.stem.isdigit()]
        return self.finished(max(numbers)) if numbers else None

    def finish(self, record: BatchRecord) -> None:
        self.write(f"batches/{record.batch}.json", record.to_json())
        (self.path / "batches" / f"{record.batch - BATCHES_KEPT}.json").unlink(missing_ok=True)

    def planned(self, batch: int) -> Offsets:
        """Where a batch ends, as Spark wrote down before it began. Nothing for the batch before the first."""
        return {} if batch < 0 else offsets(self._offset(batch))

    def planned_tick(self, batch: int) -> Tick:
        """What was decided about a batch when it was planned, beside where it ends."""
        return tick_of(self._offset(batch))

    def _offset(self, batch: int) -> dict[str, Any]:
        lines = (self.spark / "offsets" / str(batch)).read_text().splitlines()
        found = json.loads(lines[2])
        assert isinstance(found, dict)
        return found

    def planned_or_none(self, batch: int) -> Offsets | None:
        try:
            return self.planned(batch)
        except FileNotFoundError:
            return None

    def plan(self, batch: int, end: Offsets, *, time_ms: int, tick: Tick = NO_TICK) -> None:
        """Write down where a batch ends, in the form in which Spark does; durably, whole or not at all."""
        text = "\n".join(["v1", json.dumps({"batchTimestampMs": time_ms}), json.dumps(with_tick(end, tick))])
        (self.spark / "offsets").mkdir(parents=True, exist_ok=True)
        replace_durably(self._storage, f"spark/offsets/{batch}", text.encode())

    def planned_ms(self, batch: int) -> int:
        """When Spark planned a batch: the same however often it is run."""
        lines = (self.spark / "offsets" / str(batch)).read_text().splitlines()
        return int(json.loads(lines[1])["batchTimestampMs"])
