"""What a join emits of the pairs that it has made: rows of a stream, or changes of a table (pure).

A result lies where its event of the left does, in time and in the log, or else where that of the right does; which of
several that lie there it is, its path says. In a table it is named by the records that it was made from.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.flow.operators.changes import OPERATION, merge_changes
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
from headwater.flow.operators.joins.pairing import Pairing
from headwater.flow.operators.spark_hashes import xxhash64
from headwater.flow.operators.windows.grouping import grouped
from headwater.flow.state.runs.equality import Integers

PATH, SIDE = "_path", "_side"
POSITION = {TIME: pa.int64(), SOURCE: pa.int32(), PARTITION: pa.int32(), OFFSET: pa.int64()}
MADE_FROM = (
    *(LEFT_AT + name for name in (CONTENT, NTH)),
    *(RIGHT_AT + name for name in (SOURCE, PARTITION, OFFSET, CONTENT, NTH)),
)
"""What distinguishes results that lie at one offset of the log."""
BEFORE_SIDE, AFTER_SIDE = 0, 1
HEX_DIGITS = 16


def row_schema(pairing: Pairing) -> pa.Schema:
    """The columns of `stream_rows`."""
    position = [pa.field(name, kind) for name, kind in POSITION.items()]
    return pa.schema([*pairing.columns, *position, pa.field(PATH, pa.int64()), pa.field(MISSING, pa.bool_())])


def stream_rows(results: pa.RecordBatch, pairing: Pairing) -> pa.RecordBatch:
    """Results as rows of a stream, with their position and path."""
    columns = [results.column(name) for name in pairing.columns.names]
    for name, kind in POSITION.items():
        columns.append(pc.coalesce(results.column(LEFT_AT + name), results.column(RIGHT_AT + name)).cast(kind))
    path = xxhash64([results.column(name) for name in MADE_FROM], results.num_rows)
    return pa.RecordBatch.from_arrays([*columns, pa.array(path), results.column(MISSING)], schema=row_schema(pairing))


def record_names(results: pa.RecordBatch, side: str, topics: Sequence[str], *, several: bool) -> pa.Array:
    """Topic, partition and offset of the event of one side; where its record may have made several, which of them.

    Null for results that have no event on that side.
    """
    sources = results.column(side + SOURCE)
    partitions, offsets = (results.column(side + name).cast(pa.string()) for name in (PARTITION, OFFSET))
    known = pc.fill_null(pc.and_(pc.greater_equal(sources, 0), pc.less(sources, len(topics))), False)
    named = pa.array(topics, pa.string()).take(pc.if_else(known, sources, None))
    parts = [pc.fill_null(named, ""), "/", partitions, "@", offsets]
    if several:
        number = results.column(side + NTH).cast(pa.string())
        parts += ["#", hexadecimal(results.column(side + CONTENT)), ".", number]
    return pc.binary_join_element_wise(*parts, "")


def hexadecimal(numbers: pa.Array) -> pa.Array:
    """Numbers of 64 bits as Spark's `hex` writes them.

    >>> hexadecimal(pa.array([255, -1, 0, None])).to_pylist()
    ['FF', 'FFFFFFFFFFFFFFFF', '0', None]
    """
    values = numbers.fill_null(0).to_numpy().astype(">i8")
    digits = pa.py_buffer(values.tobytes().hex().upper().encode())
    ends = pa.py_buffer(HEX_DIGITS * np.arange(len(values) + 1, dtype=np.int32))
    text = pc.ascii_ltrim(pa.StringArray.from_buffers(len(values), ends, digits), "0")
    text = pc.if_else(pc.equal(text, ""), "0", text)
    return pc.if_else(numbers.is_valid(), text, None)


def named_results(results: pa.RecordBatch, names: dict[str, pa.Array], pairing: Pairing) -> pa.RecordBatch:
    """Results with the columns that are their key."""
    columns = [*names.values(), *(results.column(name) for name in pairing.columns.names)]
    return pa.RecordBatch.from_arrays(columns, names=[*names, *pairing.columns.names])


def with_side(rows: pa.RecordBatch, side: int) -> pa.RecordBatch:
    return rows.append_column(SIDE, pa.array(np.full(rows.num_rows, side, np.int32)))


def paired_changes(before: pa.RecordBatch, after: pa.RecordBatch, key: tuple[str, ...]) -> pa.RecordBatch:
    """Results that are no longer and results that are, as changes: of each key there is one of either at most."""
    keys = [rows.select(list(key)) for rows in (before, after)]
    hashes = [xxhash64(columns.columns, columns.num_rows) for columns in keys]
    order, firsts = grouped([np.concatenate(hashes)], pa.concat_batches(keys))
    numbers = np.cumsum(firsts) - 1
    count = int(firsts.sum())
    places = np.full((2, count), -1)
    is_after = order >= before.num_rows
    places[0, numbers[~is_after]] = order[~is_after]
    places[1, numbers[is_after]] = order[is_after] - before.num_rows
    values = [name for name in after.schema.names if name not in key]
    existed, exists = (_taken(rows, values, at) for rows, at in zip((before, after), places, strict=True))
    own = pa.concat_batches(keys).take(pa.array(order[firsts]))
    return merge_changes(own, places[0] >= 0, existed, places[1] >= 0, exists)


def _taken(rows: pa.RecordBatch, names: list[str], places: Integers) -> pa.RecordBatch:
    return rows.select(names).take(pa.array(places, mask=places < 0))


def moved_together(changes: pa.Table, key: tuple[str, ...]) -> pa.Table:
    """Changes with one update for each row that went from one join key to another: of such a row two shards emit
    changes, the one that it is deleted, the other that it is there. (The row is another: it is joined on another key.)
    """
    operation = changes[OPERATION]
    gone, made = (np.flatnonzero(np.asarray(pc.equal(operation, one))) for one in ("d", "c"))
    if not len(gone) or not len(made):
        return changes
    both = np.concatenate([gone, made])
    # Not combined by Arrow, which would cut keys of more than 2 GiB in two: this refuses them.
    keys = pa.concat_batches(changes.select(list(key)).take(pa.array(both)).to_batches())
    order, firsts = grouped([xxhash64(keys.columns, keys.num_rows)], keys)
    twice = np.flatnonzero(~firsts)
    pairs = both[np.concatenate([order[twice - 1], order[twice]])]
    is_gone = np.zeros(changes.num_rows, np.bool_)
    is_gone[gone] = True
    dropped, updated = np.zeros(changes.num_rows, np.bool_), np.zeros(changes.num_rows, np.bool_)
    dropped[pairs[is_gone[pairs]]] = True
    updated[pairs[~is_gone[pairs]]] = True
    merged = pc.if_else(pa.array(updated), "u", operation)
    return changes.set_column(changes.schema.get_field_index(OPERATION), OPERATION, merged).filter(pa.array(~dropped))
