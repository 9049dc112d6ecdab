"""Transactions with the clients that people use. The wire's own words are in test_transaction_codes.py."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.clients.brokers.headwater_node import start_headwater
from tests.clients.client import Client, Refused
from tests.clients.conftest import GetClient
from tests.clients.parametrize import for_clients
from tests.clients.transactional import FENCED, Transactional

Open = Callable[..., Transactional]


@pytest.fixture
def begin(client: Client, name: str) -> Iterator[Open]:
    """A producer under the test's transactional id, with a transaction begun; they are closed at the end."""
    opened: list[Transactional] = []

    def start(*, timeout_s: float = 60, id: str = "") -> Transactional:
        opened.append(client.transactional(f"{name}{id}", timeout_s=timeout_s))
        opened[-1].begin()
        return opened[-1]

    yield start
    for one in opened:
        one.close()


def values(client: Client, topic: str, *, committed: bool = True) -> list[bytes]:
    return client.read_to_end(topic, 0, committed=committed)


@for_clients("transactional")
def test_what_is_committed_is_seen_and_not_before(client: Client, topic: str, begin: Open) -> None:
    producer = begin()
    producer.send(topic, [b"1", b"2"])
    assert values(client, topic) == []
    assert values(client, topic, committed=False) == [b"1", b"2"]
    producer.commit()
    assert values(client, topic) == [b"1", b"2"]


@for_clients("transactional")
def test_what_is_aborted_is_seen_only_by_readers_of_the_uncommitted(client: Client, topic: str, begin: Open) -> None:
    producer = begin()
    producer.send(topic, [b"1"])
    producer.abort()
    producer.begin()
    producer.send(topic, [b"2"])
    producer.commit()
    assert values(client, topic) == [b"2"]
    assert values(client, topic, committed=False) == [b"1", b"2"]


@for_clients("transactional")
def test_an_open_transaction_holds_back_what_others_commit_after_it(client: Client, topic: str, begin: Open) -> None:
    first, second = begin(id="a"), begin(id="b")
    first.send(topic, [b"1"])
    second.send(topic, [b"2"])
    second.commit()
    assert values(client, topic) == []
    first.abort()
    assert values(client, topic) == [b"2"]


@for_clients("transactional")
def test_a_zombie_is_fenced_and_what_it_wrote_is_aborted(client: Client, topic: str, begin: Open) -> None:
    zombie = begin()
    zombie.send(topic, [b"zombie"])
    producer = begin()
    producer.send(topic, [b"1"])
    with pytest.raises(Refused) as refused:
        zombie.commit()
    assert refused.value.code in FENCED
    producer.commit()
    assert values(client, topic) == [b"1"]


@for_clients("transactional")
def test_a_transaction_that_takes_too_long_is_aborted(client: Client, topic: str, begin: Open) -> None:
    slow = begin(timeout_s=1)
    slow.send(topic, [b"slow"])
    client.wait_until_stable(topic, 0)
    with pytest.raises(Refused):
        slow.commit()
    producer = begin()
    producer.send(topic, [b"1"])
    producer.commit()
    assert values(client, topic) == [b"1"]


@for_clients("transactional")
def test_offsets_are_committed_with_the_transaction_or_not_at_all(
    client: Client, admin: Client, topic: str, name: str, begin: Open
) -> None:
    producer = begin()
    producer.send(topic, [b"1"])
    producer.commit_offsets(name, topic, {0: 1})
    producer.abort()
    assert admin.committed(name, topic) == {}
    producer.begin()
    producer.send(topic, [b"2"])
    producer.commit_offsets(name, topic, {0: 2})
    producer.commit()
    producer.begin()  # in Apache Kafka, offsets count a moment after the answer: when the next transaction can write
    producer.send(topic, [b"3"])
    assert admin.committed(name, topic) == {0: 2}
    producer.abort()
    assert values(client, topic) == [b"2"]


@for_clients("transactional")
def test_consume_transform_produce_counts_each_record_once(
    client: Client, admin: Client, make_topic: Callable[..., str], name: str, begin: Open
) -> None:
    """A worker is replaced after each transaction, and every second one dies before its end."""
    topic = make_topic(partitions=2)
    source = begin(id="source")
    source.send(topic, [b"%d" % number for number in range(12)])
    source.commit()
    taken = values(client, topic)
    for turn in range(12):
        worker = begin(id="worker")  # first: what the one before left open is aborted, and its offsets with it
        position = admin.committed(name, topic).get(0, 0)
        if position == len(taken):
            break
        batch = taken[position : position + 3]
        worker.send(topic, [b"<%s>" % value for value in batch], partition=1)
        worker.commit_offsets(name, topic, {0: position + len(batch)})
        if turn % 2:
            worker.commit()
    assert client.read_to_end(topic, 1, committed=True) == [b"<%d>" % number for number in range(12)]


@pytest.mark.parametrize("client_name", ["librdkafka", "aiokafka"])
def test_a_transaction_goes_on_after_the_node_was_killed(
    client_name: str, get_client: GetClient, tmp_path: Path
) -> None:
    node = start_headwater(tmp_path)
    port = node.address.rpartition(":")[2]
    try:
        client, admin = type(get_client(client_name))(node.address), type(get_client("librdkafka"))(node.address)
        admin.create_topic("t", 1)
        producer, dead = client.transactional("alive", timeout_s=60), client.transactional("dead", timeout_s=60)
        producer.begin()
        producer.send("t", [b"1"])
        dead.begin()
        dead.send("t", [b"dead"])
        dead.close()
        node.kill()
        node = start_headwater(tmp_path, ["--kafka", f"127.0.0.1:{port}"])
        producer.send("t", [b"2"])
        producer.commit()
        assert client.read_to_end("t", 0, committed=True) == [b"1"], "a transaction is open between 1 and 2"
        client.transactional("dead", timeout_s=60).close()
        assert client.read_to_end("t", 0, committed=True) == [b"1", b"2"]
        producer.close()
        client.close()
        admin.close()
    finally:
        node.kill()
