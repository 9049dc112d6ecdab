"""What windows should hold, as plain Spark queries over all rows that were not late: the reference of windows.

Each kind of window has its own query (operators/windows/kinds/), which shares nothing with how its state is kept.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from headwater.flow.declare.topology.nodes import Aggregate, Node, Windowed
from headwater.flow.declare.windows import Emission
from headwater.flow.operators.windows.assignment import POSITION
from headwater.flow.operators.windows.clock import UPDATES
from headwater.flow.operators.windows.step import FINAL
from headwater.flow.operators.windows.window import COMPLETE, ROW_POSITION, THERE, WHEN
from headwater.flow.plan.delays import Passed, arriving, reached_us
from headwater.flow.prepare.aggregates import read_aggregates
from headwater.flow.proof.by_batch.arrivals import Arrivals
from headwater.flow.proof.tolerances import reference_columns
from headwater.flow.rows.sources import AT


@dataclass(frozen=True)
class Past:
    """What a job has decided by time: how far its watermarks were, and which rows were late for which operator."""

    passed: Passed = ()
    """That of the last batch first."""
    late: Mapping[Node, DataFrame] = field(default_factory=dict)
    """Columns source, partition, offset, as `_at` has them."""
    declared: DataFrame | None = None
    """The same rows for people: topic, partition, offset, batch and reason."""
    arrivals: Arrivals | None = None
    """Which rows each batch took, where a result depends on that."""
    known: tuple[Node, DataFrame] | None = None
    """What a checkpoint has of an operator, whose first records are gone (checkpoint.py)."""

    def reached_us(self, node: Node) -> int | None:
        """The watermark of what is given to an operator."""
        if isinstance(node, Windowed) and node.processing:
            return self.arrivals.processed_us if self.arrivals else None
        return reached_us(arriving(node), self.passed)


def window_rows(node: Windowed, frame: DataFrame, past: Past) -> DataFrame:
    """All windows that a view holds at a watermark."""
    late = past.late.get(node)
    timely = frame if late is None else frame.join(late, [frame[AT][name] == late[name] for name in POSITION], "anti")
    if node.processing and past.arrivals is not None:
        timely = past.arrivals.as_processed(timely)
    grouped = Aggregate(node.place, node.input, node.by, node.aggregates, node.name)
    own = {WHEN: f.col(f"{AT}.time"), ROW_POSITION: f.col(AT), THERE: f.lit(1)}
    read = read_aggregates(grouped, timely.withColumns(own), beside=tuple(own))
    # Where a join finds nothing there is a row of nulls, which count(*) would count.
    results = [one for spec in read.specs for one in reference_columns(spec, None if spec.column else f.count(THERE))]
    windows = node.window.reference(read.inputs, node.by, results, past.reached_us(node))
    return _emitted(node.emission, windows)


def _emitted(emission: Emission, windows: DataFrame) -> DataFrame:
    """Of all windows those that are emitted at the watermark."""
    if emission.kind == UPDATES:
        return windows.drop(COMPLETE)
    complete = f.coalesce(COMPLETE, f.lit(False))
    if emission.early:
        return windows.withColumn(FINAL, complete).drop(COMPLETE)
    return windows.where(complete).drop(COMPLETE)
