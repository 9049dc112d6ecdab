import pytest

from headwater import Node, Record
from tests.cli.conftest import Terminal


def test_each_line_is_a_record(terminal: Terminal, node: Node) -> None:
    node.log.create_topic("orders")
    said = terminal.type("produce", "orders", stdin="two lamps\n\na desk")
    assert said.output == 'stored 3 records in "orders"\n  partition 0: offsets 0 to 2\n'
    assert [record.value for record in node.log.read("orders")] == [b"two lamps", b"", b"a desk"]


def test_a_separator_splits_key_and_value(terminal: Terminal, node: Node) -> None:
    node.log.create_topic("orders")
    terminal.type("produce", "orders", "--key-separator", ":", stdin="ada:two lamps\n")
    [record] = node.log.read("orders")
    assert (record.key, record.value) == (b"ada", b"two lamps")


def test_json_lines_carry_everything_a_record_has(terminal: Terminal, node: Node) -> None:
    node.log.create_topic("orders", partitions=2)
    line = '{"key": "ada", "value": null, "headers": [["trace", "7f"]], "timestamp": 1700000000000, "partition": 1}\n'
    assert terminal.type("produce", "orders", "--jsonl", "--json", stdin=line).json == {
        "topic": "orders",
        "records": 1,
        "failed": 0,
        "partitions": {"1": {"first": 0, "last": 0}},
    }
    [record] = node.log.read("orders", 1)
    assert (record.key, record.value, record.timestamp_ms) == (b"ada", None, 1_700_000_000_000)
    assert list(record.headers) == [("trace", b"7f")]


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_batches_are_compressed_as_asked(terminal: Terminal, node: Node, compression: str) -> None:
    node.log.create_topic("orders")
    terminal.type("produce", "orders", "--compression", compression, stdin="lamp\n" * 1000)
    assert sum(1 for _ in node.log.read("orders")) == 1000
    assert node.log.partition("orders", 0).size_bytes < 6000  # as sent without compression: more than 11,000


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acknowledgement_stores(terminal: Terminal, node: Node, acks: str) -> None:
    node.log.create_topic("orders")
    assert terminal.type("produce", "orders", "--acks", acks, stdin="a\nb\n").code == 0
    assert sum(1 for _ in node.log.follow("orders", timeout=1)) == 2


def test_keys_go_where_the_java_client_and_the_library_put_them(terminal: Terminal, node: Node) -> None:
    node.log.create_topic("orders", partitions=7)
    keys = [f"customer-{n}" for n in range(20)]
    terminal.type("produce", "orders", "--key-separator", ":", stdin="".join(f"{key}:v\n" for key in keys))
    placed = {r.key: number for number in range(7) for r in node.log.read("orders", number)}
    again = {key.encode(): node.log.append("orders", Record(b"v", key=key.encode())).partition for key in keys}
    assert placed == again


def test_a_topic_that_does_not_exist_is_made_and_said_so(terminal: Terminal, node: Node) -> None:
    said = terminal.type("produce", "fresh", stdin="a\n")
    assert said.code == 0
    assert 'topic "fresh" does not exist; making it' in said.errors
    assert [record.value for record in node.log.read("fresh")] == [b"a"]


def test_a_bad_line_ends_it_and_what_came_before_is_stored(terminal: Terminal, node: Node) -> None:
    node.log.create_topic("orders")
    said = terminal.type("produce", "orders", "--key-separator", ":", stdin="ada:a\nnonsense\nalan:b\n")
    assert said.code == 1
    assert said.errors == "headwater: line 2 is not a record: there is no ':' between key and value.\n"
    assert [record.value for record in node.log.read("orders")] == [b"a"]


def test_a_partition_that_does_not_exist_is_refused(terminal: Terminal, node: Node) -> None:
    node.log.create_topic("orders", partitions=2)
    said = terminal.type("produce", "orders", "--partition", "2", stdin="a\n")
    assert said.code == 1
    assert said.errors == 'headwater: topic "orders" has no partition 2. Its partitions are 0 to 1.\n'


def test_a_line_that_names_a_partition_that_does_not_exist_is_refused(terminal: Terminal, node: Node) -> None:
    node.log.create_topic("orders")
    said = terminal.type("produce", "orders", "--jsonl", stdin='{"value": "a"}\n{"value": "b", "partition": 1}\n')
    assert said.code == 1
    assert said.output.startswith("stored 1 record in")
    assert said.errors.startswith('headwater: topic "orders" has no partition 1.')


def test_a_record_that_the_log_refuses_is_a_failure_with_the_count(terminal: Terminal, node: Node) -> None:
    node.log.create_topic("prices", configs={"cleanup.policy": "compact"})
    said = terminal.type("produce", "prices", "--json", stdin="no key\n")
    assert said.code == 1
    assert said.json["failed"] == 1
    assert said.errors.startswith("headwater: 1 record could not be stored:")


def test_nothing_on_standard_input_stores_nothing(terminal: Terminal, node: Node) -> None:
    node.log.create_topic("orders")
    assert terminal.type("produce", "orders").output == 'stored 0 records in "orders"\n'
