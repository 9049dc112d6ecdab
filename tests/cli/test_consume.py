import json
import signal
import subprocess

import pytest

from headwater import Node, Record
from tests.cli.conftest import Terminal


@pytest.fixture
def orders(node: Node) -> Node:
    node.log.create_topic("orders")
    node.log.append("orders", [Record(b"%d" % n, key=b"k%d" % n, timestamp_ms=1000 * n or 1) for n in range(5)])
    return node


def test_without_options_it_prints_all_values_and_stops(terminal: Terminal, orders: Node) -> None:
    said = terminal.type("consume", "orders")
    assert (said.code, said.output, said.errors) == (0, "0\n1\n2\n3\n4\n", "")


def test_all_partitions_are_read(terminal: Terminal, node: Node) -> None:
    node.log.create_topic("orders", partitions=3)
    for number in range(3):
        node.log.append("orders", Record(b"in %d" % number), partition=number)
    assert sorted(terminal.type("consume", "orders").output.splitlines()) == ["in 0", "in 1", "in 2"]
    assert terminal.type("consume", "orders", "--partition", "1").output == "in 1\n"


def test_an_empty_topic_prints_nothing(terminal: Terminal, node: Node) -> None:
    node.log.create_topic("orders")
    assert terminal.type("consume", "orders")[:2] == (0, "")


@pytest.mark.parametrize(
    "where, printed",
    [
        ("beginning", ["0", "1", "2", "3", "4"]),
        ("3", ["3", "4"]),
        ("5", []),
        ("1970-01-01T00:00:02Z", ["2", "3", "4"]),
        ("2001ms", ["3", "4"]),
        ("9999ms", []),
        ("end", []),
    ],
)
def test_reading_starts_at_the_requested_offset(
    terminal: Terminal, orders: Node, where: str, printed: list[str]
) -> None:
    assert terminal.type("consume", "orders", "--from", where).output.split() == printed


def test_count_ends_it_early(terminal: Terminal, orders: Node) -> None:
    assert terminal.type("consume", "orders", "--count", "2").output == "0\n1\n"


def test_keys_stand_before_a_tab(terminal: Terminal, orders: Node) -> None:
    assert terminal.type("consume", "orders", "--keys", "--count", "1").output == "k0\t0\n"


def test_json_lines_have_everything(terminal: Terminal, node: Node) -> None:
    node.log.create_topic("orders")
    node.log.append("orders", Record(b"\xff", key=None, headers=[("trace", b"7f"), ("empty", None)], timestamp_ms=5))
    assert json.loads(terminal.type("consume", "orders", "--json").output) == {
        "topic": "orders",
        "partition": 0,
        "offset": 0,
        "timestamp": 5,
        "key": None,
        "value": {"base64": "/w=="},
        "headers": [["trace", "7f"], ["empty", None]],
    }


def test_what_it_prints_as_json_produce_can_read(terminal: Terminal, orders: Node) -> None:
    lines = terminal.type("consume", "orders", "--json").output
    terminal.type("produce", "copy", "--jsonl", stdin=lines)
    assert list(orders.log.read("copy")) == list(orders.log.read("orders"))


def test_values_come_out_byte_for_byte(terminal: Terminal, node: Node) -> None:
    node.log.create_topic("orders")
    node.log.append("orders", Record(bytes(range(256))))
    assert terminal.start("consume", "orders").communicate()[0] == bytes(range(256)) + b"\n"


def test_following_waits_for_what_comes(terminal: Terminal, orders: Node) -> None:
    process = terminal.start("consume", "orders", "--from", "end", "--follow", "--count", "1")
    # It may start reading before or after any one of these; the first it sees ends it.
    while process.poll() is None:
        orders.log.append("orders", Record(b"the newest"))
        try:
            process.wait(0.2)
        except subprocess.TimeoutExpired:
            continue
    assert process.communicate()[0] == b"the newest\n"


def test_ctrl_c_ends_it_quietly(terminal: Terminal, orders: Node) -> None:
    process = terminal.start("consume", "orders", "--follow")
    assert process.stdout is not None
    assert process.stdout.readline() == b"0\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert (process.returncode, errors) == (130, b"")


def test_a_group_resumes_where_it_stopped(terminal: Terminal, orders: Node) -> None:
    assert terminal.type("consume", "orders", "--group", "warehouse", "--count", "2").output == "0\n1\n"
    assert terminal.type("consume", "orders", "--group", "warehouse").output == "2\n3\n4\n"
    assert terminal.type("consume", "orders", "--group", "warehouse").output == ""
    assert terminal.type("consume", "orders", "--group", "office", "--count", "1").output == "0\n"


def test_a_new_group_may_begin_at_the_end(terminal: Terminal, orders: Node) -> None:
    assert terminal.type("consume", "orders", "--group", "late", "--from", "end").output == ""


def test_an_unknown_topic_is_not_made_by_reading(terminal: Terminal, node: Node) -> None:
    said = terminal.type("consume", "oders")
    assert said.code == 1
    assert said.errors.startswith('headwater: there is no topic "oders".')
    assert node.log.topics() == []


def test_an_offset_outside_the_partition_says_what_is_inside(terminal: Terminal, orders: Node) -> None:
    said = terminal.type("consume", "orders", "--from", "6")
    assert said.code == 1
    assert 'offset 6 of "orders/0" is outside 0..5' in said.errors


def test_an_offset_needs_a_partition_where_there_are_several(terminal: Terminal, node: Node) -> None:
    node.log.create_topic("orders", partitions=2)
    said = terminal.type("consume", "orders", "--from", "0")
    assert said.code == 1
    assert "give --partition too" in said.errors


@pytest.mark.parametrize("option", [("--partition", "0"), ("--from", "3")])
def test_a_group_chooses_its_offsets_itself(terminal: Terminal, orders: Node, option: tuple[str, str]) -> None:
    said = terminal.type("consume", "orders", "--group", "warehouse", *option)
    assert said.code == 1
    assert "headwater group reset" in said.errors


def test_a_compacted_end_is_still_an_end(terminal: Terminal, node: Node) -> None:
    node.log.create_topic("orders")
    node.log.append("orders", [Record(b"a"), Record(b"b")])
    node.log.partition("orders", 0).delete_records(2)
    assert terminal.type("consume", "orders")[:2] == (0, "")
