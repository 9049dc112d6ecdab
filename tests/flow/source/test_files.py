import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headwater.flow.kafka.client import LATEST, Client
from headwater.flow.source.batch_plan.admission import Loss
from headwater.flow.source.reach import Reach
from headwater.flow.source.record_batches.files import Chunk, divided, read_files
from headwater.flow.source.record_batches.reading import read_range
from headwater.flow.source.record_batches.records import decode_batches
from headwater.flow.source.splitting import Range
from headwater.log.log import Log
from headwater.node import Node
from headwater.record import Record, TopicPartition
from headwater.testing import running_node
from tests.clients.brokers.process import free_port
from tests.flow.source.writing import order, write

SMALL = {"segment.bytes": "4096", "index.interval.bytes": "300"}


@pytest.fixture
def node() -> Iterator[Node]:
    with running_node() as node:
        yield node


def fill(log: Log, topic: str, count: int, *, keys: int = 0, first: int = 0) -> None:
    for row in range(first, first + count):
        key = b"%d" % (row % keys) if keys else None
        log.append(topic, Record(b"value %d" % row, key, (), 1000 + row), durable=False)
    log.partition(topic, 0).make_durable(log.partition(topic, 0).end_offset)


def offsets_in(chunks: Iterator[Chunk], end: int) -> list[int]:
    return [
        offset
        for chunk in chunks
        if len(chunk.data)
        for offset in decode_batches(
            chunk.data, chunk.first, min(end, chunk.next_offset), headers=False
        ).offsets.tolist()
    ]


@pytest.mark.parametrize("chunk_bytes", [80, 1000, 2**20])
@pytest.mark.parametrize("first, end", [(0, 300), (0, 1), (57, 58), (100, 251), (299, 300), (7, 7)])
def test_every_record_of_a_range_comes_once(node: Node, first: int, end: int, chunk_bytes: int) -> None:
    node.log.create_topic("orders", configs=SMALL)
    fill(node.log, "orders", 300)
    folder = node.data / "orders-0"
    assert len(list(folder.glob("*.log"))) > 3
    assert offsets_in(read_files(folder, first, end, chunk_bytes=chunk_bytes), end) == list(range(first, end))


def test_a_batch_that_goes_beyond_the_end_is_trimmed(node: Node) -> None:
    node.log.create_topic("orders")
    node.log.append("orders", [Record(b"x", None, (), 5)] * 10)
    assert offsets_in(read_files(node.data / "orders-0", 3, 6), 6) == [3, 4, 5]


def test_an_index_that_lies_costs_no_record(node: Node) -> None:
    node.log.create_topic("orders", configs=SMALL)
    fill(node.log, "orders", 300)
    for index in (node.data / "orders-0").glob("*.index"):
        index.write_bytes(bytes(range(256)) * 4)
    assert offsets_in(read_files(node.data / "orders-0", 100, 200), 200) == list(range(100, 200))


def test_files_that_are_not_there_give_nothing(tmp_path: Path) -> None:
    assert list(read_files(tmp_path / "nowhere-0", 0, 10)) == []
    (tmp_path / "empty-0").mkdir()
    assert list(read_files(tmp_path / "empty-0", 0, 10)) == []


def test_a_segment_missing_in_the_middle_ends_the_reading_there(node: Node) -> None:
    node.log.create_topic("orders", configs=SMALL)
    fill(node.log, "orders", 300)
    second, third = sorted((node.data / "orders-0").glob("*.log"))[1:3]
    second.rename(second.with_suffix(".away"))
    assert offsets_in(read_files(node.data / "orders-0", 0, 300), 300) == list(range(int(second.stem)))
    second.with_suffix(".away").rename(second)
    assert int(third.stem) < 300


def test_zeros_behind_the_last_batch_are_not_taken_for_records(node: Node) -> None:
    node.log.create_topic("orders")
    fill(node.log, "orders", 5)
    [file] = (node.data / "orders-0").glob("*.log")
    with file.open("ab") as torn:
        torn.write(bytes(500))
    assert offsets_in(read_files(node.data / "orders-0", 0, 9), 9) == [0, 1, 2, 3, 4]


def test_what_retention_took_from_the_files_is_asked_of_the_node_and_accounted(node: Node) -> None:
    node.log.create_topic("orders", configs=SMALL)
    fill(node.log, "orders", 300)
    node.log.partition("orders", 0).delete_records(200)
    node.log.maintain()
    with closing(Reach(node.kafka_address, None)) as reach:
        found = list(read_range(Range("orders", 0, 0, 300), reach, data=node.data, account_losses=True))
    lost = sum(one.end - one.first for one in found if not isinstance(one, Chunk))
    read = offsets_in((one for one in found if isinstance(one, Chunk)), 300)
    assert lost + len(read) == 300
    assert read == list(range(300 - len(read), 300))
    assert lost > 50


def test_reading_beside_compaction_and_rolling_misses_nothing_that_stays(node: Node) -> None:
    configs = {**SMALL, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    node.log.create_topic("users", configs=configs)
    fill(node.log, "users", 400, keys=50)
    ended = threading.Event()

    def churn() -> None:
        first = 400
        while not ended.is_set():
            fill(node.log, "users", 50, keys=50, first=first)
            node.log.maintain()
            first += 50

    writer = threading.Thread(target=churn)
    writer.start()
    rounds = []
    try:
        with closing(Reach(node.kafka_address, None)) as reach:
            for _ in range(25):
                end = node.log.partition("users", 0).high_watermark
                chunks = read_range(Range("users", 0, 0, end), reach, data=node.data, account_losses=False)
                rounds.append((end, offsets_in((one for one in chunks if isinstance(one, Chunk)), end)))
    finally:
        ended.set()
        writer.join()
    for end, offsets in rounds:
        assert offsets == sorted(set(offsets))
        assert offsets[-1] < end
    total = node.log.partition("users", 0).high_watermark
    with closing(Reach(node.kafka_address, None)) as reach:
        chunks = read_range(Range("users", 0, 0, total), reach, data=node.data, account_losses=False)
        offsets = offsets_in((one for one in chunks if isinstance(one, Chunk)), total)
    assert set(range(total - 50, total)) <= set(offsets)
    assert len(offsets) < total / 2, "compaction must have had its chance"


def test_every_round_beside_compaction_sees_the_newest_record_of_each_key(node: Node) -> None:
    configs = {**SMALL, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    node.log.create_topic("users", configs=configs)
    fill(node.log, "users", 400, keys=40)
    ended = threading.Event()

    def compact() -> None:
        while not ended.is_set():
            node.log.maintain()

    upkeep = threading.Thread(target=compact)
    upkeep.start()
    try:
        with closing(Reach(node.kafka_address, None)) as reach:
            for round_ in range(20):
                fill(node.log, "users", 40, keys=40, first=400 + 40 * round_)
                end = 440 + 40 * round_
                chunks = read_range(Range("users", 0, 0, end), reach, data=node.data, account_losses=False)
                offsets = offsets_in((one for one in chunks if isinstance(one, Chunk)), end)
                assert set(range(end - 40, end)) <= set(offsets)
                assert offsets == sorted(set(offsets))
    finally:
        ended.set()
        upkeep.join()


@pytest.mark.parametrize("compression", ["none", "zstd"])
@pytest.mark.parametrize("unpacked_bytes", [1, 500, 10**9])
def test_a_chunk_is_divided_between_batches_without_a_gap(node: Node, compression: str, unpacked_bytes: int) -> None:
    node.log.create_topic("orders")
    for _ in range(10):
        node.log.append("orders", [Record(b"x" * 50, None, (), 5)] * 5, compression=compression)
    [chunk] = read_files(node.data / "orders-0", 3, 48)
    pieces = list(divided(chunk, unpacked_bytes=unpacked_bytes))
    assert offsets_in(iter(pieces), 48) == list(range(3, 48))
    assert (len(pieces) == 1) == (unpacked_bytes == 10**9)


def test_files_are_read_while_the_node_is_dead_and_after_it_was_killed(tmp_path: Path) -> None:
    port = free_port()
    process = launch_node(tmp_path, port)
    try:
        with closing(Client(f"127.0.0.1:{port}")) as client:
            client.create_topic("orders", configs=SMALL)
            write(f"127.0.0.1:{port}", "orders", {0: map(order, range(500))}, batch_bytes=500)
            end = client.offsets({TopicPartition("orders", 0): LATEST})[TopicPartition("orders", 0)]
    finally:
        process.kill()
        process.wait()
    assert end == 500
    folder = tmp_path / "orders-0"
    assert offsets_in(read_files(folder, 0, end), end) == list(range(500))
    with running_node(tmp_path):
        assert offsets_in(read_files(folder, 0, end), end) == list(range(500))


def launch_node(data: Path, port: int) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.crash.node_process", str(data), str(port)], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    return process


def test_reading_beside_retention_accounts_for_every_row(node: Node) -> None:
    node.log.create_topic("orders", configs=SMALL)
    fill(node.log, "orders", 2000)

    def forget() -> None:
        for before in range(0, 1800, 20):
            node.log.partition("orders", 0).delete_records(before)
            node.log.maintain()

    upkeep = threading.Thread(target=forget)
    upkeep.start()
    try:
        with closing(Reach(node.kafka_address, None)) as reach:
            while upkeep.is_alive():
                found = list(read_range(Range("orders", 0, 0, 2000), reach, data=node.data, account_losses=True))
                lost = sum(one.end - one.first for one in found if isinstance(one, Loss))
                read = offsets_in((one for one in found if isinstance(one, Chunk)), 2000)
                assert lost + len(read) == 2000
                assert read == sorted(set(read))
    finally:
        upkeep.join()
    assert lost > 0


def test_what_is_only_in_the_archive_is_read_through_the_node(node: Node) -> None:
    configs = {**SMALL, "remote.storage.enable": "true", "local.retention.bytes": "5000"}
    node.log.create_topic("orders", configs=configs)
    fill(node.log, "orders", 500)
    node.log.maintain()
    assert min(int(file.stem) for file in (node.data / "orders-0").glob("*.log")) > 100
    with closing(Reach(node.kafka_address, None)) as reach:
        chunks = list(read_range(Range("orders", 0, 0, 500), reach, data=node.data, account_losses=False))
    assert offsets_in((one for one in chunks if isinstance(one, Chunk)), 500) == list(range(500))
