"""What every record has beside its value, as columns. Pure.

Hidden columns begin with an underscore, so that they never meet a column of the value. Without a schema the same
things, and the value itself, are plain columns with the names that Spark's Kafka source gives them.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headwater.flow.formats.schema import Field
from headwater.flow.source.record_batches.records import HEADERS_TYPE, Records
from headwater.log.record_columns import Int64Array

TIMESTAMP_TYPE = pa.timestamp("us", "UTC")
TIME_MS_MAX = 2**63 // 1000 - 1
"""Beyond it a time in microseconds does not fit into 64 bits."""


class Part(NamedTuple):
    """The records of one partition."""

    topic: str
    partition: int
    records: Records


def _headers(part: Part) -> pa.Array:
    if part.records.headers is None:
        raise ValueError("headers were not read")
    return part.records.headers


def _topic(part: Part) -> pa.Array:
    return pa.repeat(pa.scalar(part.topic, pa.string()), len(part.records.offsets))


def _partition(part: Part) -> pa.Array:
    return pa.array(np.full(len(part.records.offsets), part.partition, dtype=np.int32))


def _timestamp(part: Part) -> pa.Array:
    return pa.array(microseconds(part.records.timestamps_ms), type=TIMESTAMP_TYPE)


def microseconds(times_ms: Int64Array) -> Int64Array:
    """Times that no timestamp can hold become the nearest that one can."""
    return np.clip(times_ms, -TIME_MS_MAX, TIME_MS_MAX) * 1000


class Column(NamedTuple):
    type: pa.DataType
    of: Callable[[Part], pa.Array]


HIDDEN: dict[str, Column] = {
    "_key": Column(pa.binary(), lambda part: part.records.keys),
    "_headers": Column(HEADERS_TYPE, _headers),
    "_topic": Column(pa.string(), _topic),
    "_partition": Column(pa.int32(), _partition),
    "_offset": Column(pa.int64(), lambda part: pa.array(part.records.offsets)),
    "_timestamp": Column(TIMESTAMP_TYPE, _timestamp),
    "_tombstone": Column(pa.bool_(), lambda part: part.records.values.is_null()),
}

RAW: dict[str, Column] = {
    "key": HIDDEN["_key"],
    "value": Column(pa.binary(), lambda part: part.records.values),
    **{name.removeprefix("_"): HIDDEN[name] for name in ("_headers", "_topic", "_partition", "_offset", "_timestamp")},
}

NEEDS_HEADERS = frozenset({"_headers", "headers"})


def fields_of(columns: dict[str, Column]) -> tuple[Field, ...]:
    return tuple(Field(name, column.type) for name, column in columns.items())
