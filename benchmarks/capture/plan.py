"""How much of captures is measured: the full form, and the quick one."""

from dataclasses import dataclass

SECTIONS = ("capture",)


@dataclass(frozen=True)
class CapturePlan:
    """Changes come in transactions of a thousand. What is called warm-up is not counted."""

    rounds: int = 3
    snapshot_rows: int = 1_000_000
    snapshot_warm_up_rows: int = 100_000
    changes: int = 500_000
    warm_up_changes: int = 100_000
    latency_rate: int = 1000
    latency_seconds: int = 20
    latency_warm_up_seconds: int = 3


QUICK = CapturePlan(
    rounds=1,
    snapshot_rows=50_000,
    snapshot_warm_up_rows=10_000,
    changes=30_000,
    warm_up_changes=10_000,
    latency_seconds=4,
    latency_warm_up_seconds=1,
)
