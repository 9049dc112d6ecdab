"""Values with their place in time: rows of the same time have the order of the log."""

from typing import TYPE_CHECKING

import pyarrow as pa

from headwater.flow.operators.kinds.kind import quoted

if TYPE_CHECKING:
    from headwater.flow.operators.aggregates import Aggregate

POSITION = {"topic": pa.string(), "partition": pa.int32(), "offset": pa.int64()}
ORDER = ("time", *POSITION)


def ordered_type(spec: "Aggregate") -> pa.DataType:
    time = pa.timestamp("us", "UTC") if spec.time_type is None else spec.time_type
    return pa.struct({"time": time, **POSITION, "value": spec.input_type})


def ordered_sql(spec: "Aggregate") -> str:
    """A value with its place in time."""
    place = f"'time', {quoted(spec.time or '')}, 'topic', `_topic`, 'partition', `_partition`, 'offset', `_offset`"
    return f"named_struct({place}, 'value', {quoted(spec.column or '')})"


def ordered_list_sql(spec: "Aggregate") -> str:
    """All values of a group that are not null, in the order of time."""
    given = f"case when {quoted(spec.column or '')} is not null then {ordered_sql(spec)} end"
    return f"array_sort(collect_list({given}))"
