import threading
from typing import Any
from uuid import uuid4

import pytest
from kio.schema.errors import ErrorCode

from headwater.log.batch_format import TRANSACTIONAL_FLAG, encode_batch, flagged
from headwater.log.partition import Partition
from headwater.log.transactions.markers import Marker, marker_batch
from headwater.log.transactions.transaction import ProducerIdentity
from headwater.record import Record
from headwater.wire.protocol.produce import TOPIC_IDS_FROM, VERSIONS
from tests.log.bombs import bomb
from tests.waiting import LONG
from tests.wire.raw_client import RawClient, batch
from tests.wire.requests import produce
from tests.wire.running import RunningServer


def in_transaction() -> bytes:
    one = encode_batch([Record(b"a", timestamp_ms=0)], producer_id=1, producer_epoch=0, base_sequence=0)
    return bytes(flagged(one, TRANSACTIONAL_FLAG))


def only(response: Any) -> Any:
    (topic,) = response.responses
    (partition,) = topic.partition_responses
    return partition


def values(server: RunningServer, topic: str = "orders", partition: int = 0) -> list[bytes | None]:
    return [record.value for record in server.log.read(topic, partition)]


@pytest.fixture(autouse=True)
def orders(server: RunningServer) -> None:
    server.log.create_topic("orders", partitions=3)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("acks", [1, -1])
def test_a_batch_is_stored_in_every_version(server: RunningServer, client: RawClient, version: int, acks: int) -> None:
    topic = server.log.topic("orders").id if version >= TOPIC_IDS_FROM else "orders"
    first = client.call(produce(topic, batch(b"a", b"b"), version=version, acks=acks))
    second = client.call(produce(topic, batch(b"c"), version=version, acks=acks))
    assert [only(answer).base_offset for answer in (first, second)] == [0, 2]
    assert values(server) == [b"a", b"b", b"c"]


def test_partitions_of_one_request_are_answered_in_its_order(server: RunningServer, client: RawClient) -> None:
    response = client.call(produce("orders", batch(b"a"), b"", batch(b"c")))
    codes = [(part.index, part.error_code) for part in response.responses[0].partition_responses]
    assert codes == [(0, ErrorCode.none), (1, ErrorCode.invalid_record), (2, ErrorCode.none)]
    assert [values(server, partition=number) for number in range(3)] == [[b"a"], [], [b"c"]]


def test_an_acked_batch_of_acks_all_is_durable(server: RunningServer, client: RawClient) -> None:
    client.call(produce("orders", batch(b"a")))
    assert server.log.partition("orders", 0).durable_end_offset == 1


def test_without_acks_there_is_no_answer(server: RunningServer, client: RawClient) -> None:
    client.send_request(produce("orders", batch(b"a"), acks=0))
    response = client.call(produce("orders", batch(b"b"), acks=1))
    assert only(response).base_offset == 1


def test_a_batch_without_acks_is_stored_although_its_sender_disconnected(
    server: RunningServer, client: RawClient
) -> None:
    for number in range(20):
        client.send_request(produce("orders", batch(b"%d" % number), acks=0))
    client.close()
    assert [record.value for record in _first(server, 20)] == [b"%d" % number for number in range(20)]


def _first(server: RunningServer, count: int) -> list[Record]:
    follower = server.log.follow("orders", offset=0, timeout=LONG)
    return [next(follower) for _ in range(count)]


def test_an_error_without_acks_closes_the_connection(client: RawClient) -> None:
    client.send_request(produce("nowhere", batch(b"a"), acks=0))
    assert client.closed()


@pytest.mark.parametrize(
    "why, request_, code",
    [
        ("unknown topic", produce("nowhere", batch(b"a")), ErrorCode.unknown_topic_or_partition),
        ("unknown partition", produce("orders", batch(b"a"), first_partition=9), ErrorCode.unknown_topic_or_partition),
        ("unknown id", produce(uuid4(), batch(b"a"), version=13), ErrorCode.unknown_topic_id),
        ("no batch", produce("orders", None), ErrorCode.invalid_record),
        ("two batches", produce("orders", batch(b"a") + batch(b"b")), ErrorCode.corrupt_message),
        ("broken batch", produce("orders", batch(b"a")[:-1] + b"?"), ErrorCode.corrupt_message),
        ("short batch", produce("orders", batch(b"a")[:30]), ErrorCode.corrupt_message),
        ("old format", produce("orders", bytes(16) + b"\x01" + bytes(60)), ErrorCode.unsupported_for_message_format),
        ("too large", produce("orders", batch(bytes(2_000_000))), ErrorCode.message_too_large),
        ("strange acks", produce("orders", batch(b"a"), acks=7), ErrorCode.invalid_required_acks),
        ("marker", produce("orders", bytes(marker_batch(Marker(ProducerIdentity(1, 0), True), now_ms=0))),
         ErrorCode.transactional_id_authorization_failed),
        ("marker in a transaction",
         produce("orders", bytes(marker_batch(Marker(ProducerIdentity(1, 0), True), now_ms=0)), transactional_id="t"),
         ErrorCode.invalid_producer_id_mapping),
        ("no transaction", produce("orders", in_transaction()), ErrorCode.transactional_id_authorization_failed),
        ("unknown transaction", produce("orders", in_transaction(), transactional_id="t"),
         ErrorCode.invalid_producer_id_mapping),
    ],
)  # fmt: skip
def test_what_cannot_be_stored_is_refused_with_its_reason(
    server: RunningServer, client: RawClient, why: str, request_: Any, code: ErrorCode
) -> None:
    answer = only(client.call(request_))
    assert answer.error_code is code
    assert answer.error_message
    assert client.call(produce("orders", batch(b"next"))), "the connection stays"


def test_the_topic_of_committed_offsets_is_not_written_by_clients(server: RunningServer, client: RawClient) -> None:
    server.log.create_topic("__consumer_offsets")
    answer = only(client.call(produce("__consumer_offsets", batch(b"a"))))
    assert answer.error_code is ErrorCode.invalid_topic_exception


def test_a_gap_in_a_producers_numbers_is_refused(client: RawClient) -> None:
    client.call(produce("orders", batch(b"a", producer_id=4, producer_epoch=0, base_sequence=0)))
    answer = only(client.call(produce("orders", batch(b"b", producer_id=4, producer_epoch=0, base_sequence=5))))
    assert answer.error_code is ErrorCode.out_of_order_sequence_number


def test_a_batch_sent_again_has_its_first_offset(server: RunningServer, client: RawClient) -> None:
    once = batch(b"a", producer_id=4, producer_epoch=0, base_sequence=0)
    client.call(produce("orders", batch(b"before")))
    answers = [only(client.call(produce("orders", once))) for _ in range(2)]
    assert [(answer.error_code, answer.base_offset) for answer in answers] == [(0, 1), (0, 1)]
    assert values(server) == [b"before", b"a"]


def test_a_full_topic_that_rejects_says_so(server: RunningServer, client: RawClient) -> None:
    server.log.create_topic("small", configs={"retention.bytes": "200", "headwater.full.policy": "reject"})
    client.call(produce("small", batch(bytes(100))))
    answer = only(client.call(produce("small", batch(bytes(100)))))
    assert answer.error_code is ErrorCode.policy_violation
    assert "full" in answer.error_message


def test_a_full_topic_that_blocks_lets_its_producer_wait_and_then_say_so(
    server: RunningServer, client: RawClient
) -> None:
    server.log.create_topic("small", configs={"retention.bytes": "200", "headwater.full.policy": "block"})
    client.call(produce("small", batch(bytes(100))))
    answer = only(client.call(produce("small", batch(bytes(100)), timeout_ms=1000)))
    assert answer.error_code is ErrorCode.request_timed_out


def test_a_producer_that_waits_continues_when_there_is_room(server: RunningServer, client: RawClient) -> None:
    server.log.create_topic("small", configs={"retention.bytes": "200", "headwater.full.policy": "block"})
    client.call(produce("small", batch(bytes(100))))
    sent = client.send_request(produce("small", batch(b"late"), timeout_ms=20_000))
    threading.Timer(0.2, lambda: server.log.alter_topic("small", {"retention.bytes": "10000"})).start()
    answered, response = client.receive_response(0, 9)
    assert answered == sent
    assert only(response).base_offset == 1


def test_requests_are_stored_in_order_while_earlier_ones_wait_for_their_sync(
    server: RunningServer, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = server.log.partition("orders", 0)
    may_sync, stored = threading.Event(), threading.Event()
    real_sync, real_append = Partition.make_durable, Partition.append

    def sync(self: Partition, end: int) -> None:
        assert may_sync.wait(LONG)
        real_sync(self, end)

    def append(self: Partition, *args: object, **named: object) -> object:
        appended = real_append(self, *args, **named)  # type: ignore[arg-type]
        if appended.last_offset == 4:
            stored.set()
        return appended

    monkeypatch.setattr(Partition, "make_durable", sync)
    monkeypatch.setattr(Partition, "append", append)
    sent = [client.send_request(produce("orders", batch(b"%d" % number))) for number in range(5)]
    assert stored.wait(LONG), "all are stored although none is durable"
    assert partition.high_watermark == 0, "and none is visible"
    may_sync.set()
    responses = [client.receive_response(0, 9) for _ in sent]
    assert [answered for answered, _ in responses] == sent
    assert [only(response).base_offset for _, response in responses] == list(range(5))


def test_records_of_a_disconnected_client_become_visible_all_the_same(server: RunningServer, client: RawClient) -> None:
    client.send_request(produce("orders", batch(b"a")))
    client.close()
    assert _first(server, 1)[0].value == b"a"


@pytest.mark.parametrize("codec, version", [("gzip", 3), ("snappy", 8), ("lz4", 13), ("zstd", 9)])
def test_a_small_batch_that_unpacks_to_a_great_deal_is_refused(
    server: RunningServer, client: RawClient, codec: str, version: int
) -> None:
    topic = server.log.topic("orders").id if version >= TOPIC_IDS_FROM else "orders"
    packed = bytes(bomb(40 * 1024**2, codec))
    server.log.alter_topic("orders", {"max.message.bytes": str(2 * len(packed))})
    refused = only(client.call(produce(topic, packed, version=version)))
    assert refused.error_code is ErrorCode.message_too_large
    assert refused.base_offset == -1
    if version >= 8:
        assert "unpacks to more" in (refused.error_message or "")
    assert values(server) == []
    # The connection and the partition go on.
    assert only(client.call(produce(topic, batch(b"a"), version=version))).error_code is ErrorCode.none


def test_beside_a_bomb_the_other_partitions_of_a_request_are_stored(server: RunningServer, client: RawClient) -> None:
    response = client.call(produce("orders", batch(b"a"), bytes(bomb(40 * 1024**2, "zstd")), batch(b"c")))
    codes = [part.error_code for part in response.responses[0].partition_responses]
    assert codes == [ErrorCode.none, ErrorCode.message_too_large, ErrorCode.none]
    assert [values(server, partition=number) for number in range(3)] == [[b"a"], [], [b"c"]]
