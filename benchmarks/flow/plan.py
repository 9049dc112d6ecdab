"""How much of flows is measured: the full form, and the quick one."""

import json
from dataclasses import asdict, dataclass
from typing import Any

SECTIONS = (
    "source",
    "keyed",
    "state",
    "sink",
    "flow-latency",
    "windows",
    "joins",
    "nexmark",
    "stages",
    "batch-floor",
    "table-changes",
)


@dataclass(frozen=True)
class FlowPlan:
    """Rows of JSON with 100 bytes each. `rounds` come after a warm-up of their own that is not counted."""

    rounds: int = 3
    partitions: tuple[int, ...] = (1, 8)
    source_rows: int = 4_000_000
    source_rows_per_batch: int = 1_000_000
    source_warm_ups: int = 2
    """Whole runs that are not counted: a JVM compiles what millions of rows go through only after millions of rows."""
    warm_up_rows: int = 500_000
    keys: tuple[int, ...] = (20_000, 1_000_000)
    keyed_rows: int = 2_000_000
    keyed_rows_per_batch: int = 500_000
    transform_rows: int = 100_000
    """For transformWithState in Python, which would need minutes for all."""
    state_keys: tuple[int, ...] = (100_000, 1_000_000, 10_000_000)
    state_shards: tuple[int, ...] = (1, 4)
    state_changes: int = 10_000
    state_commits: int = 20
    sink_rows: int = 500_000
    sink_rows_per_batch: int = 100_000
    latency_rate: int = 1000
    latency_seconds: int = 20
    latency_warm_up_seconds: int = 8
    starts: int = 3
    floor_batches: int = 30
    window_events: int = 2_000_000
    window_rows_per_batch: int = 1_000_000
    join_rows: int = 2_000_000
    """Of both sides together."""
    join_rows_per_batch: int = 500_000
    join_keys: tuple[int, ...] = (100_000, 1_000_000, 5_000_000)
    nexmark_events: int = 1_000_000
    """Twice through each of 23 queries, for each contender."""
    nexmark_rows_per_batch: int = 500_000
    table_rows: tuple[int, ...] = (1_000_000, 10_000_000)
    table_changes: int = 1000
    table_batches: int = 20

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "FlowPlan":
        """
        >>> FlowPlan.from_json(FlowPlan().to_json()) == FlowPlan()
        True
        """
        said: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in json.loads(text).items()
        }
        return cls(**said)


QUICK = FlowPlan(
    rounds=1,
    partitions=(8,),
    source_rows=200_000,
    source_rows_per_batch=100_000,
    source_warm_ups=1,
    warm_up_rows=20_000,
    keys=(20_000,),
    keyed_rows=200_000,
    keyed_rows_per_batch=100_000,
    transform_rows=2_000,
    state_keys=(10_000, 100_000),
    state_shards=(1,),
    state_commits=5,
    sink_rows=40_000,
    sink_rows_per_batch=20_000,
    latency_seconds=4,
    latency_warm_up_seconds=3,
    starts=1,
    floor_batches=5,
    window_events=100_000,
    window_rows_per_batch=50_000,
    join_rows=100_000,
    join_rows_per_batch=50_000,
    join_keys=(10_000, 100_000),
    nexmark_events=50_000,
    nexmark_rows_per_batch=25_000,
    table_rows=(10_000, 100_000),
    table_batches=5,
)
