"""What the plan of a job's batch says beside how far it reads. Pure.

    {"number": 3, "silent": [["orders", 1]], "held": [], "ahead": [["orders", 0]], "ahead_ms": 1700000000000}

A batch comes when there are rows, or its tick is another one than that of the batch before: its number is larger, or
other partitions are silent. What was decided while planning is known again when the batch is run again.

The job leaves its wish in the stage folder: STAGE/wish.json {"number": 3, "idle_ms": {"orders": 30000}}.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headwater.errors import JobRefused
from headwater.record import TopicPartition
from headwater.small_file import read_newest

TICK = "@tick"
"""Under this name, which no topic can have, it stood among the offsets that Spark kept for earlier releases."""
WISH_FILE = "wish.json"

Places = frozenset[TopicPartition]


@dataclass(frozen=True)
class Tick:
    number: int = 0
    """That of the last batch that was asked for although there may be nothing to read."""
    silent: Places = frozenset()
    """Partitions of which everything was read, and nothing more has come for long."""
    held: Places = frozenset()
    """Partitions of which something was left, for lack of room, that is as old as what was taken of others."""
    admits: bool = False
    """It reads nothing, but takes back what came too late before it (late/late_replay.py)."""
    ahead: Places = frozenset()
    """Partitions of which something was left, all of it at or after `ahead_ms` but for the lateness of its stream."""
    ahead_ms: int = 0

    def to_json(self) -> dict[str, Any]:
        said = {"number": self.number, "silent": sorted(self.silent), "held": sorted(self.held)}
        ahead = {"ahead": sorted(self.ahead), "ahead_ms": self.ahead_ms} if self.ahead else {}
        return {**said, **ahead, **({"admits": True} if self.admits else {})}


NO_TICK = Tick()


@dataclass(frozen=True)
class Wish:
    """What a job asks of its source."""

    number: int = 0
    """Run a batch at once, unless one of this number has been."""
    idle_ms: Mapping[str, int] = field(default_factory=dict)
    """Topics of which it wants to know when a partition is silent for so long."""
    at_ms: int = 0
    """Not before this moment."""

    def to_json(self) -> dict[str, Any]:
        return {"number": self.number, "idle_ms": dict(self.idle_ms), "at_ms": self.at_ms}

    def at(self, now_ms: int) -> "Wish":
        """What is left of it before its time."""
        return self if now_ms >= self.at_ms else replace(self, number=0)


def tick_of(offset: Mapping[str, Any]) -> Tick:
    said = offset.get(TICK)
    if said is None:
        return NO_TICK
    return Tick(
        said["number"], _places(said["silent"]), _places(said["held"]), said.get("admits", False),
        _places(said.get("ahead", [])), said.get("ahead_ms", 0),
    )  # fmt: skip


def read_wish(stage: Path) -> Wish:
    try:
        said = read_newest(str(stage / WISH_FILE), lambda path: Path(path).read_bytes()).content
        return Wish(said["number"], said["idle_ms"], said.get("at_ms", 0))
    except FileNotFoundError:
        return Wish()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise JobRefused(
            f"{stage / WISH_FILE} is damaged: {error}",
            "Remove it and its copy; the job asks again after its next batch.",
        ) from None


class Watch:
    """Since when the end of each partition has stood still, by a clock that is handed in."""

    def __init__(self) -> None:
        self._still: dict[TopicPartition, tuple[int, int]] = {}

    def note(self, ends: Mapping[TopicPartition, int], now_ms: int) -> None:
        for place, end in ends.items():
            if self._still.get(place, (None, 0))[0] != end:
                self._still[place] = end, now_ms

    def silent(self, idle_ms: Mapping[str, int], now_ms: int) -> Places:
        return frozenset(
            place
            for place, (_, since_ms) in self._still.items()
            if place.topic in idle_ms and now_ms - since_ms > idle_ms[place.topic]
        )


def next_tick(
    before: Tick, wish: Wish, *, moved: Places, unread: Places, held: Places, silent: Places,
    ahead: Places = frozenset(), ahead_ms: int = 0,
) -> Tick:  # fmt: skip
    """Of the batch that is being planned: `moved` are partitions it reads of, `unread` those it leaves something of.

    Silence is remembered until it ends, also when nobody asks about it any more: or else that alone would be news.
    """
    left = Tick(held=held, ahead=ahead, ahead_ms=ahead_ms if ahead else 0) if moved else before
    return replace(
        left, number=max(before.number, wish.number), silent=(before.silent | silent) - moved - unread, admits=False
    )


def _places(listed: list[list[Any]]) -> Places:
    return frozenset(TopicPartition(topic, number) for topic, number in listed)
