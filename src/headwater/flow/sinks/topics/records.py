"""Rows of a topic as record batches: which partition, in which order, with which sequences. Pure.

The same rows give the same bytes, in whatever order and from however many tasks they come.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import UnstorableValue
from headwater.flow.kafka.encoding import encode_records
from headwater.flow.sinks.topics.partitioning import choose_partitions, in_order, partitions_of
from headwater.flow.sinks.topics.producer_state import BY_OFFSET, ProducerState
from headwater.log.batch_format import Buffer
from headwater.record import TopicPartition

REQUIRED = ("_key", "_value", "_timestamp_ms")
_TYPES = (pa.binary(), pa.binary(), pa.int64())


class Encoded(NamedTuple):
    batches: dict[TopicPartition, Sequence[Buffer]]
    records: dict[int, int]  # per partition


def encode(rows: pa.Table, state: ProducerState, batch: int) -> Encoded:
    """The record batches of each partition."""
    ordered = in_order(hidden_columns(rows))
    if state.keyless == BY_OFFSET:
        partitions = partitions_of(ordered, state.partitions, batch=batch)
    else:
        partitions = choose_partitions(_column(ordered, *REQUIRED[:1], _TYPES[0]), state.partitions, batch=batch)
    encoded = Encoded({}, {})
    for partition in np.unique(partitions).tolist():
        own = ordered.take(pa.array(np.flatnonzero(partitions == partition)))
        place = TopicPartition(state.topic, partition)
        encoded.batches[place], encoded.records[partition] = encode_partition(own, state, partition)
    return encoded


def encode_partition(ordered: pa.Table, state: ProducerState, partition: int) -> tuple[list[memoryview], int]:
    """The record batches of one partition, and how many records they hold; of all its rows, in order."""
    records = with_tombstones(ordered)
    keys, values, times = (_column(records, name, type) for name, type in zip(REQUIRED, _TYPES, strict=True))
    batches = encode_records(
        keys, values, times.to_numpy(), producer_id=state.producer_id, epoch=state.epoch,
        base_sequence=state.sequence(partition), batch_bytes=state.batch_bytes, compression=state.compression,
    )  # fmt: skip
    return batches, records.num_rows


def hidden_columns(rows: pa.Table) -> pa.Table:
    return rows.select([name for name in rows.column_names if name.startswith("_")])


def with_tombstones(rows: pa.Table) -> pa.Table:
    """Each delete twice; the second time without a value, for compaction."""
    if "_op" not in rows.column_names or rows.num_rows == 0:
        return rows
    deleted = pc.fill_null(pc.equal(rows.column("_op"), "d"), False).to_numpy()
    places = np.repeat(np.arange(rows.num_rows), 1 + deleted)
    second = np.concatenate(([False], places[1:] == places[:-1]))
    doubled = rows.take(pa.array(places))
    values = pc.if_else(pa.array(second), None, doubled.column("_value"))
    return doubled.set_column(doubled.column_names.index("_value"), "_value", values)


def _column(rows: pa.Table, name: str, type: pa.DataType) -> pa.Array:
    if name == "_timestamp_ms" and rows.column(name).null_count:
        raise UnstorableValue("a record for a topic has no timestamp", "Give each row a _timestamp_ms.")
    whole = rows.column(name).cast(type).combine_chunks()
    return whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole
