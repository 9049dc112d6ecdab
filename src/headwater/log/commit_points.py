"""Commit points of captures: offsets at which a reader of captured topics sees whole transactions only. Pure.

    topic   __headwater_commit_points, a partition for each capture
    key     the name of the capture
    value   {"epoch": 1, "ends": {"shop.accounts": [120, 88], "shop.transfers": [40]}}

`ends` has the offset after the last record of each partition. All records before them belong to transactions that are
there as a whole, in every topic of the capture. A topic that an older commit point does not name was empty then. Within
an epoch offsets only grow, and no point is missing between two: a larger epoch says that nothing is known about cuts
before it. `"removed": true` says that the capture was removed: its topics have no commit points any more.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.record import TopicPartition

TOPIC = "__headwater_commit_points"


@dataclass(frozen=True)
class CommitPoint:
    epoch: int = 0
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    removed: bool = False

    def to_value(self) -> bytes:
        """
        >>> CommitPoint(1, {TopicPartition("users", 0): 7, TopicPartition("users", 1): 9}).to_value()
        b'{"epoch":1,"ends":{"users":[7,9]}}'
        """
        ends: dict[str, list[int]] = {}
        for (topic, _), end in sorted(self.ends.items()):
            ends.setdefault(topic, []).append(end)
        said: dict[str, object] = {"epoch": self.epoch, "ends": ends}
        if self.removed:
            said["removed"] = True
        return json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode()

    @classmethod
    def from_value(cls, value: bytes | None) -> "CommitPoint | None":
        """Returns None if the record is not a commit point: a reader does without it.

        >>> CommitPoint.from_value(b'{"epoch":1,"ends":{"users":[7,9]}}').ends[TopicPartition("users", 1)]
        9
        >>> CommitPoint.from_value(b"{}") is CommitPoint.from_value(None) is None
        True
        """
        try:
            said = json.loads(value or b"")
            ends = {
                TopicPartition(topic, number): int(end)
                for topic, listed in said["ends"].items()
                for number, end in enumerate(listed)
            }
            return cls(int(said["epoch"]), ends, bool(said.get("removed", False)))
        except (ValueError, KeyError, TypeError, AttributeError):
            return None
