"""POST /query on a running node."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from headwater.serve.queries import TIMEOUT_MS_MAX
from headwater.serve.tokens import Tokens
from tests.serve.shop import Said, Shop, fill, open_shop
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    """A process that computes is up: on a busy machine that can take longer than a query may."""
    with open_shop() as opened:
        fill(opened)
        wait_until(lambda: ask(opened, "SELECT 1").status == 200, "a query is answered", seconds=60)
        yield opened


def ask(shop: Shop, sql: str, headers: dict[str, str] | None = None, **more: Any) -> Said:
    """As long as may be asked for at most, unless it is said."""
    wanted = {"sql": sql, "timeout_ms": TIMEOUT_MS_MAX, **more}
    return shop.ask("POST", "/query", json.dumps(wanted).encode(), headers)


def test_a_select_is_answered_with_the_position_that_it_reflects(shop: Shop) -> None:
    said = ask(shop, "SELECT country, amount FROM revenue WHERE orders > 2 ORDER BY amount").json
    assert said["columns"] == [{"name": "country", "type": "string"}, {"name": "amount", "type": "decimal(12,2)"}]
    assert said["rows"][0] == {"country": "DE", "amount": "12.50"}
    assert said["cut"] is False
    assert said["position"] == shop.get("/views/revenue").json["position"]
    assert said["views"] == {"shop.revenue": said["position"]}


def test_the_answer_comes_as_csv_or_ndjson_if_that_is_asked_for(shop: Shop) -> None:
    sql = "SELECT country, amount, orders > 2 AS many FROM revenue WHERE orders IN (3, 9) ORDER BY amount"
    csv = ask(shop, sql, format="csv")
    assert csv.headers["content-type"].startswith("text/csv")
    assert csv.body.decode().splitlines() == ["country,amount,many", "DE,12.50,true", "IT,100.10,true"]
    assert json.loads(csv.headers["headwater-position"]) == shop.get("/views/revenue").json["position"]
    lines = ask(shop, sql, format="ndjson", limit=1)
    assert [json.loads(line) for line in lines.body.splitlines()] == [
        {"country": "DE", "amount": "12.50", "many": True}
    ]
    assert lines.headers["headwater-cut"] == "true"


@pytest.mark.parametrize(
    "body, status, said",
    [
        (b"nothing", 400, "the body is no JSON"),
        (b"[]", 400, "the body must be an object"),
        (b"{}", 400, "sql is missing"),
        (b'{"sql": 5}', 400, "sql is '5'; it must be of the type string"),
        (b'{"sql": ""}', 400, "sql has 0 characters"),
        (b'{"sql": "SELECT 1", "limits": 5}', 400, "there is no property 'limits' here"),
        (b'{"sql": "SELECT 1", "limit": 0}', 400, "limit is 0; say a whole number from 1 to 100000"),
        (b'{"sql": "SELECT 1", "limit": true}', 400, "limit is 'True'"),
        (b'{"sql": "SELECT 1", "format": "xml"}', 400, "format is 'xml'; say one of json, csv, ndjson"),
        (b'{"sql": "SELECT 1", "at_least": "orders"}', 400, "is no position"),
        (b'{"sql": "SELECT amont FROM revenue"}', 422, 'there is no column "amont". Did you mean "amount"?'),
        (b'{"sql": "DELETE FROM revenue"}', 422, "DELETE cannot be asked here"),
        (b'{"sql": "SELECT * FROM revenue", "at_least": "orders/0@999", "timeout_ms": 50}', 412, "has not reached"),
        (b'{"sql": "SELECT length(repeat(\'x\', 2000000000))", "timeout_ms": 60000}', 422, "more memory"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused_with_a_sentence(
    shop: Shop, body: bytes, status: int, said: str
) -> None:
    answer = shop.ask("POST", "/query", body)
    assert (answer.status, said in answer.json["message"]) == (status, True), answer.json


def test_only_who_may_read_may_ask(shop: Shop) -> None:
    tokens = Tokens(shop.node.data)
    reader, writer = tokens.add("reader", ("read",)), tokens.add("writer", ("produce",))
    try:
        said = [
            ask(shop, "SELECT 1", {"authorization": f"Bearer {token}"} if token else {}).status
            for token in ("", writer, reader)
        ]
        assert said == [401, 403, 200]
    finally:
        tokens.remove("reader")
        tokens.remove("writer")


def test_a_page_of_another_site_may_not_ask(shop: Shop) -> None:
    assert ask(shop, "SELECT 1", {"origin": "http://evil.example"}).status == 403
    assert ask(shop, "SELECT 1", {"host": "evil.example"}).status == 403


def test_who_follows_a_query_is_answered_again_when_a_view_has_changed(shop: Shop) -> None:
    sql = "SELECT sum(orders) AS orders FROM revenue"
    first = ask(shop, sql).json
    unchanged = ask(shop, sql, after=first["version"], timeout_ms=50).json
    assert unchanged == {"unchanged": True, "version": first["version"]}
    timer = threading.Timer(0.3, lambda: shop.write([{"country": "ES", "amount": "1.00", "orders": 100}]))
    timer.start()
    again = ask(shop, sql, after=first["version"], timeout_ms=TIMEOUT_MS_MAX).json
    timer.join()
    assert again["rows"] == [{"orders": first["rows"][0]["orders"] + 100}]


def test_many_who_ask_at_once_are_all_answered_or_told_to_come_again(shop: Shop) -> None:
    statuses: list[int] = []
    threads = [
        threading.Thread(target=lambda: statuses.append(ask(shop, "SELECT count(*) FROM revenue").status))
        for _ in range(40)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(statuses) <= {200, 429, 503}
    assert statuses.count(200) >= 10
