"""The HTTP API as programs use it, on a running node."""

import json
import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer
from starlette.responses import Response

from headwater.serve import endpoints
from headwater.serve.answers import json_response
from headwater.serve.endpoints import parse
from headwater.serve.topics import READING
from headwater.settings import HttpSettings
from tests.serve.shop import Shop, fill, open_shop
from tests.waiting import LONG


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    with open_shop() as opened:
        fill(opened)
        yield opened


def test_topics_are_listed_without_the_internal_ones(shop: Shop) -> None:
    found = shop.get("/topics").json
    assert [(one["name"], one["records"], len(one["partitions"])) for one in found] == [("orders", 21, 2)]
    shop.ask("POST", "/subjects/s/versions", b'{"schema": "\\"string\\""}')
    everything = shop.get("/topics", {"internal": "true"}).json
    assert "_schemas" in {one["name"] for one in everything} - {one["name"] for one in shop.get("/topics").json}
    assert shop.get("/topics/orders").json["partitions"][0] == {
        "partition": 0, "first": 0, "end": 20, "bytes": found[0]["partitions"][0]["bytes"], "offline": False,
        "unreadable": [],
    }  # fmt: skip


def test_answers_are_encoded_on_threads_so_that_a_large_one_holds_up_no_other(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoding = []

    def encoded(content: object) -> Response:
        encoding.append(threading.current_thread().name)
        return json_response(content)

    monkeypatch.setattr(endpoints, "json_response", encoded)
    assert shop.get("/topics/orders/records").status == 200
    assert len(encoding) == 1
    assert encoding[0] != "headwater-http", "that is the thread of the event loop"


def test_a_record_that_is_cut_says_how_long_it_is(shop: Shop) -> None:
    whole = shop.get("/topics/orders/records", {"limit": 1}).json["records"][0]["value"]
    cut = shop.get("/topics/orders/records", {"limit": 1, "value_bytes": 3}).json["records"][0]["value"]
    assert cut == {"bytes": whole["bytes"], "cut": True, "text": whole["text"][:3]}


def test_records_are_read_from_an_offset_page_by_page(shop: Shop) -> None:
    read, offset = [], 0
    while True:
        page = shop.get("/topics/orders/records", {"offset": offset, "limit": 7}).json
        assert len(page["records"]) <= 7
        read += [json.loads(one["value"]["text"])["n"] for one in page["records"]]
        offset = page["next"]
        if offset == page["end"]:
            break
    assert read == list(range(20))


@pytest.mark.parametrize(
    "query, first",
    [({"offset": -3}, 17), ({"offset": -999}, 0), ({"time_ms": 4500}, 5), ({"time_ms": 999_999}, None), ({}, 0)],
)
def test_reading_begins_at_an_offset_from_the_end_or_at_a_time(shop: Shop, query: object, first: int | None) -> None:
    records = shop.get("/topics/orders/records", query).json["records"]
    assert (records[0]["offset"] if records else None) == first


def test_what_is_no_text_comes_as_base64_and_what_is_long_is_cut(shop: Shop) -> None:
    (one,) = shop.get("/topics/orders/records", {"partition": 1}).json["records"]
    assert (one["key"], one["value"]) == (None, {"bytes": 3, "base64": "//4A"})
    (one,) = shop.get("/topics/orders/records", {"limit": 1, "value_bytes": 2}).json["records"]
    assert one["value"] == {"bytes": 7, "cut": True, "text": '{"'}
    assert one["headers"] == [{"name": "h", "value": {"bytes": 2, "base64": "/wA="}}]


def test_views_report_their_columns_key_and_position(shop: Shop) -> None:
    (one,) = shop.get("/views").json
    assert (one["name"], one["key"], one["position"]) == ("shop.revenue", ["country"], {"orders": {"0": 1}})
    assert one["columns"][1] == {"name": "amount", "type": "decimal(12,2)"}
    assert shop.get("/views/revenue").json == shop.get("/views/shop.revenue").json == one


def test_a_row_is_found_by_its_key_with_every_digit(shop: Shop) -> None:
    assert shop.get("/views/revenue/row", {"key": "DE"}).json["row"] == {
        "country": "DE", "amount": "12.50", "orders": 3,
    }  # fmt: skip
    missing = shop.get("/views/revenue/row", {"key": "XX"})
    assert (missing.status, missing.json["error"]) == (404, "UnknownKey")


def test_rows_are_filtered_ordered_and_come_in_pages_that_do_not_overlap(shop: Shop) -> None:
    found = shop.get("/views/revenue/rows", {"where": ["amount >= 7", "orders < 9"], "order": "amount desc"}).json
    assert [row["country"] for row in found["rows"]] == ["DE", "FR"]
    pages: list[list[str | None]] = []
    skip: int | None = 0
    while skip is not None:
        page = shop.get("/views/revenue/rows", {"limit": 3, "skip": skip}).json
        pages.append([row["country"] for row in page["rows"]])
        skip = page.get("next")
    assert pages == [[None, "DE", "FR"], ["IT"]]


@pytest.mark.parametrize(
    "path, query, status, error",
    [
        ("/topics/nothing", {}, 404, "UnknownTopic"),
        ("/topics/orders/records", {"partition": 7}, 404, "UnknownPartition"),
        ("/topics/orders/records", {"offset": 21}, 416, "OffsetOutOfRange"),
        ("/topics/orders/records", {"offset": 1, "time_ms": 1}, 400, "InvalidParameter"),
        ("/topics/orders/records", {"limit": 1001}, 400, "InvalidParameter"),
        ("/topics/orders/records", {"limit": "1_0"}, 400, "InvalidParameter"),
        ("/topics/orders/records", {"limit": [1, 2]}, 400, "InvalidParameter"),
        ("/topics/orders/records", {"colour": "red"}, 400, "InvalidParameter"),
        ("/topics/orders/records", {"at_least": "orders"}, 400, "InvalidParameter"),
        ("/topics/orders/records", {"at_least": "orders/0@99", "timeout_ms": 1}, 412, "LogBehind"),
        ("/views/nothing", {}, 404, "UnknownView"),
        ("/views/revenue/rows", {"where": "amont > 1"}, 422, "InvalidQuery"),
        ("/views/revenue/rows", {"where": "amount"}, 422, "InvalidQuery"),
        ("/views/revenue/rows", {"where": ["orders > 1", "orders > 2"]}, 400, "InvalidParameter"),
        ("/views/revenue/rows", {"order": "nothing"}, 422, "InvalidQuery"),
        ("/views/revenue/row", {}, 422, "InvalidQuery"),
        ("/views/revenue/rows", {"at_least": "orders/0@5", "timeout_ms": 30}, 412, "ViewBehind"),
        ("/groups/nothing", {}, 404, "UnknownGroup"),
        ("/flows/nothing", {}, 404, "UnknownFlow"),
        ("/captures/nothing", {}, 404, "UnknownCapture"),
        ("/nowhere", {}, 404, "NotFound"),
    ],
)
def test_an_error_has_a_name_a_status_and_a_sentence(
    shop: Shop, path: str, query: object, status: int, error: str
) -> None:
    answer = shop.get(path, query)
    assert (answer.status, answer.json["error_code"], answer.json["error"]) == (status, status, error)
    assert len(answer.json["message"]) > 10


def test_who_writes_reads_its_write(shop: Shop) -> None:
    """The view is written a moment after the record; a read at least at its position waits for that."""
    stored = shop.ask("POST", "/topics/orders", b'{"n":20}', {"content-type": "application/json"}).json
    partition, offset = stored["stored"][0]["partition"], stored["stored"][0]["last"]
    assert stored["position"] == f"orders/{partition}@{offset}"
    row = {"country": "DE", "amount": "99.00", "orders": 4}
    later = threading.Timer(0.2, shop.write, [[row], {0: 21, 1: 2}])
    later.start()
    found = shop.get("/views/revenue/row", {"key": "DE", "at_least": stored["position"]})
    later.join()
    assert (found.status, found.json["row"]) == (200, row)
    assert shop.get("/topics/orders/records", {"at_least": stored["position"]}).status == 200


def read_one(shop: Shop) -> Consumer:
    """A member of the group readers that has committed one record of partition 0."""
    consumer = Consumer({"bootstrap.servers": shop.node.kafka_address, "group.id": "readers",
                         "auto.offset.reset": "earliest", "enable.auto.commit": False})  # fmt: skip
    consumer.subscribe(["orders"])
    while (message := consumer.poll(LONG)) is not None and message.partition() != 0:
        pass
    assert message is not None
    consumer.commit(message=message, asynchronous=False)
    return consumer


def test_groups_report_their_lag(shop: Shop) -> None:
    consumer = read_one(shop)
    group = shop.get("/groups/readers").json
    consumer.close()
    (first,) = [one for one in group["partitions"] if one["partition"] == 0]
    assert (group["members"], first["lag"]) == (1, first["end"] - first["offset"])
    assert group["lag"] >= 15
    assert [one["name"] for one in shop.get("/groups").json] == ["readers"]


def test_metrics_have_the_names_that_dashboards_for_kafka_ask_for(shop: Shop) -> None:
    read_one(shop).close()
    answer = shop.get("/metrics")
    lines = answer.body.decode().splitlines()
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    end = shop.node.log.partition("orders", 0).high_watermark
    assert f'kafka_topic_partition_current_offset{{topic="orders",partition="0"}} {end}' in lines
    assert 'kafka_topic_partitions{topic="orders"} 2' in lines
    assert any(line.startswith('kafka_consumergroup_lag{consumergroup="readers",topic="orders"') for line in lines)
    assert any(line.startswith('headwater_view_writes_total{view="shop.revenue"}') for line in lines)
    kinds = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(kinds) == len(set(kinds))


def test_the_node_is_alive_and_ready(shop: Shop) -> None:
    assert shop.get("/health").json == {"status": "alive"}
    assert shop.get("/ready").json["status"] == "ready"
    assert shop.get("/flows").json == shop.get("/captures").json == []


def test_the_document_names_every_endpoint_and_each_parameter(shop: Shop) -> None:
    document = shop.get("/openapi.json").json
    assert document["openapi"] == "3.1.0"
    assert {"/topics/{topic}/records", "/views/{view}/rows", "/metrics"} <= document["paths"].keys()
    said = document["paths"]["/topics/{topic}/records"]["get"]["parameters"]
    assert [one["name"] for one in said] == [one.name for one in READING]
    operations = [one["operationId"] for path in document["paths"].values() for one in path.values()]
    assert len(operations) == len(set(operations))


def test_defaults_count_where_nothing_is_said() -> None:
    asked = parse(READING, {"topic": "orders"}, [])
    assert (asked["limit"], asked["partition"], asked["offset"]) == (100, 0, None)


# -- from other machines ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with open_shop(tmp_path_factory.mktemp("data"), HttpSettings(allowed_hosts=("shop.example",))) as opened:
        fill(opened)
        yield opened


FAR = {"x-forwarded-for": "203.0.113.9"}


def test_with_a_public_name_a_token_is_needed_and_its_scopes_count(far: Shop) -> None:
    from headwater.serve.tokens import Tokens

    tokens = Tokens(far.node.data)
    reading, writing = tokens.add("reader", ("read",)), tokens.add("writer", ("produce",))
    scraping = tokens.add("scraper", ("metrics",))

    def status(target: str, token: str = "", method: str = "GET", body: bytes | None = None) -> int:
        said = {"authorization": f"Bearer {token}"} if token else {}
        return far.ask(method, target, body, {**FAR, **said, "content-type": "application/json"}).status

    assert [status("/topics"), status("/topics", "hw_wrong"), status("/views/revenue/rows")] == [401, 401, 401]
    assert [status("/topics", reading), status("/metrics", reading), status("/subjects", reading)] == [200, 200, 200]
    assert [status("/topics", scraping), status("/metrics", scraping)] == [403, 200]
    assert status("/topics/orders", reading, "POST", b"{}") == 403
    assert status("/topics/orders", writing, "POST", b"{}") == 200
    assert status("/topics", writing) == 403
    assert status("/subjects/s/versions", writing, "POST", b'{"schema":"\\"string\\""}') == 403
    assert [status("/health"), status("/ready")] == [200, 200]
    tokens.remove("reader")
    assert status("/topics", reading) == 401
    assert far.get("/topics").status == 401, "nor is any request believed to come from this machine"


def test_only_the_hash_of_a_token_is_kept_and_only_its_owner_can_read_it(far: Shop) -> None:
    from headwater.serve.tokens import Tokens

    made = Tokens(far.node.data).add("kept", ("read",))
    file = far.node.data / "tokens.json"
    assert made not in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
