"""A source into the log: each change once, in order, durable before it is confirmed.

The four moments that matter, in this order: records are appended; they are synced; notes say how far it is; the source
is emitted. A crash between any two repeats what came after the last one, and the topic's own last records say what of
it to skip (landing.py).
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote_plus

from headwater.capture.appender import Appender
from headwater.capture.change import DELETE, NOWHERE, READ, TRUNCATE, UPDATE, CapturedTable, Change, SourcePosition
from headwater.capture.commit_points import CommitPoints
from headwater.capture.envelope import Envelopes
from headwater.capture.landing import Landing, position_of
from headwater.capture.last_values import LastValues
from headwater.capture.notes import Note, Notes
from headwater.capture.pending_records import PendingRecords
from headwater.capture.run import EmitsRuns, Route, Run
from headwater.capture.schemas import Registration, registrations
from headwater.capture.source import Batch, ChangeSource, Drained
from headwater.clock import Clock
from headwater.record import TopicPartition

_logger = logging.getLogger(__name__)

CONFIRM_INTERVAL_MS = 500
POLLS_MAX, BEHIND_CHANGES = 16, 256
"""A poll that brings so many changes is followed by another, up to so many, before they are written and synced."""

VALUES_INTERVAL_MS = 5_000
VALUES_PENDING_MAX = 10_000
ROW_BYTES_MAX = 128 * 1024**2
WANTED = "wanted/"
"""Begins the names of notes of rows that were asked for, because the topic has them with a gap."""

KEYED = {"cleanup.policy": "compact", "max.message.bytes": str(ROW_BYTES_MAX)}
EVENTS = {"cleanup.policy": "delete"}
UNKEYED = {"cleanup.policy": "delete", "retention.ms": "-1", "max.message.bytes": str(ROW_BYTES_MAX)}

PLAIN = {"cleanup.policy": "delete", "max.message.bytes": str(ROW_BYTES_MAX)}

DELETED, TAIL_BYTES = b'"op":"d"', 120  # it stands after all that a user's row can contain

Point = Callable[[str], None]
"""Called at each of the moments, with its name: tests end the process there."""

Register = Callable[[Registration], None]
"""Takes the schema of a topic, each again at every start: who has it already does nothing."""


@dataclass
class Counts:
    """Counters of a capture since it was started."""

    changes: int = 0
    records: int = 0
    skipped: int = 0
    unavailable: int = 0
    """Values that neither the change nor the topic had; each was requested, and followed later."""

    last_commit_ms: int = 0
    tables: dict[str, int] = field(default_factory=dict)


class Runner:
    """Not thread-safe. After any error: close it, and make a new one."""

    def __init__(
        self,
        source: ChangeSource,
        appender: Appender,
        notes: Notes,
        *,
        folder: Path,
        clock: Clock,
        partitions: int = 1,
        point: Point = lambda name: None,
        register: Register = lambda registration: None,
    ) -> None:
        self._register = register
        self._source, self._appender, self._notes = source, appender, notes
        self._commits, self._transactional = CommitPoints(appender, notes.capture), False
        self._floor = NOWHERE
        self._clock, self._partitions, self._point = clock, partitions, point
        self._values = LastValues(folder / "values.sqlite")
        self._envelopes = Envelopes()
        self._landings: dict[str, Landing] = {}
        self._owners: dict[str, str] = {}
        self._pending: defaultdict[tuple[str, int], PendingRecords] = defaultdict(PendingRecords)
        self._safe = self._confirmed = 0
        self._asked = self._came_by = False
        self._asked_for: dict[str, Note] = {}
        self._asked_noted: set[str] = set()
        self._confirmed_at_ms = self._values_at_ms = clock.elapsed_ms()
        self.counts = Counts()

    def open(self) -> None:
        if isinstance(self._source, EmitsRuns):
            self._source.allow_runs()
        self._source.open(self._notes.all())
        for table in self._source.tables():
            self._land(table)
        self._ask_again()
        self._tell_schemas(self._notes.all())

    def _tell_schemas(self, notes: Mapping[str, Note | None]) -> None:
        for registration in registrations(notes):
            self._register(registration)

    def step(self, timeout_seconds: float) -> bool:
        """Write what is there; wait for so long if there is nothing. Whether anything came."""
        batch = self._source.poll(timeout_seconds)
        came, safe = bool(batch.count), self._take_changes(batch)
        for _ in range(POLLS_MAX - 1):
            # A capture that lags syncs once for several polls. But the next poll may rely on what is noted.
            if batch.notes or (batch.count < BEHIND_CHANGES and not batch.more):
                break
            batch = self._source.poll(0)
            safe = max(safe, self._take_changes(batch))
        self._write(batch.notes)
        self._safe = max(self._safe, safe)
        self._confirm_if_due()
        return came

    def _take_changes(self, batch: Batch) -> int:
        """Make records of them. Returns the address before which all is safe once these are written; 0 for none."""
        self._asked, now_ms = False, self._clock.now_ms()
        self._transactional = self._transactional or batch.inside is not None
        start = 0
        for index, run in batch.runs:
            for change in batch.changes[start:index]:
                self._take(change, now_ms)
            self._take_run(run, now_ms)
            start = index
        for change in batch.changes[start:] if start else batch.changes:
            self._take(change, now_ms)
        self._note_boundary(batch)
        if self._asked:
            self._came_by = False  # until the source says again how far all is safe
        elif batch.safe is not None:
            self._came_by = True
            return batch.safe
        return 0

    def _note_boundary(self, batch: Batch) -> None:
        """Remember where the topics end if a transaction does: not before all has passed again that a killed attempt
        may have written in part."""
        if batch.passed > self._floor:
            self._floor = NOWHERE
        if batch.inside is False and self._floor == NOWHERE:
            self._commits.mark({where: len(waiting) for where, waiting in self._pending.items()})

    def _take_all(self, batch: Batch) -> None:
        self._take_changes(batch)
        self._write(batch.notes)

    def close(self) -> None:
        """Confirm the last position to the source, if it is still connected, and close."""
        try:
            if isinstance(self._source, Drained):
                self._take_all(self._source.drain())
            self._confirm()
            self._values.flush()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Let go after an error: nothing is confirmed, and nothing is kept of changes that were not written."""
        try:
            self._source.close()
        finally:
            self._values.close()

    # -- changes into records ----------------------------------------------------------------------------------------

    def _take(self, change: Change, now_ms: int) -> None:
        table = change.table
        landing = self._landings.get(table.topic) or self._land(table)
        change.time_ms = min(change.time_ms, now_ms)  # a topic refuses records from the future
        self.counts.changes += 1
        if change.position < landing.landed_from:
            self.counts.skipped += 1
            return
        if change.operation == TRUNCATE and table.key:
            self._truncate(change, landing, now_ms)
            return
        if change.operation == TRUNCATE and change.chunk and landing.last == [NOWHERE]:
            return  # a copy begins, and the topic has no rows to delete
        if change.operation == READ and not self._wanted(change, landing):
            return
        if change.after is not None and None in change.after:
            self._complete(change)
        records = self._envelopes.records(change, now_ms=now_ms)
        if change.plain is None:
            self._note_values(change, records[-1][1].key)
        for number, record in records:
            partition = 0 if landing.partitions == 1 else self._appender.partition_of(record.key, landing.partitions)
            if landing.fresh(partition, change.position.after(number) if number else change.position):
                self._pending[table.topic, partition].records.append(record)
                self.counts.records += 1
            else:
                self.counts.skipped += 1
        self.counts.last_commit_ms = change.time_ms

    def _take_run(self, run: Run, now_ms: int) -> None:
        landings = [self._landings.get(table.topic) or self._land(table) for table in run.tables]
        if any(run.first <= last for landing in landings for last in landing.last):
            # Some of it may be in the topics: each change is looked at.
            for change in run.changes():
                self._take(change, now_ms)
            return
        routes = [Route(landing.partitions, self._values.follows(landing.topic)) for landing in landings]
        written = run.written(routes, now_ms=now_ms)
        for table, partition, contents, last in written.landed:
            self._landings[table.topic].last[partition] = last
            self._pending[table.topic, partition].add_contents(contents)
            self.counts.records += len(contents.times)
        for table, key, fragments in written.kept:
            self._values.note_joined(table, key, fragments)
        self.counts.changes += run.rows
        self.counts.last_commit_ms = written.last_ms

    def _land(self, table: CapturedTable) -> Landing:
        kept = table.plain or bool(table.schema and table.key)
        configs = PLAIN if table.plain else KEYED if kept else UNKEYED if table.schema else EVENTS
        partitions = self._appender.ensure_topic(
            table.topic, partitions=self._partitions if kept else 1, configs=configs
        )
        landing = self._landings[table.topic] = Landing(self._appender, table.topic, partitions)
        if not self._commits.land(table.topic, partitions):
            self._floor = max(self._floor, *landing.last)
        for partition in range(0 if table.plain else partitions):
            self._values.catch_up(self._appender, table, partition)
        return landing

    def _wanted(self, change: Change, landing: Landing) -> bool:
        """Rows of a snapshot that the topic has already, in this version or a later one, are left out."""
        assert change.after is not None
        key = self._envelopes.key(change.table, change.after)
        if change.superseded:
            filled = self._values.gaps_filled(change.table, key, change.after)
            if filled is None:
                return False
            change.after = filled
            return True
        return not landing.read_already(change.chunk, key)

    def _complete(self, change: Change) -> None:
        assert change.after is not None
        key = old = self._envelopes.key(change.table, change.after)
        if change.before is not None:
            old = self._envelopes.key(change.table, change.before)  # the key may be what was updated
        change.after = self._values.completed(change.table, old, change.after)
        if None in change.after:
            self.counts.unavailable += change.after.count(None)
            if change.key_text is not None:
                self._ask(change.table.full_name, change.key_text, moved=old != key)

    def _ask(self, table: str, key: tuple[str, ...], *, moved: bool) -> None:
        self._asked = True
        self._asked_for[f"{WANTED}{table}/{'/'.join(map(quote_plus, key))}"] = {"table": table, "key": key}
        self._source.read_row(table, key, moved=moved)

    def _ask_again(self) -> None:
        """For rows that were asked for and had not come: their changes are in the topic, and may be skipped now."""
        for what, note in self._notes.all().items():
            if what.startswith(WANTED):
                self._asked_noted.add(what)
                key: Sequence[str] = note["key"]  # type: ignore[assignment]
                self._source.read_row(str(note["table"]), tuple(key), moved=True)

    def _note_values(self, change: Change, key: bytes | None) -> None:
        """`key` is that of the last record that the change makes."""
        table = change.table
        if change.operation == DELETE or (change.operation == UPDATE and change.before is not None):
            assert change.before is not None
            self._values.forget(table.topic, self._envelopes.key(table, change.before))
        if change.after is not None:
            self._values.note(table, key, change.after)

    def _truncate(self, change: Change, landing: Landing, now_ms: int) -> None:
        """Every row that the topic still has is deleted: compacted topics have no other word for it."""
        self._append()
        commit, address, _ = change.position
        for partition in range(landing.partitions):
            last = landing.last[partition]
            if last[:2] > (commit, address):
                continue
            number = last.number + 1 if last[:2] == (commit, address) else change.position.number
            for key in live_keys(self._appender, change.table.topic, partition, older_than=change.older_than):
                change.position = SourcePosition(commit, address, number)
                records = [record for _, record in self._envelopes.deletion(change, key, key, now_ms=now_ms)]
                self._pending[change.table.topic, partition].records.extend(records)
                self._values.forget(change.table.topic, key)
                self.counts.records += len(records)
                number += len(records)
                landing.last[partition] = SourcePosition(commit, address, number - 1)

    # -- records into the log, and the word to the source ------------------------------------------------------------

    def _append(self) -> None:
        if not self._pending:
            return
        if self._asked_for:
            # Before their changes are in the topic: from then on only this says that rows are still to come.
            wanted, self._asked_for = self._asked_for, {}
            self._notes.write(wanted)
            self._asked_noted |= wanted.keys()
        pending, self._pending = self._pending, defaultdict(PendingRecords)
        if self._transactional:
            self._commits.announce({topic for topic, _ in pending})
        for where, waiting in pending.items():
            self._point("before append")
            count, end = len(waiting), waiting.append(self._appender, *where)
            self._commits.appended(TopicPartition(*where), end, count)
            self._values.reach(TopicPartition(*where), end)
        self._point("after append")
        self._appender.sync()
        self._point("after sync")

    def _write(self, notes: Mapping[str, Note | None]) -> None:
        self._append()
        if self._commits.due:
            self._point("before commit point")
        self._commits.write()
        if self._came_by:
            notes = {**notes, **dict.fromkeys(self._asked_noted)}
            self._asked_for, self._asked_noted = {}, set()
        if notes:
            self._notes.write(notes)
            self._point("after notes")
            self._tell_schemas(notes)
        now_ms = self._clock.elapsed_ms()
        if self._values.pending > VALUES_PENDING_MAX or now_ms - self._values_at_ms > VALUES_INTERVAL_MS:
            self._values_at_ms = now_ms
            self._values.flush()

    def _confirm_if_due(self) -> None:
        if self._clock.elapsed_ms() - self._confirmed_at_ms >= CONFIRM_INTERVAL_MS:
            self._confirm()

    def _confirm(self) -> None:
        """All before `_safe` is durable.

        What is about to be confirmed is noted first: a source whose confirmed position
        is after the notes has been read by another client."""
        self._confirmed_at_ms = self._clock.elapsed_ms()
        if self._safe > self._confirmed and not self._pending:
            self._notes.write({"confirmed": {"address": self._safe}})
            self._point("before confirm")
            self._source.confirm(self._safe)
            self._confirmed = self._safe
            self._point("after confirm")


def live_keys(appender: Appender, topic: str, partition: int, *, older_than: int = 0) -> list[bytes]:
    """Keys whose last record is not a deletion (and was committed before `older_than`, if given), oldest first."""
    live: dict[bytes, None] = {}
    first, _ = appender.bounds(topic, partition)
    for record in appender.read(topic, partition, first):
        if record.key is None:
            continue
        live.pop(record.key, None)
        if record.value is None or DELETED in record.value[-TAIL_BYTES:]:
            continue
        if not older_than or position_of(record, topic).commit < older_than:
            live[record.key] = None
    return list(live)
