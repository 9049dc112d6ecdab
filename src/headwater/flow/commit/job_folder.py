"""What a job keeps between batches.

<data>/flows/<app>/<job>/
├── identity.json        whose checkpoint this is: app, job, log, a number of its own, and where it lies
├── plan.json            what outputs and operators were made from, to notice a change of code
├── planned.json         where the last two batches start and end, written before they begin (planned_batches.py)
├── health.json          how the job is, for people and for its next run (health.py)
├── batches/12.json      what batch 12 read, did and counted; written when all its outputs hold it
├── stage/               rows that did not decode, and counts, of batches that are not finished
├── state/<operator>/    versioned state (flow/state)
├── sinks/<output>.json  what a sink has to remember (producer ids and sequences)
├── sinks/stage/         records of topics that tasks have staged, of batches that are not finished
└── .lock                held by the process that runs or changes the job, with the number of its process

Files that end in .json are small files (small_file.py): each has a checksum and a copy, 12.copy beside 12.json. One
that is damaged is read from its copy; if both are, the job is refused, and only this job.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headwater.errors import DamagedFile, JobRefused
from headwater.flow.commit.accounts import Account
from headwater.flow.deploy import spark_checkpoint
from headwater.flow.operators.joins.hot_keys import Hot, hot_of_json, hot_to_json
from headwater.flow.plan import planned_batches
from headwater.flow.plan.delays import Passed
from headwater.flow.plan.planned_batches import Offsets, PlannedBatch, offsets
from headwater.flow.plan.watermarks import Clocks
from headwater.flow.source.batch_plan.batch_control import WAKEUP_FILE, WakeupRequest
from headwater.log.storage import (
    LocalStorage,
    delete_small_file,
    read_small_file,
    read_whole,
    write_small_file,
)
from headwater.record import TopicPartition
from headwater.small_file import copy_path, small_files

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
    """Watermarks of the batches before it, as many as operators downstream of joins need (delays.py)."""

    hot: Hot = field(default_factory=dict)
    """Keys of joins with so many rows that the next batch splits them (operators/joins/splitting.py)."""
    co_partitioned: frozenset[str] = frozenset()
    """Joins that had no misplaced row (exchange/co_partitioning.py): the next batch does not shuffle them."""

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
            **({"home": sorted(self.co_partitioned)} if self.co_partitioned else {}),
        }

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> "BatchRecord":
        accounts = {name: Account.from_json(account) for name, account in row["accounts"].items()}
        # A record of a release before clocks has `times`, the newest of each partition.
        clocks = Clocks.from_json(row["clocks"]) if "clocks" in row else Clocks(offsets(row["times"]))
        idle = frozenset(TopicPartition(*one) for one in row.get("idle", ()))
        start, end = offsets(row["start"]), offsets(row["end"])
        moments = row.get("watermark_us"), idle, row.get("processed_us"), tuple(row.get("earlier_us", ()))
        hot = hot_of_json(row.get("hot", {}))
        unshuffled = frozenset(row.get("home", ()))
        return cls(row["batch"], start, end, accounts, clocks, *moments, hot=hot, co_partitioned=unshuffled)


class JobFolder:
    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "batches").mkdir(parents=True, exist_ok=True)
        self._storage = LocalStorage(path)

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
        """Until `unlock`, or the end of the process, no other process may run the job or change its state."""
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
        """What a small file says, or None if there is none. JobRefused, which names it, if it cannot be believed."""
        try:
            content = read_small_file(self._storage, name).content
        except FileNotFoundError:
            return None
        except DamagedFile as error:
            raise self.damaged(name, error.why) from None
        if not isinstance(content, dict):
            raise self.damaged(name, "it is not what was written")
        return content

    def damaged(self, name: str, why: str) -> JobRefused:
        """A sentence about a file that keeps the job from running."""
        return JobRefused(
            f"{self.path / name} is damaged: {why}",
            f"Restore {self.path} from a backup, or move it away and build the views of the job with --rebuild.",
        )

    def write(self, name: str, content: Mapping[str, Any]) -> None:
        """Durably: whole, or not at all."""
        (self.path / name).parent.mkdir(parents=True, exist_ok=True)
        write_small_file(self._storage, name, dict(content))

    def sync(self, name: str) -> None:
        """What was renamed into or out of this folder of ours survives a power cut."""
        self._storage.sync_directory(name)

    def remove(self, name: str) -> None:
        """Durably; one that is missing is no error."""
        delete_small_file(self._storage, name)

    def request_wakeup(self, request: WakeupRequest) -> None:
        """Ask the planner for batches that it would not plan by itself."""
        self.write(f"stage/{WAKEUP_FILE}", request.to_json())

    # -- batches -------------------------------------------------------------------------------------------------------

    def finished(self, batch: int) -> BatchRecord | None:
        row = self.read(f"batches/{batch}.json")
        if row is None:
            return None
        try:
            return BatchRecord.from_json(row)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self.damaged(f"batches/{batch}.json", f"it is no record of a batch ({error})") from None

    def last_finished(self) -> BatchRecord | None:
        numbers = self.batches()
        return self.finished(max(numbers)) if numbers else None

    def batches(self) -> list[int]:
        """The finished batches that are still remembered."""
        return sorted(int(file.stem) for file in small_files(self.path / "batches", "*.json") if file.stem.isdigit())

    def finished_ms(self, batch: int) -> int:
        """When all outputs of a batch that is remembered held it."""
        name = f"batches/{batch}.json"
        there = [one for one in (name, copy_path(name)) if (self.path / one).is_file()]
        return max(self._storage.modified_ms(one) for one in there)

    def finish(self, record: BatchRecord) -> None:
        self.write(f"batches/{record.batch}.json", record.to_json())
        old = f"batches/{record.batch - BATCHES_KEPT}.json"
        for name in (copy_path(old), old):
            (self.path / name).unlink(missing_ok=True)

    # -- plans ---------------------------------------------------------------------------------------------------------

    def plans(self) -> list[PlannedBatch]:
        """The batches planned last, at most two."""
        content = self.read(planned_batches.FILE)
        if content is None and not spark_checkpoint.is_there(self.path):
            return []
        if content is None or "batches" not in content:
            return spark_checkpoint.planned_batches(self.path, content or {}, self.batches(), self._end_of)
        try:
            return planned_batches.from_content(content)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self.damaged(planned_batches.FILE, f"it is no plan ({error})") from None

    def plan(self, planned: PlannedBatch) -> None:
        """Write down, durably, what a batch is; before it begins."""
        known = self.plans()
        if planned not in known:
            self.write(planned_batches.FILE, planned_batches.to_content(planned_batches.with_planned(known, planned)))

    def last_planned(self) -> PlannedBatch | None:
        """The batch to run again, or after. JobRefused if plans and finished batches do not fit together."""
        known, done = self.plans(), self.batches()
        planned, finished = (max(numbers, default=-1) for numbers in ([one.batch for one in known], done))
        if planned < finished:
            raise self.damaged(planned_batches.FILE, f"it does not say where batch {finished} ended, which is finished")
        if planned > finished + 1:
            raise self.damaged(f"batches/{planned - 1}.json", "it is missing, and the batch is finished")
        return known[-1] if known else None

    def take_over(self, beginning: Callable[[Offsets], Offsets]) -> None:
        """Keep the plans that Spark kept when jobs were its queries. `beginning` says where the topics of a first batch
        begin, of which Spark did not note the start."""
        if not spark_checkpoint.is_there(self.path):
            return
        if "batches" not in (self.read(planned_batches.FILE) or {}):
            plans = [one if one.start else replace(one, start=beginning(one.end)) for one in self.plans()]
            self.write(planned_batches.FILE, planned_batches.to_content(plans))
        spark_checkpoint.remove(self.path)
        self.sync("")

    def _end_of(self, batch: int) -> Offsets:
        record = self.finished(batch) if batch >= 0 else None
        return record.end if record else {}

    def planned(self, batch: int) -> PlannedBatch:
        found = self.planned_or_none(batch)
        if found is None:
            raise FileNotFoundError(f"{self.path / planned_batches.FILE} does not know of batch {batch}")
        return found

    def planned_or_none(self, batch: int) -> PlannedBatch | None:
        return next((one for one in self.plans() if one.batch == batch), None)
