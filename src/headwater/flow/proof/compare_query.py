"""What compared windows should hold, as plain Spark queries: every window joined with those that it looks back at.

Nothing is shared with how they are kept. Each kind of window says by Spark's own arithmetic on time where the earlier
one begins.
"""

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from headwater.flow.declare.topology.nodes import Compared
from headwater.flow.formats.schema import quoted, type_name
from headwater.flow.operators.comparisons.kinds import (
    Ago,
    Anomaly,
    Change,
    Comparison,
    Rate,
    Ratio,
    Rolling,
    agos_of,
    difference_type,
)
from headwater.flow.operators.windows.aligned import AlignedWindow
from headwater.flow.operators.windows.step import END, START
from headwater.flow.rows.arrow_types import arrow_type
from headwater.flow.rows.row_steps import visible

BEFORE = "_before"


def compared_rows(node: Compared, windows: DataFrame) -> DataFrame:
    """All windows, with all comparisons."""
    names, by, window = visible(windows), node.windowed.by, node.windowed.window
    assert isinstance(window, AlignedWindow)
    windows = windows.select(*map(quoted, names))
    agos = agos_of(node.comparisons)
    joined = windows
    for place, ago in enumerate(agos):
        joined = _beside(joined, windows, by, window.reference_earlier(f.col(START), ago), f"{BEFORE}{place}")
    found = [
        _result(one, windows, {ago: f.col(f"{BEFORE}{place}") for place, ago in enumerate(agos)}).alias(name)
        for name, one in node.comparisons.items()
    ]
    return joined.select(*map(quoted, names), *found)


def _beside(rows: DataFrame, windows: DataFrame, by: tuple[str, ...], start: Column, name: str) -> DataFrame:
    whole = f.struct(*(f.col(quoted(column)) for column in windows.columns))
    own = [f.col(quoted(column)).alias(f"_own{place}") for place, column in enumerate(by)]
    others = windows.select(*own, f.col(START).alias("_start"), whole.alias(name))
    on = [f.col(quoted(column)).eqNullSafe(f.col(f"_own{place}")) for place, column in enumerate(by)]
    on.append(start == f.col("_start"))
    joined = rows.join(others, reduce(lambda one, other: one & other, on), "left")
    return joined.drop("_start", *(f"_own{place}" for place in range(len(by))))


def _result(comparison: Comparison, windows: DataFrame, before: dict[Ago, Column]) -> Column:
    own = f.col(quoted(comparison.column))
    earlier = [before[ago][comparison.column] for ago in comparison.agos]
    double = own.cast("double")
    match comparison:
        case Rate(per_us=per_us):
            length = (f.unix_micros(END) - f.unix_micros(START)).cast("double")
            return double * f.lit(float(per_us)) / length
        case Rolling():
            return _mean(_known([own, *earlier]))
        case Change():
            kind = type_name(difference_type(arrow_type(windows.schema[comparison.column].dataType)))
            return (own.cast(kind) - earlier[0].cast(kind)).cast(kind)
        case Ratio():
            return f.when(earlier[0].cast("double") != 0, double / earlier[0].cast("double"))
        case Anomaly(deviations=deviations, least=least):
            known = _known(earlier)
            mean = _mean(known)
            squares = f.aggregate(known, f.lit(0.0), lambda total, one: total + (one - mean) * (one - mean))
            deviation = f.sqrt(squares / (f.size(known) - 1).cast("double"))
            return f.when(f.size(known) >= least, f.abs(double - mean) > f.lit(deviations) * deviation)


def _known(columns: list[Column]) -> Column:
    """Of some values those that are there, in this order."""
    return f.filter(f.array(*(one.cast("double") for one in columns)), lambda one: one.isNotNull())


def _mean(known: Column) -> Column:
    """Null of nothing."""
    total = f.aggregate(known, f.lit(0.0), lambda total, one: total + one)
    return f.when(f.size(known) > 0, total / f.size(known).cast("double"))
