"""What a join tells, as the rows that another join on the same columns is given by the same task (pure).

Spark would do the same between two shuffles: hash the key, which says in what shard a row lies, and what tells rows
apart. So state is the same whether two joins are done in one task or in two, batch by batch. A row that is joined on a
null meets none and is not kept; it may lie in any shard, and stays.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import FlowError
from headwater.flow.operators.joins.events import (
    CONTENT,
    LEFT_AT,
    MISSING,
    NTH,
    OFFSET,
    PARTITION,
    RIGHT_AT,
    SOURCE,
    TIME,
)
from headwater.flow.operators.joins.pairing import without_nulls
from headwater.flow.operators.joins.placing import event_hashes
from headwater.flow.operators.joins.tables import AFTER, ROW
from headwater.flow.operators.spark_hashes import can_hash, shard_hashes, xxhash64
from headwater.flow.state.equality import Integers
from headwater.flow.state.manifest import HASH
from headwater.flow.state.shard import shard_of

PATH = (
    *(LEFT_AT + name for name in (CONTENT, NTH)),
    *(RIGHT_AT + name for name in (SOURCE, PARTITION, OFFSET, CONTENT, NTH)),
)
"""What tells results apart that lie at one place in the log, as joins/join_results.py has it."""
PLACES = 62
"""As many bits as nulls of columns are noted in."""


def can_give_on(columns: pa.Schema) -> bool:
    """Can rows with these columns be told apart, and be placed, without Spark?"""
    return all(can_hash(field.type) for field in columns)


def events_given_on(
    told: pa.RecordBatch, names: Sequence[str], on: Sequence[str], *, shard: int, shards: int
) -> pa.RecordBatch:
    """Results of a join of events as events with some of their columns. Those that had to have a partner go no further
    without.
    """
    rows = told.filter(pc.invert(told.column(MISSING)))
    columns = {name: rows.column(name) for name in names}
    place = {
        name: pc.coalesce(rows.column(LEFT_AT + name), rows.column(RIGHT_AT + name))
        for name in (TIME, SOURCE, PARTITION, OFFSET)
    }
    path = pa.array(xxhash64([rows.column(name) for name in PATH], rows.num_rows))
    told_apart = [*columns.values(), path]
    content = xxhash64([*told_apart, _places_of_nulls(told_apart, rows.num_rows)], rows.num_rows)
    beside = {HASH: pa.array(_hashes(rows, on, shard, shards, event_hashes)), **place, CONTENT: pa.array(content)}
    return _together(beside, columns)


def _places_of_nulls(columns: Sequence[pa.Array], rows: int) -> pa.Array:
    """Which columns have none, as bits; null for rows in which all have a value. As rows/tie_breaking.py has it."""
    bits = np.zeros(rows, np.int64)
    for place, column in enumerate(columns):
        bits += np.asarray(column.is_null(), np.int64) << place % PLACES
    return pa.array(bits, mask=bits == 0)


def changes_given_on(
    before: pa.RecordBatch, after: pa.RecordBatch, names: Sequence[str], key: Sequence[str], on: Sequence[str], *,
    shard: int, shards: int,
) -> pa.RecordBatch:  # fmt: skip
    """Rows that a join of tables no longer has, and those that it has, as changes of a table with that key."""
    parts = []
    for rows, is_after in ((before, False), (after, True)):
        own = xxhash64([rows.column(name) for name in key], rows.num_rows) >> 1
        beside = {
            HASH: pa.array(_hashes(rows, on, shard, shards, _table_hashes)),
            ROW: pa.array(own),
            AFTER: pa.array(np.full(rows.num_rows, is_after)),
        }
        parts.append(_together(beside, {name: rows.column(name) for name in names}))
    return pa.concat_batches(parts)


def _table_hashes(keys: Sequence[pa.Array], spread: None, rows: int) -> Integers:
    return shard_hashes(keys, rows)


def _hashes(
    rows: pa.RecordBatch, on: Sequence[str], shard: int, shards: int,
    hashing: Callable[[Sequence[pa.Array], None, int], Integers],
) -> Integers:  # fmt: skip
    """FlowError if a row belongs elsewhere: a task that goes on with it would not find its partners."""
    keys = rows.select(list(on))
    able = without_nulls(keys)
    hashes = np.where(able, hashing(keys.columns, None, rows.num_rows), shard)
    owners = shard_of(hashes, shards)
    if len(strangers := np.flatnonzero(owners != shard)):
        first = int(strangers[0])
        key = ", ".join(str(column[first].as_py()) for column in keys.columns)
        raise FlowError(
            f"a row that is joined on {key} is in shard {shard}, and belongs to shard {owners[first]}",
            "This is a bug in headwater; nothing of the batch was written. Please report it with this sentence.",
        )
    return hashes


def without_null_keys(rows: pa.RecordBatch, on: Sequence[str]) -> pa.RecordBatch:
    return rows.filter(pa.array(without_nulls(rows.select(list(on)))))


def _together(*parts: dict[str, pa.Array]) -> pa.RecordBatch:
    columns = {name: column for part in parts for name, column in part.items()}
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
