"""What windows can be compared by (plain values), and what comes out of it.

kind        looks back at                         result
Rate        nothing                               double: the value for each `per_us` of the window's length
Rolling     the windows before, `windows` in all  double: their average
Change      one window                            the value less the earlier one, of the column's own type
Ratio       one window                            double: the value over the earlier one; null over zero
Anomaly     the same place in earlier seasons     boolean: further from their mean than so many deviations
"""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class Ago:
    """How far back another window lies: so many windows, or so much time, in a zone by the clock on the wall."""

    windows: int = 0
    time_us: int = 0
    zone: str = ""

    def times(self, count: int) -> "Ago":
        return Ago(self.windows * count, self.time_us * count, self.zone)


@dataclass(frozen=True)
class Rate:
    column: str
    per_us: int

    @property
    def agos(self) -> tuple[Ago, ...]:
        return ()


@dataclass(frozen=True)
class Rolling:
    column: str
    windows: int

    @property
    def agos(self) -> tuple[Ago, ...]:
        return tuple(Ago(number) for number in range(1, self.windows))


@dataclass(frozen=True)
class Change:
    column: str
    ago: Ago

    @property
    def agos(self) -> tuple[Ago, ...]:
        return (self.ago,)


@dataclass(frozen=True)
class Ratio:
    column: str
    ago: Ago

    @property
    def agos(self) -> tuple[Ago, ...]:
        return (self.ago,)


@dataclass(frozen=True)
class Anomaly:
    column: str
    season: Ago
    over: int
    deviations: float
    least: int = 2
    """So many of the seasons must be there; one value alone has no deviation."""

    @property
    def agos(self) -> tuple[Ago, ...]:
        return tuple(self.season.times(number) for number in range(1, self.over + 1))


Comparison = Rate | Rolling | Change | Ratio | Anomaly


def agos_of(comparisons: Mapping[str, Comparison]) -> list[Ago]:
    """All that is looked back at, each once."""
    return list(dict.fromkeys(ago for one in comparisons.values() for ago in one.agos))


def difference_type(kind: pa.DataType) -> pa.DataType:
    """
    >>> difference_type(pa.decimal128(12, 2))
    Decimal128Type(decimal128(13, 2))
    """
    if pa.types.is_decimal(kind):
        return pa.decimal128(min(kind.precision + 1, 38), kind.scale)
    return pa.float64() if pa.types.is_floating(kind) else pa.int64()


def result_type(comparison: Comparison, kind: pa.DataType) -> pa.DataType:
    """What a comparison of a column of this type is of."""
    match comparison:
        case Change():
            return difference_type(kind)
        case Anomaly():
            return pa.bool_()
    return pa.float64()
