"""Event times of rows in Spark's frames."""

from datetime import datetime, timedelta

from pyspark.sql import Column
from pyspark.sql import functions as f

from headwater.flow.operators.windows.shapes import Hopping
from headwater.flow.plan.timestamps import EPOCH

AT = "_at"
HAPPENED = f"unix_micros({AT}.time)"


def time_us() -> Column:
    """When a row happened."""
    return f.expr(HAPPENED)


def pane_of(window: Hopping) -> str:
    """Where the pane of a row begins, in SQL."""
    return f"({HAPPENED} - pmod({HAPPENED} - {window.offset_us}L, {window.pane_us}L))"


def moment(us: int) -> datetime:
    return EPOCH + timedelta(microseconds=us)
