import io
from typing import Any
from uuid import UUID

import pytest
from kio.index import load_response_schema
from kio.schema.fetch.v18.request import ReplicaState
from kio.schema.types import BrokerId
from kio.serial import entity_reader as kio_reader
from kio.serial import entity_writer
from kio.static.primitive import i64

from headwater.wire.protocol.fetch import (
    CONSUMER,
    LEADER_EPOCH_FROM,
    REPLICA_STATE_FROM,
    SESSIONS_FROM,
    START_OFFSET_FROM,
    TOPIC_IDS_FROM,
    VERSIONS,
    FetchRequest,
    FetchResponse,
    PartitionAnswer,
    TopicAnswer,
    read_request,
    write_response,
)
from headwater.wire.protocol.reader import decode
from tests.wire.requests import fetch

ID = UUID(int=77)


def topic_in(version: int) -> str | UUID:
    return ID if version >= TOPIC_IDS_FROM else "orders"


def read_back(request: Any, version: int) -> FetchRequest:
    buffer = io.BytesIO()
    entity_writer(type(request))(buffer, request)
    return decode(lambda reader: read_request(reader, version), memoryview(buffer.getvalue()))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_is_read_in_every_version(version: int) -> None:
    topic = topic_in(version)
    request = read_back(
        fetch(
            topic, {3: 40, 5: 0}, version=version, wait_ms=500, bytes_min=7, bytes_max=99, partition_bytes_max=55,
            session=(12, 3), leader_epoch=2, isolation_level=1,
        ),
        version,
    )  # fmt: skip
    assert request.replica_id == CONSUMER
    assert (request.wait_ms_max, request.bytes_min, request.bytes_max, request.committed_only) == (500, 7, 99, True)
    assert (request.session_id, request.session_epoch) == ((12, 3) if version >= SESSIONS_FROM else (0, -1))
    epoch = 2 if version >= LEADER_EPOCH_FROM else -1
    assert request.topics == [(topic, [(3, epoch, 40, 55), (5, epoch, 0, 55)])]


def test_forgotten_partitions_are_read() -> None:
    request = read_back(fetch(None, version=12, forget={"old": (1, 2)}), 12)
    assert request.forgotten == [("old", [1, 2])]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_broker_shows_itself_in_every_version(version: int) -> None:
    sign = (
        {"replica_state": ReplicaState(replica_id=BrokerId(4), replica_epoch=i64(1))}
        if version >= REPLICA_STATE_FROM
        else {"replica_id": 4}
    )
    assert read_back(fetch(topic_in(version), version=version, **sign), version).replica_id == 4


@pytest.mark.parametrize("version", VERSIONS)
def test_a_response_reads_the_same_with_kio_in_every_version(version: int) -> None:
    answers = [
        PartitionAnswer(0, 0, 90, 3, [b"batch one", b"batch two"], 18, 80),
        PartitionAnswer[bytes](1, 1),
    ]
    response = FetchResponse([TopicAnswer(topic_in(version), answers)], 0, 12)
    parts = write_response(response, version)
    assert b"batch one" in parts, "records stay what they were given as"
    data = b"".join(parts)
    response_type: Any = load_response_schema(1, version)
    read, size = kio_reader(response_type)(data, 0)
    assert size == len(data)
    first, second = read.responses[0].partitions
    assert (first.partition_index, first.error_code, first.high_watermark, first.last_stable_offset) == (0, 0, 90, 80)
    assert first.records == b"batch onebatch two"
    assert first.aborted_transactions is None
    assert (second.partition_index, second.error_code, second.high_watermark, second.records) == (1, 1, -1, b"")
    if version >= SESSIONS_FROM:
        assert read.session_id == 12
    if version >= START_OFFSET_FROM:
        assert first.log_start_offset == 3


@pytest.mark.parametrize("version", VERSIONS)
def test_a_reader_of_committed_records_is_given_the_aborted_transactions(version: int) -> None:
    answer = PartitionAnswer[bytes](0, aborted=[(7, 40), (9, 55)])
    response: FetchResponse[Any] = FetchResponse([TopicAnswer(topic_in(version), [answer])], 0, 0, True)
    data = b"".join(write_response(response, version))
    response_type: Any = load_response_schema(1, version)
    read = kio_reader(response_type)(data, 0)[0].responses[0].partitions[0]
    assert [(one.producer_id, one.first_offset) for one in read.aborted_transactions] == [(7, 40), (9, 55)]


def test_a_reader_of_committed_records_gets_an_empty_list_of_aborted_ones() -> None:
    response: FetchResponse[Any] = FetchResponse([TopicAnswer("a", [PartitionAnswer[bytes](0)])], 0, 0, True)
    data = b"".join(write_response(response, 12))
    response_type: Any = load_response_schema(1, 12)
    assert kio_reader(response_type)(data, 0)[0].responses[0].partitions[0].aborted_transactions == ()
