"""A disk that fails, as clients see it."""

import errno
from typing import Any

from kio.schema.errors import ErrorCode

from headwater.log.batch_format import read_header
from headwater.log.storage.simulated import Fault, SimulatedDisk
from headwater.record import Record
from tests.waiting import patience
from tests.wire.handlers.test_create_topics import create
from tests.wire.handlers.test_fetch import batches
from tests.wire.raw_client import RawClient, batch
from tests.wire.requests import fetch, produce
from tests.wire.running import running_server


def only(response: Any) -> Any:
    return response.responses[0].partition_responses[0]


def read(client: RawClient, offset: int = 0) -> Any:
    return client.call(fetch("orders", {0: offset})).responses[0].partitions[0]


def test_a_full_disk_is_reported_at_once_reads_continue_and_service_returns_with_the_space() -> None:
    disk = SimulatedDisk()
    with running_server(storage=disk) as server, RawClient(server.host, server.port) as client:
        server.log.create_topic("orders")
        client.call(produce("orders", batch(b"before")))
        disk.fail(Fault(["write"], code=errno.ENOSPC, sticky=True, path_part="orders-0"))
        begun = patience()
        refused = only(client.call(produce("orders", batch(b"during"))))
        assert patience() - begun < 1
        assert refused.error_code is ErrorCode.kafka_storage_error
        assert "no space left" in refused.error_message
        assert b"before" in read(client).records
        disk.heal()
        assert only(client.call(produce("orders", batch(b"after")))).base_offset == 1
        assert [record.value for record in server.log.read("orders")] == [b"before", b"after"]


def test_a_failed_sync_acknowledges_nothing_then_or_later() -> None:
    disk = SimulatedDisk()
    with running_server(storage=disk) as server, RawClient(server.host, server.port) as client:
        server.log.create_topic("orders")
        client.call(produce("orders", batch(b"before")))
        disk.fail(Fault(["sync"], path_part="orders-0"))
        for acks in (-1, -1, 1):
            refused = only(client.call(produce("orders", batch(b"during"), acks=acks)))
            assert refused.error_code is ErrorCode.kafka_storage_error
            assert refused.error_code.retriable
        assert read(client).high_watermark == 1


def test_a_topic_that_the_disk_cannot_hold_is_refused() -> None:
    disk = SimulatedDisk()
    with running_server(storage=disk) as server, RawClient(server.host, server.port) as client:
        disk.fail(Fault(["create", "write"], code=errno.ENOSPC, sticky=True))
        (refused,) = client.call(create("orders")).topics
        assert refused.error_code is ErrorCode.kafka_storage_error
        assert server.log.topics() == []


def test_records_after_a_damaged_batch_stay_readable() -> None:
    disk = SimulatedDisk()
    with running_server(storage=disk) as server:
        server.log.create_topic("orders")
        for number in range(3):
            server.log.append("orders", Record(b"value %d" % number * 100))
        path = next(f"orders-0/{name}" for name in disk.list("orders-0") if name.endswith(".log"))
        size = disk.size(path)
    disk.flip_bit(path, size // 2 * 8)
    with running_server(storage=disk) as server, RawClient(server.host, server.port) as client:
        first = read(client, 0)
        second = read(client, 1)
        assert (first.error_code, second.error_code) == (ErrorCode.none, ErrorCode.none)
        assert [read_header(whole).base_offset for whole in batches(first.records)] == [0]
        assert [read_header(whole).base_offset for whole in batches(second.records)] == [2]
