"""In what form headwater's own aggregates are given their columns."""

from collections.abc import Callable, Mapping

from pyspark.sql import Column, DataFrame

Input = Callable[[list[Column], DataFrame], Column]


def plain_input(columns: list[Column], frame: DataFrame) -> Column:
    return columns[0]


INPUTS: Mapping[str, Input] = {}
