"""A topic as a place for the sink contract."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from headwater.flow.kafka.client import Client, End, FetchedRecords
from headwater.flow.sinks.folders import DiskFolder, Folder
from headwater.flow.sinks.sink import Sink
from headwater.flow.sinks.topics.topic import Producer, TopicSink
from headwater.log.batch_format import Buffer
from headwater.log.log import Log
from headwater.log.storage import LocalStorage
from headwater.record import TopicPartition
from tests.contracts.sink import Faults
from tests.flow.sinks.places import StoppingFolder


class StoppingClient:
    def __init__(self, client: Producer, faults: Faults) -> None:
        self._client, self._faults = client, faults

    def partitions(self, topics: Sequence[str]) -> dict[str, int]:
        return self._client.partitions(topics)

    def init_producer_id(self) -> tuple[int, int]:
        self._faults.before()
        identity = self._client.init_producer_id()
        self._faults.behind()
        return identity

    def produce(self, batches: Mapping[TopicPartition, Sequence[Buffer]]) -> dict[TopicPartition, list[int]]:
        """One request after the other, so that a stop may fall between any two."""
        stored: dict[TopicPartition, list[int]] = {place: [] for place in batches}
        for place, several in batches.items():
            for batch in several:
                self._faults.before()
                stored[place] += self._client.produce({place: [batch]})[place]
                self._faults.behind()
        return stored

    def ends(self, places: Iterable[TopicPartition]) -> Mapping[TopicPartition, End]:
        return self._client.ends(places)

    def fetch(self, place: TopicPartition, offset: int, *, bytes_max: int) -> FetchedRecords:
        return self._client.fetch(place, offset, bytes_max=bytes_max)


class TopicPlace:
    schema = pa.schema([("_key", pa.binary()), ("_value", pa.binary()), ("_timestamp_ms", pa.int64())])
    key: Sequence[str] = ()

    def __init__(self, log: Log, address: str, path: Path, *, batch_bytes: int = 512 * 1024) -> None:
        self._log, self._path, self._batch_bytes = log, path, batch_bytes
        self.client = Client(address)

    def open(self, faults: Faults | None = None) -> Sink:
        folder: Folder = DiskFolder(LocalStorage(self._path), str(self._path))
        if faults is None:
            return self._sink(self.client, folder)
        return self._sink(StoppingClient(self.client, faults), StoppingFolder(folder, faults))

    def _sink(self, client: Producer, folder: Folder) -> TopicSink:
        return TopicSink(client, "numbers", folder, batch_bytes=self._batch_bytes, staging=self._path / "stage")

    def batch(self, numbers: Iterable[int]) -> pa.Table:
        listed = list(numbers)
        return pa.table(
            {
                "_key": pa.array([str(number).encode() for number in listed], pa.binary()),
                "_value": pa.array([b"value %d" % number for number in listed], pa.binary()),
                "_timestamp_ms": pa.array([1_700_000_000_000 + number for number in listed], pa.int64()),
            }
        )

    def numbers(self) -> list[int]:
        topic = self._log.topic("numbers")
        records = [record for partition in range(topic.partitions) for record in self._log.read("numbers", partition)]
        assert all(record.value == b"value " + (record.key or b"") for record in records)
        return sorted(int(record.key or b"-1") for record in records)
