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
├── kept_at.json         the URL that the job is kept at, if its state is not to lie here
└── .lock                held by the process that runs or changes the job, with the number of its process

A job that is kept at a URL (flow/objects) has its state there. Its other files are written there first, and here so
that they are read without a request; a driver that takes the job makes this folder what is there. What is for this
machine alone stays here: health, control, stages.

Files that end in .json are small files (small_file.py): each has a checksum and a copy, 12.copy beside 12.json. One
that is damaged is read from its copy; if both are, the job is refused, and only this job.
"""

import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headwater.errors import DamagedFile, JobRefused
from headwater.flow.commit.accounts import Account
from headwater.flow.deploy import spark_checkpoint
from headwater.flow.objects.checkpoint import Checkpoint
from headwater.flow.objects.checkpoint_files import CheckpointFiles
from headwater.flow.objects.retries import open_objects
from headwater.flow.operators.joins.hot_keys import Hot, hot_of_json, hot_to_json
from headwater.flow.plan import planned_batches
from headwater.flow.plan.delays import Passed
from headwater.flow.plan.planned_batches import Offsets, PlannedBatch, offsets
from headwater.flow.plan.watermarks import Clocks
from headwater.flow.source.batch_plan.batch_control import WAKEUP_FILE, WakeupRequest
from headwater.flow.state.files import StateFiles
from headwater.flow.state.manifest import VERSIONS, Manifest
from headwater.flow.state.runs.open_runs import open_files
from headwater.log.storage import (
    LocalStorage,
    delete_small_file,
    read_small_file,
    read_whole,
    write_small_file,
)
from headwater.record import TopicPartition
from headwater.small_file import copy_path, small_files
from headwater.views.mark import Epoch

BATCHES_KEPT = 100
LOCK, KEPT_AT = ".lock", "kept_at.json"
LOCAL = {KEPT_AT, "control.json", "health.json"}
"""What concerns this machine alone."""
KEPT_ELSEWHERE = ("*.json", "batches/*.json", "sinks/*.json", f"stage/{WAKEUP_FILE}", "rebuild/*.json")
STATE = "state/"


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
        self._checkpoint: Checkpoint | None = None

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
        self._checkpoint = None

    # -- a place elsewhere ---------------------------------------------------------------------------------------------

    @property
    def kept_at(self) -> str:
        """The URL that the job is kept at; "" if it is kept in this folder."""
        return str((self.read(KEPT_AT) or {}).get("url", ""))

    @property
    def place(self) -> str:
        return self.kept_at or str(self.path.resolve())

    @property
    def epoch(self) -> Epoch:
        """Of the driver that has taken the job in this process."""
        return self._checkpoint.epoch if self._checkpoint else Epoch()

    def take(self, url: str = "") -> None:
        """Where the job is kept at a URL, or is to be: take it, so that older drivers can commit nothing any more, and
        make this folder what is there. The lock of the folder is held."""
        kept = self.kept_at
        if url and kept and url != kept:
            raise JobRefused(f"job {self.path.name} is kept at {kept}, not at {url}", "Say that with --state.")
        if url and not kept and small_files(self.path, "identity.json"):
            raise JobRefused(
                f"{self.path} holds a checkpoint of its own, and job {self.path.name} is to be kept at {url}",
                "Run it without --state; or move that folder away, and the job goes on with what is at the URL.",
            )
        if url or kept:
            self._checkpoint = Checkpoint(open_objects(url or kept), self.path.name)
            self._checkpoint.take(f"process {os.getpid()} on {os.uname().nodename}")
            if not kept:
                write_small_file(self._storage, KEPT_AT, {"url": url})
            self._restore(self._checkpoint)

    def refresh(self) -> None:
        """After a failure it may not be known what was written. JobTakenOver if another driver has the job by now."""
        if self._checkpoint:
            self._checkpoint.refresh()
            self._restore(self._checkpoint)

    def check_own(self, *, every_ms: int = 0) -> None:
        """JobTakenOver if another driver has the job by now; asked at most every so often."""
        if self._checkpoint:
            self._checkpoint.check(every_ms=every_ms)

    def _restore(self, checkpoint: Checkpoint) -> None:
        wanted = {name: checkpoint.read(name) for name in checkpoint.names() if not name.startswith(STATE)}
        paths = (path for pattern in KEPT_ELSEWHERE for path in small_files(self.path, pattern))
        for name in {str(path.relative_to(self.path)) for path in paths} - wanted.keys() - LOCAL:
            delete_small_file(self._storage, name)
        for name, content in wanted.items():
            if self.read(name) != content:
                self._write_here(name, content)

    def beside(self, folder: str) -> "JobFolder":
        """A folder in this one, for what is built beside the job; kept where this one is."""
        found = JobFolder(self.path / folder)
        if kept := self.kept_at:
            found.take(f"{kept}/{folder}")
        return found

    def clear(self) -> None:
        """Remove all of it, here and there."""
        if self._checkpoint:
            self._checkpoint.clear()
        shutil.rmtree(self.path, ignore_errors=True)

    # -- state ---------------------------------------------------------------------------------------------------------

    def operators(self) -> list[str]:
        """Those that have state, by name."""
        if kept := self._kept():
            return sorted({name.split("/")[1] for name in kept.names(STATE)})
        return sorted(one.name for one in self.state.glob("*") if one.is_dir())

    def state_files(self, operator: str) -> StateFiles:
        """The files of an operator's state, wherever they are."""
        if kept := self._kept():
            return CheckpointFiles(kept, f"{STATE}{operator}", open_files(f"{kept.url}/{STATE}{operator}"))
        return open_files(str(self.state / operator))

    def together(self) -> AbstractContextManager[None]:
        """Where the job is kept at a URL, what is committed within is there all at once."""
        return self._checkpoint.together() if self._checkpoint else nullcontext()

    def adopt_state(self, built: "JobFolder", operator: str) -> None:
        """Put an operator's state that was built beside in the place of what is here."""
        if self._checkpoint is None:
            shutil.rmtree(self.state / operator, ignore_errors=True)
            self.state.mkdir(parents=True, exist_ok=True)
            (built.state / operator).rename(self.state / operator)
            return
        objects, source, own = self._checkpoint.objects, built.state_files(operator), self.state_files(operator)
        below, named = built.kept_at.removeprefix(f"{self.kept_at}/"), [one.name for one in source.list(VERSIONS)]
        manifests = {name: source.read(f"{VERSIONS}/{name}") for name in named}
        for run in {run for name, said in manifests.items() for run in Manifest.from_bytes(said, name).run_names()}:
            objects.copy(f"{below}/{STATE}{operator}/{run}", f"{STATE}{operator}/{run}")
        with self.together():
            own.delete([f"{VERSIONS}/{one.name}" for one in own.list(VERSIONS)])
            for name, said in manifests.items():
                own.replace(f"{VERSIONS}/{name}", said)

    def _kept(self) -> Checkpoint | None:
        """To be read, if no driver is at work in this process."""
        if self._checkpoint or not (url := self.kept_at):
            return self._checkpoint
        return Checkpoint(open_objects(url), self.path.name)

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
        self._commit({name: dict(content)})
        self._write_here(name, content)

    def _commit(self, changes: Mapping[str, Any]) -> None:
        """Where the job is kept at a URL: there first."""
        kept = {name: content for name, content in changes.items() if name not in LOCAL}
        if self._checkpoint:
            self._checkpoint.commit(kept)
        elif kept and self.kept_at:
            raise JobRefused(f"job {self.path.name} is kept at {self.kept_at}", "Change it where its app is run.")

    def _write_here(self, name: str, content: Mapping[str, Any]) -> None:
        (self.path / name).parent.mkdir(parents=True, exist_ok=True)
        write_small_file(self._storage, name, dict(content))

    def sync(self, name: str) -> None:
        """What was renamed into or out of this folder of ours survives a power cut."""
        self._storage.sync_directory(name)

    def remove(self, name: str) -> None:
        """Durably; one that is missing is no error."""
        self._commit({name: None})
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
        name, old = f"batches/{record.batch}.json", f"batches/{record.batch - BATCHES_KEPT}.json"
        content = record.to_json()
        self._commit({name: content, **({old: None} if record.batch >= BATCHES_KEPT else {})})
        self._write_here(name, content)
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
