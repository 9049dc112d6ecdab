"""The query page in a real browser."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from headwater.node import Node
from headwater.settings import NodeSettings
from headwater.views.mark import Mark
from headwater.views.store import open_store
from tests.serve.browsing import PATIENCE_MS, Watched, watched
from tests.serve.hostile import STRINGS
from tests.serve.shop import SCHEMA, Shop, fill

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, settings: NodeSettings) -> Iterator[Shop]:
    data = tmp_path_factory.mktemp("query")
    with Node(data, settings) as node:
        store = open_store(data, "shop")
        store.prepare("revenue", SCHEMA, ["country"])
        opened = Shop(node, store)
        fill(opened)
        yield opened
        opened.node.stop()
        store.close()


@pytest.fixture
def page(browser: Browser, shop: Shop) -> Iterator[Watched]:
    expect.set_options(timeout=PATIENCE_MS)
    with watched(browser, shop.node.http_url, "light", "desktop") as found:
        yield found


def ask(page: Watched, sql: str) -> None:
    page.page.get_by_label("SELECT over views").fill(sql)
    page.page.keyboard.press("Control+Enter")


def test_a_query_is_answered_as_a_table_and_a_chart(page: Watched) -> None:
    shown = page.go("#/query")
    expect(shown.get_by_role("heading", level=1)).to_have_text("Query")
    expect(shown.get_by_label("SELECT over views")).to_have_value("SELECT * FROM shop.revenue LIMIT 100")
    ask(page, "SELECT country, amount, orders FROM revenue WHERE orders > 1 ORDER BY orders")
    expect(shown.get_by_role("status").filter(has_text="rows")).to_have_text("3 rows · at position orders/0@0")
    expect(shown.locator("tbody tr")).to_have_text(["FR7.002", "DE12.503", "IT100.109"])
    expect(shown.get_by_role("img")).to_have_attribute(
        "aria-label", "The 3 rows with the largest orders: IT 9; DE 3; FR 2"
    )
    shown.get_by_label("Chart of").select_option("amount")
    expect(shown.get_by_role("img")).to_have_attribute(
        "aria-label", "The 3 rows with the largest amount: IT 100.1; DE 12.5; FR 7"
    )
    shown.get_by_role("button", name="country").click()
    expect(shown.locator("tbody tr").first).to_contain_text("DE")
    page.picture("query")
    assert page.complaints == []


def test_a_mistake_is_a_sentence_and_nothing_old_is_left(page: Watched) -> None:
    shown = page.go("#/query")
    ask(page, "SELECT country FROM revenue")
    expect(shown.locator("tbody tr")).to_have_count(4)
    ask(page, "SELECT amont FROM revenue")
    expect(shown.get_by_role("alert").filter(has_text="amont")).to_contain_text(
        'line 1, column 8: there is no column "amont". Did you mean "amount"?'
    )
    expect(shown.locator("tbody tr")).to_have_count(0)


def test_names_are_completed(page: Watched) -> None:
    shown = page.go("#/query")
    editor = shown.get_by_label("SELECT over views")
    editor.fill("SELECT orders FROM reve")
    editor.press("Tab")
    expect(editor).to_have_value("SELECT orders FROM revenue")
    editor.press("End")
    editor.type(" WHERE coun")
    shown.get_by_role("button", name="country").click()
    expect(editor).to_have_value("SELECT orders FROM revenue WHERE country")
    editor.press("Tab")
    expect(editor).not_to_be_focused()
    assert page.complaints == []


def test_queries_are_saved_in_the_browser(page: Watched) -> None:
    shown = page.go("#/query")
    shown.get_by_label("SELECT over views").fill("SELECT sum(orders) AS n FROM revenue WHERE orders < 5")
    shown.get_by_label("Save as").fill("small ones")
    shown.get_by_role("button", name="Save").click()
    shown.get_by_label("SELECT over views").fill("SELECT 1")
    shown.reload()
    expect(shown.get_by_label("SELECT over views")).to_have_value("SELECT 1")
    shown.get_by_role("button", name="small ones", exact=True).click()
    expect(shown.locator("tbody tr")).to_have_text(["6"])
    shown.get_by_role("button", name="Forget small ones").click()
    shown.reload()
    expect(shown.get_by_role("button", name="Save")).to_be_visible()
    expect(shown.get_by_role("button", name="small ones", exact=True)).to_have_count(0)
    assert page.complaints == []


def test_a_query_is_followed_also_over_a_restart_of_the_node(page: Watched, shop: Shop, settings: NodeSettings) -> None:
    shown = page.go("#/query")
    shown.get_by_label("SELECT over views").fill("SELECT country, orders FROM revenue WHERE orders >= 50")
    shown.get_by_label("Follow").check()
    expect(shown.get_by_text("No rows.")).to_be_visible()
    shop.write([{"country": "ES", "amount": "1.00", "orders": 50}])
    expect(shown.locator("tbody tr")).to_have_text(["ES50"])
    shop.node.stop()
    expect(shown.get_by_text("not reachable, trying again")).to_be_visible()
    shop.write([{"country": "PT", "amount": "1.00", "orders": 60}, {"country": "ES", "_op": "d"}])
    shop.node = Node(shop.node.data, settings)
    shop.node.start()
    expect(shown.locator("tbody tr")).to_have_text(["PT60"])
    shown.get_by_label("Follow").uncheck()
    expect(shown.get_by_role("status").filter(has_text="followed")).to_have_count(0)


def test_views_that_share_no_topic_say_so(page: Watched, shop: Shop) -> None:
    shop.store.prepare("users", SCHEMA, ["country"])
    shop.store.write("users", Mark("shop.users", 0, {"users": {0: 9}}), SCHEMA.empty_table())
    shown = page.go("#/query")
    ask(page, "SELECT (SELECT count(*) FROM users) AS users, (SELECT count(*) FROM revenue) > 0 AS some")
    expect(shown.get_by_role("status").filter(has_text="row")).to_contain_text("shop.users at users/0@8")
    expect(shown.get_by_role("status").filter(has_text="row")).to_contain_text("each is at its own position")


def test_what_rows_hold_stays_text(page: Watched, shop: Shop) -> None:
    shop.write([{"country": text, "amount": "1.00", "orders": 7000 + number} for number, text in enumerate(STRINGS)])
    shown = page.go("#/query")
    ask(page, "SELECT country, country AS `<img src=x onerror=alert(1)>`, orders FROM revenue WHERE orders >= 7000")
    expect(shown.locator("tbody tr")).to_have_count(len(STRINGS))
    page.picture("query-hostile")
    assert page.complaints == []


def test_the_page_fits_a_phone_in_the_dark(browser: Browser, shop: Shop) -> None:
    with watched(browser, shop.node.http_url, "dark", "phone") as found:
        found.go("#/query")
        ask(found, "SELECT * FROM revenue")
        expect(found.page.locator("tbody tr").first).to_be_visible()
        wide = found.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        found.picture("query")
        assert wide <= 0
        assert found.complaints == []
