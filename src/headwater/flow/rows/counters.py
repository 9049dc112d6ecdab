"""Counting rows where they leave a flow, inside the query that moves them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as f

from headwater.flow.local.frames import as_spark, local_frame

FILTERED, EXPANDED, DUPLICATES, LATE = "filtered", "expanded", "duplicates", "late"
BEFORE, AFTER, MADE = "before", "after", "made"


@dataclass
class Counter:
    """Collects counts of one output in one batch. Read it after the query has run."""

    observations: list[Observation] = field(default_factory=list)
    counted: dict[str, int] = field(default_factory=dict)
    """Of frames that are evaluated in this process."""

    def watch(self, frame: DataFrame, **counts: Column) -> DataFrame:
        """Count on the way: each column is summed (a boolean counts the rows where it is true)."""
        if (own := local_frame(frame)) is not None:
            return as_spark(own.counted(counts, self.counted))
        observation = Observation()
        self.observations.append(observation)
        sums = [f.coalesce(f.sum(column.cast("long")), f.lit(0)).alias(name) for name, column in counts.items()]
        return frame.observe(observation, *sums)

    def totals(self) -> Mapping[str, int]:
        found: dict[str, int] = dict.fromkeys((FILTERED, EXPANDED, DUPLICATES, LATE, BEFORE, AFTER, MADE), 0)
        for observation in self.observations:
            for name, count in observation.get.items():
                found[name] += int(count)
        for name, count in self.counted.items():
            found[name] += count
        return found
