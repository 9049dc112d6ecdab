"""A windowed operator that lives through batches, and the table that its changes make; checked at every step."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st

from headwater.flow.operators.aggregation.aggregates import Aggregate, partials
from headwater.flow.operators.windows.clock import WindowClock
from headwater.flow.operators.windows.kinds.calendar import Calendar
from headwater.flow.operators.windows.kinds.count import Count
from headwater.flow.operators.windows.kinds.hopping import Hopping
from headwater.flow.operators.windows.kinds.session import Session
from headwater.flow.operators.windows.kinds.tumbling import Tumbling
from headwater.flow.operators.windows.state import WindowState
from headwater.flow.operators.windows.step import WindowStep
from headwater.flow.operators.windows.window import Window, Windowed
from headwater.flow.state import EMPTY, HASH, StateStore, plan_merge, shard_of
from headwater.flow.state.files import DiskFiles
from headwater.flow.state.manifest import EVERYTHING
from headwater.log.storage.simulated import SimulatedDisk
from tests.flow.operators.reference import Row, partial
from tests.flow.operators.subjects import spec
from tests.flow.operators.windows.oracle import is_late, results, windows_of

BY = pa.schema([("key", pa.int64())])
SPECS = (
    Aggregate("count", "rows"),
    spec("count", pa.int64()),
    spec("sum", pa.int64()),
    spec("avg", pa.int64()),
    spec("min", pa.int64()),
    spec("max", pa.int64()),
    spec("first", pa.int64()),
    spec("last", pa.int64(), ignore_nulls=True),
    spec("collect", pa.int64()),
    spec("collect_set", pa.int64()),
)
SHARDS = 2
EXAMPLES = settings().max_examples * 6 // 10
END_OF_TIME = 2**50

some_specs = st.lists(st.sampled_from(SPECS), min_size=1, max_size=4, unique=True).map(tuple)

# Every second time is a multiple of some sizes, so that rows lie exactly on edges.
times = st.integers(-30, 60) | st.integers(-3, 6).map(lambda number: number * 5)
rows_strategy = st.lists(st.tuples(st.integers(0, 3), st.none() | st.integers(-3, 9), times), max_size=8)
advances = st.integers(0, 25) | st.just(0)


class Batch:
    """Rows with time in plain numbers, how far the watermark moves before them, and whether the batch comes again."""

    def __init__(self, rows: list[tuple[int, int | None, int]], advance: int, again: bool = False) -> None:
        self.rows, self.advance, self.again = rows, advance, again

    def __repr__(self) -> str:
        return f"Batch({self.rows}, {self.advance}, {self.again})"


batches_strategy = st.lists(st.builds(Batch, rows_strategy, advances, st.booleans()), max_size=7)


def groups(window: Window, rows: Sequence[Row], whole: bool) -> list[list[Row]]:
    """What Spark reduces to one row: all rows that are always in the same windows, or any part of them."""
    if not whole or isinstance(window, Count):
        return [[row] for row in rows]
    part: Callable[[Row], int]
    match window:
        case Tumbling() | Hopping():
            size = window.size_us if isinstance(window, Tumbling) else window.pane_us
            part = lambda row: (row.time - window.offset_us) // size  # noqa: E731
        case Calendar():
            part = lambda row: next(iter(windows_of(window, [row]))).names[0]  # noqa: E731
        case Session():
            part = lambda row: row.time // window.gap_us  # noqa: E731
        case _:
            part = lambda row: row.time  # noqa: E731
    found: dict[Any, list[Row]] = {}
    for row in rows:
        found.setdefault((row.key, part(row)), []).append(row)
    return list(found.values())


def places(window: Window, group: list[Row]) -> dict[str, Any]:
    """The columns of a reduced row that say where in time it lies."""
    first = group[0]
    match window:
        case Tumbling():
            return {"window_start": first.time - (first.time - window.offset_us) % window.size_us}
        case Calendar():
            return {"window_start": next(iter(windows_of(window, group))).names[0]}
        case Hopping():
            return {"pane_start": first.time - (first.time - window.offset_us) % window.pane_us}
        case Session():
            times = [row.time for row in group]
            return {"first_time": min(times), "last_time": max(times)}
        case Count():
            return {"time": first.time, "source": 0, "partition": 0, "offset": first.offset}
    return {"time": first.time}


class Life:
    def __init__(self, work: Windowed, emit: str, *, horizon: int = 0, early: bool = False, whole: bool = True) -> None:
        self.work, self.emit, self.horizon, self.early, self.whole = work, emit, horizon, early, whole
        self.store = StateStore(DiskFiles(SimulatedDisk(), "state"), work.state, shards=SHARDS, task_bytes_max=0)
        self.version = EMPTY
        self.watermark: int | None = None
        self.accepted: list[Row] = []
        self.late: list[Row] = []
        self.offset = 0
        self.table: dict[Any, dict[str, Any]] = {}
        self.operations: list[str] = []
        self.expired = 0

    def __repr__(self) -> str:
        names = [one.name for one in self.work.specs]
        how = f"{self.emit}, horizon={self.horizon}, early={self.early}, whole={self.whole}"
        return f"Life({self.work.window}, {how}, retained={self.work.retained_us}, {names})"

    def batch(
        self, rows: Sequence[tuple[int, int | None, int]] = (), advance: int | None = None, again: bool = False
    ) -> None:
        """`advance` moves the watermark first; rows that are late then go nowhere."""
        before = self.watermark
        if advance:
            self.watermark = advance + (0 if before is None else before)
        given = [Row(key, x, time, self.offset + place) for place, (key, x, time) in enumerate(rows)]
        self.offset += len(rows)
        late = [row for row in given if is_late(self.work.window, row, self.watermark, self.horizon)]
        fresh = [row for row in given if row not in late]
        self.late += late
        self.accepted += fresh
        clock = WindowClock(before, self.watermark, self.horizon, self.emit, self.early)
        # All is written and nothing committed: then the batch comes again.
        lost = [step.changes for step in self._tasks(fresh, clock)] if again else None
        self._run(fresh, clock, lost)

    def _tasks(self, rows: list[Row], clock: WindowClock) -> list[WindowStep]:
        handle = self.store.begin(self.version)
        incoming = self._reduced(rows)
        steps = []
        for shard in range(SHARDS):
            mine = incoming.filter(pa.array(shard_of(incoming.column(HASH).to_numpy(), SHARDS) == shard))
            state = WindowState(handle, shard, self.store.opened)
            steps.append(self.work.step(state, mine if mine.num_rows else None, clock))
        return steps

    def _run(self, rows: list[Row], clock: WindowClock, lost: list[pa.RecordBatch] | None) -> None:
        pending = self.work.pending(self.store.begin(self.version), clock)
        steps = self._tasks(rows, clock)
        runs, changes = [run for step in steps for run in step.runs], [step.changes for step in steps]
        assert lost in (None, changes)
        merged = [self.store.merge(plan) for plan in plan_merge(self.store.manifest(self.version))[:1]]
        stored = self.store.manifest(self.version)
        self.store.commit(self.version + 1, self.version, runs, drop_below=self.work.drop_below(clock), merged=merged)
        if not rows and not pending:
            assert not any(part.num_rows for part in changes)
            assert [shard.keys for shard in self.store.manifest(self.version + 1).shards] == [
                shard.keys for shard in stored.shards
            ]
        self.version += 1
        self.expired += sum(step.expired for step in steps)
        for part in changes:
            assert part.schema.names == ["_op", *self.work.key.names, *self.work.values.names, "_before"]
            self._apply(part)

    def _reduced(self, rows: list[Row]) -> pa.RecordBatch:
        found = groups(self.work.window, rows, self.whole)
        columns: dict[str, list[Any]] = {HASH: [group[0].key // 2 for group in found]}
        columns["key"] = [group[0].key for group in found]
        for name in [field.name for field in self.work.incoming if field.name not in columns][: self._place_count]:
            columns[name] = [places(self.work.window, group)[name] for group in found]
        for each in self.work.specs:
            values = [partial(each, group) for group in found]
            for number, part in enumerate(partials(each)):
                columns[part.name] = [value[number] for value in values]
        schema = pa.schema([pa.field(HASH, pa.int64()), *self.work.incoming])
        return pa.RecordBatch.from_arrays(
            [pa.array(columns[field.name], field.type) for field in schema], schema=schema
        )

    @property
    def _place_count(self) -> int:
        return len(self.work.incoming) - 1 - sum(len(partials(each)) for each in self.work.specs)

    def _apply(self, changes: pa.RecordBatch) -> None:
        for change in plain(changes).to_pylist():
            operation, before = change.pop("_op"), change.pop("_before")
            key = tuple(change.pop(name) for name in self.work.key.names)
            assert before == self.table.get(key), "before"
            assert (operation == "c") == (key not in self.table)
            self.operations.append(operation)
            if operation == "d":
                assert set(change.values()) == {None}
                del self.table[key]
            else:
                assert change != before, "nothing changed"
                self.table[key] = change

    def expected(self) -> dict[Any, dict[str, Any]]:
        """What the table has to hold: a query over all rows that were not late."""
        window, passed = self.work.window, self.watermark
        table = {}
        for place, rows in windows_of(window, self.accepted, passed).items():
            final = passed is not None and place.end <= passed
            if self.emit != "updates" and not self.early and not final:
                continue
            values = dict(results(self.work.specs, rows))
            if isinstance(window, Count):
                values = {"window_start": rows[0].time, "window_end": rows[-1].time, **values}
            table[place.key, *place.names] = {**values, "final": final} if self.work.marks_final else values
        return table

    def check(self) -> None:
        assert self.table == self.expected()
        handle = self.store.begin(self.version)
        for shard, summary in enumerate(self.store.manifest(self.version).shards):
            slots = handle.slots(shard)
            timed = [slot for slot in slots if slot != EVERYTHING]
            assert all(one.end <= other.begin for one, other in pairwise(timed))
            scanned = [batch for slot in slots for batch in self.store.shard(handle, shard, slot).scan()]
            assert summary.keys == sum(batch.num_rows for batch in scanned)

    def live(self, batches: Sequence[Batch]) -> None:
        for batch in batches:
            self.batch(batch.rows, batch.advance, batch.again)
            self.check()
        assert len(self.accepted) + len(self.late) == sum(len(batch.rows) for batch in batches)
        self.batch([], END_OF_TIME)
        self.check()
        # Windows by count remember for each key how many rows there were.
        kept = len({row.key for row in self.accepted}) if isinstance(self.work.window, Count) else 0
        assert sum(shard.keys for shard in self.store.manifest(self.version).shards) == kept, "state is left behind"


def plain(changes: pa.RecordBatch) -> pa.RecordBatch:
    """Moments as numbers."""
    return pa.RecordBatch.from_arrays([numbers(column) for column in changes.columns], changes.schema.names)


def numbers(column: pa.Array) -> pa.Array:
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.int64())
    if pa.types.is_struct(column.type):
        fields = [numbers(column.field(place)) for place in range(column.type.num_fields)]
        return pa.StructArray.from_arrays(fields, [field.name for field in column.type], mask=column.is_null())
    return column


def life(window: Window, emit: str = "updates", *, retained: int = 0, horizon: int = 0, early: bool = False,
         whole: bool = True, specs: tuple[Aggregate, ...] = SPECS[:1]) -> Life:  # fmt: skip
    marks = early and emit != "updates"
    work = Windowed(window, BY, specs, retained + horizon, marks_final=marks)
    return Life(work, emit, horizon=horizon, early=early, whole=whole)


emissions = st.sampled_from(
    [
        {"emit": "updates"},
        {"emit": "final"},
        {"emit": "final", "early": True},
        {"emit": "corrections", "horizon": 7},
        {"emit": "corrections", "horizon": 40},
        {"emit": "corrections", "horizon": 13, "early": True},
    ]
)


@st.composite
def lives(draw: st.DrawFn, windows: st.SearchStrategy[Any], stored: st.SearchStrategy[Any] = emissions) -> Life:
    """Of some windows: any emission, any aggregates, slots of any width, rows reduced or not."""
    retained, whole, specs = draw(st.sampled_from([0, 300])), draw(st.booleans()), draw(some_specs)
    return life(draw(windows), retained=retained, whole=whole, specs=specs, **draw(stored))
