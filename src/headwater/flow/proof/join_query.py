"""What joins of events should hold, as plain Spark queries over all rows that were not late: their reference.

Nothing is shared with how events are kept: a range join, or a join with all earlier versions and the newest of them.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as Over
from pyspark.sql import functions as f

from headwater.flow.declare.topology.nodes import (
    LEFT_NAME,
    RIGHT_NAME,
    AsOfJoin,
    IntervalJoin,
    Join,
    Node,
    Source,
    key_of,
    multiplies,
)
from headwater.flow.declare.topology.stored_queries import AsOfPercolate, Percolate
from headwater.flow.formats.schema import quoted
from headwater.flow.operators.joins.pairing import EQUAL_OR_UNKNOWN, EXISTENCE, LEFT
from headwater.flow.operators.windows.assignment import POSITION
from headwater.flow.prepare.join_inputs import shared_names
from headwater.flow.proof.by_batch.arrivals import BATCH
from headwater.flow.proof.search.hits import hit_path, matching_pairs, search_over
from headwater.flow.proof.window_query import Past
from headwater.flow.rows.event_positions import position_of, since, with_time
from headwater.flow.rows.row_steps import PATH, visible
from headwater.flow.rows.sources import AT, DELETED

SIGNS = {"!=": "__ne__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__"}
THERE = "_there"
LEFT_PLACE, RIGHT_PLACE = "_at_l", "_at_r"


def event_rows(
    node: IntervalJoin | AsOfJoin, left: DataFrame, right: DataFrame, past: Past, sources: Sequence[Source]
) -> DataFrame:
    """Of either kind of join that time decides."""
    if isinstance(node, IntervalJoin):
        return interval_rows(node, left, right, past, sources)
    return as_of_rows(node, left, right, past, sources)


def interval_rows(
    node: IntervalJoin, left: DataFrame, right: DataFrame, past: Past, sources: Sequence[Source]
) -> DataFrame:
    """Pairs, and who is known to stay alone at the watermark."""
    ours = sided(timely(node, left, past), node.left, "_l_", LEFT_PLACE)
    theirs = sided(timely(node, right, past), node.right, "_r_", RIGHT_PLACE)
    on = equal(node) & (_time("_r") - _time("_l")).between(node.low_us, node.high_us)
    joined = ours.join(theirs, on, node.how)
    reached = f.lit(past.reached_us(node)).cast("long")
    both = f.col(f"_l_{THERE}").isNotNull() & f.col(f"_r_{THERE}").isNotNull()
    null_key = f.greatest(*(f.coalesce(f"_l_{one}", f"_r_{other}").isNull() for one, other in node.on), f.lit(False))
    over = f.when(f.col(f"_l_{THERE}").isNotNull(), _time("_l") + node.high_us < reached)
    over = over.otherwise(_time("_r") - node.low_us < reached)
    due = joined.where(both | null_key | f.coalesce(over, f.lit(False)))
    return _named(node, due, left, right, sources)


def as_of_rows(node: AsOfJoin, left: DataFrame, right: DataFrame, past: Past, sources: Sequence[Source]) -> DataFrame:
    """Each event whose time the watermark has passed, with the newest version that held and counted then."""
    right = with_time(right, since(node.versions, right))
    ours = sided(timely(node, left, past), node.left, "_l_", LEFT_PLACE)
    theirs = sided(_seen(node, right, past), node.right, "_r_", RIGHT_PLACE)
    null_key = f.lit(False)
    for one, _ in node.on:
        null_key = null_key | f.col(quoted(f"_l_{one}")).isNull()
    due = ours.where(null_key | f.coalesce(_time("_l") < f.lit(past.reached_us(node)).cast("long"), f.lit(False)))
    event = [f"{LEFT_PLACE}_{name}" for name in (*POSITION, "content", "nth")]
    keys = [quoted(f"_r_{one}") for one in node.versions.key] if isinstance(node, AsOfPercolate) else []
    on = equal(node) & (_time("_r") <= _time("_l")) & (f.col("_r__seen") <= _time("_l"))
    order = f.struct(*(f.col(f"{RIGHT_PLACE}_{name}") for name in ("time", *POSITION)))
    version = f.struct(*(f.col(quoted(name)) for name in theirs.columns))
    newest = due.join(theirs, on).groupBy(*event, *keys).agg(f.max_by(version, order).alias("_version")).drop(*keys)
    joined = due.join(newest, event, "left")
    found = f.col("_version")
    holds = found.isNotNull() & ~f.coalesce(found[f"_r_{DELETED}"], f.lit(False))
    if node.versions.valid_to:
        until = f.unix_micros(found[f"_r_{node.versions.valid_to}"])
        holds = holds & (until.isNull() | (_time("_l") < until))
    rows = joined.select(*due.columns, *(f.when(holds, found[name]).alias(name) for name in theirs.columns))
    if isinstance(node, AsOfPercolate):
        return hit_rows(node, rows.where(f"_r_{THERE}"), left, right)
    return _named(node, rows if node.how == LEFT else rows.where(f"_r_{THERE}"), left, right, sources)


def hit_rows(
    node: Percolate | AsOfPercolate, pairs: DataFrame, left: DataFrame, right: DataFrame, more: Sequence[Column] = ()
) -> DataFrame:
    """Of documents and queries that were stored for them those that match."""
    search = search_over(node, left)
    found = matching_pairs(pairs, search)
    beside = [f.col(f"_l_{AT}").alias(AT), hit_path(LEFT_PLACE, right).alias(PATH)]
    reported = [f.col(name) for name in search.hit_schema.names]
    return named_pairs(node, found, visible(left), visible(right), [*reported, *beside, *more])


def sided(frame: DataFrame, node: Node, prefix: str, places: str) -> DataFrame:
    """Columns of a side with a prefix, and where each of its rows lies."""
    position = [column.alias(places + name) for name, column in position_of(frame, node).items()]
    own = [f.col(quoted(name)).alias(prefix + name) for name in (*visible(frame), AT)]
    more = [f.col(name).alias(prefix + name) for name in (DELETED, "_seen", BATCH) if name in frame.columns]
    placed = frame.select(*own, *more, *position, f.lit(True).alias(prefix + THERE))
    nth = f.lit(0).cast("long")
    if multiplies(node):
        same = [f.col(f"{places}_{name}") for name in (*POSITION, "content")]
        nth = f.row_number().over(Over.partitionBy(*same).orderBy(*same)) - 1
    return placed.withColumn(f"{places}_nth", nth)


def placed_rows(node: Node, given: Node, frame: DataFrame, past: Past) -> DataFrame:
    """Rows that are given to an operator and were not late, with where each lies beside its columns."""
    on_time = timely(node, frame, past)
    position = {f"{LEFT_PLACE}{name}": column for name, column in position_of(on_time, given).items()}
    placed = on_time.withColumns(position)
    nth = f.lit(0).cast("long")
    if multiplies(given):
        same = [f.col(f"{LEFT_PLACE}_{name}") for name in (*POSITION, "content")]
        nth = f.row_number().over(Over.partitionBy(*same).orderBy(*same)) - 1
    return placed.withColumn(f"{LEFT_PLACE}_nth", nth.cast("long"))


def timely(node: Node, frame: DataFrame, past: Past) -> DataFrame:
    late = past.late.get(node)
    if late is None:
        return frame
    return frame.join(late, [frame[AT][name] == late[name] for name in POSITION], "anti")


def _seen(node: AsOfJoin, frame: DataFrame, past: Past) -> DataFrame:
    """From when on each version counts: always, or since the watermark that it was late for, less the horizon.

    One that says itself since when it holds counts for every event, also for those that were emitted before it came:
    what a view lacks of it is a difference, for it is what the log says, and what a rebuild gives.
    """
    always, late = f.lit(-(2**62)).cast("long"), past.late.get(node)
    if late is None or node.versions.valid_from is not None:
        return frame.withColumn("_seen", always)
    counted = late.groupBy(*POSITION).agg((f.unix_micros(f.min("watermark")) - node.horizon_us).alias("_since"))
    joined = frame.join(counted, [frame[AT][name] == counted[name] for name in POSITION], "left")
    return joined.select(*frame.columns, f.coalesce("_since", always).alias("_seen"))


def equal(node: Join) -> Column:
    on = f.lit(True)
    for one, other in node.on:
        on = on & (f.col(quoted(f"_l_{one}")) == f.col(quoted(f"_r_{other}")))
    for one, sign, other in node.further:
        on = on & getattr(f.col(quoted(f"_l_{one}")), SIGNS[sign])(f.col(quoted(f"_r_{other}")))
    return on


def _time(side: str) -> Column:
    return f.unix_micros(f.col(f"{side}_{AT}")["time"])


def _named(node: Join, joined: DataFrame, left: DataFrame, right: DataFrame, sources: Sequence[Source]) -> DataFrame:
    """Columns as the result has them: behind where it lies, or its name."""
    if not node.keyed:
        path = path_of(LEFT_PLACE, RIGHT_PLACE if isinstance(node, IntervalJoin) else None)
        beside = [f.coalesce(f"_l_{AT}", f"_r_{AT}").alias(AT), path.alias(PATH)]
        return named_pairs(node, joined, visible(left), visible(right), beside)
    names = {
        LEFT_NAME: row_name(LEFT_PLACE, sources, several=multiplies(node.left)),
        RIGHT_NAME: row_name(RIGHT_PLACE, sources, several=multiplies(node.right)),
    }
    return named_pairs(node, joined, visible(left), visible(right), [names[name].alias(name) for name in key_of(node)])


def path_of(left: str, right: str | None) -> Column:
    """A hash of what a result was made from, beside where it lies: of two results of one event at most one has it.

    The events of an interval join may meet in different batches, so that no number could be given to each. The same as
    operators/joins/emission.py has it.
    """
    own = [f"{left}_{name}" for name in ("content", "nth")]
    others = [f"{right}_{name}" for name in ("source", "partition", "offset", "content", "nth")] if right else []
    return f.xxhash64(*(f.col(name).cast("long") for name in (*own, *others)))


def row_name(side: str, sources: Sequence[Source], *, several: bool) -> Column:
    """Topic, partition and offset of an event; where its record may have made several, which of them."""
    topic = f.coalesce(
        *(f.when(f.col(f"{side}_source") == number, one.topic) for number, one in enumerate(sources)), f.lit("")
    )
    own = [topic, f.lit("/"), f.col(f"{side}_partition"), f.lit("@"), f.col(f"{side}_offset")]
    if several:
        own += [f.lit("#"), f.hex(f"{side}_content"), f.lit("."), f.col(f"{side}_nth")]
    return f.when(f.col(f"{side}_offset").isNotNull(), f.concat(*own))


def batch_join(node: Join, left: DataFrame, right: DataFrame) -> DataFrame:
    """The same as one query over all rows, as Spark joins them; hidden columns are left out."""
    ours = left.select(*(f.col(quoted(name)).alias(f"_l_{name}") for name in visible(left)))
    theirs = right.select(*(f.col(quoted(name)).alias(f"_r_{name}") for name in visible(right)))
    on = f.lit(True)
    for one, other in node.on:
        on = on & (ours[f"_l_{one}"] == theirs[f"_r_{other}"])
    for one, sign, other in node.further:
        if sign == EQUAL_OR_UNKNOWN:
            on = on & f.coalesce(ours[f"_l_{one}"] == theirs[f"_r_{other}"], f.lit(True))
            continue
        on = on & getattr(ours[f"_l_{one}"], SIGNS[sign])(theirs[f"_r_{other}"])
    if node.how in EXISTENCE:
        return ours.join(theirs, on, node.how).select(*(f.col(quoted(f"_l_{one}")).alias(one) for one in visible(left)))
    return named_pairs(node, ours.join(theirs, on, node.how), visible(left), visible(right))


def named_pairs(
    node: Join, joined: DataFrame, left: Sequence[str], right: Sequence[str], beside: Sequence[Column] = ()
) -> DataFrame:
    """Columns of a result, from those of both sides with `_l_` and `_r_` before their names."""
    partners = dict(node.on)
    columns = [
        f.coalesce(f.col(quoted(f"_l_{name}")), f.col(quoted(f"_r_{partners[name]}"))).alias(name)
        if name in partners else f.col(quoted(f"_l_{name}")).alias(name)
        for name in left
    ]  # fmt: skip
    shared = shared_names(node, left, right)
    others = [name for name in right if name not in (*partners.values(), *shared)]
    columns += [f.col(quoted(f"_r_{name}")).alias(node.named(name)) for name in others]
    if shared:
        fields = f.struct(*(f.col(quoted(f"_r_{name}")).alias(name) for name in shared))
        columns.append(fields.alias(node.right_name))
    return joined.select(*columns, *beside)
