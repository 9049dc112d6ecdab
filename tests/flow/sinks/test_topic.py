from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.errors import DuplicateSequence, JobRefused, UnknownTopic, UnstorableValue
from headwater.flow.sinks.folders import DiskFolder, Note
from headwater.flow.sinks.staged import Part, run_here
from headwater.flow.sinks.topics.producer_state import BY_COUNT, BY_OFFSET, ProducerState
from headwater.flow.sinks.topics.records import encode, with_tombstones
from headwater.flow.sinks.topics.staging import TopicStager, encode_staged
from headwater.flow.sinks.topics.topic import BATCHES_PER_ROUND, TopicSink, rounds
from headwater.log.partitioner import partition_of
from headwater.log.storage import LocalStorage
from headwater.node import Node
from headwater.record import Record
from headwater.small_file import unseal
from headwater.testing import running_node
from tests.contracts.sink import Faults, mark, opened, stops
from tests.contracts.staged_sink import StagedSinkContract, staged, staged_sink
from tests.flow.sinks.topic_place import StoppingClient, TopicPlace


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with running_node() as node:
        yield node


@pytest.fixture
def place(node: Node, tmp_path: Path) -> Iterator[TopicPlace]:
    node.log.create_topic("numbers", partitions=3)
    place = TopicPlace(node.log, node.kafka_address, tmp_path)
    yield place
    place.client.close()
    node.log.delete_topic("numbers")


class TestTopic(StagedSinkContract):
    pass


class TestTopicInManyBatches(StagedSinkContract):
    """Batches so small that what a job writes at once is far more of them than a log remembers."""

    @pytest.fixture
    def place(self, node: Node, tmp_path: Path) -> Iterator[TopicPlace]:
        node.log.create_topic("numbers", partitions=2)
        place = TopicPlace(node.log, node.kafka_address, tmp_path, batch_bytes=4096)
        yield place
        place.client.close()
        node.log.delete_topic("numbers")


STATE = ProducerState("shop/main/1", "numbers", 7, 0, partitions=3, batch_bytes=200, compression="none")


def table(*rows: tuple[bytes | None, bytes | None, int]) -> pa.Table:
    keys, values, times = zip(*rows, strict=True)
    return pa.table(
        {
            "_key": pa.array(keys, pa.binary()),
            "_value": pa.array(values, pa.binary()),
            "_timestamp_ms": pa.array(times, pa.int64()),
        }
    )


def test_rows_in_any_order_are_encoded_alike() -> None:
    rows = table(*((b"%d" % (number % 40), b"v%d" % number, number) for number in range(500)))
    shuffled = rows.take(pa.array([(number * 77) % 500 for number in range(500)]))
    assert encode(rows, STATE, 4) == encode(shuffled, STATE, 4)
    assert sum(encode(rows, STATE, 4).records.values()) == 500


def rows_of_a_log(number: int) -> pa.Table:
    """Rows of which some have a key, deletes among them, from several partitions of a topic."""
    numbers = list(range(number))
    rows = table(*((b"%d" % (one % 40) if one % 3 else None, b"v%d" % one, one) for one in numbers))
    at = [{"time": one // 5, "source": 0, "partition": one % 4, "offset": 700 * one} for one in numbers]
    rows = rows.append_column("_order", pa.array(at))
    return rows.append_column("_op", pa.array(["d" if one % 3 and not one % 7 else "c" for one in numbers]))


@pytest.mark.parametrize("tasks", [1, 2, 5])
def test_rows_that_tasks_stage_are_encoded_to_the_bytes_that_all_of_them_together_give(
    tmp_path: Path, tasks: int
) -> None:
    rows, state = rows_of_a_log(500), replace(STATE, keyless=BY_OFFSET)
    shuffled = rows.take(pa.array([(number * 77) % 500 for number in range(500)]))
    parts = [Part.from_json(one.to_json()) for one in staged(TopicStager(str(tmp_path), 3, 4), shuffled[:450], tasks)]
    found = encode_staged(parts, shuffled[450:], str(tmp_path), state, 4, run_here)
    wanted = encode(rows, state, 4)
    assert found.records == wanted.records
    assert {place: list(batches) for place, batches in found.batches.items()} == wanted.batches
    assert len(wanted.batches) == 3


def test_rows_without_a_key_are_spread_evenly_whichever_task_has_them() -> None:
    state = replace(STATE, keyless=BY_OFFSET)
    rows = table(*((None, b"v%d" % one, one) for one in range(6000)))
    assert min(encode(rows, state, 4).records.values()) > 1500
    at = [{"time": one, "source": 0, "partition": 0, "offset": one} for one in range(6000)]
    assert encode(rows.append_column("_order", pa.array(at)), state, 4).records == {0: 2000, 1: 2000, 2: 2000}


def test_a_batch_that_an_earlier_release_may_have_begun_is_divided_as_it_divided_it(
    place: TopicPlace, tmp_path: Path
) -> None:
    """By the driver, as a whole; the next one is for tasks."""
    sink = staged_sink(place)
    sink.write(mark(0), place.batch([1]))
    note = Note(DiskFolder(LocalStorage(tmp_path), ""), "numbers.json")
    note.write({**note.read(), "keyless": BY_COUNT})
    assert sink.stager(mark(1)) is None
    sink.write(mark(1), place.batch([2]))
    assert sink.stager(mark(2)) is not None
    assert place.numbers() == [1, 2]


def test_records_of_one_key_keep_the_order_that_rows_carry(node: Node, place: TopicPlace) -> None:
    rows = table((b"k", b"z first", 1), (b"k", b"a second", 2), (b"k", None, 3))
    rows = rows.append_column("_order", pa.array([1, 2, 3])).take(pa.array([2, 0, 1]))
    opened(place).write(mark(0), rows)
    records = [record for partition in range(3) for record in node.log.read("numbers", partition)]
    assert [record.value for record in records] == [b"z first", b"a second", None]


def test_a_delete_is_followed_by_a_tombstone() -> None:
    rows = table((b"a", b"created", 1), (b"b", b"deleted", 2), (b"c", b"updated", 3))
    changes = with_tombstones(rows.append_column("_op", pa.array(["c", "d", "u"])))
    assert changes.column("_key").to_pylist() == [b"a", b"b", b"b", b"c"]
    assert changes.column("_value").to_pylist() == [b"created", b"deleted", None, b"updated"]


def test_keys_go_where_kafka_clients_send_them(node: Node, place: TopicPlace) -> None:
    opened(place).write(mark(0), place.batch(range(100)))
    for partition in range(3):
        keys = [record.key or b"" for record in node.log.read("numbers", partition)]
        assert keys
        assert {partition_of(key, 3) for key in keys} == {partition}


def test_a_batch_stopped_within_goes_on_with_the_partitions_it_began_with(node: Node, place: TopicPlace) -> None:
    """Partitions that are added between a crash and the next run would send the same key elsewhere."""
    opened(place).write(mark(0), place.batch([0]))
    assert stops(place.open(Faults(2, after=True)), mark(1), place.batch(range(1, 100)))
    node.log.add_partitions("numbers", 7)
    opened(place).write(mark(1), place.batch(range(1, 100)))
    assert place.numbers() == list(range(100))
    assert opened(place).write(mark(2), place.batch(range(100, 200)))
    assert place.numbers() == list(range(200))
    assert any(True for _ in node.log.read("numbers", 6))


def test_no_more_is_repeated_than_every_log_remembers(place: TopicPlace) -> None:
    rows = place.batch(range(400))
    state = ProducerState("j", "numbers", 7, 0, partitions=1, batch_bytes=300, compression="none")
    encoded = encode(rows, state, 0)
    parts = list(rounds(encoded.batches))
    assert sum(len(several) for part in parts for several in part.values()) == sum(map(len, encoded.batches.values()))
    assert max(len(several) for part in parts for several in part.values()) == BATCHES_PER_ROUND
    assert len(parts) > 3


def test_what_was_stored_long_ago_counts_as_stored(place: TopicPlace, tmp_path: Path) -> None:
    """Batches that went in and whose note was lost are older than the five that the log remembers."""

    class ForgetfulFolder(DiskFolder):
        def put(self, path: str, content: bytes) -> None:
            state = ProducerState.from_json(unseal(content)[0])
            if state.batch >= 0 or state.rounds == 0:
                super().put(path, content)

    folder = ForgetfulFolder(LocalStorage(tmp_path), "")
    faults = Faults(40)
    sink = TopicSink(StoppingClient(place.client, faults), "numbers", folder, batch_bytes=300)
    rows = place.batch(range(1000))
    assert stops(sink, mark(0), rows)
    assert TopicSink(place.client, "numbers", folder, batch_bytes=300).write(mark(0), rows)
    assert place.numbers() == list(range(1000))


def test_a_log_that_remembers_nothing_older_than_five_sees_nothing_older(place: TopicPlace, tmp_path: Path) -> None:
    """Apache Kafka takes an older repetition for a gap: none may ever be sent."""
    refused: list[DuplicateSequence] = []

    class StrictClient:
        def __init__(self, faults: Faults) -> None:
            self._client = StoppingClient(place.client, faults)
            self.partitions, self.init_producer_id = self._client.partitions, self._client.init_producer_id
            self.ends, self.fetch = self._client.ends, self._client.fetch

        def produce(self, batches):
            try:
                return self._client.produce(batches)
            except DuplicateSequence as error:
                refused.append(error)
                raise

    folder = DiskFolder(LocalStorage(tmp_path), "")
    rows = place.batch(range(1000))
    for step in range(3, 60, 7):
        stops(TopicSink(StrictClient(Faults(step)), "numbers", folder, batch_bytes=300), mark(0), rows)
    TopicSink(StrictClient(Faults()), "numbers", folder, batch_bytes=300).write(mark(0), rows)
    assert place.numbers() == list(range(1000))
    assert refused == []


def test_a_topic_that_does_not_exist_is_refused_before_any_batch(place: TopicPlace, tmp_path: Path) -> None:
    sink = TopicSink(place.client, "nowhere", DiskFolder(LocalStorage(tmp_path), ""))
    with pytest.raises(UnknownTopic):
        sink.prepare(place.schema, [])
    with pytest.raises(JobRefused, match="_timestamp_ms"):
        sink.prepare(place.schema.remove(2), [])


def test_sequences_start_again_after_the_last(node: Node, place: TopicPlace, tmp_path: Path) -> None:
    state = ProducerState("shop/main/1", "numbers", place.client.init_producer_id()[0], 0, 3, 500, "none",
                          sequences=dict.fromkeys(range(3), 2**31 - 5))  # fmt: skip
    Note(DiskFolder(LocalStorage(tmp_path), ""), "numbers.json").write(state.to_json())
    for batch in range(3):
        assert opened(place).write(mark(batch), place.batch(range(50 * batch, 50 * batch + 50)))
    assert place.numbers() == list(range(150))


def test_others_may_write_to_the_same_topic(node: Node, place: TopicPlace) -> None:
    opened(place).write(mark(0), place.batch([1]))
    node.log.append("numbers", Record(b"value 2", key=b"2"))
    opened(place).write(mark(1), place.batch([3]))
    assert place.numbers() == [1, 2, 3]


def test_a_record_without_a_time_is_refused(place: TopicPlace) -> None:
    rows = place.batch([1]).set_column(2, "_timestamp_ms", pa.array([None], pa.int64()))
    with pytest.raises(UnstorableValue, match="no timestamp"):
        opened(place).write(mark(0), rows)
