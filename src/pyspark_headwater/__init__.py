"""Spark looks for packages whose name begins with pyspark_: so it finds the format "headwater" without registration."""

from headwater.flow.source.data_source import HeadwaterSource as DefaultSource

__all__ = ["DefaultSource"]
