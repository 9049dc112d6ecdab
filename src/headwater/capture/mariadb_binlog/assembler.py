"""Events of the binary log into changes, in its order, each with its position. Pure.

A group is what was committed as one: it begins with its GTID and ends with a commit. The log has committed groups only,
but for two: one that a crash of the server has cut off, which counts for nothing, and the first half of a distributed
transaction, which waits for its second.

The position of a change is the number of its group since the capture began, and its own number in the group. A GTID
alone could not be compared: several domains have no order but that of the log. What is noted is a GTID position and the
number that belongs to it, so a group that is read again gets the same number again.
"""

import zlib
from collections.abc import Callable, Mapping
from typing import NamedTuple

from headwater.capture.change import (
    CREATE,
    DELETE,
    RECORDS_PER_CHANGE,
    TRUNCATE,
    UPDATE,
    CapturedTable,
    Change,
    Row,
    SourcePosition,
)
from headwater.capture.mariadb_binlog.events import (
    CHANGE,
    HEARTBEAT,
    INSERT,
    Begin,
    Commit,
    Event,
    Format,
    Header,
    Heartbeat,
    Incident,
    Prepared,
    Query,
    Rotate,
    Rows,
    TableMap,
)
from headwater.capture.mariadb_binlog.gtid import Gtid, parse_position, position_text
from headwater.capture.mariadb_binlog.positions import BinlogPosition, Reached, binlog_position
from headwater.capture.mariadb_binlog.source_block import SourceBlock
from headwater.capture.mariadb_binlog.statements import COMMIT, ROLLBACK, Effect, Meaning, effects
from headwater.capture.mariadb_binlog.values import RowReader
from headwater.errors import SourceGap, UndecodableChange

HELD_BACK_MAX = 20_000
"""Changes of a group that wait for its end. A larger group passes in parts."""

PREPARED_MAX = 200_000
"""Changes of a distributed transaction that wait for its second half. The tables of a larger one are copied again."""

_END_BITS = 1 << 32


class Plan(NamedTuple):
    """How rows of one version of a table are read."""

    table: CapturedTable
    reader: RowReader


Planner = Callable[[bytes], Plan | None]
"""What to do with rows of a table, by its description; None for one that is not captured."""

Named = Callable[[str, str], list[CapturedTable]]
"""Captured tables of a schema with a name; with "" for the name all of the schema, with "" for both all there are."""


class Group(NamedTuple):
    gtid: Gtid
    standalone: bool
    prepared: bool
    time_ms: int
    server: int


class Half(NamedTuple):
    """The first half of a distributed transaction."""

    changes: list[Change]
    before: Reached
    """From where it can be read again."""

    given_up: Mapping[CapturedTable, None]
    """Tables that it has changed too often to remember how."""


class Assembler:
    """Takes events one by one; `changes` fills, and the caller empties it."""

    def __init__(
        self, planner: Planner, named: Named, source: SourceBlock, *, base: int, reached: Reached, verify: bool = False,
        emitted: int = 0, copies: bool = True,
    ) -> None:  # fmt: skip
        """`emitted`: the topics have all changes of so many groups.

        `copies`: a table whose changes cannot be read is copied.
        """
        self._planner, self._named, self._source, self._base = planner, named, source, base
        self._reached, self._verify, self._emitted, self._copies = reached, verify, emitted, copies
        start = reached.before if verify and reached.before is not None else reached.gtid
        self._position = parse_position(start)
        self._count = reached.count - 1 if verify else reached.count
        self._plans: dict[int, Plan | None] = {}
        self._group: Group | None = None
        self._mark = self._number = self._address = 0
        self._passing: list[Change] = []
        self._touched: dict[CapturedTable, None] = {}
        self._parts = False
        self._given_up: dict[CapturedTable, None] = {}
        self._prepared: dict[str, Half] = {}
        self._file = ""
        self.at: BinlogPosition | None = None
        """The position after the last event, once that is known."""

        self.ended_at: BinlogPosition | None = None
        """The position after the last group that has passed on this connection."""

        self.changes: list[Change] = []
        self.unlogged: dict[tuple[str, str], int] = {}
        """Tables whose rows changed without a row event, each with the number from which it is copied again."""

        self.created: set[tuple[str, str]] = set()
        self.time_ms = reached.time_ms
        """Of the next record: never before that of an earlier one."""

    @property
    def inside(self) -> bool:
        return self._group is not None

    @property
    def inside_emitted(self) -> bool:
        """Whether a group has been emitted in part, because it is too large to wait for its end."""
        return self._group is not None and self._parts

    @property
    def passed(self) -> SourcePosition:
        """The position after all groups that have ended, and all rows of copies that follow them."""
        return SourcePosition(self._base + self._count + (self._group is None), 0, -1)

    @property
    def reached(self) -> Reached:
        """The position to resume at: before the first half of a distributed transaction that has no second yet."""
        halves = (half.before for half in self._prepared.values())
        return min(halves, key=lambda one: one.count, default=self._reached)

    @property
    def verifying(self) -> bool:
        """Whether the group that was the last one has not come by again."""
        return self._verify

    @property
    def emitted(self) -> int:
        """How many groups have passed as a whole."""
        return max(self._emitted, self._reached.count)

    @property
    def count(self) -> int:
        return self._count

    @property
    def file(self) -> str:
        return self._file

    def position(self, address: int, number: int) -> SourcePosition:
        """The position after the last group that has passed."""
        return SourcePosition(self._base + self._count, address, number * RECORDS_PER_CHANGE)

    def take(self, header: Header, event: Event) -> None:
        match event:
            case Rows():
                self._rows(header, event)
            case TableMap(table, content):
                self._plans[table] = self._planner(content)
            case Begin():
                self._begin(header, event)
            case Commit():
                self._end()
            case Query(schema, statement):
                self._query(header, schema, statement)
            case Prepared(name, at_once):
                self._end(None if at_once else name)
            case Rotate(position, file):
                self._cut_off()
                self._file, self._plans = file, {}
                self.at = None if header.artificial else binlog_position(file, position)
            case Format():
                self._cut_off()
            case Heartbeat(file):
                self._file = file
                self._move(header)
            case Incident(said):
                raise SourceGap(
                    f"the database says that its log lacks something: {said or 'events were lost'}",
                    'Copy the tables again with "headwater capture snapshot NAME".',
                )
        if not isinstance(event, Rotate | Heartbeat):
            self._move(header)
        if self._group is None and isinstance(event, Commit | Query | Prepared):
            self.ended_at = self.at

    def _move(self, header: Header) -> None:
        if header.end and self._file and (header.type == HEARTBEAT or not header.artificial):
            here = binlog_position(self._file, header.end)
            if self.at is not None and self.at.file == here.file:
                # A header has room for 4 GiB only, and a group may be larger than the limit of a file.
                position = header.end + self.at.position - self.at.position % _END_BITS
                here = BinlogPosition(
                    here.file, position + _END_BITS if self.at.position - position > _END_BITS // 2 else position
                )
                here = max(here, self.at)
            self.at = here

    # -- groups ------------------------------------------------------------------------------------------------------

    def _begin(self, header: Header, event: Begin) -> None:
        self._cut_off()
        self._group = Group(event.gtid, event.standalone, event.prepared, header.time_s * 1000, header.server)
        self._count += 1
        self.time_ms = max(self.time_ms, header.time_s * 1000)
        self._mark, self._parts = zlib.crc32(b"%d" % header.time_s), False
        self._address = self._number = 0
        self._passing, self._touched, self._given_up = [], {}, {}

    def _cut_off(self) -> None:
        """A group without an end: the server crashed while it was written, and has not committed it."""
        if self._group is None:
            return
        self._group, self._passing = None, []
        if self._parts:
            self._take_back()
        else:
            self._count -= 1

    def _take_back(self) -> None:
        """Emitted changes were rolled back: their tables are copied again, under a number of its own."""
        self._count += 1
        self._mark_unlogged(self._touched)

    def _end(self, prepared: str | None = None) -> None:
        group = self._group
        if group is None:
            raise UndecodableChange("a commit came outside of a transaction")
        before = position_text(self._position)
        self._position[group.gtid.domain] = group.gtid
        self._group = None
        known = self._reached
        self._reached = Reached(
            position_text(self._position), self._count, before, str(group.gtid), self._mark, self.time_ms
        )
        if self._verify:
            self._compare(known)
            self._reached, self._count = known, known.count
        elif prepared is not None:
            self._prepared[prepared] = Half(self._passing, known, self._given_up)
        else:
            self._mark_unlogged(self._given_up)
            self.changes += self._passing
        self._passing = []

    def _compare(self, known: Reached) -> None:
        self._verify = False
        if (self._reached.gtid, self._reached.last, self._reached.mark) != (known.gtid, known.last, known.mark):
            raise SourceGap(
                f"the database's log has another transaction {known.last} than the one that was captured: it was begun "
                "again, or is an earlier state",
                'Changes may be missing: copy all again with "headwater capture snapshot NAME".',
            )

    def _complete(self, statement: str) -> None:
        """The second half of a distributed transaction."""
        _, word, name = (*statement.split(None, 2), "", "")[:3]
        if word.upper() not in (COMMIT, ROLLBACK):
            return
        half = self._prepared.pop(name.strip(), None)
        if word.upper() == ROLLBACK or self._verify:
            return
        if half is None:
            if self._count > self._emitted:  # its first half came before the capture began: its changes are unknown
                self._mark_unlogged(dict.fromkeys(self._named("", "")))
            return
        self._mark_unlogged(half.given_up)
        for change in half.changes:
            change.position, change.time_ms = self._next_position(), self.time_ms
        self._passing += half.changes

    def _next_position(self) -> SourcePosition:
        position = SourcePosition(self._base + self._count, self._address, self._number)
        self._number += RECORDS_PER_CHANGE
        return position

    # -- what is in them ---------------------------------------------------------------------------------------------

    def _query(self, header: Header, schema: str, statement: str) -> None:
        word = statement[:40].strip().partition(" ")[0].rstrip(";").upper()
        group = self._group
        if group is None:
            raise UndecodableChange(f"a statement came outside of a transaction: {statement[:40]}")
        if word == ROLLBACK and self._touched:
            self._take_back()
        if word == "XA":
            self._complete(statement)
        elif word not in (COMMIT, ROLLBACK, "BEGIN", "SAVEPOINT", "RELEASE"):
            self._mark = zlib.crc32(statement.encode(), self._mark)
            if not self._verify:
                for effect in effects(statement, schema):
                    self._take_effect(header, group, effect)
        if group.standalone or word == COMMIT or (word == ROLLBACK and " TO " not in statement.upper()):
            self._end()

    def _take_effect(self, header: Header, group: Group, effect: Effect) -> None:
        if effect.meaning is Meaning.CREATED:
            self.created.add((effect.schema, effect.table))
            return
        tables = self._named(effect.schema, effect.table)
        if effect.meaning is Meaning.UNLOGGED:
            self._mark_unlogged(dict.fromkeys(tables))
            return
        for table in tables:
            self._add(header, group, table, TRUNCATE, None, None, 0)
            # It becomes as many records as the table had rows, and rows of the same group may follow it.
            self._address, self._number = self._address + 1, 0

    def _mark_unlogged(self, tables: Mapping[CapturedTable, None]) -> None:
        for table in tables:
            self.unlogged[table.schema, table.name] = self._base + self._count

    def _rows(self, header: Header, event: Rows) -> None:
        group = self._group
        if group is None:
            raise UndecodableChange("rows came outside of a transaction")
        try:
            plan = self._plans[event.table]
        except KeyError:
            raise UndecodableChange(f"rows of table {event.table} came before its description") from None
        self._mark = zlib.crc32(event.data, self._mark)
        if plan is None or self._verify:
            return
        self._touched[plan.table] = None
        if event.width != len(plan.table.columns):
            raise UndecodableChange(f"rows of {plan.table.full_name} have {event.width} columns")
        pairs = plan.reader.rows(event.data, event.present, event.present_after if event.kind == CHANGE else None)
        for number, (first, second) in enumerate(pairs):
            if event.kind == INSERT:
                self._add(header, group, plan.table, CREATE, None, first, number)
            elif event.kind == CHANGE:
                assert second is not None
                if None in second:  # sent only as far as it has changed
                    second = [old if new is None else new for old, new in zip(first, second, strict=True)]
                self._add(header, group, plan.table, UPDATE, first, second, number)
            else:
                self._add(header, group, plan.table, DELETE, first, None, number)
        if group.prepared:
            self._give_up_if_large()
        elif len(self._passing) > HELD_BACK_MAX:
            self._parts = True
            self.changes += self._passing
            self._passing = []

    def _give_up_if_large(self) -> None:
        """Changes that are emitted only at their commit must be held until then: not more than there is room for."""
        if self._copies and (self._given_up or len(self._passing) > PREPARED_MAX):
            self._given_up, self._passing = self._touched, []

    def _add(
        self, header: Header, group: Group, table: CapturedTable, operation: str, before: Row | None, after: Row | None,
        row: int,
    ) -> None:  # fmt: skip
        source = self._source.of(
            table, time_ms=group.time_ms, gtid=str(group.gtid), server=group.server, file=self._file,
            position=header.end - header.size, row=row,
        )  # fmt: skip
        change = Change(table, operation, self._next_position(), source, before, after, self.time_ms)
        if after is not None and None in after:
            change.key_text = ()  # the whole table is read, if the topic does not have the row
        self._passing.append(change)
