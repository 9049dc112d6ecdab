"""The work of operators with one input on one shard."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa

from headwater.flow.exchange.blocks import Inputs
from headwater.flow.operate.deduplicator import EXPIRE_EVERY, LATE, Deduplicator
from headwater.flow.operate.reports import ROWS, Operator, ShardReport
from headwater.flow.operate.shard_operator import ShardOperator
from headwater.flow.operate.shard_task import Emitted
from headwater.flow.operate.window_operator import WindowOperator
from headwater.flow.operators.dedupe import dedupe_step
from headwater.flow.operators.latest import Latest
from headwater.flow.prepare.newest_rows import newest_of
from headwater.flow.prepare.reduced_rows import combined_rows
from headwater.flow.state.shard import ShardState, StateHandle

AnyOperator = TypeVar("AnyOperator", bound=Operator | ShardOperator[Any])


@dataclass(frozen=True)
class RowWork(Generic[AnyOperator]):
    """The work of an operator that has nothing to do in a shard without rows. `schema` is that of its rows."""

    operator: AnyOperator
    handle: str
    schema: pa.Schema

    visits_all = False

    @property
    def inputs(self) -> Sequence[pa.Schema]:
        return (self.schema,)

    @property
    def results(self) -> pa.Schema:
        return self.operator.output


class KeyedWork(RowWork[Operator]):
    """Aggregates, or the latest row, for each key."""

    @property
    def visits_all(self) -> bool:  # type: ignore[override]
        """Aggregates without a key have their row before anything comes."""
        return not len(self.operator.key) and not any(StateHandle.from_json(self.handle).runs)

    def run(self, shard: int, inputs: Inputs) -> Iterator[Emitted]:
        (rows,) = inputs
        if rows is None and (shard or len(self.operator.key)):
            return
        work = self.operator.work
        counted = 0 if rows is None else int(rows.column(ROWS).to_numpy().sum())
        if rows is not None and isinstance(work, Latest):
            rows = newest_of(work, self.operator.key, rows)
        elif rows is not None and not isinstance(work, Latest):
            rows = combined_rows(work, rows, self.operator.state.key)
        step = self.operator.step(ShardState(StateHandle.from_json(self.handle), shard), rows)
        yield Emitted(step.changes, ShardReport(self.operator.name, shard, counted, (step.run,) if step.run else ()))


@dataclass(frozen=True)
class WindowWork:
    """Aggregates for each key and window."""

    operator: WindowOperator
    handle: str

    @property
    def visits_all(self) -> bool:
        return self.operator.clock.moved

    @property
    def inputs(self) -> Sequence[pa.Schema]:
        return (self.operator.given,)

    @property
    def results(self) -> pa.Schema:
        return self.operator.output

    def run(self, shard: int, inputs: Inputs) -> Iterator[Emitted]:
        (rows,) = inputs
        counted = 0 if rows is None else int(rows.column(ROWS).to_numpy().sum())
        done = self.operator.step(StateHandle.from_json(self.handle), shard, rows)
        report = ShardReport(self.operator.name, shard, counted, done.runs, expired=done.expired)
        yield Emitted(done.changes, report)


@dataclass(frozen=True)
class DedupeWork:
    """The first row of each key within a time, and late rows."""

    operator: Deduplicator
    handle: str
    batch: int
    expired_us: int | None

    visits_all = False

    @property
    def inputs(self) -> Sequence[pa.Schema]:
        return (self.operator.given,)

    @property
    def results(self) -> pa.Schema:
        return self.operator.results

    def run(self, shard: int, inputs: Inputs) -> Iterator[Emitted]:
        (rows,) = inputs
        if rows is None:
            return
        operator = self.operator
        late = np.asarray(rows.column(LATE))
        timely = rows.filter(pa.array(~late))
        expired = self.expired_us if (self.batch + shard) % EXPIRE_EVERY == 0 else None
        state = ShardState(StateHandle.from_json(self.handle), shard)
        passed = dedupe_step(
            state, timely, operator.times_us(timely), operator.position(timely), operator.within_us, expired_us=expired
        )
        kept, runs = int(passed.rows.sum()), (passed.run,) if passed.run else ()
        report = ShardReport(operator.name, shard, kept, runs, duplicates=len(passed.rows) - kept, late=int(late.sum()))
        parts = [timely.filter(pa.array(passed.rows)), rows.filter(pa.array(late))]
        yield Emitted(pa.concat_batches([part.select(self.results.names) for part in parts]), report)


class StateWork(RowWork[ShardOperator[Any]]):
    """Operators that keep one store and are given the rows of a shard as they are."""

    def run(self, shard: int, inputs: Inputs) -> Iterator[Emitted]:
        (rows,) = inputs
        if rows is None:
            return
        done = self.operator.step(StateHandle.from_json(self.handle), shard, rows)
        yield Emitted(done.changes, ShardReport(self.operator.name, shard, self.operator.counted(rows), done.runs))
