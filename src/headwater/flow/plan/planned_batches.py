"""Where the last two batches of a job start and end, decided before they begin. Pure.

    planned.json    {"batches": [{"batch": 11, "start": {"orders": {"0": 7}}, "end": {"orders": {"0": 9}},
                                  "time_ms": 1700000000000}, {"batch": 12, …, "tick": {"number": 12, …},
                                  "log": {"ids": {"orders": …}, "epochs": {"orders": {"0": 3}}}}]}

A batch that is run again after a crash has the same rows, time and control. The batch before it is kept because a job
at rest is asked about the batch it finished last.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headwater.flow.source.batch_plan.batch_control import NO_CONTROL, BatchControl
from headwater.flow.source.batch_plan.log_terms import UNKNOWN_TERMS, LogTerms
from headwater.flow.source.splitting import Range, ranges_between
from headwater.record import TopicPartition

FILE = "planned.json"
KEPT = 2

Offsets = dict[str, dict[int, int]]
"""Topic → partition → next offset."""


@dataclass(frozen=True)
class PlannedBatch:
    batch: int
    start: Offsets
    end: Offsets
    time_ms: int
    """When it was planned: the same however often it is run."""
    control: BatchControl = NO_CONTROL
    terms: LogTerms = UNKNOWN_TERMS

    @property
    def ranges(self) -> list[Range]:
        """What of the log it reads."""
        return ranges_between(partition_offsets(self.start), partition_offsets(self.end))

    @property
    def rows(self) -> int:
        """How many records it reads at most."""
        return sum(one.rows for one in self.ranges)

    def to_json(self) -> dict[str, Any]:
        said: dict[str, Any] = {"batch": self.batch, "start": self.start, "end": self.end, "time_ms": self.time_ms}
        if self.control != NO_CONTROL:
            said["tick"] = self.control.to_json()
        if self.terms != UNKNOWN_TERMS:
            said["log"] = self.terms.to_json()
        return said

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> "PlannedBatch":
        """
        >>> one = PlannedBatch(3, {"orders": {0: 5}}, {"orders": {0: 9}}, 17, BatchControl(3))
        >>> PlannedBatch.from_json(one.to_json()) == one
        True
        """
        control = BatchControl.from_json(row["tick"]) if "tick" in row else NO_CONTROL
        terms = LogTerms.from_json(row["log"]) if "log" in row else UNKNOWN_TERMS
        return cls(row["batch"], offsets(row["start"]), offsets(row["end"]), row["time_ms"], control, terms)


def offsets(row: Mapping[str, Mapping[Any, Any]]) -> Offsets:
    """JSON has no numbers as names."""
    return {topic: {int(number): offset for number, offset in parts.items()} for topic, parts in row.items()}


def partition_offsets(position: Mapping[str, Mapping[int, int]]) -> dict[TopicPartition, int]:
    """
    >>> partition_offsets({"orders": {0: 12}})
    {TopicPartition(topic='orders', partition=0): 12}
    """
    return {TopicPartition(topic, number): at for topic, parts in position.items() for number, at in parts.items()}


def with_planned(before: Sequence[PlannedBatch], one: PlannedBatch) -> list[PlannedBatch]:
    """The batches that are kept when one more is planned, or the last one again."""
    return [*(old for old in before if one.batch - KEPT < old.batch < one.batch), one]


def to_content(batches: Sequence[PlannedBatch]) -> dict[str, Any]:
    return {"batches": [one.to_json() for one in batches]}


def from_content(content: Mapping[str, Any]) -> list[PlannedBatch]:
    """ValueError, KeyError or TypeError if it is damaged."""
    return [PlannedBatch.from_json(row) for row in content["batches"]]
