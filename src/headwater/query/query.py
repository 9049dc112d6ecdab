"""Asks views with SQL: at one moment, at least at a position, within bounds of time, memory and rows."""

import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from headwater.clock import Clock, SystemClock
from headwater.errors import InvalidQuery, QueryStopped, ViewBehind
from headwater.query.catalogue import KnownView, Sees, Stores, ViewCatalogue, sees_all
from headwater.query.gathering import PlaceBarrier, by_job, gathered
from headwater.query.moment import check_comparable, check_reachable, joint, reached, slowest
from headwater.query.workers import INSTALL, ROWS_MAX, SMALLER, Computed, Refused, Workers
from headwater.views.locations import ViewLocation
from headwater.views.mark import Offsets, spoken
from headwater.views.query import parse_query
from headwater.views.shape import Column, Shape
from headwater.views.store import Snapshot

if TYPE_CHECKING:
    from headwater.query.statement import Scan, Statement

SECONDS, SECONDS_MAX = 10.0, 60.0
ROWS = 1000
SCANNED_ROWS_MAX, SCANNED_BYTES_MAX = 2_000_000, 512 * 1024**2
PAUSE_SECONDS = 0.02
GATHER_SECONDS = 1.0
"""How long views are looked at closely before others may ask."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    sql: str
    at_least: Offsets | None = None
    """Wait until every view includes these, of the topics that it reads."""
    one_position: bool = False
    """Wait until there is one position at which all views are."""
    after: str = ""
    """The version of an earlier answer: wait until a view has changed since."""
    rows_max: int = ROWS
    seconds: float = SECONDS
    """For waiting and for computing together."""


@dataclass(frozen=True)
class Prepared:
    """A question whose statement was understood."""

    asked: Asked
    statement: "Statement"
    begun_ms: float
    deadline_ms: float

    @property
    def views(self) -> list[KnownView]:
        return list(dict.fromkeys(_known(scan) for scan in self.statement.scans.values()))


class Answer(NamedTuple):
    table: pa.Table
    columns: tuple[Column, ...]
    cut: bool
    positions: Mapping[str, Offsets]
    """By the name of the view, as APP.VIEW."""
    position: Offsets | None
    """The one position at which all these views were; None if they were at different ones."""
    version: str
    """Another text as soon as one of the views has changed."""
    elapsed_ms: int


class Engine:
    """Safe to use from many threads."""

    def __init__(
        self, stores: Stores, *, clock: Clock | None = None, place_barrier: PlaceBarrier = lambda topics: None
    ) -> None:
        self._place_barrier = place_barrier
        self._stores, self._clock = stores, clock or SystemClock()
        self._workers = Workers()

    def ask(self, asked: Asked) -> Answer | None:
        """Waits for what was asked. None: `after` was given, and nothing has changed in time.

        InvalidQuery; ViewBehind, NotComparable; QueryStopped.
        """
        prepared = self.prepare(asked)
        while True:
            if (answer := self.attempt(prepared)) is not None:
                return answer
            if self.late(prepared):
                self.give_up(prepared)
                return None
            Event().wait(PAUSE_SECONDS)

    def prepare(self, asked: Asked, sees: Sees = sees_all) -> Prepared:
        now = self._clock.elapsed_ms()
        return Prepared(asked, self._parsed(asked.sql, sees), now, now + 1000 * min(asked.seconds, SECONDS_MAX))

    def _parsed(self, sql: str, sees: Sees) -> "Statement":
        try:
            from headwater.query.statement import (
                parse,  # brings a parser, which a node that is not asked has no use for
            )
        except ModuleNotFoundError as error:
            raise InvalidQuery(f"asking views with SQL needs {error.name}, which is not installed", INSTALL) from None
        return parse(sql, ViewCatalogue(self._stores, sees))

    def late(self, prepared: Prepared) -> bool:
        return self._clock.elapsed_ms() >= prepared.deadline_ms

    def attempt(self, prepared: Prepared) -> Answer | None:
        """The answer, if the views are where they were asked to be."""
        asked, statement = prepared.asked, prepared.statement
        with ExitStack() as open:
            found = self._found(prepared, open)
            positions, version = _positions(found), _version(found)
            if not _fits(positions, asked) or (asked.after and version == asked.after):
                return None
            tables = {
                name: self._read(found[_known(scan)], scan, prepared.deadline_ms)
                for name, scan in statement.scans.items()
            }
        computed = self._compute(prepared, tables)
        table = computed.table.rename_columns([statement.name(name) for name in computed.table.column_names])
        columns = tuple(Column(field.name, field.type) for field in table.schema)
        took = round(self._clock.elapsed_ms() - prepared.begun_ms)
        return Answer(table, columns, computed.cut, positions, joint(positions), version, took)

    def give_up(self, prepared: Prepared) -> None:
        """ViewBehind, if something else than a change was waited for."""
        with ExitStack() as open:
            positions = _positions(self._snapshots(prepared.views, open))
        if not _fits(positions, prepared.asked) or not prepared.asked.after:
            raise _behind(positions, prepared.asked)

    def explain(self, sql: str, sees: Sees = sees_all) -> tuple[str, list[str]]:
        """What DuckDB is given, and one line for each time that a view is read."""
        statement = self._parsed(sql, sees)
        lines = []
        for name, scan in statement.scans.items():
            where = "".join(f", where {term} {value!r}" for term, value in scan.where.items())
            limit = f", {scan.limit} rows at most" if scan.limit is not None else ""
            columns = ", ".join(scan.columns) or "no column, only how many rows there are"
            lines.append(f"{name}: {scan.relation.name} ({columns}){where}{limit}")
        return statement.sql, lines

    def close(self) -> None:
        self._workers.close()

    def _found(self, prepared: Prepared, open: ExitStack) -> Mapping[KnownView, Snapshot]:
        """The views as they are, or, if one position is asked for and they differ, as they pass one."""
        with ExitStack() as first:
            found = self._snapshots(prepared.views, first)
            positions, jobs = _positions(found), by_job(found)
            check_comparable(positions if prepared.asked.one_position else {})
            if not prepared.asked.one_position or joint(positions) is not None or len(jobs) < 2:
                open.enter_context(first.pop_all())
                return found
        self._place_barrier(frozenset(topic for position in positions.values() for topic in position))
        left_seconds = (prepared.deadline_ms - self._clock.elapsed_ms()) / 1000
        # Those that were found first are let go, but still say how far the views were.
        return gathered(jobs, self._clock, min(GATHER_SECONDS, left_seconds), open) or found

    def _snapshots(self, views: Sequence[KnownView], open: ExitStack) -> dict[KnownView, Snapshot]:
        """Each database is seen at one moment."""
        by_store: dict[ViewLocation, list[KnownView]] = {}
        for known in views:
            by_store.setdefault(known.location, []).append(known)
        found: dict[KnownView, Snapshot] = {}
        # In one order: two who each hold a store and wait for the other's would wait for ever.
        for location in sorted(by_store, key=lambda one: (one.app, str(one.where))):
            store = open.enter_context(self._stores.opened(location))
            members = by_store[location]
            snapshots = open.enter_context(store.snapshots([known.view for known in members]))
            found |= dict(zip(members, snapshots, strict=True))
        return found

    # -- the rows ------------------------------------------------------------------------------------------------------

    def _read(self, snapshot: Snapshot, scan: "Scan", deadline_ms: float) -> pa.Table:
        names = scan.columns or [snapshot.shape.names[0]]
        query = parse_query(snapshot.shape, scan.where, None, scan.limit)
        batches, rows, size = [], 0, 0
        for batch in snapshot.scan(names, query):
            batches.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows > SCANNED_ROWS_MAX or size > SCANNED_BYTES_MAX:
                raise QueryStopped(
                    f"the query reads more of {scan.relation.name} than {SCANNED_ROWS_MAX:,} rows or "
                    f"{SCANNED_BYTES_MAX // 1024**2} MiB", SMALLER,
                )  # fmt: skip
            if self._clock.elapsed_ms() >= deadline_ms:
                raise QueryStopped(f"reading {scan.relation.name} was not done in time, after {rows:,} rows", SMALLER)
        return pa.Table.from_batches(batches, _schema(snapshot.shape, names))

    def _compute(self, prepared: Prepared, tables: Mapping[str, pa.Table]) -> Computed:
        statement, rows_max = prepared.statement, min(prepared.asked.rows_max, ROWS_MAX)
        seconds = max(0.05, (prepared.deadline_ms - self._clock.elapsed_ms()) / 1000)
        try:
            return self._workers.compute(statement.sql, tables, rows_max=rows_max, seconds=seconds)
        except Refused as refused:
            raise _refused(str(refused), statement) from None


def _known(scan: "Scan") -> KnownView:
    assert isinstance(scan.relation, KnownView)
    return scan.relation


def _positions(found: Mapping[KnownView, Snapshot]) -> dict[str, Offsets]:
    return {known.name: snapshot.mark.position for known, snapshot in found.items()}


def _version(found: Mapping[KnownView, Snapshot]) -> str:
    marks = ((known.name, snapshot.mark) for known, snapshot in found.items())
    return ",".join(f"{name}@{mark.generation}-{mark.change}" for name, mark in marks)


def _fits(positions: Mapping[str, Offsets], asked: Asked) -> bool:
    if asked.at_least:
        check_reachable(positions, asked.at_least)
        if not reached(positions, asked.at_least):
            return False
    if not asked.one_position:
        return True
    check_comparable(positions)
    return joint(positions) is not None


def _schema(shape: Shape, names: Sequence[str]) -> pa.Schema:
    return pa.schema([(name, shape.column(name).type) for name in names])


def _behind(positions: Mapping[str, Offsets], asked: Asked) -> ViewBehind:
    names = ", ".join(positions)
    if asked.at_least and not reached(positions, asked.at_least):
        late = next(name for name in positions if not reached({name: positions[name]}, asked.at_least))
        return ViewBehind(late, wanted=spoken(asked.at_least), has=spoken(positions[late]), waited=asked.seconds)
    return ViewBehind(names, wanted="one position", has=slowest(positions), waited=asked.seconds)


FUNCTION = re.compile(r"Function with name \"?(\w+)\"? does not exist")


def _nearest(name: str) -> str:
    from headwater.query.statement import nearest_function

    return nearest_function(name)


def _refused(message: str, statement: "Statement") -> InvalidQuery:
    """DuckDB's words about its own form of the statement, as far as they are about what was asked."""
    unknown = FUNCTION.search(message)
    if unknown:
        name = unknown[1]
        at = re.search(rf"\b{re.escape(name)}\s*\(", statement.text, re.IGNORECASE)
        place = ""
        if at:
            before = statement.text[: at.start()]
            place = f"line {before.count(chr(10)) + 1}, column {at.start() - before.rfind(chr(10))}: "
        close = _nearest(name)
        hint = f'Did you mean "{close}"?' if close and close != name.lower() else "It cannot be asked of views here."
        return InvalidQuery(f'{place}there is no function "{name.lower()}"', hint)
    said = " ".join(re.split(r"\n\nLINE |\s+Candidate functions", message)[0].split())
    said = re.sub(r"^(\w+ ){1,2}Error: ", "", said)
    for name, scan in statement.scans.items():
        said = said.replace(name, scan.relation.name)
    return InvalidQuery(f"this cannot be asked: {said[:400]}")
