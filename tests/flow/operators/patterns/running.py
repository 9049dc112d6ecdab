"""Patterns in one shard, batch by batch, with all that tasks and a driver do around them; and what the oracle finds."""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

import headwater as hw
from headwater.flow.declare.topology.nodes import Recognized, Select
from headwater.flow.local.columns import local_columns
from headwater.flow.local.session import LocalSession
from headwater.flow.operate.patterns.pattern_operator import PatternOperator, PatternWork
from headwater.flow.operators.joins.events import MISSING, Shard
from headwater.flow.operators.patterns.recognition import Step
from headwater.flow.operators.patterns.search import FAILURES
from headwater.flow.operators.patterns.spec import MATCH_ID, ROW_ID, TIMED, WHY
from headwater.flow.operators.windows.clock import NEVER_US
from headwater.flow.prepare.pattern_inputs import pattern_preparation, recognised_rows, reference_setup
from headwater.flow.proof.patterns.pattern_oracle import Oracle, results_of
from headwater.flow.rows.arrow_types import spark_schema
from headwater.flow.rows.row_batch import AT_TYPE, from_spark
from headwater.flow.state import EMPTY, StateStore
from headwater.flow.state.files import DiskFiles
from headwater.log.storage.simulated import SimulatedDisk

COLUMNS = "user string, kind string, n long, price double, cost decimal(8,2), at timestamp"
ROWS = pa.schema([
    ("user", pa.string()), ("kind", pa.string()), ("n", pa.int64()), ("price", pa.float64()),
    ("cost", pa.decimal128(8, 2)), ("at", pa.timestamp("us", "UTC")),
    ("_at", AT_TYPE),
])  # fmt: skip

Row = dict[str, Any]


def declared(**words: Any) -> Recognized:
    """A pattern over events of users, by user unless it says otherwise."""
    events = hw.App("test").stream("events", COLUMNS, time="at")
    node = events.match(**{"by": "user", **words}).node
    found = node.input if isinstance(node, Select) else node
    assert isinstance(found, Recognized)
    return found


def row(time: int, kind: str = "", user: str | None = "ann", offset: int | None = None, **values: Any) -> Row:
    """An event; its offset is its time unless it is said."""
    at = {"time": time, "source": 0, "partition": 0, "offset": time if offset is None else offset}
    return {"user": user, "kind": kind, "n": None, "price": None, "cost": None, **values, "at": time, "_at": at}


def frame_of(rows: Iterable[Row]) -> DataFrame:
    session = LocalSession()
    table = pa.Table.from_pylist(list(rows), schema=ROWS)
    return session.createDataFrame(table if len(table) else [], spark_schema(ROWS))  # type: ignore[return-value]


class RunningPattern:
    """`result` is what is emitted, by the records that it is named by; `failures` are sentences."""

    def __init__(self, node: Recognized) -> None:
        self.node, self.version = node, EMPTY
        self.watermark: int | None = None
        with local_columns():
            self.declared, _, _ = recognised_rows(node, frame_of([]), "pattern")
        parts = self.declared.parts.items()
        self.stores = {part: StateStore(DiskFiles(SimulatedDisk(), part), kept, shards=1) for part, kept in parts}
        self.result: dict[tuple[str | None, str | None], Row] = {}
        self.failures: list[str] = []
        self.timely: list[Row] = []
        self.late = 0

    def batch(self, rows: Iterable[Row], watermark: int | None, *, again: int = 1) -> list[Row]:
        """What a batch emits; run so many times, as after crashes."""
        given = list(rows)
        operator = self.declared.at(self.watermark, watermark)
        with local_columns():
            _, chosen, _ = recognised_rows(self.node, frame_of(given), "pattern")
            batch = from_spark(chosen.toArrow().combine_chunks().to_batches()[0]) if given else None
        prepared = None if batch is None else pattern_preparation(self.node, operator).prepare(batch)
        steps = [self._step(operator, None if prepared is None else prepared.rows) for _ in range(again)]
        assert len({repr((one.before.to_pylist(), one.after.to_pylist())) for one in steps}) == 1
        self._count(given, operator, 0 if prepared is None else prepared.late)
        self.version, self.watermark = self.version + 1, watermark
        return self._emitted(operator, steps[0])

    def come(self, rows: Iterable[Row], watermark: int) -> None:
        """A batch with rows, and one in which the watermark has passed them."""
        self.batch(rows, self.watermark)
        self.batch([], watermark)

    def _step(self, operator: PatternOperator, rows: pa.RecordBatch | None) -> Step:
        handles = {part: store.begin(self.version) for part, store in self.stores.items()}
        shard = Shard(handles, 0, {part: store.opened for part, store in self.stores.items()})
        step = operator.work.step(shard, rows, operator.clock)
        below = operator.work.drop_below(operator.clock)
        for part, store in self.stores.items():
            store.commit(self.version + 1, self.version, step.runs.get(part, []), drop_below=below.get(part))
        return step

    def _count(self, given: list[Row], operator: PatternOperator, late: int) -> None:
        bound = operator.late_below_us
        timely = [one for one in given if bound is None or one["_at"]["time"] >= bound]
        assert len(given) - len(timely) == late
        self.timely += timely
        self.late += late

    def _emitted(self, operator: PatternOperator, step: Step) -> list[Row]:
        work = PatternWork(operator, {}, pa.schema([]), ("events",), False)
        before, after = (work._named(rows) for rows in (step.before, step.after))
        for one in self._visible(before):
            del self.result[one.get(MATCH_ID), one.get(ROW_ID)]
        made = self._visible(after)
        for one in made:
            key = one.get(MATCH_ID), one.get(ROW_ID)
            assert key not in self.result
            self.result[key] = one
        failed = after.filter(after.column(MISSING))
        self.failures += [FAILURES[why] for why in failed.column(WHY).to_pylist()]
        return made

    def _visible(self, rows: pa.RecordBatch) -> list[Row]:
        matched = rows.filter(pa.compute.invert(rows.column(MISSING)))
        return [{name: value for name, value in one.items() if name[0] != "_"} for one in matched.to_pylist()]

    @property
    def kept(self) -> int:
        """How many rows the state has."""
        return self.stores["rows"].manifest(self.version).shards[0].keys

    def expected(self) -> dict[tuple[str | None, str | None], Row]:
        """What the oracle finds in all rows that were not late."""
        return expected_of(self.node, self.timely, self.watermark)


def expected_of(
    node: Recognized, rows: Iterable[Row], watermark: int | None
) -> dict[tuple[str | None, str | None], Row]:
    given = sorted((one for one in rows if one["user"] is not None), key=lambda one: tuple(one["_at"].values()))
    reached = NEVER_US if watermark is None else watermark
    with local_columns():
        frame = frame_of(given)
        setup, columns, shown, measures = reference_setup(node, frame)
        table = frame.select(*columns).toArrow() if given else None
    found: dict[tuple[str | None, str | None], Row] = {}
    for user in sorted({one["user"] for one in given}):
        places = [place for place, one in enumerate(given) if one["user"] == user and one["_at"]["time"] < reached]
        assert table is not None
        own = {name: [table.column(name)[place].as_py() for place in places] for name in table.column_names}
        times = [given[place]["_at"]["time"] for place in places]
        names = [f"events/{given[place]['_at']['partition']}@{given[place]['_at']['offset']}" for place in places]
        for one in results_of(Oracle(setup, own, times, reached)):
            said: Row = {MATCH_ID: None if one.first is None else names[one.first]}
            if node.spec.all_rows:
                said[ROW_ID] = names[one.row]
            said |= {name: own[name][one.row] for name in shown}
            said |= {field.name: value for field, value in zip(measures, one.measures, strict=True)}
            said |= {TIMED: one.timed_out} if node.spec.timeouts else {}
            found[said[MATCH_ID], said.get(ROW_ID)] = said
    return found


def kinds(text: str) -> list[Row]:
    """A row for each letter, a microsecond apart."""
    return [row(time, kind) for time, kind in enumerate(text)]


LETTERS = {name: f"kind = '{name}'" for name in "abcd"}
