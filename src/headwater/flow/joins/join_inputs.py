"""From the inputs of a join in one batch to what its tasks are given, each shard in the partition of its number."""

from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.nodes import (
    STREAM_JOINS,
    AsOfJoin,
    IntervalJoin,
    Join,
    LatestJoin,
    Node,
    SourceVersions,
    TableJoin,
    key_of,
    multiplies,
    walk,
)
from headwater.flow.joins.hot_key_slices import split_over
from headwater.flow.joins.join_rows import in_place, no_null, pairing_of, placed_by, sharded, sided, together
from headwater.flow.joins.stream_join_task import StreamJoinOperator
from headwater.flow.joins.table_join_task import SIDE, TableJoinOperator
from headwater.flow.late.late_rows import LATE_END, LATE_START
from headwater.flow.operate.deduplicator import LATE
from headwater.flow.operators.joins import as_of, events, interval, latest, splitting, tables
from headwater.flow.operators.joins.hot_keys import HotKey
from headwater.flow.operators.joins.splitting import may_split
from headwater.flow.operators.windows.clock import WindowClock
from headwater.flow.plan.event_times import time_us
from headwater.flow.rows.counters import Counter
from headwater.flow.rows.row_steps import PATH, quoted, visible
from headwater.flow.rows.sources import AT, DELETED
from headwater.flow.rows.tie_breaking import content_hash

SLOTS = 16
"""About so many slots are kept for the time that events are needed."""
MINUTE_US = 60_000_000
Reached = tuple[int | None, int | None]


Counters = tuple[Counter, Counter]
"""Of what leaves before a join: on its left, and on its right."""


class PreparedTables(NamedTuple):
    """What a join of tables does, and the rows of both sides that its tasks are given."""

    operator: TableJoinOperator
    ours: DataFrame
    theirs: DataFrame

    @property
    def keys(self) -> int:
        return len(self.operator.work.pairing.on)

    def rows(self, shards: int) -> DataFrame:
        """Each shard in the partition of its number."""
        if not self.operator.hot:
            return sharded(self.ours, self.theirs, self.keys, shards)
        return split_over(self.ours.unionByName(self.theirs), placed_by(self.keys), self.operator.hot, shards)


class Prepared(NamedTuple):
    """What a join of events does, the rows of both sides, and those that came too late for it."""

    operator: StreamJoinOperator
    ours: DataFrame
    theirs: DataFrame
    late: DataFrame

    @property
    def keys(self) -> int:
        return len(self.operator.work.pairing.on)

    def rows(self, shards: int) -> DataFrame:
        """Each shard in the partition of its number; where events only look, they stay where they are. Rows that lie
        by partition are brought there as pieces, and hashed, by tasks of ours."""
        if self.operator.looks:
            return self.ours if self.operator.by_partition else in_place(self.ours, self.keys)
        if self.operator.by_partition:
            return together(self.ours, self.theirs)
        return sharded(self.ours, self.theirs, self.keys, shards)


def joined_tables(
    node: TableJoin, left: DataFrame, right: DataFrame, name: str, *, shards: int, hot: tuple[HotKey, ...] = ()
) -> PreparedTables:
    """`left` and `right` are both sides of every change; `hot` are keys to be split."""
    pairing = pairing_of(node, left, right)
    keys, on = (key_of(node.left), key_of(node.right)), tuple(zip(*node.on, strict=True))
    sides = [tables.Side(*each) for each in zip((pairing.left, pairing.right), keys, on, strict=True)]
    work = tables.TableJoin(sides[0], sides[1], pairing)
    split = tuple(one for one in hot if shards > 1 and may_split(work, one.side))
    operator = TableJoinOperator(name, node.key, work, split, splitting.HOT_ROWS)
    if not pairing.keeps_left:
        left = left.where(no_null(left, sides[0].on))
    if not pairing.keeps_right:
        right = right.where(no_null(right, sides[1].on))
    ours, theirs = (
        sided(frame, other, side.on, number, side.key, _of_table(side))
        for number, (frame, other, side) in enumerate(zip((left, right), (right, left), sides, strict=True))
    )
    return PreparedTables(operator, ours, theirs)


def joined_streams(
    node: IntervalJoin, left: DataFrame, right: DataFrame, name: str, times: Reached, counters: Counters
) -> Prepared:
    """`times` are the watermarks of the batch before and of this one."""
    pairing = pairing_of(node, *_timed(node, left, right))
    clock = WindowClock(*times, node.horizon_us)
    slot_us = max((node.high_us - node.low_us + node.horizon_us) // SLOTS, 1)
    on = _on(node)
    sides = events.Events(pairing.left, on[0], slot_us), events.Events(pairing.right, on[1], slot_us)
    work = interval.IntervalJoin(*sides, pairing, node.low_us, node.high_us)
    keeps, frames, late = (pairing.keeps_left, pairing.keeps_right), [], []
    for frame, names, kept, counter in zip((left, right), on, keeps, counters, strict=True):
        late.append(late_events(frame, clock.watermark_us, clock.horizon_us))
        timely = _timely(frame, clock.watermark_us, clock.horizon_us, counter)
        able = no_null(timely, names)
        frames.append(timely if kept else counter.watch(timely, filtered=~able).where(able))
    ours, theirs = (
        sided(frame, other, names, number, [AT], position_of(frame, side))
        for number, (frame, other, names, side) in enumerate(
            zip(frames, (right, left), on, (node.left, node.right), strict=True)
        )
    )
    operator = StreamJoinOperator(name, work, clock, node.key if node.keyed else ())
    return Prepared(operator, ours, theirs, late[0].unionByName(late[1]))


def joined_latest(
    node: LatestJoin, left: DataFrame, right: DataFrame, name: str, times: Reached, *, quiet: bool = False
) -> Prepared:
    """`right` is both sides of every change of the table; `quiet`: there is none in this batch."""
    pairing, on = pairing_of(node, *_timed(node, left, right)), _on(node)
    table = tables.Side(pairing.right, key_of(node.right), on[1])
    work = latest.LatestJoin(
        events.Events(pairing.left, on[0], max(node.wait_us // SLOTS, 1)), table, pairing, node.wait_us
    )
    ours = sided(left, right, on[0], 0, [AT], position_of(left, node.left))
    theirs = sided(right.where(no_null(right, on[1])), left, on[1], 1, table.key, _of_table(table))
    operator = StreamJoinOperator(name, work, WindowClock(*times), looks=quiet and not node.wait_us)
    return Prepared(operator, ours, theirs, late_events(left, None, 0))


def joined_as_of(
    node: AsOfJoin, left: DataFrame, right: DataFrame, name: str, times: Reached, counters: Counters
) -> Prepared:
    """`right` is a row for each version. One that comes too late is told to be, and yet counts for what follows."""
    versions, on = node.versions, _on(node)
    pairing = pairing_of(node, *_timed(node, left, right))
    clock = WindowClock(*times, node.horizon_us)
    slot_us = max(max(node.horizon_us, MINUTE_US) // SLOTS, 1)
    kept_us = max(versions.versions_us, node.horizon_us)
    work = as_of.AsOfJoin(
        events.Events(pairing.left, on[0], slot_us),
        events.Events(as_of.with_extra(pairing.right), on[1]),
        pairing,
        kept_us,
        versions.valid_from is not None,
    )
    right = right.withColumn(AT, f.col(AT).withField("time", since(versions, right)))
    told_us = clock.before_us if work.dated else clock.watermark_us
    late = late_events(left, clock.watermark_us, kept_us), late_events(right, told_us, clock.horizon_us)
    if told_us is not None:
        right = counters[1].watch(right, late=_is_late(told_us, clock.horizon_us))
    timely = _timely(left, clock.watermark_us, kept_us, counters[0])
    until = f.unix_micros(f.col(quoted(versions.valid_to))) if versions.valid_to else f.lit(None).cast("long")
    extra = {"_gone": f.col(DELETED), "_until": until, "_seen": f.lit(None).cast("long")}
    ours = sided(timely, right, on[0], 0, [AT], position_of(timely, node.left))
    theirs = sided(right, left, on[1], 1, [AT], {**position_of(right, node.right), **extra})
    operator = StreamJoinOperator(name, work, clock, node.key if node.keyed else ())
    return Prepared(operator, ours, theirs, late[0].unionByName(late[1]))


def since(versions: SourceVersions, frame: DataFrame) -> Column:
    """From when on a version holds."""
    column, recorded = versions.valid_from, f.col(AT)["time"]
    if column is None:
        return recorded
    for name in (column, versions.valid_to):
        if name is not None and name not in frame.columns:
            raise InvalidDeclaration(
                f"the versions of table {versions.topic} hold by column {name}, which a step before the join drops",
                "Leave it in, and drop it behind the join.",
            )
    return f.coalesce(f.col(quoted(column)), recorded)


def late_events(frame: DataFrame, watermark_us: int | None, horizon_us: int) -> DataFrame:
    """Rows that are too late: where they lie, and what they were."""
    row = f.to_json(f.struct(*(f.col(quoted(name)) for name in visible(frame))), {"ignoreNullFields": "false"})
    nothing = f.lit(None).cast("long")
    late = frame.where(f.lit(False) if watermark_us is None else _is_late(watermark_us, horizon_us))
    return late.select(f"{AT}.*", row.alias(LATE), nothing.alias(LATE_START), nothing.alias(LATE_END))


def _timely(frame: DataFrame, watermark_us: int | None, horizon_us: int, counter: Counter) -> DataFrame:
    if watermark_us is None:
        return frame
    late = _is_late(watermark_us, horizon_us)
    return counter.watch(frame, late=late).where(~late)


def _is_late(watermark_us: int, horizon_us: int) -> Column:
    return time_us() < f.lit(watermark_us - horizon_us).cast("long")


def _timed(node: Join, left: DataFrame, right: DataFrame) -> tuple[DataFrame, DataFrame]:
    streams = [(frame, side) for frame, side in ((left, node.left), (right, node.right)) if not side.keyed]
    unplaced = any(AT not in frame.columns for frame, _ in streams)
    if unplaced or any(PATH not in frame.columns for frame, side in streams if _makes(side)):
        raise InvalidDeclaration(f"join at {node.place} comes behind a step that drops when rows happened")
    return left, right


def _makes(node: Node) -> bool:
    return any(isinstance(one, STREAM_JOINS) for one in walk(node))


def _on(node: Join) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tuple(one for one, _ in node.on), tuple(other for _, other in node.on)


def position_of(frame: DataFrame, node: Node) -> dict[str, Column]:
    """When and where an event lies, and which row of its record it is where a step may make several.

    The same for what a join gives to another in one task: operators/joins/chaining.py.
    """
    at, several = f.col(AT), multiplies(node)
    told_apart = [*visible(frame), *([PATH] if PATH in frame.columns else [])]
    content = content_hash(told_apart) if several else f.lit(0).cast("long")
    places = {f"_{name}": at[name].cast("long") for name in ("source", "partition", "offset")}
    return {events.TIME: time_us(), **places, events.CONTENT: content}


def _of_table(side: tables.Side) -> dict[str, Column]:
    # Halved, so that it lies within the bounds of every search.
    own = f.shiftright(f.xxhash64(*(f.col(quoted(one)) for one in side.key)), 1)
    return {tables.ROW: own, tables.AFTER: f.col(SIDE) == 1}
