"""The values of a small topic of ours: read once, then on from where reading ended."""

import logging
from collections.abc import Iterator

import pyarrow as pa

from headwater.errors import OffsetOutOfRange, UnknownTopic
from headwater.flow.kafka.client import EARLIEST, LATEST, Client
from headwater.flow.source.record_batches.files import Chunk
from headwater.flow.source.record_batches.readable import read_around
from headwater.flow.source.record_batches.records import UnreadableBatch, decode_batches
from headwater.log.batch_table import find_batches
from headwater.record import TopicPartition

_logger = logging.getLogger(__name__)

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
        partitions = [TopicPartition(self.topic, number) for number in range(parts)]
        ends = client.offsets(dict.fromkeys(partitions, LATEST))
        for partition in partitions:
            yield from self._values(client, partition, ends[partition])

    def _values(self, client: Client, partition: TopicPartition, end: int) -> Iterator[bytes]:
        at = self._next.get(partition)
        if at is None:
            at = client.offsets({partition: EARLIEST})[partition]
        while at < end:
            try:
                fetched = client.fetch(partition, at, bytes_max=FETCH_BYTES)
            except OffsetOutOfRange as gone:
                # Retention was quicker, or the topic is another one now: on from what there is.
                at, end = gone.first, gone.end
                continue
            table = find_batches(fetched.records)
            if not len(table.rows):
                break
            for values in _read(Chunk(at, end, fetched.records[: table.length])):
                yield from (value for value in values.to_pylist() if value is not None)
            at = table.next_offset
        self._next[partition] = at


def _read(chunk: Chunk) -> Iterator[pa.BinaryArray]:
    def decoded(part: Chunk) -> pa.BinaryArray:
        return decode_batches(part.data, part.first, part.next_offset, headers=False).values

    for found in read_around(chunk, decoded):
        if isinstance(found, UnreadableBatch):  # not of ours: another client's, which may write to any topic
            _logger.warning("offsets %d to %d are passed over: %s", found.base_offset, found.last_offset, found.reason)
        else:
            yield found
