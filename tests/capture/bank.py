"""Money that is moved in transactions: all of it is there whenever a reader looks, if it never sees half of one."""

import json
from collections import defaultdict

from headwater.log.commit_points import TOPIC, CommitPoint
from headwater.log.log import Log
from headwater.record import TopicPartition

Ends = dict[TopicPartition, int]


def commit_points(log: Log) -> list[Ends]:
    """All there are of the newest epoch, oldest first."""
    found = [CommitPoint.from_value(record.value) for record in log.read(TOPIC, 0)]
    points = [point for point in found if point is not None]
    return [dict(point.ends) for point in points if point.epoch == points[-1].epoch]


def ends(log: Log, *topics: str) -> Ends:
    topic_partitions = [
        TopicPartition(topic, number) for topic in topics for number in range(log.topic(topic).partitions)
    ]
    return {topic_partition: log.partition(*topic_partition).high_watermark for topic_partition in topic_partitions}


class Totals:
    """The sum of all balances at any offsets of the topics."""

    def __init__(self, log: Log, *topics: str) -> None:
        self._records = {
            topic_partition: [(record.offset, record.key, record.value) for record in log.read(*topic_partition)]
            for topic_partition in ends(log, *topics)
        }

    def at(self, ends: Ends) -> int:
        balances: dict[tuple[str, bytes | None], int] = defaultdict(int)
        for topic_partition, records in self._records.items():
            for offset, key, value in records:
                if offset < ends.get(topic_partition, 0) and value is not None:
                    after = json.loads(value)["after"]
                    balances[topic_partition.topic, key] = after["balance"] if after else 0
        return sum(balances.values())

    def at_each(self, several: list[Ends]) -> set[int]:
        return {self.at(one) for one in several}
