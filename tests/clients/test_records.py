"""Records: what is produced is fetched, byte for byte, in order, whatever a record may be."""

import threading
from collections.abc import Callable

import pytest

from tests.clients.client import EARLIEST, LATEST, MESSAGE_TOO_LARGE, OFFSET_OUT_OF_RANGE, Client, Refused
from tests.clients.message import (
    CODECS,
    MEBIBYTE,
    SAMPLES,
    Message,
    Producing,
    Receipt,
    contents,
    in_partition,
    numbered,
)
from tests.clients.parametrize import for_clients

SIZES = (1, 2, 63, 64, 127, 128, 1000, 8191, 16_384, 65_535, 300_000, MEBIBYTE)


@for_clients("produce", "fetch")
@pytest.mark.parametrize("codec", CODECS)
def test_what_is_written_is_read_back(client: Client, topic: str, codec: str) -> None:
    messages = client.sendable(SAMPLES)
    client.produce(topic, messages, Producing(compression=codec))
    assert contents(client.fetch(topic, 0, 0, len(messages))) == contents(messages)


@for_clients("produce", "fetch")
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_records_from_a_byte_to_a_mebibyte(client: Client, make_topic: Callable[..., str], codec: str) -> None:
    topic = make_topic(max_message_bytes=str(4 * MEBIBYTE))
    messages = [Message(bytes([65 + index]) * size) for index, size in enumerate(SIZES)]
    client.produce(topic, messages, Producing(compression=codec))
    assert contents(client.fetch(topic, 0, 0, len(messages))) == messages


@for_clients("produce", "fetch", "timestamps")
def test_timestamps_are_kept_to_the_millisecond(client: Client, topic: str) -> None:
    times = [1_500_000_000_123, 1_400_000_000_000, 1_500_000_000_124, 1]
    client.produce(topic, [Message(b"x", timestamp_ms=time) for time in times])
    assert [message.timestamp_ms for message in client.fetch(topic, 0, 0, 4)] == times


@for_clients("produce", "fetch", "timestamps")
def test_the_broker_stamps_a_topic_of_append_time(client: Client, make_topic: Callable[..., str]) -> None:
    topic = make_topic(message_timestamp_type="LogAppendTime")
    client.produce(topic, [Message(b"x", timestamp_ms=1_400_000_000_000)] * 3)
    times = [message.timestamp_ms for message in client.fetch(topic, 0, 0, 3)]
    assert all(time is not None and time > 1_600_000_000_000 for time in times)


@for_clients("produce", "fetch")
@pytest.mark.parametrize("acks", [0, 1, -1])
def test_records_arrive_whatever_acknowledgement_is_asked(client: Client, topic: str, acks: int) -> None:
    client.produce(topic, numbered(50), Producing(acks=acks))
    assert contents(client.fetch(topic, 0, 0, 50)) == numbered(50)


@for_clients("produce", "fetch")
def test_an_idempotent_producer_writes_once_and_in_order(client: Client, make_topic: Callable[..., str]) -> None:
    topic = make_topic(partitions=2)
    client.produce(topic, numbered(200, 0) + numbered(200, 1), Producing(idempotent=True))
    client.produce(topic, numbered(10, 0), Producing(idempotent=True))
    assert contents(client.fetch(topic, 0, 0, 210)) == numbered(200) + numbered(10)
    assert contents(client.fetch(topic, 1, 0, 200)) == numbered(200, 1)


@for_clients("produce", "receipts")
def test_a_receipt_names_the_position_of_its_record(client: Client, make_topic: Callable[..., str]) -> None:
    topic = make_topic(partitions=2)
    client.produce(topic, numbered(3, 1))
    receipts = client.produce(topic, [*numbered(2, 0), *numbered(2, 1)])
    assert receipts == [Receipt(0, 0), Receipt(0, 1), Receipt(1, 3), Receipt(1, 4)]


@for_clients("fetch")
def test_reading_starts_at_any_offset(client: Client, admin: Client, topic: str) -> None:
    admin.produce(topic, numbered(100))
    read = client.fetch(topic, 0, 73, 27)
    assert contents(read) == numbered(100)[73:]
    assert [message.offset for message in read] == list(range(73, 100))


@for_clients("fetch")
def test_reading_starts_inside_a_compressed_batch(client: Client, admin: Client, topic: str) -> None:
    admin.produce(topic, numbered(100), Producing(compression="lz4"))
    assert contents(client.fetch(topic, 0, 55, 45)) == numbered(100)[55:]


@for_clients("fetch")
def test_a_reader_at_the_end_gets_what_comes(client: Client, admin: Client, topic: str) -> None:
    admin.produce(topic, numbered(1))
    later = threading.Timer(0.7, admin.produce, [topic, [Message(b"later")]])
    later.start()
    read = client.fetch(topic, 0, 1, 1)
    later.join()
    assert contents(read) == [Message(b"later")]


@for_clients("fetch")
def test_an_offset_beyond_the_end_is_out_of_range(client: Client, admin: Client, topic: str) -> None:
    admin.produce(topic, numbered(3))
    with pytest.raises(Refused) as refused:
        client.fetch(topic, 0, 1000, 1)
    assert refused.value.code == OFFSET_OUT_OF_RANGE


@for_clients("produce", "refusals")
def test_a_record_larger_than_the_topic_takes_is_refused(
    client: Client, admin: Client, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(max_message_bytes="5000")
    with pytest.raises(Refused) as refused:
        client.produce(topic, [Message(b"x" * 20_000)])
    assert refused.value.code == MESSAGE_TOO_LARGE
    assert admin.offset_at(topic, 0, LATEST) == 0


@for_clients("delete_records")
def test_deleted_records_move_the_start(client: Client, admin: Client, topic: str) -> None:
    admin.produce(topic, numbered(10))
    assert client.delete_records(topic, 0, 4) == 4
    assert admin.offset_at(topic, 0, EARLIEST) == 4
    assert contents(admin.fetch(topic, 0, 4, 6)) == numbered(10)[4:]
    with pytest.raises(Refused) as refused:
        admin.fetch(topic, 0, 3, 1)
    assert refused.value.code == OFFSET_OUT_OF_RANGE


@for_clients("delete_records")
def test_all_records_can_be_deleted_and_offsets_continue(client: Client, admin: Client, topic: str) -> None:
    admin.produce(topic, numbered(10))
    assert client.delete_records(topic, 0, -1) == 10
    admin.produce(topic, [Message(b"next")])
    assert [message.offset for message in admin.fetch(topic, 0, 10, 1)] == [10]


@for_clients("delete_records")
def test_records_beyond_the_end_cannot_be_deleted(client: Client, admin: Client, topic: str) -> None:
    admin.produce(topic, numbered(3))
    with pytest.raises(Refused) as refused:
        client.delete_records(topic, 0, 4)
    assert refused.value.code == OFFSET_OUT_OF_RANGE


@for_clients("fetch")
def test_partitions_are_separate(client: Client, admin: Client, make_topic: Callable[..., str]) -> None:
    topic = make_topic(partitions=3)
    admin.produce(topic, [*numbered(5, 0), *in_partition(numbered(7), 2)])
    assert contents(client.fetch(topic, 2, 0, 7)) == numbered(7, 2)
    assert contents(client.fetch(topic, 0, 0, 5)) == numbered(5, 0)
