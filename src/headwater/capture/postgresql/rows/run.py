"""Runs of changes among the messages of the replication stream: found, and made into records. Glue around the loops."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from headwater.capture.change import CapturedTable, Change, SourcePosition
from headwater.capture.envelope import PASSED
from headwater.capture.postgresql.assembler import Assembler, Passing, Transaction
from headwater.capture.postgresql.pgoutput import Decoder
from headwater.capture.postgresql.replication import parse_data
from headwater.capture.postgresql.rows import scanning, writing
from headwater.capture.postgresql.rows.program import (
    CLOSING,
    COLUMN_COUNT,
    FIXED_BYTES,
    HEAD_START,
    NAMED_END,
    ByteArray,
    Int64Array,
    Program,
    Programs,
    program_of,
    tables_of,
    together,
)
from headwater.capture.postgresql.tables import Plan
from headwater.capture.run import Kept, Landed, Route, Run, Written
from headwater.log.record_contents import Contents

PASSED_OVER_MAX = 32
"""Where a run was too short the next one is looked for a little later, at most so many messages."""

INT64_MAX = 2**63 - 1
ROW_BYTES, NUMBERS_BYTES = 700, 512


class Messages(NamedTuple):
    """Messages of the copy stream, one after the other; `ends` has one more, and begins with 0."""

    data: ByteArray
    ends: Int64Array


class RowRun:
    """A Run; see capture/run.py for the contract."""

    def __init__(
        self,
        assembler: Assembler,
        passing: Passing,
        programs: Programs,
        plans: Mapping[int, Plan | None],
        messages: Messages,
        span: tuple[int, int],
        used: Int64Array,
        found: Int64Array,
    ) -> None:
        self._assembler, self._passing, self._programs, self._plans = assembler, passing, programs, plans
        self._messages, (self._begin, self._end) = messages, span
        self._used = np.flatnonzero(used).tolist()
        self.rows = int(found[scanning.ROWS])
        commit, address, number = found[scanning.FIRST_COMMIT : scanning.FIRST_NUMBER + 1].tolist()
        self.first = SourcePosition(assembler.base + commit, address, number)

    @cached_property
    def tables(self) -> Sequence[CapturedTable]:
        all_tables = tables_of(self._plans, self._programs)
        return [all_tables[which] for which in self._used]

    def changes(self) -> list[Change]:
        assembler, decoder = self._assembler.at(self._passing, self._plans), Decoder()
        whole = self._messages.data.tobytes()
        ends = self._messages.ends.tolist()
        for index in range(self._begin, self._end):
            address, message = parse_data(whole[ends[index] : ends[index + 1]])
            if not assembler.take_row(address, message):
                assembler.take(address, decoder.decode(message))
        return assembler.changes

    def written(self, routes: Sequence[Route], *, now_ms: int) -> Written:
        slots: list[tuple[CapturedTable, int]] = []
        directed = _nowhere(len(self._programs.relations))
        for table, which, route in zip(self.tables, self._used, routes, strict=True):
            directed.partitions[which], directed.slots[which] = route.partitions, len(slots)
            directed.followed[which] = route.followed
            slots += [(table, partition) for partition in range(route.partitions)]
        out = self._write(directed, len(slots), now_ms)
        records, notes, _, last_ms = out.progress.tolist()
        return Written(
            _landed(out, records, slots, self._assembler.base), self._kept(out, out.notes[:notes].tolist()), last_ms
        )

    def _write(self, directed: writing.Routes, slots: int, now_ms: int) -> writing.Output:
        data, ends = self._messages
        generation = b"%X" % (self._assembler.base >> 64) if self._assembler.base else b""
        closing = CLOSING + PASSED % (now_ms, now_ms, now_ms)
        words = (np.frombuffer(generation, dtype=np.uint8), np.frombuffer(closing, dtype=np.uint8))
        state, scratch = _state_of(self._passing), _scratch_of(self._programs, len(generation))
        assert state is not None, "a run begins where the state is known"
        size = int(ends[self._end] - ends[self._begin])
        out, index = self._room(size * 3 + self.rows * ROW_BYTES, slots), self._begin
        while True:
            span = (index, self._end)
            index = int(writing.write(self._programs, data, ends, *span, state, directed, *words, now_ms, scratch, out))
            if index == self._end:
                return out
            # Escapes can make a value six times as long: then there is a second helping.
            wanted = int(self._programs.tables[:, FIXED_BYTES].max()) + 24 * int(ends[index + 1] - ends[index])
            target = np.empty(2 * len(out.target) + wanted, dtype=np.uint8)
            target[: len(out.target)] = out.target
            out = out._replace(target=target)

    def _room(self, size: int, slots: int) -> writing.Output:
        return writing.Output(
            target=np.empty(size, dtype=np.uint8),
            records=np.empty((2 * self.rows, 5), dtype=np.int64),
            notes=np.empty((self.rows, 5), dtype=np.int64),
            lasts=np.empty((slots, 3), dtype=np.int64),
            progress=np.zeros(4, dtype=np.int64),
        )

    def _kept(self, out: writing.Output, notes: list[list[int]]) -> list[Kept]:
        if not notes:
            return []
        tables, target = dict(zip(self._used, self.tables, strict=True)), out.target.data
        return [
            Kept(tables[which], bytes(target[key:key_end]), None if start < 0 else bytes(target[start:end]))
            for which, key, key_end, start, end in notes
        ]


def _nowhere(tables: int) -> writing.Routes:
    return writing.Routes(*(np.zeros(tables, dtype=np.int64) for _ in range(3)))


def _landed(
    out: writing.Output, count: int, slots: Sequence[tuple[CapturedTable, int]], base: int
) -> list[Landed]:  # fmt: skip
    records = out.records[:count]
    order = np.argsort(records[:, 4], kind="stable")
    bounds = np.searchsorted(records[order, 4], np.arange(len(slots) + 1)).tolist()
    found = []
    for slot, (table, partition) in enumerate(slots):
        rows = records[order[bounds[slot] : bounds[slot + 1]]]
        if len(rows):
            commit, address, number = out.lasts[slot].tolist()
            starts, ends, times, sizes, _ = np.ascontiguousarray(rows.T)
            contents = Contents(out.target, starts, ends, times, sizes, keyed=bool(table.key))
            found.append(Landed(table, partition, contents, SourcePosition(base + commit, address, number)))
    return found


def _state_of(passing: Passing) -> Int64Array | None:
    """None if it cannot be expressed in numbers that the loops know."""
    transaction = passing.transaction or Transaction(0, 0, 0)
    state = [int(passing.transaction is not None), *transaction, passing.address, passing.number, passing.end]
    if passing.transaction is not None and not (transaction.id and 0 <= transaction.time_us < scanning.TIME_US_MAX):
        return None
    return None if max(state) > INT64_MAX else np.array(state, dtype=np.int64)


def _scratch_of(programs: Programs, generation_bytes: int) -> writing.Scratch:
    columns = int(programs.tables[:, COLUMN_COUNT].max(initial=1))
    head = int((programs.tables[:, NAMED_END] - programs.tables[:, HEAD_START]).max(initial=0))
    return writing.Scratch(
        before=np.empty((columns, 2), dtype=np.int64),
        after=np.empty((columns, 2), dtype=np.int64),
        fragments=np.empty((columns, 2), dtype=np.int64),
        head=np.empty(head + NUMBERS_BYTES, dtype=np.uint8),
        position=np.empty(generation_bytes + NUMBERS_BYTES, dtype=np.uint8),
        valid=np.zeros(3, dtype=np.int64),
    )


class RunFinder:
    """Finds runs among messages that have been received; the assembler continues after each.

    Fewer than `messages_min` are better taken one by one: that is done before a run is.
    """

    def __init__(self, assembler: Assembler, *, messages_min: int) -> None:
        self._assembler, self._messages_min, self._passed_over = assembler, messages_min, 1
        self._known: dict[Plan, Program | None] = {}
        self._described = -1
        self._plans: dict[int, Plan | None] = {}
        self._programs = together({})
        self._messages, self._next = Messages(np.empty(0, dtype=np.uint8), np.zeros(1, dtype=np.int64)), 0
        self.found: list[tuple[int, Run]] = []
        """Runs, each with the index of the assembler's change that follows it."""

    def begin(self, received: Sequence[bytes]) -> None:
        data = np.frombuffer(b"".join(received), dtype=np.uint8)
        ends = np.zeros(len(received) + 1, dtype=np.int64)
        np.cumsum(np.fromiter(map(len, received), dtype=np.int64, count=len(received)), out=ends[1:])
        self._messages, self._next = Messages(data, ends), 0

    def take(self, index: int) -> int:
        """Returns the index after a run that begins here; the same index if there is none."""
        passing = self._assembler.passing() if index >= self._next else None
        state = None if passing is None else _state_of(passing)
        if passing is None or state is None:
            return index
        if self._described != self._assembler.described:
            self._describe()
        scratch = _scratch_of(self._programs, 0)
        used, found = np.zeros(len(self._programs.relations), dtype=np.int64), np.zeros(5, dtype=np.int64)
        committed = np.empty(len(self._messages.ends), dtype=np.int64)
        end = int(
            scanning.scan(
                self._programs, *self._messages, index, state, scratch.before, scratch.after, used, committed, found
            )
        )
        if end - index < self._messages_min:
            self._next = index + self._passed_over
            self._passed_over = min(2 * self._passed_over, PASSED_OVER_MAX)
            return index
        self._passed_over = 1
        if found[scanning.ROWS]:
            run = RowRun(
                self._assembler, passing, self._programs, self._plans, self._messages, (index, end), used, found
            )
            self.found.append((len(self._assembler.changes), run))
        self._assembler.continue_after(_passing_of(state), committed[: found[scanning.COMMITTED]].tolist())
        return end

    def _describe(self) -> None:
        self._described, self._plans = self._assembler.described, dict(self._assembler.plans)
        known, self._known = self._known, {}
        for plan in self._plans.values():
            if plan is not None:
                self._known[plan] = known[plan] if plan in known else program_of(plan, self._assembler.source)
        programs = {id: self._known[plan] for id, plan in self._plans.items() if plan is not None}
        self._programs = together({id: program for id, program in programs.items() if program is not None})

    def take_found(self) -> list[tuple[int, Run]]:
        """Returns the runs found since the last call."""
        found, self.found = self.found, []
        return found


def _passing_of(state: Int64Array) -> Passing:
    inside, id, commit, time_us, address, number, end = state.tolist()
    return Passing(Transaction(id, commit, time_us) if inside else None, address, number, end)
