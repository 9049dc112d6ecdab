"""PostgreSQL as a source of changes: one replication stream, one ordinary connection, one thread.

`poll` is the heart: it takes what the stream has, turns it into changes, and where the mark of a chunk comes by puts
the chunk's rows at that mark. What is done on the side (reading the next chunk, heartbeats, looking at the slot) is
done between two polls.
"""

import logging
import uuid
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING

from psycopg.sql import Composed

from headwater.capture.change import (
    READ,
    RECORDS_PER_CHANGE,
    TRUNCATE,
    CapturedTable,
    Change,
    SourcePosition,
)
from headwater.capture.notes import Note
from headwater.capture.postgresql.assembler import Accounts, Assembler, SourceBlock, Transaction, generation_base
from headwater.capture.postgresql.catalog import Catalog
from headwater.capture.postgresql.database import Database
from headwater.capture.postgresql.pgoutput import Begin, Decoder, LogicalMessage
from headwater.capture.postgresql.replication import DATA, ReplicationConnection, parse_data, parse_keepalive, whole_end
from headwater.capture.postgresql.row_queries import WholeTable, chunk_query, keys_query, read_rows
from headwater.capture.postgresql.setup import (
    check_slot,
    create_slot,
    drop_slot,
    identify,
    lsn,
    protocol_version,
)
from headwater.capture.postgresql.slot_monitor import SlotWatch
from headwater.capture.postgresql.snapshot import TableSnapshot, Window, joined, reshaped, rows_of_chunk, snapshots_of
from headwater.capture.postgresql.tables import Plan, TableFacts
from headwater.capture.postgresql.wal_budget import AtLimit
from headwater.capture.source import Batch, SourceStatus
from headwater.clock import Clock
from headwater.errors import InvalidCapture, SourceGap
from headwater.settings import milliseconds

if TYPE_CHECKING:
    from headwater.capture.postgresql.rows.run import RunFinder

_logger = logging.getLogger(__name__)

RECEIVE_BYTES = 512 * 1024
"""At once: changes are turned into records while they are still in the processor's cache."""

RUNS_FROM_MESSAGES, RUN_MESSAGES_MIN = 256, 16
"""Where so many have come at once, so many that follow each other are not taken one by one if they allow it."""

COPY_ROWS = 10_000
MENDED_ROWS = 500
RECENT_TRANSACTIONS = 65_536
STATUS_INTERVAL_MS = 1_000
WATCH_INTERVAL_MS = 10_000
MARK, HEARTBEAT = "headwater.snapshot", "headwater.heartbeat"


@dataclass(frozen=True, kw_only=True)
class PostgresSettings:
    """The settings of a PostgreSQL source."""

    capture: str
    url: str
    tables: tuple[str, ...]
    topic: str
    """A template: {capture}, {schema} and {table} are filled in."""

    name: str
    """Of the slot and the publication."""

    snapshot: bool = True
    transactions: str = ""
    """The topic for the begin and end of every transaction; "" for none."""

    heartbeat: timedelta = timedelta(seconds=10)
    retained_bytes_max: int | None = None
    at_limit: AtLimit = AtLimit.DROP_SLOT
    version: str = "headwater"


class PostgresSource:
    """A ChangeSource; see source.py for the contract."""

    def __init__(self, settings: PostgresSettings, clock: Clock) -> None:
        self.settings, self._clock = settings, clock
        self._decoder = Decoder()
        self._snapshots: dict[str, TableSnapshot] = {}
        self._window: Window | None = None
        self._whole: tuple[TableSnapshot, WholeTable] | None = None
        self._recent: deque[int] = deque(maxlen=RECENT_TRANSACTIONS)
        self._settled_from = self._generation = 0
        self._notes: dict[str, Note | None] = {}
        self._confirmed = self._keepalive = 0
        self._rows_read = self._bytes_read = 0
        self._status = SourceStatus()
        self._status_at_ms = self._watched_at_ms = self._heartbeat_at_ms = -(10**9)
        self._ahead: list[bytes] = []
        self._wanted: dict[str, dict[tuple[str, ...], None]] = {}
        self._copying: Generator[Change] | None = None
        self._runs_allowed, self._runs = False, None  # type: bool, RunFinder | None

    # -- opening and closing -----------------------------------------------------------------------------------------

    def allow_runs(self) -> None:
        self._runs_allowed = True

    def open(self, notes: Mapping[str, Note]) -> None:
        self._database = Database(self.settings.url)
        self._replication = ReplicationConnection(self.settings.url, self._clock)
        self._identity = identify(self._replication, self._database)
        self._source = SourceBlock(
            capture=self.settings.capture, database=self._identity.database, version=self.settings.version
        )
        self._catalog = self._open_catalog(notes)
        self._watch_slot = self._watching(self._database)
        self._publish(all_there=not any(what.startswith("snapshot/") for what in notes))
        if "renew" in notes:
            notes = self._renew(notes)
        else:
            self._find_slot(notes)
        accounts = Accounts(self.settings.transactions) if self.settings.transactions else None
        self._assembler = Assembler(self._catalog.plan, self._source, generation=self._generation, accounts=accounts)
        self._load_snapshots(notes)
        self._copy_missed()
        self._confirmed = int(str(notes.get("confirmed", {}).get("address", 0)))
        self._start()

    def _watching(self, database: Database) -> SlotWatch:
        return SlotWatch(
            database, self._clock, capture=self.settings.capture, slot=self.settings.name,
            limit=self.settings.retained_bytes_max, at_limit=self.settings.at_limit,
        )  # fmt: skip

    def guard(self) -> SourceStatus:
        """Monitors the slot while no capture reads. SourceGap if it kept too much WAL, and was dropped."""
        status, database = SourceStatus(), Database(self.settings.url)
        try:
            self._watching(database).guard(status)
        finally:
            database.close()
        return status

    def tables(self) -> Sequence[CapturedTable]:
        return [self._catalog.plan_of(facts).table for facts in self._catalog.facts.values()]

    def _open_catalog(self, notes: Mapping[str, Note]) -> Catalog:
        name = self.settings.name
        if "slot" in notes and "renew" not in notes and self._database.published(name) is None:
            # A new one would not help: the slot decodes with the catalog of the time when changes were written.
            raise SourceGap(
                f"publication {name} was deleted from the database",
                f'Changes may be missing: copy the tables again with "headwater capture snapshot '
                f'{self.settings.capture}".',
            )
        catalog = Catalog(
            self._database, self.settings.tables,
            capture=self.settings.capture, topic=self.settings.topic, publication=name,
        )  # fmt: skip
        catalog.remember(notes)
        return catalog

    def _publish(self, *, all_there: bool) -> None:
        """Makes sure that the publication covers all wanted tables."""
        if self._catalog.publish(all_there=all_there):
            self._let_settle()

    def _let_settle(self) -> None:
        """A transaction that wrote to a table before it was published, and commits later, is in no stream: a copy of
        the table is only begun when all of that age have ended."""
        self._settled_from = self._database.visible().end

    def _copy_missed(self) -> None:
        """Tables that were captured before, and were then dropped and created, or taken out of the publication and put
        back: a new copy brings the changes that were missed."""
        for table in self._catalog.facts.values():
            known = self._snapshots.get(table.full_name)
            if known is None or known.entry == self._entry(table.full_name):
                continue
            if self.settings.snapshot:
                _logger.warning("changes of table %s were missed for a while; it is copied again", table.full_name)
                self._let_settle()
                self._keep(self._fresh(table, renews=self._renewed_from_now()))
            else:
                _logger.warning("changes of table %s were missed for a while", table.full_name)
                self._keep(replace(known, entry=self._entry(table.full_name)))

    def _copy_reshaped(self) -> None:
        """Partitions that were attached or detached: rows have appeared or disappeared without a change event."""
        for table in list(self._catalog.facts.values()):
            known = self._snapshots.get(table.full_name)
            if known is None or not table.partitioned:
                continue
            now = tuple(self._database.partitions(table.id))
            if known.partitions is None:
                self._keep(replace(known, partitions=now))
            elif (wanted := reshaped(known, now)) is not None and self.settings.snapshot:
                _logger.warning("table %s has other partitions than before; rows are copied again", table.full_name)
                # The copy of a table without a key begins by deleting all rows that its topic has.
                where = wanted.where if table.key else ""
                renews = self._renewed_from_now() if wanted.vanished else 0
                self._keep(replace(self._fresh(table, where=where, renews=renews), partitions=now))

    def _renewed_from_now(self) -> int:
        now = int(str(self._database.one("SELECT (pg_current_wal_lsn() - '0/0')::bigint")))
        return generation_base(self._generation) + now

    def _entry(self, table: str) -> int:
        return self._catalog.entries.get(table, 0)

    def _fresh(self, table: TableFacts, *, where: str = "", renews: int = 0) -> TableSnapshot:
        # Asked for before anything is read: what is attached later is seen as another one.
        partitions = tuple(self._database.partitions(table.id)) if table.partitioned else None
        return TableSnapshot(
            table.full_name, uuid.uuid4().hex[:12],
            estimate=table.rows, where=where, renews=renews, entry=self._entry(table.full_name), partitions=partitions,
        )  # fmt: skip

    def _find_slot(self, notes: Mapping[str, Note]) -> None:
        name = self.settings.name
        self._generation = int(str(notes.get("slot", {}).get("generation", 0)))
        if check_slot(name, self._database.slot(name), notes, self._identity):
            self._note_slot(create_slot(self._replication, name, self._identity))
        elif "slot" not in notes and (found := self._database.slot(name)):
            # It was made, and the node ended before it could note so.
            self._note_slot(found.confirmed)

    def _renew(self, notes: Mapping[str, Note]) -> Mapping[str, Note]:
        """After a gap: a new slot, and every table is copied again. Positions start a new generation, so that they are
        after all that the topics have, even if the database is another one and counts from the beginning."""
        drop_slot(self._database, self.settings.name)
        self._generation = int(str(notes.get("slot", {}).get("generation", 0))) + 1
        address = create_slot(self._replication, self.settings.name, self._identity)
        self._note_slot(address)
        self._notes |= {"confirmed": None, "renew": None}
        renews = generation_base(self._generation) + address
        for table in self._catalog.facts.values():
            self._keep(self._fresh(table, renews=renews))
        kept = {f"snapshot/{name}": one.to_note() for name, one in self._snapshots.items()}
        return {**{what: note for what, note in notes.items() if what != "confirmed"}, **kept}

    def _note_slot(self, address: int) -> None:
        self._notes["slot"] = {
            "name": self.settings.name, "system": self._identity.system,
            "address": address, "generation": self._generation,
        }  # fmt: skip

    def _start(self) -> None:
        options = {
            "proto_version": str(protocol_version(self._identity.version)),
            "publication_names": f'"{self.settings.name}"',
            "messages": "true",
        }
        self._replication.start(self.settings.name, self._confirmed, options)

    def close(self) -> None:
        for connection in (getattr(self, "_replication", None), getattr(self, "_database", None)):
            if connection is not None:
                connection.close()
        if self._whole is not None:
            self._whole[1].close()
        if self._copying is not None:
            self._copying.close()

    def _load_snapshots(self, notes: Mapping[str, Note]) -> None:
        self._snapshots = snapshots_of(notes)
        self._want_snapshots()

    def _want_snapshots(self) -> None:
        for table in self._catalog.facts.values():
            if table.full_name not in self._snapshots:
                fresh = self._fresh(table)
                self._keep(fresh if self.settings.snapshot else replace(fresh, done=True))

    def _keep(self, snapshot: TableSnapshot) -> None:
        self._snapshots[snapshot.table] = snapshot
        self._notes[f"snapshot/{snapshot.table}"] = snapshot.to_note()

    # -- on demand ---------------------------------------------------------------------------------------------------

    def copy_again(self, tables: Sequence[str], *, where: str = "") -> None:
        known = {facts.full_name: facts for facts in self._catalog.facts.values()}
        for table in tables or known:
            if (facts := known.get(table)) is None:
                raise InvalidCapture(
                    f"capture {self.settings.capture} has no table {table}", f"It has: {', '.join(sorted(known))}."
                )
            fresh = self._fresh(facts, where=where)
            self._keep(joined(self._snapshots.get(table), fresh, keyed=bool(facts.key)))

    # -- the stream --------------------------------------------------------------------------------------------------

    def poll(self, timeout_seconds: float) -> Batch:
        if self._copying is not None:
            return self._copied()
        self._watch()
        self._advance_snapshot()
        busy = self._window is not None or self._whole is not None
        received, self._ahead = self._ahead, []
        received += self._replication.receive(
            0 if received else timeout_seconds if not busy else 0.05, bytes_max=RECEIVE_BYTES
        )
        end = whole_end(received)
        received, self._ahead = received[:end], received[end:]
        answer, index, runs = False, 0, None if busy else self._begin_runs(received)
        while index < len(received):
            if runs is not None and (after := runs.take(index)) > index:
                index = after
                continue
            data = received[index]
            if data[0] != DATA:
                keepalive = parse_keepalive(data)
                self._keepalive, answer = keepalive.end, answer or keepalive.answer
            elif not self._take(*parse_data(data)):
                self._ahead = received[index:] + self._ahead
                break
            index += 1
        self._recent.extend(self._assembler.committed)
        self._assembler.committed.clear()
        self._tell(answer)
        return self._batch()

    def _begin_runs(self, received: Sequence[bytes]) -> "RunFinder | None":
        """Where many messages have come. Not while a table is copied: then each is looked at."""
        if not self._runs_allowed or len(received) < RUNS_FROM_MESSAGES:
            return None
        if self._runs is None:
            from headwater.capture.postgresql.rows.loading import run_finder

            self._runs = run_finder(self._assembler, messages_min=RUN_MESSAGES_MIN)
        if self._runs is not None:
            self._runs.begin(received)
        return self._runs

    def _take(self, address: int, data: bytes) -> bool:
        """Whether it was taken: not so if a table must be read as a whole before the stream continues."""
        if self._window is None and self._assembler.take_row(address, data):
            return True
        message = self._decoder.decode(data)
        if self._whole is not None and self._due(message):
            self._copying = self._read_whole()
            return False
        if isinstance(message, LogicalMessage) and not message.transactional:
            self._mark(message)
            return True
        if self._window is None:
            self._assembler.take(address, message)
            return True
        before = len(self._assembler.changes)
        self._assembler.take(address, message)
        if self._assembler.transaction:
            for change in self._assembler.changes[before:]:
                if change.table.full_name == self._window.snapshot.table:
                    self._window.note(change, self._assembler.transaction.id)
        return True

    def _copied(self) -> Batch:
        """The next rows of a table that is read as a whole; the stream waits."""
        assert self._copying is not None
        changes = list(islice(self._copying, COPY_ROWS))
        if len(changes) < COPY_ROWS:
            self._copying = None
        self._tell(answer=False)
        return Batch(changes, self._take_notes(), inside=False)

    def _take_notes(self) -> dict[str, Note | None]:
        notes = {**self._notes, **self._catalog.notes}
        self._notes, self._catalog.notes = {}, {}
        return notes

    def _due(self, message: object) -> bool:
        assert self._whole is not None
        if isinstance(message, LogicalMessage):
            return not message.transactional and message.address >= self._whole[1].address
        return isinstance(message, Begin) and message.commit >= self._whole[1].address

    def _batch(self) -> Batch:
        changes, self._assembler.changes = self._assembler.changes, []
        notes = self._take_notes()
        safe = None
        if self._wanted or (self._window is not None and self._window.completes):
            pass  # a gap in a row is closed by asking for it: after a crash its change must come again
        elif not self._assembler.inside and not self._ahead:
            # What the server says it has sent has been taken: it came before its word in the stream.
            safe = max(self._assembler.end, self._keepalive)
        elif self._assembler.end:
            safe = self._assembler.end
        if safe is not None:
            # A server that was killed remembers less than was confirmed, and begins by saying so.
            safe = max(safe, self._confirmed)
        self._assembler.marks.clear()
        runs = [] if self._runs is None else self._runs.take_found()
        return Batch(changes, notes, safe, runs, self._assembler.inside, self._passed(), bool(self._ahead))

    def _passed(self) -> SourcePosition:
        """The position after all messages. Rows at a mark stand at address 0 of what may be the next commit's."""
        sent = 0 if self._ahead or self._assembler.inside else self._keepalive
        return SourcePosition(self._assembler.base + max(self._assembler.end, self._confirmed, sent), 1, 0)

    def confirm(self, address: int) -> None:
        self._confirmed = max(self._confirmed, address)
        self._send_status(answer=False)

    def _tell(self, answer: bool) -> None:
        """Let the server know we live; ask how far it is, so that a quiet table does not hold its WAL."""
        if answer or self._clock.elapsed_ms() - self._status_at_ms >= STATUS_INTERVAL_MS:
            self._send_status(answer=not answer)

    def _send_status(self, *, answer: bool) -> None:
        self._status_at_ms = self._clock.elapsed_ms()
        self._replication.send_status(self._confirmed, answer=answer)

    # -- snapshots ---------------------------------------------------------------------------------------------------

    def _advance_snapshot(self) -> None:
        if self._window is not None or self._whole is not None or self._assembler.inside:
            return
        if self._wanted:
            self._begin_mending()
            return
        snapshot = next((one for one in self._snapshots.values() if not one.done), None)
        if snapshot is None or (self._settled_from and not self._settle()):
            return
        facts = self._catalog.named(snapshot.table)
        if facts is None:
            _logger.warning("table %s was deleted; its copy ends here", snapshot.table)
            self._keep(replace(snapshot, done=True))
            return
        if facts.key:
            self._begin_chunk(snapshot, facts)
        else:
            self._begin_whole(snapshot)

    def _settle(self) -> bool:
        if self._database.visible().first >= self._settled_from:
            self._settled_from = 0
        return not self._settled_from

    def _begin_chunk(self, snapshot: TableSnapshot, facts: TableFacts) -> None:
        limit = rows_of_chunk(self._rows_read, self._bytes_read)
        query = chunk_query(facts, after=snapshot.after, where=snapshot.where, limit=limit)
        rows = self._open_window(snapshot, facts, query, limit)
        self._rows_read += len(rows)
        self._bytes_read += sum(len(cell) for row in rows for cell in row if cell)

    def _open_window(
        self, snapshot: TableSnapshot, facts: TableFacts, query: Composed, limit: int, *, completes: bool = False
    ) -> Sequence[list[bytes | None]]:
        """Read, and send the mark after it. Nothing is read if a moment must be waited for."""
        read = read_rows(self._database, query, self._recent)
        if read is None:
            return []
        visible, rows = read
        self._recent.clear()
        mark = f"{snapshot.id}/{snapshot.rows}/{uuid.uuid4().hex[:8]}"
        self._window = Window(snapshot, facts, visible, mark, rows, last=len(rows) < limit, completes=completes)
        self._database.emit(f"{MARK}.{self.settings.name}", mark)
        return rows

    def read_row(self, table: str, key: tuple[str, ...], *, moved: bool) -> None:
        copy = self._snapshots.get(table)
        if copy and not copy.done and not copy.where and not moved:
            # The copy has not come to this row, or the topic would know it: so it will. A row that has moved may have
            # come from before the copy to after it.
            return
        self._wanted.setdefault(table, {})[key] = None

    def _begin_mending(self) -> None:
        """Ask for rows that the topic has with a gap, in the same way as for a chunk, so that they cannot be old."""
        table, keys = next(iter(self._wanted.items()))
        facts = self._catalog.named(table)
        if facts is None or not facts.key:
            del self._wanted[table]
            return
        some = list(keys)[:MENDED_ROWS]
        names = [column.name for column in facts.columns if column.name in facts.key]
        completing = TableSnapshot(table, f"mend-{uuid.uuid4().hex[:12]}")
        self._open_window(completing, facts, keys_query(facts, some, names), len(some), completes=True)
        if self._window is not None:
            self._wanted[table] = {key: None for key in keys if key not in set(some)}
            if not self._wanted[table]:
                del self._wanted[table]

    def _mark(self, message: LogicalMessage) -> None:
        window = self._window
        if (
            window is None
            or message.prefix != f"{MARK}.{self.settings.name}"
            or message.content.decode() != window.mark
        ):
            return
        self._window = None
        plan = self._catalog.plan_of(window.facts)
        origin = Transaction(0, message.address, self._clock.now_ms() * 1000)
        source = self._source.of(plan.table, origin, message.address, snapshot="incremental")
        chunk, key_indexes = f"{window.snapshot.id}/{window.snapshot.rows}".encode(), plan.table.key
        for number, cells in enumerate(window.rows):
            row = plan.row(cells)  # type: ignore[arg-type]
            position = self._position(message.address, number)
            superseded = window.superseded(tuple(row[index] for index in key_indexes))
            self._assembler.changes.append(
                Change(
                    plan.table, READ, position, source, None, row, origin.time_us // 1000, chunk, superseded=superseded
                )
            )
        if not window.completes:
            self._end_chunk(window, plan, message.address)

    def _end_chunk(self, window: Window, plan: Plan, address: int) -> None:
        last = None
        if window.rows:
            indexes = [plan.table.columns.index(name) for name in window.facts.key]
            last = tuple((window.rows[-1][index] or b"").decode() for index in indexes)
        if (known := self._snapshots[window.snapshot.table]).id == window.snapshot.id:
            self._keep(known.advanced(last=last, rows=len(window.rows), done=window.last))
        if window.last and window.snapshot.renews:
            self._end_missing(plan.table, address, len(window.rows), window.snapshot.renews)

    def _end_missing(self, table: CapturedTable, address: int, rows: int, renews: int) -> None:
        """After a gap: keys that neither the copy nor a change since has named no longer exist."""
        origin = Transaction(0, address, self._clock.now_ms() * 1000)
        source = self._source.of(table, origin, address, snapshot="incremental")
        position = self._position(address, rows)
        self._assembler.changes.append(
            Change(table, TRUNCATE, position, source, time_ms=origin.time_us // 1000, older_than=renews)
        )

    def _position(self, address: int, number: int) -> SourcePosition:
        """Of a row that is no part of a transaction, but stands at an address of the log.

        A mark is sent with the address after it, which may be that of the commit that follows: so it must come before
        all changes of a transaction that is committed there.
        """
        return SourcePosition(generation_base(self._generation) + address, 0, number * RECORDS_PER_CHANGE)

    # -- tables without a key ----------------------------------------------------------------------------------------

    def _begin_whole(self, snapshot: TableSnapshot) -> None:
        """Make a snapshot at an address ahead of the stream, and a mark after it, so that the stream gets there."""
        name = f"{self.settings.name[:50]}_{uuid.uuid4().hex[:8]}"
        whole = WholeTable(
            Database(self.settings.url), ReplicationConnection(self.settings.url, self._clock), name, self._identity
        )
        self._whole = (snapshot, whole)
        self._database.emit(f"{MARK}.{self.settings.name}", f"{snapshot.id}/whole")

    def _read_whole(self) -> Generator[Change]:
        """Emits all rows as of the stream's position; rows that an interrupted attempt has written are deleted."""
        assert self._whole is not None
        (snapshot, whole), self._whole = self._whole, None
        facts = next(one for one in self._catalog.facts.values() if one.full_name == snapshot.table)
        plan = self._catalog.plan_of(facts)
        origin = Transaction(0, whole.address, self._clock.now_ms() * 1000)
        source = self._source.of(plan.table, origin, whole.address, snapshot="true")
        time_ms, chunk, count = origin.time_us // 1000, snapshot.id.encode(), 0
        start = self._position(whole.address, 0)
        try:
            yield Change(plan.table, TRUNCATE, start, source, time_ms=time_ms, chunk=chunk)
            for count, cells in enumerate(whole.rows(facts), 1):
                position = self._position(whole.address, count)
                row = plan.row(cells)  # type: ignore[arg-type]
                yield Change(plan.table, READ, position, source, None, row, time_ms, chunk)
        finally:
            whole.close()
        if (known := self._snapshots[snapshot.table]).id == snapshot.id:
            self._keep(known.advanced(last=None, rows=count, done=True))

    # -- looking after it --------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        now_ms = self._clock.elapsed_ms()
        if now_ms - self._heartbeat_at_ms >= milliseconds(self.settings.heartbeat) > 0:
            self._heartbeat_at_ms = now_ms
            self._database.emit(HEARTBEAT, self.settings.name)
        self._watch_slot.look(self._status, self._confirmed)
        if now_ms - self._watched_at_ms >= WATCH_INTERVAL_MS:
            self._watched_at_ms = now_ms
            self._publish(all_there=False)
            self._copy_missed()
            self._want_snapshots()
            self._copy_reshaped()

    def status(self) -> SourceStatus:
        self._status.position = lsn(max(self._confirmed, self._assembler.end))
        self._status.snapshots = [one.progress for one in self._snapshots.values()]
        left_out = self._catalog.left_out
        if left_out and not self._status.warning:
            self._status.warning = f"left out: {', '.join(left_out)}; headwater capture check says why"
        return self._status
