"""What was measured: every value of every round, and the few numbers that are shown of them. Pure."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple


class Case(NamedTuple):
    """One thing that was measured for several contenders, such as ("produce", "1 kB", "8 partitions")."""

    section: str
    words: tuple[str, ...] = ()


@dataclass
class Results:
    values: dict[tuple[Case, str, str], list[float]] = field(default_factory=lambda: defaultdict(list))

    def add(self, case: Case, who: str, **metrics: float) -> None:
        for metric, value in metrics.items():
            self.values[case, who, metric].append(value)

    def cases(self, section: str) -> list[Case]:
        return list(dict.fromkeys(case for case, _, _ in self.values if case.section == section))

    def contenders(self, case: Case) -> list[str]:
        return list(dict.fromkeys(who for one, who, _ in self.values if one == case))

    def median(self, case: Case, who: str, metric: str) -> float | None:
        found = self.values.get((case, who, metric))
        return median(found) if found else None

    def spread(self, case: Case, who: str, metric: str) -> tuple[float, float] | None:
        found = self.values.get((case, who, metric))
        return (min(found), max(found)) if found else None

    def ratio(self, case: Case, who: str, other: str, metric: str) -> float | None:
        """How many times `other` it is."""
        own, others = self.median(case, who, metric), self.median(case, other, metric)
        return own / others if own is not None and others else None


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of all values lie.

    >>> percentile([1, 2, 3, 4], 0.5), percentile([1, 2, 3, 4], 0.99)
    (3, 4)
    """
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
