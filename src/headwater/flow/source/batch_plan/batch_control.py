"""What the plan of a job's batch says beside its offsets, and the wakeup that a job requests. Pure.

    {"number": 3, "silent": [["orders", 1]], "held": [], "ahead": [["orders", 0]], "ahead_ms": 1700000000000}

A batch is planned when there are rows, or when its control differs from that of the batch before: its number is larger,
or other partitions are silent. What was decided while planning is known again when the batch is run again.

A job leaves its request in the stage folder: STAGE/wish.json {"number": 3, "idle_ms": {"orders": 30000}, "at_ms": 0}.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headwater.errors import JobRefused
from headwater.record import TopicPartition
from headwater.small_file import read_newest

CONTROL = "@tick"
"""Under this name, which no topic can have, it stood among the offsets that Spark kept for earlier releases."""
WAKEUP_FILE = "wish.json"

Partitions = frozenset[TopicPartition]


@dataclass(frozen=True)
class BatchControl:
    number: int = 0
    """That of the last batch that was requested although there may be nothing to read."""
    silent: Partitions = frozenset()
    """Partitions of which everything was read, and nothing more has come for long."""
    held: Partitions = frozenset()
    """Partitions of which something was left, for lack of room, that is as old as what was read of others."""
    replays_late: bool = False
    """It reads nothing, but replays the rows that were late before it (late/late_replay.py)."""
    ahead: Partitions = frozenset()
    """Partitions of which something was left, all of it at or after `ahead_ms` but for the lateness of its stream."""
    ahead_ms: int = 0

    def to_json(self) -> dict[str, Any]:
        said = {"number": self.number, "silent": sorted(self.silent), "held": sorted(self.held)}
        ahead = {"ahead": sorted(self.ahead), "ahead_ms": self.ahead_ms} if self.ahead else {}
        return {**said, **ahead, **({"admits": True} if self.replays_late else {})}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> "BatchControl":
        silent, held, ahead = (
            frozenset(TopicPartition(*one) for one in row.get(name, ())) for name in ("silent", "held", "ahead")
        )
        return cls(row["number"], silent, held, row.get("admits", False), ahead, row.get("ahead_ms", 0))


NO_CONTROL = BatchControl()


@dataclass(frozen=True)
class WakeupRequest:
    """Which batches without rows a job needs, because time alone has something to emit or to drop."""

    number: int = 0
    """Run a batch at once, unless one of this number has been."""
    idle_ms: Mapping[str, int] = field(default_factory=dict)
    """Topics, and how long a partition of each is silent before a batch has to know it."""
    at_ms: int = 0
    """Not before this moment."""

    def to_json(self) -> dict[str, Any]:
        return {"number": self.number, "idle_ms": dict(self.idle_ms), "at_ms": self.at_ms}

    def at(self, now_ms: int) -> "WakeupRequest":
        """What is left of it before its time."""
        return self if now_ms >= self.at_ms else replace(self, number=0)


def read_wakeup(stage: Path) -> WakeupRequest:
    try:
        said = read_newest(str(stage / WAKEUP_FILE), lambda path: Path(path).read_bytes()).content
        return WakeupRequest(said["number"], said["idle_ms"], said.get("at_ms", 0))
    except FileNotFoundError:
        return WakeupRequest()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise JobRefused(
            f"{stage / WAKEUP_FILE} is damaged: {error}",
            "Remove it and its copy; the job asks again after its next batch.",
        ) from None


class Watch:
    """Since when the end of each partition has not moved, by a clock that is handed in."""

    def __init__(self) -> None:
        self._unmoved: dict[TopicPartition, tuple[int, int]] = {}

    def note(self, ends: Mapping[TopicPartition, int], now_ms: int) -> None:
        for partition, end in ends.items():
            if self._unmoved.get(partition, (None, 0))[0] != end:
                self._unmoved[partition] = end, now_ms

    def silent(self, idle_ms: Mapping[str, int], now_ms: int) -> Partitions:
        return frozenset(
            partition
            for partition, (_, since_ms) in self._unmoved.items()
            if partition.topic in idle_ms and now_ms - since_ms > idle_ms[partition.topic]
        )


def next_control(
    before: BatchControl, request: WakeupRequest,
    *, moved: Partitions, unread: Partitions, silent: Partitions, left: BatchControl,
) -> BatchControl:  # fmt: skip
    """Of the batch that is being planned: `moved` are partitions it reads of, `unread` those it leaves something of,
    `left` says of the latter which are held and which are ahead.

    Silence is remembered until it ends, also when no job asks about it any more: or else that alone would be a change.
    """
    return replace(
        left if moved else before, number=max(before.number, request.number),
        silent=(before.silent | silent) - moved - unread, replays_late=False,
    )  # fmt: skip
