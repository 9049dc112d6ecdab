"""Which offset belongs to which event time, in a log: by its files and by Fetch alike, whatever its rows are."""

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from headwater.flow.kafka.client import Client
from headwater.flow.source.batch_plan.admission import Plan
from headwater.flow.source.batch_plan.event_time_index import STEPS_MAX
from headwater.flow.source.batch_plan.stream_times import StreamTimes
from headwater.flow.source.options import parse_options
from headwater.node import Node
from headwater.record import Record, TopicPartition
from headwater.testing import running_node

ORDERS, USERS = TopicPartition("orders", 0), TopicPartition("users", 0)
DAY_MS, TODAY_MS = 86_400_000, 1_770_000_000_000
SCHEMA = "id long, at timestamp"


def day(number: int) -> str:
    return f"1970-01-{1 + number:02d}T00:00:00Z"


def row(number: int, **columns: Any) -> bytes:
    return json.dumps({"id": number, "at": day(number), **columns}).encode()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with running_node(tmp_path / "data") as node:
        yield node


def append(node: Node, place: TopicPartition, values: Sequence[bytes], *, batch: int = 3) -> None:
    if place.topic not in {topic.name for topic in node.log.topics()}:
        node.log.create_topic(place.topic, partitions=1)
    for first in range(0, len(values), batch):
        records = [Record(value, timestamp_ms=TODAY_MS + first) for value in values[first : first + batch]]
        node.log.append(place.topic, records, partition=place.partition)


def looked_up(node: Node, days: list[int], **options: str) -> dict[str, list[dict[TopicPartition, int]]]:
    """The offsets at each day: by the files of the node, and by Fetch."""
    found = {}
    for where in ({"data": str(node.data)}, {"address": node.kafka_address}):
        times = StreamTimes(parse_options({**where, **options}))
        with closing(times), Client(node.kafka_address) as client:
            places = [TopicPartition(topic, 0) for topic in parse_options({**where, **options}).topics]
            ends = {place: node.log.partition(*place).high_watermark for place in places}
            at = times.lookup(client, dict.fromkeys(ends, 0), ends, None)
            found[next(iter(where))] = [dict(at(number * DAY_MS)) for number in days]
    assert found["data"] == found["address"]
    return found


def offsets(node: Node, days: list[int], *, place: TopicPartition = ORDERS, **options: str) -> list[int]:
    return [one[place] for one in looked_up(node, days, **options)["data"]]


def test_the_offset_of_a_time_is_that_of_the_row_that_says_it(node: Node) -> None:
    append(node, ORDERS, [row(number) for number in range(30)])
    assert offsets(node, [-3, 0, 1, 17, 29, 30], topic="orders", schema=SCHEMA, time="at") == [0, 0, 1, 17, 29, 30]


def test_of_a_large_batch_some_rows_are_read_and_all_if_those_do_not_decode(node: Node) -> None:
    append(node, ORDERS, [row(number * 27 // 9000) for number in range(9000)], batch=9000)
    found = offsets(node, [1, 13, 26], topic="orders", schema=SCHEMA, time="at")
    for number, offset in zip((1, 13, 26), found, strict=True):
        first = -(-number * 9000 // 27)
        assert first <= offset <= first + 9000 // STEPS_MAX + 1
    append(node, USERS, [b"{" if number != 4321 else row(5) for number in range(9000)], batch=9000)
    assert offsets(node, [5], place=USERS, topic="users", schema=SCHEMA, time="at") == [4321]


def test_rows_that_do_not_decode_or_are_not_believed_say_nothing_and_rows_without_a_time_have_their_records(
    node: Node,
) -> None:
    future = json.dumps({"id": 0, "at": "2100-01-01T00:00:00Z"}).encode()
    append(node, ORDERS, [row(0), b"{", future, row(1), b"[]", row(2), row(3), row(4, at=None), row(5)])
    rules = json.dumps({"ahead_us": 1000 * DAY_MS})
    found = offsets(node, [1, 2, 3, 4], topic="orders", schema=SCHEMA, time="at", clock=rules)
    assert found == [3, 5, 6, 7]


def test_an_estimate_from_a_devices_clock_is_the_event_time(node: Node) -> None:
    """The device is a year slow; sent and received tell by how much."""
    values = [
        json.dumps({"id": n, "occurred": f"2025-02-02T02:40:{n:02d}Z", "sent": "2025-02-02T02:40:00Z"}).encode()
        for n in range(9)
    ]
    append(node, ORDERS, values, batch=9)
    device = {"occurred": "occurred", "sent": "sent", "received": None, "most_us": 10**15, "into": "at"}
    options = {
        "topic": "orders", "schema": "id long, occurred timestamp, sent timestamp, at timestamp", "time": "at",
        "clock": json.dumps({"device": device}),
    }  # fmt: skip
    times = StreamTimes(parse_options({"data": str(node.data), **options}))
    with closing(times), Client(node.kafka_address) as client:
        at = times.lookup(client, {ORDERS: 0}, {ORDERS: 9}, None)
        assert [at(TODAY_MS + 1000 * second)[ORDERS] for second in (0, 4, 8, 9)] == [0, 4, 8, 9]


def two_streams(*streams: dict[str, Any]) -> str:
    plain = {"format": "json", "columns": ["_offset"]}
    return json.dumps([{"name": f"s{number}", **plain, **one} for number, one in enumerate(streams)])


def test_of_a_topic_with_two_clocks_the_earlier_offset_counts_and_what_is_left_of_it_is_waited_for(node: Node) -> None:
    append(node, ORDERS, [row(number, paid=day(number + 5)) for number in range(20)])
    schema = f"{SCHEMA}, paid timestamp"
    streams = two_streams(
        {"topic": "orders", "schema": schema, "time": "at"}, {"topic": "orders", "schema": schema, "time": "paid"}
    )
    assert offsets(node, [10], streams=streams) == [5]
    times = StreamTimes(parse_options({"data": str(node.data), "streams": streams}))
    made = times.settled(Plan({ORDERS: 5}, 10 * DAY_MS, ahead=frozenset({ORDERS})))
    assert (made.held, made.ahead) == (frozenset({ORDERS}), frozenset())


def test_rows_of_several_producers_may_be_of_any_time(node: Node) -> None:
    options = {"topic": "orders", "schema": SCHEMA, "time": "at", "clock": json.dumps({"producer": "id"})}
    times = StreamTimes(parse_options({"data": str(node.data), **options}))
    assert times.unordered == {"orders"}


def test_a_table_is_read_to_when_the_events_were_written_and_its_versions_to_the_time_of_events(node: Node) -> None:
    append(node, ORDERS, [row(number) for number in range(9)])
    append(node, USERS, [row(number) for number in range(9)], batch=1)
    events = {"topic": "orders", "schema": SCHEMA, "time": "at"}
    table = {"topic": "users", "schema": SCHEMA, "tombstones": "keep"}
    # The last events were written at 6 ms, and a probe holds them all; of the table there is a record each millisecond.
    assert offsets(node, [0, 4, 30], place=USERS, streams=two_streams(events, table)) == [0, 7, 7]
    versions = {**table, "time": "_timestamp"}
    assert offsets(node, [30], place=USERS, streams=two_streams(events, versions)) == [0]
