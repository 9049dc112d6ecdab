"""A million records over eight partitions, read back byte-equal and in order.

The million goes through librdkafka every time; the slower clients take a hundred thousand, unless
`HEADWATER_TEST_RECORDS` says otherwise.
"""

import os
from collections.abc import Callable

import pytest

from tests.clients.client import Client
from tests.clients.numbered_values import expected_digests
from tests.clients.parametrize import for_clients

PARTITIONS = 8
RECORDS_PER_CLIENT = int(os.environ.get("HEADWATER_TEST_RECORDS", "100000"))


def writes_and_reads(client: Client, topic: str, records: int) -> None:
    count = records // PARTITIONS
    client.write_numbered(topic, PARTITIONS, count)
    assert client.read_digests(topic, PARTITIONS, count) == expected_digests(PARTITIONS, count)


@pytest.mark.parametrize("client", ["librdkafka"], indirect=True)
def test_a_million_records_come_back_equal_and_in_order(client: Client, make_topic: Callable[..., str]) -> None:
    writes_and_reads(client, make_topic(partitions=PARTITIONS), 1_000_000)


@for_clients("write_numbered", "read_digests")
def test_every_client_reads_long_partitions_equal_and_in_order(client: Client, make_topic: Callable[..., str]) -> None:
    writes_and_reads(client, make_topic(partitions=PARTITIONS), RECORDS_PER_CLIENT)
