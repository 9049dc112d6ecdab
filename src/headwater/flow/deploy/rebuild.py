"""Build an output anew from the log, beside the old one, and put it in its place when it has caught up.

<job>/rebuild/<output>/     a job's folder of its own, with the state being built, and from what code
<job>/rebuild/<output>.json written when it has caught up: from here on the change is only carried out, never undone

The job itself stands still meanwhile, at a finished batch; what is built is exactly what the job would hold there.
Readers see the old view until the swap, which is one transaction of the store.
"""

import shutil
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headwater.clock import Clock
from headwater.flow.commit.batch_processor import Outputs, Processor
from headwater.flow.commit.job_folder import BatchRecord, JobFolder, places
from headwater.flow.commit.job_identity import Identity
from headwater.flow.commit.outputs import own_topic_sink
from headwater.flow.declare.topology.graph import VIEW, Job, Planned
from headwater.flow.declare.topology.naming import late_topic
from headwater.flow.declare.topology.nodes import walk
from headwater.flow.deploy import spark_checkpoint
from headwater.flow.deploy.code_changes import save_one
from headwater.flow.kafka.client import EARLIEST, Client
from headwater.flow.operate.job_operators import Operators
from headwater.flow.plan.batch_loop import BatchRunner
from headwater.flow.plan.delays import Passed, batches_behind, recent
from headwater.flow.plan.planned_batches import Offsets, PlannedBatch
from headwater.flow.plan.processing_time import Processed, processed_batches, uses_processing_time
from headwater.flow.plan.resolution import Resolved
from headwater.flow.proof.rebuilt_late import AttemptSink, attempt_of, note_rebuilt
from headwater.flow.rows.sources import leading_topics, source_options
from headwater.flow.sinks.discard import DiscardSink
from headwater.flow.sinks.sink import Mark, Sink
from headwater.flow.sinks.view import ViewSink
from headwater.flow.source.batch_plan.leading import plan_leading
from headwater.flow.source.batch_plan.stream_times import StreamTimes
from headwater.flow.source.batch_plan.ticks import NO_TICK, Tick
from headwater.flow.source.options import parse_options
from headwater.flow.state.files import DiskFiles
from headwater.flow.state.manifest import path_of_version
from headwater.flow.state.store import read_manifest, versions_of
from headwater.record import TopicPartition
from headwater.small_file import small_files
from headwater.views.store import ViewStore

FOLDER, MADE_FROM = "rebuild", "made_from.json"
Tell = Callable[[str], None]


@dataclass
class Rebuild:
    """One output of a job that stands still at a finished batch. `store` is that of a view; others have none."""

    session: SparkSession
    app: str
    job: Job
    planned: Planned
    resolved: Resolved
    description: Mapping[str, Any]
    """What it is made from, in words (descriptions.py)."""
    operators: Mapping[str, Any]
    """And its operators."""
    identity: Identity
    folder: JobFolder
    store: ViewStore | None
    client: Client
    where: Mapping[str, str]
    clock: Clock
    rows_per_batch: int
    tell: Tell

    @property
    def _name(self) -> str:
        return self.planned.name

    def run(self, until: BatchRecord) -> None:
        """Build, then take the old one's place. After a crash it goes on where it was."""
        own = self._own_job()
        goal = recent(until.passed, batches_behind([self.planned.node]))
        shadow = begun(
            self.folder, self._name, self.store, self.description, usable=lambda kept: not_ahead(kept, until.end, goal)
        )
        operators = Operators(shadow.state, own.operators, shards=self.identity.shards)
        try:
            with closing(StreamTimes(parse_options(source_options(self.job, self.where)))) as times:
                self._replay(shadow, self._processor(shadow, operators, until), until, goal, times)
        finally:
            operators.close()
        carry_out(self.folder, self.planned, self.identity, self.store, until)

    def _replay(
        self, shadow: JobFolder, processor: Processor, until: BatchRecord, goal: Passed, times: StreamTimes
    ) -> None:
        runner = BatchRunner(self.session, self._own_job(), shadow, processor, self.where)
        last = shadow.last_finished()
        batch = last.batch + 1 if last else 0
        start = last.end if last else beginning(self.client, until.end)
        # With all rows read there may be batches more, without any: in time it comes to where the job stands.
        recorded = self._recorded(until)
        while start != until.end or (last and not has_come_to(last, goal)) or batch < len(recorded):
            if batch < len(recorded):  # rows are processed in the batches, and at the moments, they were processed in
                end, tick, time_ms = recorded[batch].end, NO_TICK, recorded[batch].at_us // 1000
            else:
                (end, tick), time_ms = self._next(shadow, batch, start, until.end, times), self.clock.now_ms()
            runner.run(PlannedBatch(batch, start, end, time_ms, tick))
            self.tell(f"{self._name}: {_rows(end):,} of {_rows(until.end):,} records replayed")
            last = shadow.finished(batch)
            start, batch = end, batch + 1
        note_caught_up(
            self.folder, self._name, batch=until.batch, version=batch - 1, made_from=self.description,
            operators=self.operators, attempt=attempt_of(shadow),
        )  # fmt: skip

    def _recorded(self, until: BatchRecord) -> list[Processed]:
        """The batches of the job so far, where windows go by when they were."""
        if not uses_processing_time(self._own_job()):
            return []
        return [one for one in processed_batches(self.client, self.app, self.job.name) if one.batch <= until.batch]

    def _own_job(self) -> Job:
        own = {node: name for node, name in self.job.operators.items() if node in walk(self.planned.node)}
        return replace(self.job, outputs=(self.planned,), operators=own)

    def _processor(self, shadow: JobFolder, operators: Operators, until: BatchRecord) -> Processor:
        job_id = f"{self.identity.job_id}/rebuild"
        sink: Sink = DiscardSink(self._name)
        if self.store is not None:
            self.store.begin_shadow(self._name, self.resolved.schema, self.resolved.key, job=job_id)
            sink = ViewSink(self.store, self._name, shadow=True)
        own = self._own_job()
        # What is poisoned was told when it was read first. What is late may be another row now.
        late = own_topic_sink(late_topic(self.app, self.job.name), shadow.sinks, self.client, kept=True)
        told = AttemptSink(late, attempt_of(shadow), until.batch)
        outputs = Outputs({self._name: sink}, DiscardSink("poisoned"), told, DiscardSink("accounts"))
        return Processor(
            self.app, own, job_id, shadow, operators, outputs, {self._name: self.resolved}, self.client,
            shards=self.identity.shards, clock=self.clock, where=self.where, until=until,
        )  # fmt: skip

    def _next(
        self, shadow: JobFolder, batch: int, start: Offsets, end: Offsets, times: StreamTimes
    ) -> tuple[Offsets, Tick]:
        """As far as one batch goes, all partitions advancing together in time; or as it was planned before a crash."""
        planned = shadow.planned_or_none(batch)
        if planned is not None:
            return planned, shadow.planned_tick(batch)
        begin, ends = places(start), places(end)
        at_time = times.lookup(self.client, begin, ends, self.rows_per_batch)
        made = times.settled(plan_leading(leading_topics(self.job), begin, ends, self.rows_per_batch, at_time))
        following: Offsets = {}
        for place, offset in made.ends.items():
            following.setdefault(place.topic, {})[place.partition] = offset
        return following, Tick(held=made.held, ahead=made.ahead, ahead_ms=made.time_ms or 0)


def beginning(client: Client, end: Offsets) -> Offsets:
    """Where the partitions begin that are read up to an end; never after it."""
    found = client.offsets(dict.fromkeys(places(end), EARLIEST))
    return {
        topic: {number: min(found[TopicPartition(topic, number)], last) for number, last in parts.items()}
        for topic, parts in end.items()
    }


def begun(
    folder: JobFolder, name: str, store: ViewStore | None, made_from: Mapping[str, Any],
    *, usable: Callable[[JobFolder], bool] = lambda kept: True,
) -> JobFolder:  # fmt: skip
    """The folder to build an output in. What an earlier attempt left is used only if it was made in the same way.

    The store's table goes first: a crash leaves the folder, which says that the table must go.
    """
    shadow = JobFolder(folder.path / FOLDER / name)
    kept = shadow.read(MADE_FROM)
    if kept != made_from or spark_checkpoint.is_there(shadow.path) or not usable(shadow):
        if store is not None:
            store.drop_shadow(name)
        if kept is not None:
            shutil.rmtree(shadow.path)
        shadow = JobFolder(shadow.path)
        shadow.write(MADE_FROM, made_from)
    return shadow


def has_come_to(last: BatchRecord, goal: Passed) -> bool:
    return recent(last.passed, len(goal) - 1) == goal


def not_ahead(kept: JobFolder, end: Offsets, goal: Passed) -> bool:
    """Can what was built so far still come to watermarks one after the other? None goes back."""
    last = kept.last_finished()
    if last is None or last.watermark_us is None or has_come_to(last, goal):
        return True
    if last.end == end:
        return True  # on its way from one of them to the next
    return goal[-1] is not None and last.watermark_us <= goal[-1]


def note_caught_up(
    folder: JobFolder, name: str, *, batch: int, version: int, made_from: Mapping[str, Any],
    operators: Mapping[str, Any], view: bool = True, attempt: str | None = None,
) -> None:  # fmt: skip
    """From here on the change is only carried out. `view`: a table of the store is to be put in place too. `attempt`:
    all rows were read again, and it says which were late."""
    note = {
        "batch": batch, "version": version, "made_from": made_from, "operators": operators, "view": view,
        "attempt": attempt,
    }  # fmt: skip
    folder.write(f"{FOLDER}/{name}.json", note)


def carry_out(
    folder: JobFolder, planned: Planned, identity: Identity, store: ViewStore | None, until: BatchRecord
) -> None:
    """Put what was built in the place of what was there; any step may have been taken before a crash."""
    note = folder.read(f"{FOLDER}/{planned.name}.json")
    if note is None:
        return
    shadow = folder.path / FOLDER / planned.name
    for built in sorted((shadow / "state").glob("*")) if (shadow / "state").exists() else []:
        _renumber(built, note["version"], note["batch"])
        shutil.rmtree(folder.state / built.name, ignore_errors=True)
        folder.state.mkdir(parents=True, exist_ok=True)
        built.rename(folder.state / built.name)
    # Before the view: after a power cut the old state under the new view would count on from the wrong place.
    if folder.state.exists():
        folder.sync("state")
    if store is not None and planned.output.kind == VIEW and note["view"]:
        store.swap(planned.name, Mark(identity.job_id, note["batch"], until.end))
    if attempt := note.get("attempt"):
        note_rebuilt(folder, note["operators"], batch=note["batch"], attempt=attempt)
    # From here on older code is changed code, although it was the one that ran last.
    save_one(folder, planned.name, note["made_from"], note["operators"])
    forget(folder, planned.name)


def forget(folder: JobFolder, name: str) -> None:
    """Remove what a rebuild leaves in the job's folder; the note last, which asks for the rest."""
    shutil.rmtree(folder.path / FOLDER / name, ignore_errors=True)
    if (folder.path / FOLDER).is_dir():
        folder.remove(f"{FOLDER}/{name}.json")


def _renumber(built: Path, version: int, batch: int) -> None:
    """The newest version under the number of the batch that the job stands at, and no other."""
    files = DiskFiles.at(str(built))
    if version != batch and version in versions_of(files):
        manifest = replace(read_manifest(files, version), version=batch, base=batch - 1)
        files.replace(path_of_version(batch), manifest.to_bytes())
        files.delete([path_of_version(one) for one in versions_of(files) if one != batch])


def unfinished(folder: JobFolder) -> list[str]:
    """Outputs that had been built anew when a crash came before they were in their place."""
    return sorted(file.stem for file in small_files(folder.path / FOLDER, "*.json") if not file.is_dir())


def _rows(position: Offsets) -> int:
    return sum(offset for parts in position.values() for offset in parts.values())
