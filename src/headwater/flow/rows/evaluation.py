"""One batch of a job as Spark frames.

A stream is a frame of rows. A table is a frame of changes: `_op` (c, u or d), the key, the values after the change,
`_before` with those before it. What an operator that keeps state has to tell the driver comes in the same frame, in
rows whose `_commit` is set and that hold nothing else: so it is told by the very task attempt whose rows are used.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import cast

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from headwater.flow.declare.chains import Chain
from headwater.flow.declare.nodes import (
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
    key_of,
    steps_behind,
    walk,
)
from headwater.flow.joins.chain_tasks import LINK
from headwater.flow.joins.table_join_task import SIDE
from headwater.flow.operate.deduplicator import LATE
from headwater.flow.operate.level import Level
from headwater.flow.operate.reports import COMMIT
from headwater.flow.operators.changes import BEFORE, OPERATION
from headwater.flow.operators.joins.events import MISSING
from headwater.flow.rows.counters import Counter
from headwater.flow.rows.row_batch import AT, FIELDS, POSITION
from headwater.flow.rows.row_steps import apply_step, quoted, visible

Operate = Callable[..., DataFrame]
"""What an operator makes of its inputs: changes. Called with the node, the inputs, and a counter."""

OperateLevel = Callable[[Mapping[Node, DataFrame], Sequence[Node]], Level]
"""The exchange of a level of operators: called with frames for some, and with those whose rows tasks read."""

OperateChain = Callable[[Chain, Sequence[Sequence[DataFrame]], Sequence[Counter]], DataFrame]
"""The same of joins that are done in one task: called with both inputs of the first, and the right of each other."""

AFTER_SIDE, BEFORE_SIDE = 1, 0


@dataclass(frozen=True)
class Replayed:
    """What late rows that are replayed do in a batch."""

    changes: Mapping[Node, DataFrame] = field(default_factory=dict)
    """Corrections that operators emit, in place of their own changes."""
    absorbed: Mapping[Node, DataFrame] = field(default_factory=dict)
    """Rows that operators of overlapping windows put into their state."""


MAKING = (Join, Changes)
"""Steps that make facts of what operators before them have been told."""


@dataclass
class Evaluation:
    """Frames of the nodes of one batch. An operator's changes are made once, and kept if more than one wants them."""

    sources: Callable[[], Mapping[Source, DataFrame]]
    """Their rows, asked for where anybody wants them as frames."""
    operate: Operate
    keep: frozenset[Node] = frozenset()
    """Operators whose changes are used more than once."""
    packed: Mapping[Node, pa.Schema] = field(default_factory=dict)
    """Operators whose changes are nothing to Spark but bytes (packing.py), and what is in them."""
    chains: Mapping[Node, Chain] = field(default_factory=dict)
    """Joins that are done in one task, by the last of them."""
    operate_chain: OperateChain | None = None
    levels: Mapping[Node, int] = field(default_factory=dict)
    """Operators with one input that are run level by level, and the level of each."""
    operate_level: OperateLevel | None = None
    logged: frozenset[Node] = frozenset()
    """Of these, operators whose rows are read by tasks and never were frames."""
    replayed: Replayed = field(default_factory=Replayed)
    exchanges: dict[int, Level] = field(default_factory=dict)
    direct: Mapping[Node, Callable[[], DataFrame]] = field(default_factory=dict)
    """Operators whose rows never were frames (direct_reading.py), and their changes."""
    straight: frozenset[Node] = frozenset()
    """Of these, joins whose results are packed rows of a stream."""
    told_alone: dict[Node, DataFrame] = field(default_factory=dict)
    """Of those: rows that had to have a partner, and have none."""
    counters: dict[Node, Counter] = field(default_factory=dict)
    made: dict[Node, DataFrame] = field(default_factory=dict)

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
        if isinstance(node, Join):
            made = self.changes(node).where(f.col(COMMIT).isNull() & ~f.col(MISSING)).drop(COMMIT, MISSING, LINK)
            return self._made(node, root, made)
        if isinstance(node, Dedupe):
            first = self.changes(node).where(f.col(COMMIT).isNull() & ~f.col(LATE)).drop(COMMIT, LATE)
            return self._made(node, root, first) if any(isinstance(one, MAKING) for one in walk(node)) else first
        return apply_step(node, [self.rows(one, root) for one in node.inputs], self.counter(root))

    def _made(self, node: Node, root: Node, rows: DataFrame) -> DataFrame:
        """Rows that were made of others are facts anew for whoever is given them."""
        return rows if root is node else self.counter(root).watch(rows, made=f.lit(1))

    def changes(self, node: Node) -> DataFrame:
        """The changes of a table; of a stream that remembers keys, the rows it lets through and those too late."""
        if not isinstance(node, STATEFUL):
            return self._transformed(node)
        if node not in self.made:
            if node in self.levels:
                self.made[node] = self._emitted(node)
            else:
                made = self._operated(node)
                self.made[node] = made.persist() if node in self.keep else made
        return self.made[node]

    def _emitted(self, node: Node) -> DataFrame:
        if node in self.replayed.changes:
            return self.replayed.changes[node]
        return with_position(self.exchange(node).frame(node))

    def exchange(self, node: Node) -> Level:
        """The level of an operator with one input; all operators of it are run together."""
        number = self.levels[node]
        if number not in self.exchanges:
            nodes = [one for one, level in self.levels.items() if level == number]
            frames = {one: self.given(one) for one in nodes if one not in self.logged}
            assert self.operate_level is not None
            self.exchanges[number] = self.operate_level(frames, [one for one in nodes if one in self.logged])
        return self.exchanges[number]

    def given(self, node: Node) -> DataFrame:
        """The input of an operator that has one."""
        absorbed = self.replayed.absorbed.get(node)
        return self._given(node)[0] if absorbed is None else absorbed

    def _operated(self, node: Node) -> DataFrame:
        if node in self.direct:
            return self.direct[node]()
        if node not in self.chains:
            return self.operate(node, *self._given(node), self.counter(node))
        assert self.operate_chain is not None
        links = self.chains[node]
        given = [self._given(links[0]), *([self._joined(link.right, link)] for link in links[1:])]
        return self.operate_chain(links, given, [self.counter(link) for link in links])

    def alone(self, node: Node) -> DataFrame:
        """Rows that had to have a partner in a join, and have none; also of one that is done together with others."""
        if node in self.told_alone:
            return self.told_alone[node]
        last, links = next(((last, links) for last, links in self.chains.items() if node in links), (node, (node,)))
        rows = self.made[last].where(f.col(MISSING))
        return rows.where(f.col(LINK) == links.index(node)) if len(links) > 1 else rows

    def _joined(self, node: Node, join: Node) -> DataFrame:
        return self._sides(node) if node.keyed else self.rows(node, join)

    def _given(self, node: Node) -> list[DataFrame]:
        """What an operator works on: rows, or of tables that are joined both sides of every change."""
        if isinstance(node, Join):
            return [self._joined(one, node) for one in node.inputs]
        if isinstance(node, Newest):
            return [self._sides(node.input)]
        if isinstance(node, Compared | KMeans):
            return [self.changes(node.input)]
        return [self.rows(one, node) for one in node.inputs] or [self.frames[cast("Source", node)]]

    def _transformed(self, node: Node) -> DataFrame:
        """Steps on a table: done to both sides of every change, which may then be another kind of change, or none."""
        return paired(self._sides(node), key_of(node))

    def _sides(self, node: Node) -> DataFrame:
        steps, base = steps_behind(node)
        rows = both_sides(self.changes(base), key_of(base))
        for step in steps:
            rows = apply_step(step, [rows], Counter())
        return rows

    def release(self) -> None:
        for frame in self.made.values():
            frame.unpersist()
        for level in self.exchanges.values():
            level.release()


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
    told = changes.where(f.col(COMMIT).isNull())
    keys = [f.col(quoted(name)) for name in key]
    values = [name for name in visible(changes) if name not in key]
    after = told.where(f.col(OPERATION) != "d").select(*keys, *map(quoted, values), f.lit(AFTER_SIDE).alias(SIDE))
    old = [f.col(BEFORE)[name].alias(name) for name in values]
    before = told.where(f.col(OPERATION) != "c").select(*keys, *old, f.lit(BEFORE_SIDE).alias(SIDE))
    return after.unionByName(before)


def paired(rows: DataFrame, key: tuple[str, ...]) -> DataFrame:
    """Both sides put together again: what is left of a change. Rows in which operators report go through."""
    reports = f.col(COMMIT) if COMMIT in rows.columns else f.lit(None).cast("string").alias(COMMIT)
    values = [name for name in visible(rows) if name not in key]
    whole = f.struct(*(f.col(quoted(name)) for name in values), f.lit(True).alias("_there"))
    sides = [
        f.first(f.when(f.col(SIDE) == side, whole), ignorenulls=True).alias(name)
        for side, name in ((AFTER_SIDE, "_new"), (BEFORE_SIDE, "_old"))
    ]
    joined = rows.groupBy(*(f.col(quoted(name)) for name in key), reports).agg(*sides)
    changed = joined.where(~f.col("_new").eqNullSafe(f.col("_old")) | f.col(COMMIT).isNotNull())
    operation = f.when(f.col("_old").isNull(), "c").when(f.col("_new").isNull(), "d").otherwise("u")
    old = f.when(f.col("_old").isNotNull(), f.struct(*(f.col("_old")[name].alias(name) for name in values)))
    return changed.select(
        operation.alias(OPERATION),
        *(f.col(quoted(name)) for name in key),
        *(f.col("_new")[name].alias(name) for name in values),
        *([old.alias(BEFORE)] if values else [f.lit(None).cast("struct<_there: boolean>").alias(BEFORE)]),
        f.col(COMMIT),
    )


def as_facts(changes: DataFrame, key: tuple[str, ...]) -> DataFrame:
    """Changes as rows of a stream: op, before and after, each with the key in it, beside the key itself."""
    return facts_and_reports(changes, key).where(f.col(COMMIT).isNull()).drop(COMMIT)


def facts_and_reports(changes: DataFrame, key: tuple[str, ...]) -> DataFrame:
    """The same, beside the rows in which operators report, all columns of which but `_commit` mean nothing."""
    keys = [f.col(quoted(name)) for name in key]
    values = [name for name in visible(changes) if name not in key]
    after = f.struct(*keys, *(f.col(quoted(name)) for name in values))
    before = f.struct(*keys, *(f.col(BEFORE)[name].alias(name) for name in values))
    position = f.struct(
        f.lit(None).cast("timestamp").alias("time"), f.lit(-1).alias("source"), f.lit(0).alias("partition"),
        f.xxhash64(*keys).alias("offset"),
    )  # fmt: skip
    return changes.select(
        *keys,
        f.col(OPERATION).alias("op"),
        f.when(f.col(OPERATION) != "c", before).alias("before"),
        f.when(f.col(OPERATION) != "d", after).alias("after"),
        position.alias("_at"),
        f.col(COMMIT),
    )
