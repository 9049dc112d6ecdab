"""Aggregates over tables that nothing can be taken away from: all rows of a group are kept, and computed again.

Lists, percentiles, sketches, products, correlations, and what users define. A batch costs what there is in the groups
that it touches. A table has no order of time: rows are taken in the order of their values.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headwater.errors import InvalidDeclaration
from headwater.flow.operators.aggregation.aggregates import Aggregate
from headwater.flow.operators.aggregation.kinds.kind import Columns, Partial
from headwater.flow.operators.aggregation.merging import absorbed, finish
from headwater.flow.operators.aggregation.reduction import reduce_rows
from headwater.flow.operators.grouping.changed_rows import ChangedRows
from headwater.flow.operators.grouping.counted_values import all_values, changed_counts, counts_schema
from headwater.flow.operators.grouping.held import Changed, Held, Parts
from headwater.flow.operators.keyed import MOMENT, POSITION, TIME
from headwater.flow.operators.ordering import has_order, sorted_places
from headwater.flow.operators.spark_hashes import can_hash
from headwater.flow.state.manifest import StateSchema
from headwater.flow.state.runs.equality import Integers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

VALUES = "values"
FIRST, SECOND = "first", "second"
PLACE = {TIME: MOMENT, **POSITION}
"""What aggregates in the order of time look at: of a table's rows it is all the same."""


class Recomputed(Held):
    def refusal(self, spec: Aggregate) -> InvalidDeclaration | None:
        if can_hash(self._type(spec)):
            return None
        return InvalidDeclaration(
            f'"{spec.name}" is of a column of {spec.input_type}, whose values cannot be compared',
            "Use a part of it, or to_json(...) of it.",
        )

    def kept(self, spec: Aggregate) -> tuple[Partial, ...]:
        return (Partial(f"{spec.name}__result", spec.rules.result_type(spec)),)

    def parts(self, spec: Aggregate, key: pa.Schema) -> Mapping[str, StateSchema]:
        return {VALUES: counts_schema(key, self._type(spec))}

    def changed(self, spec: Aggregate, given: ChangedRows, old: Columns, parts: Parts) -> Changed:
        changed, run = changed_counts(parts[VALUES], given, self._values(spec, given))
        there = all_values(parts[VALUES], given, changed)
        rows = np.repeat(np.arange(len(there.groups)), there.now)
        # A null for each group, which all aggregates pass over: no group is without a row.
        groups = np.concatenate([np.arange(len(given)), there.groups[rows]])
        values = pa.concat_arrays([pa.nulls(len(given), there.values.type), there.values.take(pa.array(rows))])
        return Changed([self._result(spec, groups, values)], {VALUES: run})

    def nothing(self, spec: Aggregate) -> Columns:
        return [self._result(spec, np.zeros(1, np.int64), pa.nulls(1, self._type(spec)))]

    def _result(self, spec: Aggregate, groups: Integers, values: pa.Array) -> pa.Array:
        by = [pa.array(groups), *([values] if has_order(values.type) else [])]
        order = sorted_places(by)
        groups, values = groups[order], values.take(pa.array(order))
        columns = {str(spec.column): values}
        if spec.rules.of_two:
            both = values.flatten()
            columns = {str(spec.column): both[0], str(spec.other): both[1]}
        zeros = pa.array(np.zeros(len(values), np.int64))
        columns |= {name: zeros.cast(kind) for name, kind in PLACE.items()}
        rows = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        made = reduce_rows([spec], rows, np.append(True, np.diff(groups) > 0))
        return finish(spec, absorbed([spec], made))

    def _type(self, spec: Aggregate) -> pa.DataType:
        if not spec.rules.of_two:
            return spec.input_type
        return pa.struct({FIRST: pa.float64(), SECOND: pa.float64()})

    def _values(self, spec: Aggregate, given: ChangedRows) -> pa.Array:
        if not spec.rules.of_two:
            return given.column(str(spec.column), spec.input_type)
        both = [given.rows.column(str(name)).cast(pa.float64(), safe=False) for name in (spec.column, spec.other)]
        return pa.StructArray.from_arrays(both, fields=list(self._type(spec)))


def placed(frame: "DataFrame") -> "DataFrame":
    """Rows of a table with the place that all of them have alike."""
    from pyspark.sql import functions as f

    place = f.struct(
        f.timestamp_micros(f.lit(0).cast("long")).alias("time"), f.lit(0).alias("source"), f.lit(0).alias("partition"),
        f.lit(0).cast("long").alias("offset"),
    )  # fmt: skip
    return frame.withColumn("_at", place)
