"""What patterns should find, key by key over all rows that were not late, by the plain search of pattern_oracle.py."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from headwater.flow.declare.topology.nodes import Recognized, Source, multiplies
from headwater.flow.formats.schema import quoted
from headwater.flow.operators.patterns.reference import OracleSetup
from headwater.flow.operators.patterns.spec import MATCH_ID, ROW_ID, TIMED
from headwater.flow.operators.windows.clock import NEVER_US
from headwater.flow.prepare.pattern_inputs import reference_setup
from headwater.flow.proof.join_query import LEFT_PLACE, RIGHT_PLACE, path_of, placed_rows, row_name
from headwater.flow.proof.patterns.pattern_oracle import Oracle, results_of
from headwater.flow.proof.window_query import Past
from headwater.flow.rows.arrow_types import arrow_schema, spark_schema
from headwater.flow.rows.row_steps import PATH
from headwater.flow.rows.sources import AT

PLACE = ("time", "source", "partition", "offset", "content", "nth")


@dataclass(frozen=True)
class OracleTask:
    """All rows of a key to the rows of its results, beside where each lies, and the first of its match."""

    setup: OracleSetup
    results: pa.Schema
    shown: tuple[str, ...]
    watermark_us: int

    def __call__(self, rows: pa.Table) -> pa.Table:
        places = [f"{LEFT_PLACE}_{name}" for name in PLACE]
        rows = rows.sort_by([(name, "ascending") for name in places])
        times = rows.column(places[0]).to_pylist()
        known = sum(time < self.watermark_us for time in times)
        columns = {name: rows.column(name).to_pylist()[:known] for name in rows.column_names}
        found = results_of(Oracle(self.setup, columns, times[:known], self.watermark_us))
        made = []
        for one in found:
            row = {name: columns[name][one.row] for name in (*self.shown, *places)}
            for name, own in zip(PLACE, places, strict=True):
                row[f"{RIGHT_PLACE}_{name}"] = None if one.first is None else columns[own][one.first]
            row |= {name: value for (name, _), value in zip(self.setup.spec.slots, one.measures, strict=True)}
            made.append(row | {TIMED: one.timed_out})
        return pa.Table.from_pylist(made, schema=self.results)


def pattern_rows(node: Recognized, frame: DataFrame, past: Past, sources: Sequence[Source]) -> DataFrame:
    """What a view holds of matches at a watermark."""
    timely = placed_rows(node, node.input, frame, past)
    setup, columns, shown, measures = reference_setup(node, frame)
    reached = past.reached_us(node)
    watermark_us = NEVER_US if reached is None else reached
    places = [f.col(f"{LEFT_PLACE}_{name}") for name in PLACE]
    by = [quoted(one) for one in node.spec.by]
    has_key = f.lit(True)
    for one in by:
        has_key = has_key & f.col(one).isNotNull()
    given = timely.where(has_key).select(*columns, *places)
    own = [arrow_schema(given.schema).field(name) for name in shown]
    kinds = [pa.field(f"{side}_{name}", pa.int64()) for side in (LEFT_PLACE, RIGHT_PLACE) for name in PLACE]
    results = pa.schema([*own, *kinds, *measures, pa.field(TIMED, pa.bool_())])
    task = OracleTask(setup, results, tuple(shown), watermark_us)
    # PySpark counts the arguments of what it is given: one more would be the key.
    found = given.groupBy(*by).applyInArrow(lambda rows: task(rows), spark_schema(results))
    return _named(node, found, shown, sources)


def _named(node: Recognized, found: DataFrame, shown: Sequence[str], sources: Sequence[Source]) -> DataFrame:
    spec, several = node.spec, multiplies(node.input)
    names = [row_name(RIGHT_PLACE, sources, several=several).alias(MATCH_ID)]
    if spec.all_rows:
        names.append(row_name(LEFT_PLACE, sources, several=several).alias(ROW_ID))
    columns = [*shown, *(name for name, _ in spec.slots), *([TIMED] if spec.timeouts else [])]
    beside = []
    if not node.keyed:
        position = f.struct(
            f.timestamp_micros(f"{LEFT_PLACE}_time").alias("time"),
            f.col(f"{LEFT_PLACE}_source").cast("int").alias("source"),
            f.col(f"{LEFT_PLACE}_partition").cast("int").alias("partition"),
            f.col(f"{LEFT_PLACE}_offset").alias("offset"),
        )  # fmt: skip
        beside = [position.alias(AT), path_of(LEFT_PLACE, RIGHT_PLACE).alias(PATH)]
    return found.select(*names, *map(quoted, columns), *beside)
