"""When and where events of Spark's frames lie, as columns."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.topology.nodes import Node, SourceVersions, multiplies
from headwater.flow.formats.schema import quoted
from headwater.flow.operators.joins.events import CONTENT, TIME
from headwater.flow.rows.row_batch import FIELDS
from headwater.flow.rows.row_steps import PATH, visible
from headwater.flow.rows.sources import AT
from headwater.flow.rows.tie_breaking import content_hash

HAPPENED = f"unix_micros({AT}.time)"


def time_us() -> Column:
    """The event time of a row in microseconds."""
    return f.expr(HAPPENED)


def position_of(frame: DataFrame, node: Node) -> dict[str, Column]:
    """When and where an event lies, and which row of its record it is where a step may make several.

    The same as prepare/join_sides.py does on Arrow.
    """
    at, several = f.col(AT), multiplies(node)
    names = [*visible(frame), *([PATH] if PATH in frame.columns else [])]
    content = content_hash(names) if several else f.lit(0).cast("long")
    places = {f"_{name}": at[name].cast("long") for name in ("source", "partition", "offset")}
    return {TIME: time_us(), **places, CONTENT: content}


def since(versions: SourceVersions, frame: DataFrame) -> Column:
    """From when on a version holds."""
    check_valid_times(versions, frame)
    recorded = f.col(AT)["time"]
    return recorded if versions.valid_from is None else f.coalesce(f.col(quoted(versions.valid_from)), recorded)


def check_valid_times(versions: SourceVersions, frame: DataFrame) -> None:
    """InvalidDeclaration if a step has dropped a column that says when a version holds."""
    if versions.valid_from is None:
        return
    for name in (versions.valid_from, versions.valid_to):
        if name is not None and name not in frame.columns:
            raise InvalidDeclaration(
                f"the versions of table {versions.topic} hold by column {name}, which a step before the join drops",
                "Leave it in, and drop it after the join.",
            )


def with_time(frame: DataFrame, time: Column) -> DataFrame:
    """Rows whose event time is another."""
    others = [f.col(AT)[name].alias(name) for name in FIELDS[1:]]
    return frame.withColumn(AT, f.struct(time.alias(FIELDS[0]), *others))
