"""Copies of tables while changes are captured: which is next, what was read, and where it belongs.

A chunk is one query in a transaction that sees exactly what was committed up to a position of the log: MariaDB reports
that position. So its rows are written where the stream comes to that position, between the changes before and after it.
No lock is needed, no mark in the log, and no comparing of keys. If the stream is ahead of the position already (a
commit is in the log a moment before queries see it), the chunk is read again a moment later.
"""

import logging
import uuid
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from headwater.capture.change import READ, TRUNCATE, CapturedTable, Change
from headwater.capture.mariadb_binlog.assembler import Assembler
from headwater.capture.mariadb_binlog.catalog import Catalog, TextPlan
from headwater.capture.mariadb_binlog.database import Cells, Database, WholeTable
from headwater.capture.mariadb_binlog.positions import BinlogPosition
from headwater.capture.mariadb_binlog.source_block import SourceBlock
from headwater.capture.mariadb_binlog.tables import TableCopy, TableFacts, rows_of_chunk
from headwater.capture.mariadb_binlog.text_values import literal
from headwater.capture.notes import Note
from headwater.capture.source import TableProgress
from headwater.errors import InvalidCapture

_logger = logging.getLogger(__name__)
PREFIX = "snapshot/"
ALL_ROWS = ""
"""The condition of a copy of all rows."""

COPY_ROWS = 10_000


@dataclass
class Window:
    """A chunk that was read, from its query until the stream comes to its position."""

    copy: TableCopy
    facts: TableFacts
    position: BinlogPosition
    rows: Sequence[Cells]
    last: bool
    """Whether it was the last chunk."""


class Copies:
    """All copies of a capture; one at a time is under way.

    `notes` fills, and the caller that writes them empties it.
    """

    def __init__(self, url: str, database: Database, catalog: Catalog, source: SourceBlock, *, server: int) -> None:
        self._url, self._database, self._catalog = url, database, catalog
        self._source, self._server = source, server
        self._copies: dict[str, TableCopy] = {}
        self._window: Window | None = None
        self._whole: tuple[TableCopy, TableFacts, WholeTable] | None = None
        self._reading: Generator[Change] | None = None
        self._rows_read = self._bytes_read = 0
        self.number = 0
        """Of the next chunk. It only grows, and also with every start: what an interrupted attempt has written never
        lies after what the next one writes."""

        self.notes: dict[str, Note | None] = {}

    def load(self, notes: Mapping[str, Note]) -> None:
        self._copies = {
            what.removeprefix(PREFIX): TableCopy.from_note(note)
            for what, note in notes.items()
            if what.startswith(PREFIX)
        }

    def close(self) -> None:
        if self._whole is not None:
            self._whole[2].close()
        if self._reading is not None:
            self._reading.close()

    def __contains__(self, table: str) -> bool:
        return table in self._copies

    def names(self) -> list[str]:
        return list(self._copies)

    @property
    def under_way(self) -> bool:
        return self._window is not None or self._whole is not None

    @property
    def reading(self) -> bool:
        """Whether a table is read as a whole: the stream waits."""
        return self._reading is not None

    def want(self, facts: TableFacts, *, where: str = "", renews: int = 0) -> None:
        self._want(TableCopy(facts.full_name, _fresh_id(), estimate=facts.rows, where=where, renews=renews))

    def want_named(self, table: str, *, renews: int) -> None:
        self._want(TableCopy(table, _fresh_id(), renews=renews))

    def _want(self, asked: TableCopy) -> None:
        self._number_on()
        known = self._copies.get(asked.table)
        self._keep(asked if known is None else known.joined_by(asked))

    def want_row(self, table: str) -> None:
        """Some row that was changed just now must be read. A copy that is under way may have passed it, and is followed
        by another then: restarted at each such row, it would not come to an end."""
        known = self._copies.get(table)
        if known is None or known.done:
            self.want_named(table, renews=0)
        elif (known.begun or known.where) and ALL_ROWS not in [where for _, where in known.then]:
            self._keep(replace(known, then=(*known.then, (_fresh_id(), ALL_ROWS))))

    def spare(self, table: str) -> None:
        """Nothing of it has to be copied: all its rows are in the stream, or none are wanted."""
        self._keep(TableCopy(table, _fresh_id(), done=True))

    def again(self, tables: Iterable[str], *, where: str) -> None:
        for table in tables:
            facts = self._catalog.facts(table)
            if facts is None:
                raise InvalidCapture(f"there is no table {table} in the database any more")
            if where and not facts.key:
                raise InvalidCapture(
                    f"table {table} has no primary key: its copy begins by deleting all rows that the topic has of it",
                    "Copy it as a whole, without --where.",
                )
            self.want(facts, where=where)

    def _keep(self, copy: TableCopy) -> None:
        self._copies[copy.table] = copy
        self.notes[f"{PREFIX}{copy.table}"] = copy.to_note()

    def _number_on(self) -> None:
        self.number += 1

    def progress(self) -> list[TableProgress]:
        return [TableProgress(one.table, one.rows, one.estimate, one.done) for one in self._copies.values()]

    # -- reading -----------------------------------------------------------------------------------------------------

    def advance(self, assembler: Assembler) -> None:
        """Read the next chunk, if there is one and its position differs from that of the stream."""
        if self.under_way or assembler.inside or assembler.verifying:
            return
        copy = next((one for one in self._copies.values() if not one.done), None)
        if copy is None:
            return
        facts = self._catalog.facts(copy.table)
        if facts is None:
            _logger.warning("table %s was deleted; its copy ends here", copy.table)
            self._end_missing(assembler, self._catalog.named(*copy.table.split(".", 1)), copy)
            self._keep(replace(copy, done=True, then=()))
        elif facts.key:
            self._read_chunk(copy, facts, assembler)
        else:
            self._begin_whole(copy, facts, assembler)

    def _read_chunk(self, copy: TableCopy, facts: TableFacts, assembler: Assembler) -> None:
        limit = rows_of_chunk(self._rows_read, self._bytes_read)
        read = self._database.chunk(facts, after=copy.after, where=copy.where, limit=limit)
        if read is None:
            return
        position, rows = read
        if assembler.ended_at is not None and position < assembler.ended_at:
            return  # the stream knows of commits that the query did not see
        self._rows_read += len(rows)
        self._bytes_read += sum(len(cell) for row in rows for cell in row if cell)
        self._window = Window(copy, facts, position, rows, last=len(rows) < limit)

    def _begin_whole(self, copy: TableCopy, facts: TableFacts, assembler: Assembler) -> None:
        # Without a condition, even if it was asked for when the table had a key: all rows that the topic has are
        # deleted.
        whole = WholeTable(self._url, facts)
        if assembler.ended_at is not None and whole.position < assembler.ended_at:
            whole.close()
            return
        self._whole = (copy, facts, whole)

    # -- at their position in the stream
    # --------------------------------------------------------------------------------

    def insert(self, assembler: Assembler) -> None:
        """If the stream has come to what was read, put it there."""
        if assembler.inside or assembler.at is None:
            return
        if self._window is not None and assembler.at >= self._window.position:
            window, self._window = self._window, None
            self._place_window(window, assembler)
        elif self._whole is not None and assembler.at >= self._whole[2].position:
            self._reading = self._read_whole(assembler)

    def _place_window(self, window: Window, assembler: Assembler) -> None:
        plan, time_ms = self._catalog.text_plan(window.facts), assembler.time_ms
        if window.copy.renews and not window.copy.begun:
            self._catalog.rekeyed.discard(plan.table.full_name)  # the copy emits all rows under their new keys
        chunk = f"{window.copy.id}/{window.copy.rows}".encode()
        source = self._block(plan.table, assembler, time_ms, "incremental")
        for number, cells in enumerate(window.rows):
            position = assembler.position(self.number, number)
            row = plan.row(cells)
            assembler.changes.append(Change(plan.table, READ, position, source, None, row, time_ms, chunk))
        self._end_chunk(window, plan, assembler)

    def _end_chunk(self, window: Window, plan: TextPlan, assembler: Assembler) -> None:
        last = None
        if window.rows:
            columns = {column.name: (index, column) for index, column in enumerate(window.facts.columns)}
            wanted = [columns[name] for name in window.facts.key]
            last = tuple(literal(column, window.rows[-1][index] or b"") for index, column in wanted)
        copy = self._copies[window.copy.table]
        current = copy.id == window.copy.id
        if current:
            self._keep(copy.advanced(last=last, rows=len(window.rows), done=window.last))
        self._number_on()
        if current and window.last:
            self._end_missing(assembler, [plan.table], copy)

    def _end_missing(self, assembler: Assembler, tables: Sequence[CapturedTable], copy: TableCopy) -> None:
        """Keys that neither the copy nor a change since has named no longer exist."""
        if not copy.renews:
            return
        time_ms = assembler.time_ms
        for table in tables:
            source = self._block(table, assembler, time_ms, "incremental")
            position = assembler.position(self.number, 0)
            change = Change(table, TRUNCATE, position, source, time_ms=time_ms, older_than=copy.renews)
            assembler.changes.append(change)
        self._number_on()

    def _block(self, table: CapturedTable, assembler: Assembler, time_ms: int, snapshot: str) -> bytes:
        position = assembler.at.position if assembler.at else 0
        return self._source.of(
            table, time_ms=time_ms, gtid=None, server=self._server, file=assembler.file, position=position, row=0,
            snapshot=snapshot,
        )  # fmt: skip

    # -- tables without a key ----------------------------------------------------------------------------------------

    def _read_whole(self, assembler: Assembler) -> Generator[Change]:
        """Emits all rows as of the stream's position; rows that an interrupted attempt has written are deleted."""
        assert self._whole is not None
        (copy, facts, whole), self._whole = self._whole, None
        plan, time_ms = self._catalog.text_plan(facts), assembler.time_ms
        source, chunk, count = self._block(plan.table, assembler, time_ms, "true"), copy.id.encode(), 0
        start = assembler.position(self.number, 0)
        try:
            yield Change(plan.table, TRUNCATE, start, source, time_ms=time_ms, chunk=chunk)
            for count, cells in enumerate(whole.rows(), 1):
                position = assembler.position(self.number, count)
                yield Change(plan.table, READ, position, source, None, plan.row(cells), time_ms, chunk)
        finally:
            whole.close()
        self._number_on()
        if (current := self._copies[copy.table]).id == copy.id:
            self._keep(current.advanced(last=None, rows=count, done=True))

    def some(self) -> list[Change]:
        """The next rows of a table that is read as a whole."""
        assert self._reading is not None
        changes = list(islice(self._reading, COPY_ROWS))
        if len(changes) < COPY_ROWS:
            self._reading = None
        return changes


def _fresh_id() -> str:
    return uuid.uuid4().hex[:12]
