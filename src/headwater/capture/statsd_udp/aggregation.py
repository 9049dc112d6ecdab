"""Metrics of one interval, gathered by series. Pure; memory is bounded, and what did not fit is counted.

Percentiles of timers come from buckets whose bounds grow by two per cent: a percentile is wrong by one per cent at
most, whatever the values are, and a series has some thousand buckets at worst.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.capture.statsd_udp.decoding import COUNTER, GAUGE, SET, TIMER, Metric, Tags

SERIES_MAX = 100_000
MEMBERS_MAX = 100_000
PERCENTILES = (50, 90, 95, 99)
GROWTH = math.log(1.02)

Series = tuple[str, str, Tags]


@dataclass
class Timings:
    """Values, each of which stands for `weight` of its kind."""

    count: float = 0.0
    sum: float = 0.0
    smallest: float = math.inf
    largest: float = -math.inf
    buckets: dict[tuple[int, int], float] = field(default_factory=dict)
    """Weights by sign and power of the growth."""

    def add(self, value: float, weight: float) -> None:
        self.count += weight
        self.sum += value * weight
        self.smallest, self.largest = min(self.smallest, value), max(self.largest, value)
        bucket = (0, 0) if value == 0 else (1 if value > 0 else -1, math.ceil(math.log(abs(value)) / GROWTH))
        self.buckets[bucket] = self.buckets.get(bucket, 0.0) + weight

    def percentile(self, percent: float) -> float:
        """The value below which so many per cent lie, within one per cent of it."""
        wanted, passed = self.count * percent / 100, 0.0
        for sign, power in sorted(self.buckets, key=lambda bucket: bucket[0] * (bucket[1] + 10**6)):
            passed += self.buckets[sign, power]
            if passed >= wanted:
                # The middle of the bucket, as far as there were values.
                middle = sign * math.exp((power - 0.5) * GROWTH) if sign else 0.0
                return min(max(middle, self.smallest), self.largest)
        return self.largest


class Gathered:
    """One interval. `gauges` are the last values of all gauges, which outlive it."""

    def __init__(self, gauges: dict[Series, float]) -> None:
        self.gauges = gauges
        self.counters: dict[Series, float] = {}
        self.timers: dict[Series, Timings] = {}
        self.sets: dict[Series, set[str]] = {}
        self.touched: dict[Series, None] = {}
        self.refused = 0

    def take(self, metric: Metric) -> None:
        series = (metric.kind, metric.name, metric.tags)
        if series not in self.touched:
            full = len(self.touched) >= SERIES_MAX or (
                metric.kind == GAUGE and series not in self.gauges and len(self.gauges) >= SERIES_MAX
            )
            if full:
                self.refused += 1
                return
            self.touched[series] = None
        if metric.kind == COUNTER:
            self.counters[series] = self.counters.get(series, 0.0) + metric.value / metric.rate
        elif metric.kind == GAUGE:
            self.gauges[series] = metric.value + (self.gauges.get(series, 0.0) if metric.added else 0.0)
        elif metric.kind == TIMER:
            self.timers.setdefault(series, Timings()).add(metric.value, 1 / metric.rate)
        else:
            members = self.sets.setdefault(series, set())
            if len(members) < MEMBERS_MAX or metric.member in members:
                members.add(metric.member)
            else:
                self.refused += 1

    def rows(self, *, from_ms: int, to_ms: int) -> list[tuple[str, dict[str, object]]]:
        """A name and what is known of it, for every series that was received, in the order of their first metric."""
        seconds = max(0.001, (to_ms - from_ms) / 1000)
        return [
            (
                series[1],
                {
                    "metric": series[1],
                    "kind": series[0],
                    "tags": dict(series[2]),
                    "from_ms": from_ms,
                    "to_ms": to_ms,
                    **self._figures(series, seconds),
                },
            )
            for series in self.touched
        ]

    def _figures(self, series: Series, seconds: float) -> Mapping[str, object]:
        kind = series[0]
        if kind == COUNTER:
            return {"value": self.counters[series], "per_second": self.counters[series] / seconds}
        if kind == GAUGE:
            return {"value": self.gauges[series]}
        if kind == SET:
            return {"value": len(self.sets[series])}
        timings = self.timers[series]
        return {
            "count": timings.count,
            "sum": timings.sum,
            "min": timings.smallest,
            "max": timings.largest,
            "mean": timings.sum / timings.count,
            **{f"p{percent}": timings.percentile(percent) for percent in PERCENTILES},
        }
