"""How far a view has come: which batch of which job it holds, and which offsets that reflects. Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.record import Position

Offsets = Mapping[str, Mapping[int, int]]
"""Topic -> partition -> the next offset, which is the first that is not included."""


@dataclass(frozen=True)
class Epoch:
    """The drivers of a job, counted; 0 where a file lock keeps them apart. What has seen a newer one refuses the older
    ones."""

    number: int = 0
    owner: str = ""
    since_ms: int = 0


@dataclass(frozen=True)
class Mark:
    """The mark that a job writes with each batch, in the same transaction. `job` is the same over restarts."""

    job: str
    batch: int
    position: Offsets = field(default_factory=dict)
    epoch: Epoch = Epoch()
    """Of the driver that writes."""


@dataclass(frozen=True)
class StoredMark:
    """The progress of a view in its store. No job yet: the view was made and nothing was written."""

    job: str | None
    batch: int
    position: Offsets
    change: int  # counts the writes that brought rows; never goes back
    generation: int  # counts rebuilds
    changes_from: int  # deletes up to this change are forgotten
    updated_ms: int

    def holds(self, mark: Mark) -> bool:
        return self.job == mark.job and mark.batch <= self.batch


def covers(position: Offsets, wanted: Position | Offsets) -> bool:
    """Does a view at `position` include a record, or all that lies below some next offsets?

    >>> covers({"orders": {0: 5}}, Position("orders", 0, 4)), covers({"orders": {0: 5}}, Position("orders", 0, 5))
    (True, False)
    >>> covers({"orders": {0: 5}}, {"orders": {0: 5}})
    True
    """
    return all(
        position.get(topic, {}).get(partition, 0) >= offset
        for topic, offsets in next_offsets(wanted).items()
        for partition, offset in offsets.items()
    )


def next_offsets(wanted: Position | Offsets) -> Offsets:
    if isinstance(wanted, Position):
        return {wanted.topic: {wanted.partition: wanted.offset + 1}}
    return wanted


def position_to_json(position: Offsets) -> str:
    return json.dumps(
        {topic: {str(partition): offset for partition, offset in sorted(offsets.items())}
         for topic, offsets in sorted(position.items())}
    )  # fmt: skip


def position_from_json(text: str) -> dict[str, dict[int, int]]:
    return {
        topic: {int(partition): offset for partition, offset in offsets.items()}
        for topic, offsets in json.loads(text).items()
    }


def spoken(position: Offsets) -> str:
    """For a sentence.

    >>> spoken({"orders": {0: 5, 1: 7}})
    'orders/0 up to 5, orders/1 up to 7'
    """
    parts = [
        f"{topic}/{partition} up to {offset}"
        for topic, offsets in sorted(position.items())
        for partition, offset in sorted(offsets.items())
    ]
    return ", ".join(parts) or "nothing yet"
