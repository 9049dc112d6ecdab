"""The values of a small topic of ours: read once, then on from where reading ended."""

from collections.abc import Iterator

from headwater.errors import OffsetOutOfRange, UnknownTopic
from headwater.flow.kafka.client import EARLIEST, LATEST, Client
from headwater.flow.source.batches import find_batches
from headwater.flow.source.records import decode_batches
from headwater.record import TopicPartition

FETCH_BYTES = 1024**2


class TopicValues:
    def __init__(self, topic: str) -> None:
        self.topic = topic
        self._next: dict[TopicPartition, int] = {}

    def read_on(self, client: Client) -> Iterator[bytes]:
        """Nothing, if there is no such topic."""
        try:
            parts = client.partitions([self.topic])[self.topic]
        except UnknownTopic:
            return
        places = [TopicPartition(self.topic, number) for number in range(parts)]
        ends = client.offsets(dict.fromkeys(places, LATEST))
        for place in places:
            yield from self._values(client, place, ends[place])

    def _values(self, client: Client, place: TopicPartition, end: int) -> Iterator[bytes]:
        at = self._next.get(place)
        if at is None:
            at = client.offsets({place: EARLIEST})[place]
        while at < end:
            try:
                fetched = client.fetch(place, at, bytes_max=FETCH_BYTES)
            except OffsetOutOfRange as gone:
                # Retention was quicker, or the topic is another one now: on from what there is.
                at, end = gone.first, gone.end
                continue
            table = find_batches(fetched.records)
            if not len(table.rows):
                break
            records = decode_batches(fetched.records[: table.length], at, end, headers=False)
            yield from (value for value in records.values.to_pylist() if value is not None)
            at = table.next_offset
        self._next[place] = at
