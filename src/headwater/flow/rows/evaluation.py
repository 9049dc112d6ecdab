"""One batch of a job as Spark frames.

A stream is a frame of rows. A table is a frame of changes: `_op` (c, u or d), the key, the values after the change,
`_before` with those before it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import cast

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from headwater.flow.declare.topology.nodes import (
    MAKING,
    STATEFUL,
    Changes,
    Compared,
    Dedupe,
    Join,
    KMeans,
    Newest,
    Node,
    Source,
    SourceStream,
    TableAggregate,
    TableOperator,
    key_of,
    walk,
)
from headwater.flow.formats.schema import quoted
from headwater.flow.operate.deduplicator import LATE
from headwater.flow.operate.level import Level
from headwater.flow.operators.changes import BEFORE, OPERATION
from headwater.flow.operators.joins.emission import AFTER_SIDE, BEFORE_SIDE, SIDE
from headwater.flow.operators.joins.events import MISSING
from headwater.flow.operators.patterns.spec import WHY
from headwater.flow.rows.counters import Counter
from headwater.flow.rows.row_batch import AT, FIELDS, POSITION
from headwater.flow.rows.row_steps import apply_step, visible

Operate = Callable[[Node, Sequence[DataFrame]], DataFrame]
"""What an operator makes of the frames of its inputs, where no level runs it: columns, and no rows."""

InputKey = tuple[Node, int]
"""An input of an operator."""


@dataclass(frozen=True)
class LevelRequest:
    """The operators of a level, frames of inputs that Spark evaluates, and the earlier levels that others come from."""

    number: int
    nodes: Sequence[Node]
    frames: Mapping[InputKey, DataFrame]
    earlier: Mapping[InputKey, Level]


OperateLevel = Callable[[LevelRequest], Level]


@dataclass(frozen=True)
class Replayed:
    """What late rows that are replayed do in a batch."""

    changes: Mapping[Node, DataFrame] = field(default_factory=dict)
    """Corrections that operators emit, in place of their own changes."""
    absorbed: Mapping[Node, DataFrame] = field(default_factory=dict)
    """Rows that operators of overlapping windows put into their state."""


@dataclass
class Evaluation:
    """Frames of the nodes of one batch. Operators are run level by level, all of a level together."""

    sources: Callable[[], Mapping[Source, DataFrame]]
    """Their rows, asked for where a step wants them as frames."""
    operate: Operate | None = None
    """Instead of levels, where only columns are asked for."""
    levels: Mapping[Node, int] = field(default_factory=dict)
    operate_level: OperateLevel | None = None
    logged: frozenset[InputKey] = frozenset()
    """Inputs whose rows are read by tasks and never were frames."""
    emitted: Mapping[InputKey, Node] = field(default_factory=dict)
    """Inputs that are made of what another operator emits, and never were frames either."""
    replayed: Replayed = field(default_factory=Replayed)
    exchanges: dict[int, Level] = field(default_factory=dict)
    missing: dict[Node, DataFrame] = field(default_factory=dict)
    """Of joins whose results only the driver has: rows that had to have a partner, and have none."""
    counters: dict[Node, Counter] = field(default_factory=dict)
    made: dict[Node, DataFrame] = field(default_factory=dict)
    made_sides: dict[Node, DataFrame] = field(default_factory=dict)

    @cached_property
    def frames(self) -> Mapping[Source, DataFrame]:
        return self.sources()

    def counter(self, root: Node) -> Counter:
        return self.counters.setdefault(root, Counter())

    def rows(self, node: Node, root: Node) -> DataFrame:
        """The rows of a stream; what leaves it on the way is counted for `root`."""
        if isinstance(node, SourceStream):
            return self.frames[node]
        if isinstance(node, Changes):
            return self._made(node, root, as_facts(self.changes(node.input), key_of(node.input)))
        if isinstance(node, MAKING):
            return self._made(node, root, self.made_rows(node))
        if isinstance(node, Dedupe):
            first = self.changes(node).where(~f.col(LATE)).drop(LATE)
            return (
                self._made(node, root, first)
                if any(isinstance(one, (*MAKING, Changes)) for one in walk(node))
                else first
            )
        return apply_step(node, [self.rows(one, root) for one in node.inputs], self.counter(root))

    def made_rows(self, node: Node) -> DataFrame:
        """The facts that a join of events, or a pattern, emits."""
        return self.changes(node).where(~f.col(MISSING)).drop(MISSING, WHY)

    def _made(self, node: Node, root: Node, rows: DataFrame) -> DataFrame:
        """Rows that were made of others are facts again for the operator that is given them."""
        return rows if root is node else self.counter(root).watch(rows, made=f.lit(1))

    def changes(self, node: Node) -> DataFrame:
        """The changes of a table; of a stream that remembers keys, the rows it lets through and late ones."""
        if not isinstance(node, STATEFUL):
            return paired(self._stepped_sides(node), key_of(node))
        if node not in self.made:
            self.made[node] = self._emitted(node)
        return self.made[node]

    def _emitted(self, node: Node) -> DataFrame:
        if node in self.replayed.changes:
            return self.replayed.changes[node]
        if node not in self.levels:
            assert self.operate is not None
            return self.operate(node, [self.given(node, number) for number in range(inputs_of(node))])
        frame = self.exchange(node).frame(node)
        # Of a row that went from one shard to another, both have emitted one side each.
        return paired(frame, key_of(node)) if isinstance(node, TableOperator) else with_position(frame)

    def exchange(self, node: Node) -> Level:
        """The level of an operator; all operators of it are run together."""
        number = self.levels[node]
        if number not in self.exchanges:
            nodes = [one for one, level in self.levels.items() if level == number]
            inputs = [(one, each) for one in nodes for each in range(inputs_of(one))]
            earlier = {one: self.exchange(self.emitted[one]) for one in inputs if one in self.emitted}
            others = [one for one in inputs if one not in self.logged and one not in earlier]
            assert self.operate_level is not None
            request = LevelRequest(number, nodes, {one: self.given(*one) for one in others}, earlier)
            self.exchanges[number] = self.operate_level(request)
        return self.exchanges[number]

    def given(self, node: Node, number: int = 0) -> DataFrame:
        """An input of an operator: rows, or of tables that are joined both sides of every change."""
        if node in self.replayed.absorbed:
            return self.replayed.absorbed[node]
        if not node.inputs:
            return self.frames[cast("Source", node)]
        start = node.inputs[number]
        if isinstance(node, Compared | KMeans):
            return self.changes(start)
        sided = isinstance(node, Newest | TableAggregate | TableOperator) or (isinstance(node, Join) and start.keyed)
        return self._stepped_sides(start) if sided else self.rows(start, node)

    def unmatched(self, node: Node) -> DataFrame:
        """Rows that had to have a partner in a join, and have none."""
        return self.missing[node] if node in self.missing else self.changes(node).where(f.col(MISSING))

    def _stepped_sides(self, node: Node) -> DataFrame:
        """Steps on a table: done to both sides of every change, which may then be another kind of change, or none."""
        if isinstance(node, STATEFUL):
            return self.sides(node)
        return apply_step(node, [self._stepped_sides(one) for one in node.inputs], Counter())

    def sides(self, base: Node) -> DataFrame:
        """Both sides of every change that an operator emits."""
        if base not in self.made_sides:
            if isinstance(base, TableOperator) and base in self.levels:
                self.made_sides[base] = self.exchange(base).frame(base)
            else:
                self.made_sides[base] = both_sides(self.changes(base), key_of(base))
        return self.made_sides[base]

    def release(self) -> None:
        for level in self.exchanges.values():
            level.release()


def inputs_of(node: Node) -> int:
    """How many inputs an operator has; a table that is read has the one that it is."""
    return len(node.inputs) or 1


def with_position(rows: DataFrame) -> DataFrame:
    """Rows as frames have them: time, source, partition and offset in the struct `_at`."""
    if POSITION[0] not in rows.columns:
        return rows
    time, *others = (f.col(name) for name in POSITION)
    at = f.struct(
        f.timestamp_micros(time).alias("time"), *(one.alias(name) for one, name in zip(others, FIELDS[1:], strict=True))
    )
    return rows.withColumn(AT, at).drop(*POSITION)


def both_sides(changes: DataFrame, key: tuple[str, ...]) -> DataFrame:
    """Every change as the row it leaves behind and the row it replaces."""
    keys = [f.col(quoted(name)) for name in key]
    values = [name for name in visible(changes) if name not in key]
    after = changes.where(f.col(OPERATION) != "d").select(*keys, *map(quoted, values), f.lit(AFTER_SIDE).alias(SIDE))
    old = [f.col(BEFORE)[name].alias(name) for name in values]
    before = changes.where(f.col(OPERATION) != "c").select(*keys, *old, f.lit(BEFORE_SIDE).alias(SIDE))
    return after.unionByName(before)


def paired(rows: DataFrame, key: tuple[str, ...]) -> DataFrame:
    """Both sides put together again: what is left of a change."""
    values = [name for name in visible(rows) if name not in key]
    whole = f.struct(*(f.col(quoted(name)) for name in values), f.lit(True).alias("_there"))
    sides = [
        f.first(f.when(f.col(SIDE) == side, whole), ignorenulls=True).alias(name)
        for side, name in ((AFTER_SIDE, "_new"), (BEFORE_SIDE, "_old"))
    ]
    joined = rows.groupBy(*(f.col(quoted(name)) for name in key)).agg(*sides)
    changed = joined.where(~f.col("_new").eqNullSafe(f.col("_old")))
    operation = f.when(f.col("_old").isNull(), "c").when(f.col("_new").isNull(), "d").otherwise("u")
    old = f.when(f.col("_old").isNotNull(), f.struct(*(f.col("_old")[name].alias(name) for name in values)))
    return changed.select(
        operation.alias(OPERATION),
        *(f.col(quoted(name)) for name in key),
        *(f.col("_new")[name].alias(name) for name in values),
        *([old.alias(BEFORE)] if values else [f.lit(None).cast("struct<_there: boolean>").alias(BEFORE)]),
    )


def as_facts(changes: DataFrame, key: tuple[str, ...], beside: Sequence[str] = ()) -> DataFrame:
    """Changes as rows of a stream: op, before and after, each with the key in it, beside the key itself."""
    keys = [f.col(quoted(name)) for name in key]
    values = [name for name in visible(changes) if name not in key]
    after = f.struct(*keys, *(f.col(quoted(name)) for name in values))
    before = f.struct(*keys, *(f.col(BEFORE)[name].alias(name) for name in values))
    position = f.struct(
        f.lit(None).cast("timestamp").alias("time"), f.lit(-1).alias("source"), f.lit(0).alias("partition"),
        (f.xxhash64(*keys) if keys else f.lit(0).cast("long")).alias("offset"),
    )  # fmt: skip
    return changes.select(
        *keys,
        f.col(OPERATION).alias("op"),
        f.when(f.col(OPERATION) != "c", before).alias("before"),
        f.when(f.col(OPERATION) != "d", after).alias("after"),
        position.alias("_at"),
        *beside,
    )
