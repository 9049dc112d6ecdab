"""Rebuild an output from the log, beside the old one, and put it in its place when it has caught up.

<job>/rebuild/<output>/     a job's folder of its own, with the state being built, and from what code
<job>/rebuild/<output>.json written when it has caught up: from here on the change is only carried out, never undone

What is built is exactly what the job would hold at a finished batch, at which it is paused. While another process still
runs the job, most of it is built ahead, up to one of its batches after the other (`follow`), so that little is left for
the pause. Readers see the old view until the swap, which is one transaction of the store.

<job>/rebuild/.lock         held by the process that builds
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

from headwater.errors import JobRefused
from headwater.flow.commit.batch_processor import Outputs, Processor
from headwater.flow.commit.job_context import Environment, JobContext
from headwater.flow.commit.job_folder import LOCK, BatchRecord, JobFolder
from headwater.flow.commit.job_identity import Identity
from headwater.flow.commit.outputs import own_topic_sink
from headwater.flow.declare.topology.graph import VIEW, Job, Planned
from headwater.flow.declare.topology.naming import late_topic
from headwater.flow.declare.topology.nodes import walk
from headwater.flow.deploy import spark_checkpoint
from headwater.flow.deploy.code_changes import save_one
from headwater.flow.deploy.replaced import Replaced
from headwater.flow.kafka.client import EARLIEST, Client
from headwater.flow.plan.batch_loop import BatchRunner
from headwater.flow.plan.delays import Passed, batches_behind, recent
from headwater.flow.plan.planned_batches import Offsets, PlannedBatch, partition_offsets
from headwater.flow.plan.processing_time import (
    RecordedBatch,
    goes_by_batches,
    processed_batches,
    uses_processing_time,
)
from headwater.flow.proof.rebuilt_late import LATE_BEFORE, AttemptSink, attempt_of, note_batches, note_rebuilt
from headwater.flow.rows.sources import leading_topics, source_options
from headwater.flow.sinks.discard import DiscardSink
from headwater.flow.sinks.sink import Mark, Sink
from headwater.flow.sinks.view import ViewSink
from headwater.flow.source.batch_plan.leading import plan_leading
from headwater.flow.source.batch_plan.stream_times import StreamTimes
from headwater.flow.source.options import parse_options
from headwater.flow.state.files import StateFiles
from headwater.flow.state.manifest import path_of_version
from headwater.flow.state.store import read_manifest, versions_of
from headwater.log.storage import LocalStorage, read_whole
from headwater.record import TopicPartition
from headwater.small_file import small_files
from headwater.views.shape import ONE_ROW
from headwater.views.store import ViewStore

FOLDER, MADE_FROM = "rebuild", "made_from.json"
Report = Callable[[str], None]


@dataclass(frozen=True)
class ChangedOutput:
    """An output that is brought to what the code says now. `store` is that of a view; others have none."""

    planned: Planned
    made_from: Mapping[str, Any]
    """What it is made from, in words (descriptions.py)."""
    operators: Mapping[str, Any]
    """And its operators."""
    store: ViewStore | None


@dataclass(frozen=True)
class Rebuild:
    """One output of a job."""

    context: JobContext
    environment: Environment
    output: ChangedOutput
    rows_per_batch: int
    report: Report

    @property
    def _name(self) -> str:
        return self.output.planned.name

    def go_back(self) -> None:
        """Begin with what the last rebuild has replaced."""
        context, output = self.context, self.output
        if output.store is None:
            raise JobRefused(f"{output.planned.output} is no view, and has no version before it", "Rebuild it.")
        with built_by_one(context.folder):
            Replaced(context.folder, self._name).go_back(
                context.folder.path / FOLDER / self._name, output.made_from, context.identity, output.store,
                self.environment.client,
            )  # fmt: skip

    def run(self, until: BatchRecord) -> None:
        """Build, then take the old one's place; the job is paused at this batch. After a crash it resumes where it
        was."""
        output, folder = self.output, self.context.folder
        with built_by_one(folder):
            note_caught_up(folder, output, self._build(until))
            carry_out(folder, output.planned, self.context.identity, output.store, until)

    def follow(self, newest: Callable[[], BatchRecord]) -> None:
        """Build while the job goes on, until it is at most one batch ahead, or comes no nearer. `newest` returns the
        batch that it finished last."""
        with built_by_one(self.context.folder):
            until, ahead = newest(), None
            while ahead is None or ahead > self.rows_per_batch:
                self._build(until)
                following = newest()
                left = _rows(following.end) - _rows(until.end)
                if ahead is not None and left >= ahead:
                    self.report(f"{self._name}: the job reads new records as quickly as they can be replayed beside it")
                    return
                until, ahead = following, left

    def _build(self, until: BatchRecord) -> "CaughtUp":
        """Up to a finished batch of the job, from where it was left."""
        output, folder = self.output, self.context.folder
        goal = recent(until.passed, batches_behind([output.planned.node]))
        shadow = begun(folder, output, output.made_from, usable=lambda kept: not_ahead(kept, until.end, goal))
        processor = self._processor(shadow, until)
        try:
            options = parse_options(source_options(self.context.job, self.environment.where))
            with closing(StreamTimes(options)) as times:
                return self._replay(shadow, processor, until, goal, times)
        finally:
            processor.close()

    def _replay(
        self, shadow: JobFolder, processor: Processor, until: BatchRecord, goal: Passed, times: StreamTimes
    ) -> "CaughtUp":
        runner = BatchRunner(processor)
        last = shadow.last_finished()
        batch = last.batch + 1 if last else 0
        start = last.end if last else beginning(self.environment.client, until.end)
        # With all rows read there may be more batches, without any: until it has the watermarks of the job.
        recorded = self._recorded(until)
        while start != until.end or (last and not has_come_to(last, goal)) or batch < len(recorded):
            if batch < len(recorded):  # rows are processed in the batches, and at the moments, they were processed in
                planned = PlannedBatch(batch, start, recorded[batch].end, (recorded[batch].at_us or 0) // 1000)
            else:
                planned = shadow.planned_or_none(batch) or self._next(batch, start, until.end, times)
            runner.run(planned)
            self.report(f"{self._name}: {_rows(planned.end):,} of {_rows(until.end):,} records replayed")
            last = shadow.finished(batch)
            start, batch = planned.end, batch + 1
            if goes_by_batches(self._own_job()):
                note_batches(self.context.folder, shadow)
        return CaughtUp(until.batch, version=batch - 1, attempt=attempt_of(shadow))

    def _recorded(self, until: BatchRecord) -> list[RecordedBatch]:
        """The batches of the job so far, where windows go by when they were."""
        if not uses_processing_time(self._own_job()):
            return []
        found = processed_batches(self.environment.client, self.context.app, self.context.job.name)
        return [one for one in found if one.batch <= until.batch]

    def _own_job(self) -> Job:
        job, planned = self.context.job, self.output.planned
        own = {node: name for node, name in job.operators.items() if node in walk(planned.node)}
        return replace(job, outputs=(planned,), operators=own)

    def _processor(self, shadow: JobFolder, until: BatchRecord) -> Processor:
        context, store, resolved = self.context, self.output.store, self.context.resolved[self._name]
        identity = replace(context.identity, number=f"{context.identity.number}/rebuild")
        sink: Sink = DiscardSink(self._name)
        if store is not None:
            store.begin_shadow(self._name, resolved.schema, resolved.key or ONE_ROW, job=identity.job_id)
            sink = ViewSink(store, self._name, shadow=True)
        # What is poisoned was reported when it was read first. What is late may be another row now.
        topic = late_topic(context.app, context.job.name)
        late = own_topic_sink(topic, shadow, self.environment.client, kept=True)
        attempt = AttemptSink(late, attempt_of(shadow), until.batch)
        outputs = Outputs({self._name: sink}, DiscardSink("poisoned"), attempt, DiscardSink("accounts"))
        own = JobContext(context.app, self._own_job(), {self._name: resolved}, identity, shadow)
        return Processor(own, self.environment, outputs, until=until)

    def _next(self, batch: int, start: Offsets, end: Offsets, times: StreamTimes) -> PlannedBatch:
        """As far as one batch goes, all partitions advancing together in time."""
        begin, ends = partition_offsets(start), partition_offsets(end)
        at_time = times.lookup(self.environment.client, begin, ends, self.rows_per_batch)
        leading = leading_topics(self.context.job)
        made = times.settled(plan_leading(leading, begin, ends, self.rows_per_batch, at_time))
        following: Offsets = {}
        for one, offset in made.ends.items():
            following.setdefault(one.topic, {})[one.partition] = offset
        return PlannedBatch(batch, start, following, self.environment.clock.now_ms(), made.left)


@contextmanager
def built_by_one(folder: JobFolder) -> Iterator[None]:
    """JobRefused if another process builds an output of the job."""
    path = folder.path / FOLDER
    path.mkdir(exist_ok=True)
    storage = LocalStorage(path)
    try:
        storage.lock(LOCK)
    except BlockingIOError:
        owner = read_whole(storage, LOCK).decode(errors="replace").strip()
        raise JobRefused(
            f"outputs of job {folder.path.name} are being rebuilt by process {owner or 'unknown'}",
            "Stop that one first.",
        ) from None
    try:
        yield
    finally:
        storage.close()


def beginning(client: Client, end: Offsets) -> Offsets:
    """Where the partitions begin that are read up to an end; never after it."""
    found = client.offsets(dict.fromkeys(partition_offsets(end), EARLIEST))
    return {
        topic: {number: min(found[TopicPartition(topic, number)], last) for number, last in parts.items()}
        for topic, parts in end.items()
    }


def begun(
    folder: JobFolder, output: ChangedOutput, made_from: Mapping[str, Any],
    *, usable: Callable[[JobFolder], bool] = lambda kept: True,
) -> JobFolder:  # fmt: skip
    """The folder to build an output in. What an earlier attempt left is used only if it was made in the same way.

    The store's table goes first: a crash leaves the folder, which says that the table must go.
    """
    name, store = output.planned.name, output.store
    shadow = folder.beside(f"{FOLDER}/{name}")
    kept = shadow.read(MADE_FROM)
    if kept != made_from or spark_checkpoint.is_there(shadow.path) or not usable(shadow):
        if store is not None:
            store.drop_shadow(name)
        if kept is not None:
            shadow.clear()
        shadow = folder.beside(f"{FOLDER}/{name}")
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


@dataclass(frozen=True)
class CaughtUp:
    """`version` of the state that was built is that of a batch of the job."""

    batch: int
    version: int
    view: bool = True
    """A table of the store is to be put in place too."""
    attempt: str | None = None
    """All rows were read again, and the late topic says under this name which were late."""


def note_caught_up(folder: JobFolder, output: ChangedOutput, caught_up: CaughtUp) -> None:
    """From here on the change is only carried out."""
    made_from = {"made_from": output.made_from, "operators": output.operators}
    folder.write(f"{FOLDER}/{output.planned.name}.json", {**made_from, **asdict(caught_up)})


def carry_out(
    folder: JobFolder, planned: Planned, identity: Identity, store: ViewStore | None, until: BatchRecord
) -> None:
    """Put what was built in the place of what was there; any step may have been taken before a crash."""
    note = folder.read(f"{FOLDER}/{planned.name}.json")
    if note is None:
        return
    shadow, replaced = folder.beside(f"{FOLDER}/{planned.name}"), Replaced(folder, planned.name)
    # Built again by the same code it replaces nothing that anybody would go back to; nor is there a way back where the
    # job is kept at a URL.
    possible = bool(note.get("attempt")) and store is not None and not folder.kept_at
    keeps = None if replaced.same_code(note["made_from"]) else possible
    if keeps:
        replaced.begin(note["attempt"], identity.shards)
    for operator in shadow.operators():
        _renumber(shadow.state_files(operator), note["version"], note["batch"])
        if keeps:
            replaced.take(operator)
        folder.adopt_state(shadow, operator)
    # Before the view: after a power cut the old state under the new view would count on from the wrong place.
    if folder.state.exists():
        folder.sync("state")
    if store is not None and planned.output.kind == VIEW and note["view"]:
        _swap(store, planned.name, Mark(identity.job_id, note["batch"], until.end, folder.epoch), keep=keeps)
        kept = store.replaced(planned.name)
        if keeps and kept is not None and kept.batch == note["batch"]:
            replaced.end(note["batch"], note["operators"])
        elif keeps is not None:
            replaced.forget()
    if attempt := note.get("attempt"):
        before = shadow.read(LATE_BEFORE)
        note_rebuilt(folder, note["operators"], batch=note["batch"], attempt=attempt, before=before)
    # From here on older code is changed code, although it was the one that ran last.
    save_one(folder, planned.name, note["made_from"], note["operators"])
    forget(folder, planned.name)


def _swap(store: ViewStore, view: str, mark: Mark, *, keep: bool | None) -> None:
    """Not yet if a crash came when the view had been given a batch and the job had not noted it: readers have seen that
    batch, and the view is replaced together with it (SwappingViewSink)."""
    held, built = store.mark(view), store.mark(view, shadow=True)
    if built is not None and held is not None and held.job == mark.job and held.batch > mark.batch:
        store.hand_shadow_over(view, mark)
    else:
        store.swap(view, mark, keep=keep)


def forget(folder: JobFolder, name: str) -> None:
    """Remove what a rebuild leaves in the job's folder; the note last, which asks for the rest."""
    folder.beside(f"{FOLDER}/{name}").clear()
    if (folder.path / FOLDER).is_dir():
        folder.remove(f"{FOLDER}/{name}.json")


def _renumber(files: StateFiles, version: int, batch: int) -> None:
    """The newest version under the number of the batch that the job is paused at, and no other."""
    if version != batch and version in versions_of(files):
        manifest = replace(read_manifest(files, version), version=batch, base=batch - 1)
        files.replace(path_of_version(batch), manifest.to_bytes())
        files.delete([path_of_version(one) for one in versions_of(files) if one != batch])


def unfinished(folder: JobFolder) -> list[str]:
    """Outputs that had been rebuilt when a crash came before they were put in place."""
    return sorted(file.stem for file in small_files(folder.path / FOLDER, "*.json") if not file.is_dir())


def _rows(position: Offsets) -> int:
    return sum(offset for parts in position.values() for offset in parts.values())
