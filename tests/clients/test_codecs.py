"""What one client writes, every other reads: keys, headers, null values and all codecs."""

import uuid
from collections.abc import Callable
from functools import cache

import pytest

from benchmarks.raw_load import Connection
from benchmarks.raw_protocol import check_produce_response, produce_request
from headwater.log.batch_format import encode_batch
from headwater.record import Record
from tests.clients.adapters import clients_with
from tests.clients.client import Client
from tests.clients.leaders import wait_for_leaders
from tests.clients.message import CODECS, SAMPLES, Message, Producing, contents, in_partition
from tests.clients.parametrize import for_clients

NOON_MS = 1_700_000_000_000

GetClient = Callable[[str], Client]
Written = Callable[[str], tuple[str, list[Message]]]


@pytest.fixture(scope="session")
def written(get_client: GetClient) -> Written:
    """The topic that a client has written, a codec to each partition, and what it wrote to each."""

    @cache
    def write(writer: str) -> tuple[str, list[Message]]:
        client, admin, topic = get_client(writer), get_client("librdkafka"), f"by-{writer}-{uuid.uuid4().hex[:8]}"
        admin.create_topic(topic, len(CODECS))
        wait_for_leaders(admin, topic, len(CODECS))
        messages = client.sendable(SAMPLES)
        for partition, codec in enumerate(CODECS):
            client.produce(topic, in_partition(messages, partition), Producing(compression=codec))
        return topic, messages

    return write


@pytest.mark.parametrize("reader", clients_with("fetch"))
@pytest.mark.parametrize("writer", clients_with("produce"))
def test_every_client_reads_what_another_wrote(
    writer: str, reader: str, written: Written, get_client: GetClient
) -> None:
    topic, messages = written(writer)
    client = get_client(reader)
    expected = client.readable(messages)
    for partition, codec in enumerate(CODECS):
        read = contents(client.fetch(topic, partition, 0, len(messages)))
        assert read == contents(in_partition(expected, partition)), f"{codec}, written by {writer}, read by {reader}"


@pytest.fixture(scope="session")
def packed_by_headwater(get_client: GetClient, bootstrap: str) -> str:
    """A topic of batches that headwater packed itself, as a program that appends in process would have them."""
    topic = f"by-headwater-{uuid.uuid4().hex[:8]}"
    admin = get_client("librdkafka")
    admin.create_topic(topic, len(CODECS))
    wait_for_leaders(admin, topic, len(CODECS))
    records = [Record(one.value, one.key, one.headers, one.timestamp_ms or NOON_MS) for one in SAMPLES]
    connection = Connection(bootstrap)
    for partition, codec in enumerate(CODECS):
        batch = encode_batch(records, compression=codec)
        connection.send(produce_request(topic, partition, batch, acks=-1))
        check_produce_response(connection.receive())
    connection.close()
    return topic


@for_clients("fetch")
def test_every_client_reads_what_headwater_packed(client: Client, packed_by_headwater: str) -> None:
    expected = client.readable(SAMPLES)
    for partition, codec in enumerate(CODECS):
        read = contents(client.fetch(packed_by_headwater, partition, 0, len(SAMPLES)))
        assert read == contents(in_partition(expected, partition)), f"{codec}, read by {client.name}"
