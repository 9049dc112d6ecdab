"""Event times of rows in Spark's frames."""

from datetime import datetime, timedelta

from pyspark.sql import Column
from pyspark.sql import functions as f

from headwater.flow.plan.timestamps import EPOCH

AT = "_at"
HAPPENED = f"unix_micros({AT}.time)"


def time_us() -> Column:
    """When a row happened."""
    return f.expr(HAPPENED)


def moment(us: int) -> datetime:
    return EPOCH + timedelta(microseconds=us)
