"""Power cuts while tasks stage rows and the driver publishes them, before any call to a simulated disk.

Of a topic the log, and of a table the database, is another machine, which keeps all it has acknowledged.
"""

import copy
import io
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.errors import DuplicateSequence, OutOfOrderSequence, StoreUnavailable
from headwater.flow.kafka.client import End, FetchedRecords
from headwater.flow.sinks.folders import DiskFolder, Note
from headwater.flow.sinks.parquet import ParquetSink
from headwater.flow.sinks.topics.topic import BATCHES_PER_ROUND, TopicSink
from headwater.flow.source.record_batches.records import decode_batches
from headwater.log.batch_format import Buffer
from headwater.log.storage import read_whole
from headwater.log.storage.simulated import Call, SimulatedDisk
from headwater.record import TopicPartition
from headwater.small_file import seal
from tests.contracts.sink import JOB, mark
from tests.contracts.staged_sink import staged, staged_sink, stager_of
from tests.flow.sinks.places import ParquetPlace, TablePlace
from tests.flow.sinks.topic_place import TopicPlace

FOLDERS = {"one folder": (), "divided by a column": ("odd",)}
CASES = [
    pytest.param(by, tasks, cuts, id=f"{name}, again with {tasks} tasks", marks=[] if short else pytest.mark.torture)
    for name, by in FOLDERS.items()
    for tasks in (0, 2, 3)
    for short in [tasks == (2 if by else 0)]
    for cuts in [1 if short else 5]
]
"""At each call there are some power cuts: what is left of what was not synced is another each time."""
TOPIC, PARTITIONS, ROWS = "numbers", 2, 60


def parquet_sink(disk: SimulatedDisk, by: Sequence[str]) -> ParquetSink:
    sink = ParquetSink(DiskFolder(disk, "disk"), name=TOPIC, by=by)
    sink.prepare(ParquetPlace.schema, ())
    return sink


def numbers_in(disk: SimulatedDisk, folder: str = "") -> list[int]:
    """Of all files that a reader of the folder sees."""
    found: list[int] = []
    for name in disk.list(folder):
        path = f"{folder}/{name}".lstrip("/")
        if disk.is_directory(path):
            found += numbers_in(disk, path) if not name.startswith("_") else []
        elif name.endswith(".parquet") and not name.startswith("."):
            found += pq.read_table(io.BytesIO(read_whole(disk, path)))["number"].to_pylist()
    return sorted(found)


def numbered(numbers: range) -> pa.Table:
    return ParquetPlace(Path(), by=()).batch(numbers)


@pytest.mark.parametrize(("by", "tasks", "cuts"), CASES)
def test_a_power_cut_at_any_call_neither_loses_nor_doubles_a_row_of_files(
    by: tuple[str, ...], tasks: int, cuts: int
) -> None:
    disk, dice = SimulatedDisk(), Random(1)
    parquet_sink(disk, by).write(mark(0), numbered(range(4)))
    found: list[tuple[Call, SimulatedDisk]] = []

    def cut(call: Call) -> None:
        if call.changing:
            found.extend((call, disk.crash(dice)) for _ in range(cuts))

    disk.on_call = cut
    publish(parquet_sink(disk, by), 1, numbered(range(4, 12)), tasks=2)
    disk.on_call = None
    assert len(found) > 20 * cuts
    for call, left in found:
        if tasks:
            publish(parquet_sink(left, by), 1, numbered(range(4, 12)), tasks)
        else:
            parquet_sink(left, by).write(mark(1), numbered(range(4, 12)))
        assert numbers_in(left) == list(range(12)), call
        publish(parquet_sink(left, by), 2, numbered(range(12, 16)), tasks=2)
        assert numbers_in(left) == list(range(16)), call


@pytest.mark.parametrize("by", FOLDERS.values(), ids=FOLDERS)
def test_files_of_a_batch_that_is_published_survive_a_power_cut(by: tuple[str, ...]) -> None:
    disk = SimulatedDisk()
    for batch in range(3):
        publish(parquet_sink(disk, by), batch, numbered(range(6 * batch, 6 * batch + 6)), tasks=2)
        for seed in range(20):
            left = disk.crash(Random(seed))
            assert numbers_in(left) == list(range(6 * batch + 6))
            assert parquet_sink(left, by).committed(JOB) == batch


def publish(sink: ParquetSink | TopicSink, batch: int, rows: pa.Table, tasks: int) -> None:
    """All rows but one are staged by tasks."""
    stager = sink.stager(mark(batch))
    assert stager is not None
    sink.publish(mark(batch), staged(stager, rows.slice(1), tasks), rows.slice(0, 1))


# -- topics ------------------------------------------------------------------------------------------------------------


@dataclass
class RememberingLog:
    """A log that knows the last batches of a producer again, and refuses gaps."""

    stored: dict[int, list[bytes]] = field(default_factory=lambda: {number: [] for number in range(PARTITIONS)})
    producers: int = 0
    sends: Callable[[], None] = lambda: None

    def partitions(self, topics: Sequence[str]) -> dict[str, int]:
        return dict.fromkeys(topics, PARTITIONS)

    def init_producer_id(self) -> tuple[int, int]:
        self.producers += 1
        return self.producers, 0

    def produce(self, batches: Mapping[TopicPartition, Sequence[Buffer]]) -> dict[TopicPartition, list[int]]:
        stored: dict[TopicPartition, list[int]] = {place: [] for place in batches}
        for place, several in batches.items():
            for batch in several:
                stored[place].append(self._append(place.partition, bytes(batch)))
                self.sends()
        return stored

    def ends(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, End]:
        return {place: End(sum(map(records_of, self.stored[place.partition])), -1) for place in places}

    def fetch(self, place: TopicPartition, offset: int, *, bytes_max: int) -> FetchedRecords:
        base, found = 0, b""
        for batch in self.stored[place.partition]:
            if base + records_of(batch) > offset:
                found += base.to_bytes(8, "big") + batch[8:]
            base += records_of(batch)
        return FetchedRecords(memoryview(found), base, 0, ())

    def _append(self, partition: int, batch: bytes) -> int:
        """The offset of its first record."""
        own = self.stored[partition]
        if batch in own[-BATCHES_PER_ROUND:]:
            return sum(map(records_of, own[: own.index(batch)]))
        if batch in own:
            raise DuplicateSequence(f"sequence in {partition} again")
        producer, _, sequence, _ = struct.unpack_from(">qhii", batch, 43)
        known = [struct.unpack_from(">qhii", one, 43) for one in own]
        expected = sum(count for one, _, _, count in known if one == producer)
        if sequence != expected:
            raise OutOfOrderSequence(f"sequence {sequence} in {partition}, not {expected}")
        own.append(batch)
        return sum(map(records_of, own[:-1]))

    def numbers(self) -> list[int]:
        return sorted(
            int(key) for own in self.stored.values() for batch in own
            for key in decode_batches(bytearray(batch), 0, 2**40, headers=False).keys.to_pylist()
        )  # fmt: skip


def records_of(batch: bytes) -> int:
    return int.from_bytes(batch[57:61], "big")


@dataclass
class Cut:
    disk: SimulatedDisk
    log: RememberingLog


def topic_sink(disk: SimulatedDisk, log: RememberingLog, staging: Path) -> TopicSink:
    return TopicSink(log, TOPIC, DiskFolder(disk, "disk"), batch_bytes=200, staging=staging)


def rows_of(numbers: range) -> pa.Table:
    return TopicPlace.batch(None, numbers)  # type: ignore[arg-type]  # it asks nothing of its place


@pytest.mark.parametrize("each", [1, pytest.param(5, marks=pytest.mark.torture)])
def test_a_power_cut_at_any_call_neither_loses_nor_doubles_a_record(tmp_path: Path, each: int) -> None:
    cuts = cuts_of_a_batch(tmp_path / "staging", each)
    assert len(cuts) > 10 * each
    assert len({len(cut.log.numbers()) for cut in cuts}) > BATCHES_PER_ROUND  # also between records of one batch
    for number, cut in enumerate(cuts):
        again(cut, tmp_path / str(number), tasks=number % 4)
        assert cut.log.numbers() == list(range(2 * ROWS))


def test_a_producer_whose_note_is_not_synced_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def written(note: Note, content: object) -> None:
        """Without a sync, as a simple program writes a file."""
        assert isinstance(note._folder, DiskFolder)
        storage = note._folder._storage
        storage.delete(note._path)
        data = seal(content, version=1)
        file = storage.open(note._path, create=True)
        file.write_at(0, [data])
        file.close()

    monkeypatch.setattr(Note, "write", written)
    cuts = cuts_of_a_batch(tmp_path / "staging", 1)
    monkeypatch.undo()

    def right(number: int, cut: Cut) -> bool:
        try:
            again(cut, tmp_path / str(number), tasks=2)
        except OutOfOrderSequence:
            return False
        return cut.log.numbers() == list(range(2 * ROWS))

    assert not all(right(number, cut) for number, cut in enumerate(cuts))


def cuts_of_a_batch(staging: Path, each: int) -> list[Cut]:
    """What the power may leave while the second batch of a topic is staged and published."""
    disk, log, dice = SimulatedDisk(), RememberingLog(), Random(1)
    publish(topic_sink(disk, log, staging), 0, rows_of(range(ROWS)), tasks=2)
    found: list[Cut] = []

    def cut() -> None:
        for _ in range(each):
            kept = RememberingLog(copy.deepcopy(log.stored), log.producers)
            found.append(Cut(disk.crash(dice), kept))

    disk.on_call = lambda call: cut() if call.changing else None
    log.sends = cut
    publish(topic_sink(disk, log, staging), 1, rows_of(range(ROWS, 2 * ROWS)), tasks=3)
    return found


def again(cut: Cut, staging: Path, tasks: int) -> None:
    """The batch after the power is back; files that tasks had staged are torn."""
    torn = staging / TOPIC
    torn.mkdir(parents=True)
    (torn / "00000-torn.rows").write_bytes(b"\0" * 100)
    sink = topic_sink(cut.disk, cut.log, staging)
    if tasks:
        publish(sink, 1, rows_of(range(ROWS, 2 * ROWS)), tasks)
    else:
        sink.write(mark(1), rows_of(range(ROWS, 2 * ROWS)))


# -- tables ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def place(postgres_url: str) -> Iterator[TablePlace]:
    place = TablePlace(postgres_url, key=["number"])
    yield place
    place.close()


def test_staged_tables_that_a_crash_of_the_database_has_emptied_are_not_published(
    place: TablePlace, postgres_url: str
) -> None:
    sink = staged_sink(place)
    sink.write(mark(0), place.batch([0]))
    parts = staged(stager_of(sink, 1), place.batch(range(1, 9)), tasks=2)
    with psycopg.connect(postgres_url, autocommit=True) as connection:  # what a server does with them as it starts
        names = connection.execute("SELECT oid::regclass FROM pg_class WHERE relpersistence = 'u' AND relkind = 'r'")
        emptied = [connection.execute(f"TRUNCATE {name}") for (name,) in names.fetchall()]
    assert len(emptied) == 2
    with pytest.raises(StoreUnavailable, match="0 rows of 4"):
        sink.publish(mark(1), parts, place.batch([]))
    again = staged_sink(place)
    assert place.numbers() == [0]
    again.publish(mark(1), staged(stager_of(again, 1), place.batch(range(1, 9)), tasks=3), place.batch([]))
    assert place.numbers() == list(range(9))
