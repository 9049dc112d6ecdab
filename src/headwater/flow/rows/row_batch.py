"""Rows on their way to an operator: Arrow batches of the user's columns, with when and where each row lies (pure).

    _time        event time in microseconds; null for rows that have none, such as changes of a table
    _source      the number of the source in its job
    _partition   and _offset: the record that the row is from
    _path        of rows that a join made: which of those of one record it is
    _deleted     of a changelog: the record deletes its key

Nothing after this knows whether a task read the rows from the log or Spark evaluated them.
"""

import pyarrow as pa

from headwater.flow.operators.joins.events import OFFSET, PARTITION, SOURCE, TIME

AT, PATH, DELETED = "_at", "_path", "_deleted"
"""`_at` is the struct in which Spark's frames carry time, source, partition and offset."""
POSITION = (TIME, SOURCE, PARTITION, OFFSET)
FIELDS = ("time", "source", "partition", "offset")
AT_TYPE = pa.struct(
    [("time", pa.timestamp("us", "UTC")), ("source", pa.int32()), ("partition", pa.int32()), ("offset", pa.int64())]
)


def from_spark(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of a frame as Spark hands them to Python, the struct `_at` taken apart."""
    if AT not in batch.schema.names:
        return batch
    at = batch.column(AT)
    time, source, partition, offset = (at.field(name) for name in FIELDS)
    columns = {name: batch.column(name) for name in batch.schema.names if name != AT}
    columns |= dict(zip(POSITION, (time.cast(pa.int64()), source, partition, offset), strict=True))
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def flat_schema(schema: pa.Schema) -> pa.Schema:
    """What `from_spark` makes of batches of a schema."""
    plain = [pa.field(field.name, field.type) for field in schema if field.name != AT]
    if AT not in schema.names:
        return pa.schema(plain)
    kinds = (pa.int64(), pa.int32(), pa.int32(), pa.int64())
    return pa.schema([*plain, *(pa.field(name, kind) for name, kind in zip(POSITION, kinds, strict=True))])
