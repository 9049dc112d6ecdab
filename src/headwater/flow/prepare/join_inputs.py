"""From a join's node and the frames of its inputs to what the join is, and how each input is prepared for its shards.

An input's frame has the columns of its rows, where they lie, and no more: nothing of a join is evaluated by Spark.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.topology.nodes import (
    STREAM_JOINS,
    AsOfJoin,
    IntervalJoin,
    Join,
    LatestJoin,
    Node,
    TableJoin,
    key_of,
    multiplies,
    walk,
)
from headwater.flow.declare.topology.stored_queries import PERCOLATES, AsOfPercolate, Percolate
from headwater.flow.formats.schema import quoted
from headwater.flow.operate.join_operators import JoinOperator, StreamJoinOperator, TableJoinOperator
from headwater.flow.operators.joins import as_of, events, interval, latest, tables
from headwater.flow.operators.joins.emission import SIDE
from headwater.flow.operators.joins.pairing import EXISTENCE, Pairing
from headwater.flow.operators.spark_hashes import can_hash
from headwater.flow.operators.windows.clock import WindowClock
from headwater.flow.prepare.join_sides import PrepareEvents, PrepareTable, ValidTimes
from headwater.flow.prepare.percolation_inputs import percolation_operator
from headwater.flow.rows.arrow_types import arrow_schema
from headwater.flow.rows.event_positions import check_valid_times
from headwater.flow.rows.row_steps import PATH, visible
from headwater.flow.rows.sources import AT, DELETED

SLOTS = 16
"""About so many slots are kept for the time that events are needed."""
MINUTE_US = 60_000_000
PrepareSide = PrepareEvents | PrepareTable


def join_operator(node: Join, left: DataFrame, right: DataFrame, name: str) -> JoinOperator:
    """InvalidDeclaration if inputs do not fit."""
    pairing = pairing_of(node, left, right)
    on = tuple(one for one, _ in node.on), tuple(other for _, other in node.on)
    if isinstance(node, TableJoin):
        sides = [tables.Side(*each) for each in zip((pairing.left, pairing.right), _keys(node), on, strict=True)]
        return TableJoinOperator(name, node.key, tables.TableJoin(sides[0], sides[1], pairing))
    if isinstance(node, PERCOLATES):
        return percolation_operator(node, left, right, pairing, name)
    _check_times(node, left, right)
    key = node.key if node.keyed and isinstance(node, IntervalJoin | AsOfJoin) else ()
    if isinstance(node, IntervalJoin):
        slot_us = max((node.high_us - node.low_us + node.horizon_us) // SLOTS, 1)
        both = events.Events(pairing.left, on[0], slot_us), events.Events(pairing.right, on[1], slot_us)
        near = interval.IntervalJoin(*both, pairing, node.low_us, node.high_us)
        return StreamJoinOperator(name, near, WindowClock(None, None, node.horizon_us), key)
    if isinstance(node, LatestJoin):
        left_events = events.Events(pairing.left, on[0], max(node.wait_us // SLOTS, 1))
        table = tables.Side(pairing.right, key_of(node.right), on[1])
        met = latest.LatestJoin(left_events, table, pairing, node.wait_us)
        return StreamJoinOperator(name, met, WindowClock(None, None))
    assert isinstance(node, AsOfJoin)
    check_valid_times(node.versions, right)
    slot_us = max(max(node.horizon_us, MINUTE_US) // SLOTS, 1)
    held = as_of.AsOfJoin(
        events.Events(pairing.left, on[0], slot_us),
        events.Events(as_of.with_extra(pairing.right), on[1]),
        pairing,
        max(node.versions.versions_us, node.horizon_us),
        node.versions.valid_from is not None,
    )
    return StreamJoinOperator(name, held, WindowClock(None, None, node.horizon_us), key)


def _keys(node: Join) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return key_of(node.left), key_of(node.right)


def side_frame(node: Join, number: int, frame: DataFrame) -> DataFrame:
    """The columns of an input that its rows are prepared from."""
    if node.inputs[number].keyed:
        return frame.select(*map(quoted, visible(frame)), SIDE)
    hidden = [name for name in (AT, PATH, DELETED) if name in frame.columns]
    return frame.select(*map(quoted, visible(frame)), *hidden)


def side_preparations(node: Join, operator: JoinOperator, *, shards: int) -> tuple[PrepareSide, PrepareSide]:
    """How the left and the right are prepared in a batch, as far as the operator's clock has come."""
    if isinstance(operator, TableJoinOperator):
        both, hot, pairing = operator.work, operator.hot, operator.work.pairing
        return (
            PrepareTable(both.left, pairing.keeps_left, 0, hot, shards),
            PrepareTable(both.right, pairing.keeps_right, 1, hot, shards),
        )
    work, clock, several = operator.work, operator.clock, (multiplies(node.left), multiplies(node.right))
    late_us = work.late_below(clock)
    if isinstance(work, interval.IntervalJoin):
        return (
            PrepareEvents(work.left, late_us[0], keeps_nulls=work.pairing.keeps_left, several=several[0]),
            PrepareEvents(work.right, late_us[1], keeps_nulls=work.pairing.keeps_right, several=several[1]),
        )
    if isinstance(node, Percolate):
        assert isinstance(work, latest.LatestJoin)
        queries = PrepareTable(work.table, keeps_nulls=False, shards=shards, everywhere=True)
        return PrepareEvents(work.events, several=several[0]), queries
    if isinstance(work, latest.LatestJoin):
        table = PrepareTable(work.table, keeps_nulls=False, met_by_events=True)
        return PrepareEvents(work.events, several=several[0]), table
    assert isinstance(node, AsOfJoin)
    assert isinstance(work, as_of.AsOfJoin)
    held = ValidTimes(node.versions.valid_from, node.versions.valid_to)
    return (
        PrepareEvents(work.events, late_us[0], several=several[0]),
        PrepareEvents(
            work.versions,
            late_us[1],
            keeps_late=True,
            several=several[1],
            versions=held,
            everywhere=shards if isinstance(node, AsOfPercolate) else 0,
        ),
    )


def pairing_of(node: Join, left: DataFrame, right: DataFrame) -> Pairing:
    """InvalidDeclaration if columns are missing, of different types, or of the same name."""
    for one, other in (*node.on, *((each.left, each.right) for each in node.further)):
        _check_types(node, _field(node, left, one, "left"), _field(node, right, other, "right"))
    schemas = [arrow_schema(frame.select(*map(quoted, visible(frame))).schema) for frame in (left, right)]
    if unhashed := [one for one, _ in node.on if not can_hash(schemas[0].field(one).type)]:
        raise InvalidDeclaration(
            f"join at {node.place}: column {unhashed[0]} has no order and no hash, as it is or has a map",
            "Join on other columns.",
        )
    shared = shared_names(node, visible(left), visible(right))
    pairing = Pairing(
        schemas[0], schemas[1], node.on, node.how, node.further, node.prefix, shared, node.right_name if shared else ""
    )
    names = [name.lower() for name in pairing.columns.names]
    if twice := [name for place, name in enumerate(pairing.columns.names) if name.lower() in names[:place]]:
        raise InvalidDeclaration(
            f"both inputs of the join at {node.place} have a column {twice[0]}",
            'Say prefix="..." to put that before the names of the right, or rename one with select(...).',
        )
    return pairing


def shared_names(node: Join, left: Sequence[str], right: Sequence[str]) -> tuple[str, ...]:
    """Columns of the right that are called like one of the left, where the right's name distinguishes them."""
    if node.how in EXISTENCE:
        return ()
    partners, taken = {other for _, other in node.on}, {name.lower() for name in left}
    found = tuple(name for name in right if name not in partners and name.lower() in taken)
    keyed = {*key_of(node.right)} if isinstance(node, TableJoin) else set()
    under = node.right_name.lower()
    if node.prefix or not under.isidentifier() or under in {*taken, *map(str.lower, right)} or keyed & {*found}:
        return ()
    return found


def _field(node: Join, frame: DataFrame, name: str, side: str) -> tuple[str, str]:
    names = visible(frame)
    if name not in names:
        raise InvalidDeclaration(
            f"join at {node.place}: the {side} has no column {name}", f"There are: {', '.join(names)}."
        )
    return f"column {name} of the {side}", frame.schema[name].dataType.simpleString()


def _check_types(node: Join, one: tuple[str, str], other: tuple[str, str]) -> None:
    if one[1] != other[1]:
        raise InvalidDeclaration(
            f"join at {node.place}: {one[0]} is {one[1]}, and {other[0]} is {other[1]}",
            f'Make them the same, for example with with_columns(...="cast(... as {one[1]})").',
        )


def _check_times(node: Join, left: DataFrame, right: DataFrame) -> None:
    streams = [(frame, side) for frame, side in ((left, node.left), (right, node.right)) if not side.keyed]
    unplaced = any(AT not in frame.columns for frame, _ in streams)
    if unplaced or any(PATH not in frame.columns for frame, side in streams if _makes(side)):
        raise InvalidDeclaration(f"join at {node.place} comes after a step that drops when rows happened")


def _makes(node: Node) -> bool:
    return any(isinstance(one, STREAM_JOINS) for one in walk(node))
