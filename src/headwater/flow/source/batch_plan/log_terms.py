"""Is a topic still the log that was read? Ids of topics and epochs of leaders say so where offsets cannot. Pure.

A topic that is deleted and made again starts at offset 0 once more, under another id. A partition whose leader was not
in sync (unclean.leader.election.enable) ends earlier than it did and goes on from there with other records. Soon both
are as long as they were, and to go on at the offset that was reached would skip what was never read.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headwater.errors import LogTruncated, TopicRecreated
from headwater.record import TopicPartition


@dataclass(frozen=True)
class LogTerms:
    """What was true when a batch was planned: whatever it reads was written in these epochs or before."""

    ids: Mapping[str, str] = field(default_factory=dict)
    """Of topics; brokers before Kafka 2.8 know none."""
    epochs: Mapping[TopicPartition, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        epochs: dict[str, dict[int, int]] = {}
        for place, epoch in self.epochs.items():
            epochs.setdefault(place.topic, {})[place.partition] = epoch
        return {"ids": dict(self.ids), "epochs": epochs}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> "LogTerms":
        """
        >>> terms = LogTerms({"orders": "b7"}, {TopicPartition("orders", 1): 4})
        >>> LogTerms.from_json(terms.to_json()) == terms
        True
        """
        epochs = {
            TopicPartition(topic, int(number)): epoch
            for topic, parts in row["epochs"].items()
            for number, epoch in parts.items()
        }
        return cls(row["ids"], epochs)


UNKNOWN_TERMS = LogTerms()


def check_ids(before: LogTerms, ids: Mapping[str, str]) -> None:
    """TopicRecreated if one has another id than it had."""
    for topic, id in before.ids.items():
        if ids.get(topic, id) != id:
            raise TopicRecreated(topic)


def doubtful(before: LogTerms, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Partitions that have another leader's epoch than they had, with that former one: the log must be asked where
    its records end."""
    return {
        place: epoch
        for place, epoch in before.epochs.items()
        if epoch >= 0 and epochs.get(place, epoch) not in (epoch, -1)
    }


def check_epoch_ends(read: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> None:
    """LogTruncated if records of former leaders end before what was read of them. -1 says nothing."""
    for place, end in ends.items():
        if 0 <= end < read.get(place, 0):
            raise LogTruncated(place.topic, place.partition, read=read[place], end=end)
