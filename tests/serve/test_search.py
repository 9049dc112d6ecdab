"""Searching a view over HTTP."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

import headwater as hw
from headwater.flow.sinks.search import SearchSink
from headwater.views.full_text import index_folder
from headwater.views.mark import Mark
from headwater.views.store import open_store
from tests.serve.hostile import PAYLOADS
from tests.serve.shop import Shop, open_shop

SCHEMA = pa.schema([("id", pa.decimal128(5, 2)), ("title", pa.string()), ("body", pa.string())])
ROWS = [
    {"id": "1.50", "title": "A lamp for the desk", "body": "bright"},
    {"id": "2.00", "title": "A desk", "body": "for a lamp, or two lamps"},
    {"id": "3.25", "title": "Chair", "body": None},
]


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    with open_shop() as shop:
        rows = pa.Table.from_pylist(ROWS, schema=pa.schema([("id", pa.string()), *list(SCHEMA)[1:]])).cast(SCHEMA)
        shop.store.prepare("products", SCHEMA, ["id"])
        shop.store.write("products", Mark("shop/1", 0, {"products": {0: 3}}), rows)
        folder = index_folder(shop.node.data, "shop", "products")
        sink = SearchSink(folder, "products", ["title", "body"], open_store(shop.node.data, "shop"))
        sink.prepare(SCHEMA, ["id"])
        sink.close()
        yield shop


def titles(shop: Shop, words: str, **more: object) -> list[str]:
    said = shop.get("/search/shop.products", {"q": words, **more})
    assert said.status == 200, said.body
    return [one["row"]["title"] for one in said.json["rows"]]


def test_rows_are_found_by_their_words_best_first(shop: Shop) -> None:
    assert sorted(titles(shop, "lamp")) == ["A desk", "A lamp for the desk"]
    assert titles(shop, "chair") == ["Chair"]
    assert titles(shop, '"the desk"') == ["A lamp for the desk"]
    assert titles(shop, "title:desk -body:bright") == ["A desk"]
    assert titles(shop, "lamp", limit=1) == ["A lamp for the desk"]
    assert titles(shop, "nothing") == []


def test_a_found_row_is_the_views_with_every_digit_and_its_position(shop: Shop) -> None:
    said = shop.get("/search/products", {"q": "chair"}).json
    assert said["rows"][0]["row"]["id"] == "3.25"
    assert said["position"] == {"products": {"0": 3}}


def test_a_program_searches_with_the_client(shop: Shop) -> None:
    found = hw.connect(shop.node.http_url).view("shop.products").search("chair")
    assert [row["title"] for row in found] == ["Chair"]


def test_a_row_that_was_deleted_since_is_left_out(shop: Shop) -> None:
    deleted = pa.Table.from_pylist([{"_op": "d", "id": None}], schema=pa.schema([("_op", pa.string()), *SCHEMA]))
    shop.store.write("products", Mark("shop/1", 1, {}), deleted)
    assert titles(shop, "lamp")


def test_a_view_without_an_index_and_words_that_are_missing_are_reported(shop: Shop) -> None:
    assert shop.get("/search/revenue", {"q": "x"}).json["error"] == "NotSearchable"
    assert shop.get("/search/products").status == 400
    assert shop.get("/search/nothing", {"q": "x"}).status == 404
    assert [one["searchable"] for one in shop.get("/views").json] == [True, False]


@pytest.mark.parametrize("text", [*PAYLOADS, "*", "(", "[a TO", "title:", "title:*", "a AND", "\\", "^9", "~"])
def test_no_words_are_a_failure_of_the_node(shop: Shop, text: str) -> None:
    assert shop.get("/search/products", {"q": text[:500]}).status in (200, 400, 422)
