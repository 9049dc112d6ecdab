"""How much is measured: the full form, and the quick one."""

from dataclasses import dataclass, field

from benchmarks.capture import plan as capture_plan
from benchmarks.capture.plan import CapturePlan
from benchmarks.flow import plan as flow_plan
from benchmarks.flow.plan import FlowPlan

BROKER_SECTIONS = ("produce", "fetch", "latency", "memory")
"""Those for which all brokers are started at once."""
SECTIONS = (*BROKER_SECTIONS, "open", "events", *capture_plan.SECTIONS, *flow_plan.SECTIONS)
SIZES = (100, 1000)
ACKS = (1, -1)


@dataclass(frozen=True)
class Plan:
    """Bytes are payload. `rounds` come after a warm-up of their own that is not counted."""

    rounds: int = 4
    partitions: tuple[int, ...] = (1, 8)
    produce_bytes: int = 200_000_000
    raw_bytes: int = 600_000_000
    warm_up_bytes: int = 60_000_000
    latency_seconds: int = 10
    latency_rounds: int = 2
    open_gib: float = 10
    open_rounds: int = 1
    consumers: int = 500
    silent_consumers: int = 100
    memory_seconds: int = 10
    event_appends: int = 20_000
    capture: CapturePlan = field(default_factory=CapturePlan)
    flow: FlowPlan = field(default_factory=FlowPlan)


QUICK = Plan(
    rounds=1,
    partitions=(8,),
    produce_bytes=40_000_000,
    raw_bytes=100_000_000,
    warm_up_bytes=10_000_000,
    latency_seconds=3,
    latency_rounds=1,
    open_gib=0.25,
    open_rounds=1,
    consumers=500,
    silent_consumers=100,
    memory_seconds=4,
    event_appends=2_000,
    capture=capture_plan.QUICK,
    flow=flow_plan.QUICK,
)


def size_words(size: int) -> str:
    """
    >>> size_words(100), size_words(1000)
    ('100 B', '1 kB')
    """
    return f"{size // 1000} kB" if size >= 1000 else f"{size} B"


def acks_words(acks: int) -> str:
    return "all" if acks == -1 else str(acks)
