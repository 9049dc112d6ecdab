"""A log that has forgotten a producer takes its batches again: the sink finds in the topic what is there already."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path

import pytest

from headwater.errors import OffsetOutOfRange
from headwater.flow.kafka.client import End, FetchedRecords
from headwater.flow.sinks.folders import DiskFolder, Note
from headwater.flow.sinks.topics.producer_state import ProducerState
from headwater.flow.sinks.topics.topic import TopicSink
from headwater.log.batch_format import Buffer, decode_batch
from headwater.log.batch_table import LAST_OFFSET, find_batches
from headwater.log.storage import LocalStorage
from headwater.record import TopicPartition
from tests.contracts.sink import Faults, mark, stops
from tests.flow.sinks.places import StoppingFolder
from tests.flow.sinks.topic_place import StoppingClient, TopicPlace

EVERYTHING = 2**30


class ForgetfulLog:
    """Two partitions that remember no producer: whatever is sent is appended."""

    def __init__(self) -> None:
        self._batches: dict[TopicPartition, list[tuple[int, int, bytes]]] = {}
        self._first: dict[TopicPartition, int] = {}
        self._ids = count(7)

    def partitions(self, topics: Sequence[str]) -> dict[str, int]:
        return dict.fromkeys(topics, 2)

    def init_producer_id(self) -> tuple[int, int]:
        return next(self._ids), 0

    def produce(self, batches: Mapping[TopicPartition, Sequence[Buffer]]) -> dict[TopicPartition, list[int]]:
        return {place: [self._append(place, bytes(batch)) for batch in several] for place, several in batches.items()}

    def _append(self, place: TopicPartition, batch: bytes) -> int:
        base = self._end(place)
        records = int(find_batches(batch).column(LAST_OFFSET)[0]) + 1
        self._batches.setdefault(place, []).append((base, base + records, base.to_bytes(8, "big") + batch[8:]))
        return base

    def _end(self, place: TopicPartition) -> int:
        kept = self._batches.get(place, [])
        return kept[-1][1] if kept else 0

    def ends(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, End]:
        return {place: End(self._end(place), -1) for place in places}

    def fetch(self, place: TopicPartition, offset: int, *, bytes_max: int) -> FetchedRecords:
        """A batch at a time, so that readers have to come again."""
        first = self._first.get(place, 0)
        if offset < first:
            raise OffsetOutOfRange(place.topic, place.partition, offset, first=first, end=self._end(place))
        found = next((batch for _, behind, batch in self._batches.get(place, []) if behind > offset), b"")
        return FetchedRecords(memoryview(found), self._end(place), first, ())

    def values(self) -> list[bytes | None]:
        batches = [batch for kept in self._batches.values() for *_, batch in kept]
        return [record.value for batch in batches for record in decode_batch(batch, bytes_max=EVERYTHING)]

    def forget_before(self, place: TopicPartition, offset: int) -> None:
        """What retention does."""
        self._first[place] = offset
        self._batches[place] = [one for one in self._batches[place] if one[1] > offset]

    def compact_away(self, place: TopicPartition, number: int) -> None:
        del self._batches[place][number]

    def batches_in(self, place: TopicPartition) -> int:
        return len(self._batches.get(place, []))


@pytest.fixture
def rows(tmp_path: Path) -> TopicPlace:
    return TopicPlace.__new__(TopicPlace)  # for the rows it makes


def sink(log: ForgetfulLog, path: Path, faults: Faults | None = None) -> TopicSink:
    folder = DiskFolder(LocalStorage(path), str(path))
    if faults is None:
        return TopicSink(log, "numbers", folder, batch_bytes=300)
    return TopicSink(StoppingClient(log, faults), "numbers", StoppingFolder(folder, faults), batch_bytes=300)


@pytest.mark.parametrize("after", [False, True])
def test_a_batch_that_was_stopped_anywhere_is_stored_once(tmp_path: Path, rows: TopicPlace, after: bool) -> None:
    whole = sorted(b"value %d" % number for number in range(100))
    for step in range(1, 200):
        log, path = ForgetfulLog(), tmp_path / str(step)
        path.mkdir()
        assert sink(log, path).write(mark(0), rows.batch(range(10)))
        stopped = stops(sink(log, path, Faults(step, after=after)), mark(1), rows.batch(range(10, 100)))
        sink(log, path).write(mark(1), rows.batch(range(10, 100)))
        assert sorted(value or b"" for value in log.values()) == whole
        if not stopped:
            assert step > 10
            return
    raise AssertionError("it is stopped without end")


def test_what_was_removed_since_is_neither_read_nor_sent_again(tmp_path: Path, rows: TopicPlace) -> None:
    """Of a key whose older value was compacted away that value must not come back behind the newer one."""
    log = ForgetfulLog()
    assert sink(log, tmp_path).write(mark(0), rows.batch(range(10)))
    assert stops(sink(log, tmp_path, Faults(5, after=True)), mark(1), rows.batch(range(10, 100)))
    place = max(log._batches, key=log.batches_in)
    assert log.batches_in(place) >= 4, "one of the first batch, three of the second"
    log.forget_before(place, 1)
    log.compact_away(place, -2)
    assert sink(log, tmp_path).write(mark(1), rows.batch(range(10, 100)))
    assert len(set(log.values())) == len(log.values())
    assert 80 < len(log.values()) < 100


def test_what_others_wrote_is_passed_over(tmp_path: Path, rows: TopicPlace) -> None:
    log = ForgetfulLog()
    assert stops(sink(log, tmp_path, Faults(6, after=True)), mark(0), rows.batch(range(40)))
    other = tmp_path / "other"
    other.mkdir()
    assert sink(log, other).write(mark(0), rows.batch(range(100, 140)))
    assert sink(log, tmp_path).write(mark(0), rows.batch(range(40)))
    assert len(set(log.values())) == len(log.values()) == 80


def test_a_state_of_an_earlier_release_goes_on(tmp_path: Path, rows: TopicPlace) -> None:
    log = ForgetfulLog()
    note = Note(DiskFolder(LocalStorage(tmp_path), ""), "numbers.json")
    content = ProducerState("shop/main/1", "numbers", 3, 0, 2, 300, "lz4").to_json()
    del content["offsets"]
    note.write(content)
    assert sink(log, tmp_path).write(mark(0), rows.batch(range(20)))
    assert len(log.values()) == 20
    assert stops(sink(log, tmp_path, Faults(3, after=True)), mark(1), rows.batch(range(20, 60)))
    assert sink(log, tmp_path).write(mark(1), rows.batch(range(20, 60)))
    assert len(set(log.values())) == len(log.values()) == 60
