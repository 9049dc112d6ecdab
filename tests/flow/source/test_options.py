import json
from collections.abc import Mapping

import pytest

from headwater.errors import HeadwaterError
from headwater.flow.kafka.messages import EARLIEST, LATEST
from headwater.flow.source.options import Edge, parse_options
from headwater.record import TopicPartition

PLAIN = {"address": "localhost:9092", "topic": "orders"}


def test_a_topic_without_a_schema_gives_the_columns_of_the_record() -> None:
    frame = parse_options(PLAIN).frame
    assert frame.names == ("key", "value", "headers", "topic", "partition", "offset", "timestamp")
    assert "headers array<struct<key: string, value: binary>>" in frame.ddl


def test_a_schema_gives_the_columns_of_the_value_and_the_hidden_ones_asked_for() -> None:
    options = parse_options({**PLAIN, "schema": "id long, at timestamp", "columns": "_offset, _key", "time": "at"})
    assert options.frame.ddl == "id bigint, at timestamp, _offset bigint, _key binary"
    schema = options.streams[0].schema
    assert schema is not None
    assert schema.names == ("id", "at")


def test_several_streams_give_a_struct_for_each() -> None:
    streams = [
        {"name": "orders", "topic": "shop.orders", "schema": "id long not null", "columns": ["_offset"]},
        {"name": "clicks", "topic": "shop.clicks", "schema": "url string", "format": "csv", "time": None},
    ]
    options = parse_options({"address": "localhost:9092", "streams": json.dumps(streams)})
    assert options.topics == ("shop.orders", "shop.clicks")
    assert options.frame.ddl == "_stream int, orders struct<id: bigint, _offset: bigint>, clicks struct<url: string>"


@pytest.mark.parametrize(
    "said, edge",
    [
        ({}, Edge(EARLIEST)),
        ({"startingOffsets": "latest"}, Edge(LATEST)),
        ({"startingTimestamp": "1234"}, Edge(1234)),
        ({"startingTimestamp": "1970-01-02"}, Edge(86_400_000)),
        ({"startingTimestamp": "1970-01-01T01:00:00+01:00"}, Edge(0)),
        ({"startingOffsets": '{"orders": {"1": 5}}'}, Edge(EARLIEST, {TopicPartition("orders", 1): 5})),
    ],
)
def test_where_reading_begins(said: Mapping[str, str], edge: Edge) -> None:
    assert parse_options({**PLAIN, **said}).starting == edge


def test_names_of_options_may_be_written_in_any_case() -> None:
    assert parse_options({**PLAIN, "MAXROWSPERBATCH": "10"}).rows_max == 10


@pytest.mark.parametrize(
    "said, complaint",
    [
        ({"address": None}, "address=HOST:PORT"),
        ({"address": "nowhere"}, "HOST:PORT"),
        ({"topic": " , "}, "which topic"),
        ({"maxRowsPerBtch": "5"}, "Did you mean maxRowsPerBatch"),
        ({"maxRowsPerBatch": "0"}, "above zero"),
        ({"startingOffsets": "soon"}, "earliest, latest, or JSON"),
        ({"startingOffsets": '{"orders": 5}'}, "earliest, latest, or JSON"),
        ({"startingTimestamp": "yesterday"}, "milliseconds"),
        ({"startingTimestamp": "5", "startingOffsets": "latest"}, "either"),
        ({"onLoss": "ignore"}, "fail, account"),
        ({"poisoned": "stage"}, "where poisoned rows go"),
        ({"schema": "id lnog"}, "long"),
        ({"schema": "id long", "columns": "_ofset"}, "_offset"),
        ({"schema": "id long", "time": "id"}, "timestamp"),
        ({"schema": "id long", "tombstones": "bury"}, "poison, keep"),
        ({"streams": "[]"}, "names the topics"),
        ({"streams": "[]", "topic": None}, "JSON list"),
        ({"streams": "[", "topic": None}, "not JSON"),
        ({"streams": '[{"name": "a"}]', "topic": None}, "has a topic"),
        ({"streams": '[{"topic": "a", "colour": 1}]', "topic": None}, "may have"),
        ({"streams": '[{"topic": "a"}, {"topic": "b", "name": "a"}]', "topic": None}, "name of its own"),
        ({"streams": '[{"topic": "a", "schema": "id long", "columns": ["_x"]}]', "topic": None}, "_offset"),
    ],
)
def test_a_mistake_is_told_in_a_sentence(said: Mapping[str, str | None], complaint: str) -> None:
    given = {name: value for name, value in {**PLAIN, **said}.items() if value is not None}
    with pytest.raises(HeadwaterError, match=complaint):
        parse_options(given)
