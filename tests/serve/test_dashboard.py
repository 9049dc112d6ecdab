"""A real browser walks the dashboard of a node whose topics and views were written by hand."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import pyarrow as pa
import pytest
from playwright.sync_api import Browser, expect

from headwater.node import Node
from headwater.record import Record
from headwater.serve.tokens import Tokens
from headwater.settings import NodeSettings
from headwater.views.mark import Mark
from headwater.views.store import open_store
from tests.serve.browsing import PATIENCE_MS, Scheme, Watched
from tests.serve.browsing import watched as watched_page
from tests.serve.hostile import STRINGS
from tests.serve.shop import SCHEMA, Shop, fill

pytestmark = pytest.mark.timeout(180)

ACCOUNT = {"in": 1200, "out": 1150, "expanded": 0, "filtered": 45, "duplicates": 0, "late": 3, "poisoned": 2, "lost": 0}
FLOWS = [
    {"name": "shop.orders", "running": True, "batch": 41, "per_second": 812.0, "state_bytes": 48_200, "lag": 7,
     "since_ms": 800, "watermark_us": 1_790_000_000_000_000, "behind_us": 9, "idle": [], "topics": ["orders"],
     "outputs": [{"name": "revenue", "total": ACCOUNT, "last": ACCOUNT, "balanced": True},
                 {"name": "big-orders", "total": ACCOUNT, "last": ACCOUNT, "balanced": True}]},
    {"name": "shop.big-orders", "running": False, "batch": 3, "per_second": None, "state_bytes": 0, "lag": 90,
     "since_ms": 90_000, "watermark_us": None, "behind_us": None, "idle": [], "topics": ["big-orders"], "outputs": []},
]  # fmt: skip


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, settings: NodeSettings) -> Iterator[Shop]:
    data = tmp_path_factory.mktemp("dashboard")
    with Node(data, settings) as node:
        store = open_store(data, "shop")
        store.prepare("revenue", SCHEMA, ["country"])
        opened = Shop(node, store)
        fill(opened)
        yield opened
        opened.node.stop()
        store.close()


@pytest.fixture(params=[("light", "desktop"), ("dark", "phone")], ids="-".join)
def watched(request: pytest.FixtureRequest, browser: Browser, shop: Shop) -> Iterator[Watched]:
    yield from opened(browser, shop, *request.param)


def opened(browser: Browser, shop: Shop, scheme: Scheme, screen: str) -> Iterator[Watched]:
    expect.set_options(timeout=PATIENCE_MS)
    with watched_page(browser, shop.node.http_url, scheme, screen) as found:
        yield found


def test_every_page_shows_what_there_is_and_fits_the_screen(watched: Watched, shop: Shop) -> None:
    page = watched.page
    page.route("**/flows", lambda route: route.fulfill(json=FLOWS))
    for address, heading, sign in [
        ("#/", "Overview", "Records per second"),
        ("#/topics", "Topics", "orders"),
        ("#/topics/orders", "orders", '{"n":19}'),
        ("#/flows", "Flows", "balanced"),
        ("#/views", "Views", "shop.revenue"),
        ("#/views/shop.revenue", "shop.revenue", "100.10"),
        ("#/captures", "Captures", "There are no captures"),
    ]:
        watched.go(address)
        expect(page.get_by_role("heading", level=1)).to_have_text(heading)
        expect(page.get_by_text(sign).first).to_be_visible()
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{address} is wider than the screen"
        watched.picture(f"by-hand-{address.strip('#/').replace('/', '-') or 'overview'}")
    assert watched.complaints == []


@pytest.fixture
def desktop(browser: Browser, shop: Shop) -> Iterator[Watched]:
    yield from opened(browser, shop, "light", "desktop")


def test_a_view_is_live_and_resumes_when_the_node_is_restarted(
    desktop: Watched, shop: Shop, settings: NodeSettings
) -> None:
    page = desktop.go("#/views/revenue")
    expect(page.get_by_role("cell", name="IT", exact=True)).to_be_visible()
    shop.write([{"country": "ES", "amount": "55.55", "orders": 5}, {"country": "IT", "_op": "d"}])
    expect(page.get_by_text("55.55")).to_be_visible()
    expect(page.get_by_role("cell", name="IT", exact=True)).to_have_count(0)
    shop.node.stop()
    expect(page.get_by_text("not reachable, trying again")).to_be_visible()
    shop.write([{"country": "PT", "amount": "66.66", "orders": 5}])
    shop.node = Node(shop.node.data, settings)
    shop.node.start()
    expect(page.get_by_text("66.66")).to_be_visible()
    expect(page.get_by_text("connected", exact=True)).to_be_visible()
    expect(page.get_by_text("55.55")).to_be_visible()


def test_rows_are_filtered_and_a_mistake_is_reported(desktop: Watched) -> None:
    page = desktop.go("#/views/revenue")
    expect(page.get_by_text("12.50")).to_be_visible()
    page.get_by_label("Only rows where").fill("country = DE")
    page.keyboard.press("Enter")
    expect(page.get_by_text("1 row, live")).to_be_visible()
    page.get_by_label("Only rows where").fill("nothing = 1")
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_role("alert")).to_contain_text("there is no column")


def test_a_record_is_found_by_its_time_and_by_its_offset(desktop: Watched) -> None:
    page = desktop.go("#/topics/orders")
    expect(page.get_by_text('{"n":19}')).to_be_visible()
    page.get_by_label("Offset", exact=True).fill("3")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_text("shown from 3")).to_be_visible()
    page.get_by_label("or time (UTC)").fill("1970-01-01T00:00:15")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_text("shown from 15")).to_be_visible()
    assert desktop.complaints == []


def test_charts_move_and_the_keyboard_focus_stays_while_the_page_is_renewed(desktop: Watched, shop: Shop) -> None:
    page = desktop.go("#/")
    link = page.get_by_role("link", name="shop.revenue")
    link.focus()
    rate = page.locator(".card").filter(has_text="Records per second")
    expect(rate.locator("polyline")).to_have_count(1)
    for _ in range(50):
        shop.node.log.append("orders", Record(b"more"), partition=1)
    expect(rate.locator(".figure")).not_to_have_text("0")
    desktop.picture("overview-moving")
    expect(link).to_be_focused()
    assert desktop.complaints == []


def test_flows_can_be_chosen_with_the_keyboard(desktop: Watched) -> None:
    page = desktop.page
    page.route("**/flows", lambda route: route.fulfill(json=FLOWS))
    desktop.go("#/flows")
    page.get_by_role("button", name="Flow shop.big-orders, stopped: show its figures").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="shop.big-orders")).to_be_visible()


def test_what_was_scrolled_and_focused_stays_so_when_a_page_is_renewed(browser: Browser, shop: Shop) -> None:
    for watched in opened(browser, shop, "light", "phone"):
        page = watched.page
        page.route("**/flows", lambda route: route.fulfill(json=FLOWS))
        watched.go("#/flows")
        accounts = page.get_by_role("region", name="Every row accounted for")
        accounts.focus()
        accounts.evaluate("(region) => { region.scrollLeft = 60; region.old = true; }")
        expect(accounts).not_to_have_js_property("old", True)
        expect(accounts).to_have_js_property("scrollLeft", 60)
        expect(accounts).to_be_focused()


def test_the_first_stop_of_the_keyboard_leads_past_the_menu_and_themes_can_be_changed(desktop: Watched) -> None:
    page = desktop.go("#/topics")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.get_by_label("Switch between light and dark").click()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    expect(page.locator("nav a[aria-current=page]")).to_have_text("Topics")


def test_hostile_text_is_shown_as_text(desktop: Watched, shop: Shop) -> None:
    log = shop.node.log
    log.create_topic("hostile")
    for text in STRINGS:
        data = text.encode()
        log.append("hostile", Record(data, key=data, headers=[(text, data)]))
    shop.write([{"country": text, "amount": "1", "orders": 1} for text in STRINGS])
    page = desktop.go("#/topics/hostile")
    for offset in range(0, len(STRINGS), 50):
        page.get_by_label("Offset", exact=True).fill(str(offset))
        page.get_by_role("button", name="Show").click()
        expect(page.get_by_text(f"shown from {offset}", exact=False)).to_be_visible()
        assert page.locator("tbody tr").count() == 50
        shown = page.evaluate("[...document.querySelectorAll('td.content')].map(one => one.textContent)")
        for number, text in enumerate(STRINGS[offset : offset + 50]):
            assert shown[3 * number : 3 * number + 2] == [text, text]
            assert shown[3 * number + 2] == f"{text}={text}"
    desktop.go("#/views/revenue")
    expect(page.get_by_text(re.compile("rows?, live")).or_(page.get_by_text("are shown")).first).to_be_visible()
    for text in STRINGS[:20]:
        desktop.go(f"#/views/{text}" if "%" not in text else "#/")
    made = page.evaluate(
        "document.querySelectorAll('main script, main iframe, main img, main object, main link').length"
    )
    assert (made, page.evaluate("window.hacked === undefined")) == (0, True)
    assert [one for one in desktop.complaints if "404" not in one] == []


def test_topics_with_hostile_names_are_listed_and_opened_by_these_names(desktop: Watched, shop: Shop) -> None:
    """What of the strings may name a topic: the others are refused by the log."""
    legal = sorted({re.sub(r"[^A-Za-z0-9._-]", "", text)[:120] for text in STRINGS[::10]} | {"constructor", "valueOf"})
    for name in legal:
        shop.node.log.create_topic(name)
    for text in STRINGS:
        if re.search(r"[^A-Za-z0-9._-]", text):
            posted = shop.ask("POST", f"/topics/{quote(text, safe='')}", b"1", {"content-type": "application/json"})
            assert posted.status in (400, 403, 404, 422)
    page = desktop.go("#/topics")
    for name in legal:
        expect(page.get_by_role("link", name=name, exact=True)).to_be_visible()
    for name in ("constructor", "scriptwindow.hacked1script"):
        desktop.go(f"#/topics/{name}")
        expect(page.get_by_role("heading", level=1)).to_have_text(name)
    assert page.evaluate("window.hacked === undefined")
    assert desktop.complaints == []


def test_the_policy_of_the_pages_allows_nothing_from_elsewhere(shop: Shop) -> None:
    for address in ("/ui/", "/ui/main.js", "/ui/style.css"):
        answer = shop.get(address)
        assert answer.status == 200
        assert "default-src 'none'; script-src 'self'" in answer.headers["content-security-policy"]
        assert "unsafe" not in answer.headers["content-security-policy"]
        again = shop.get(address, headers={"if-none-match": answer.headers["etag"]})
        assert (again.status, again.body) == (304, b"")
    assert shop.get("/").headers["location"] == "/ui/"
    assert shop.get("/ui/../settings.py").status == shop.get("/ui/%2e%2e%2fapi.py").status == 404


def test_a_browser_with_a_token_gets_a_cookie_that_scripts_cannot_read(shop: Shop) -> None:
    far = {"x-forwarded-for": "203.0.113.9"}
    made = Tokens(shop.node.data).add("browser", ("read",))
    wrong = shop.ask("POST", "/session", b'{"token": "hw_no"}', far)
    right = shop.ask("POST", "/session", json.dumps({"token": made}).encode(), far)
    assert (wrong.status, right.status) == (401, 204)
    cookie = right.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert shop.get("/views", headers={**far, "cookie": cookie.partition(";")[0]}).status == 200
    assert shop.get("/views", headers=far).status == 401
    assert shop.get("/views").status == 401, "where there is a token, every client needs one"
    assert [shop.ask("POST", "/session", body, far).status for body in (b"", b"[]", b'{"token": 1}')] == [400, 401, 401]
    Tokens(shop.node.data).remove("browser")
    assert shop.get("/views").status == 200


GROUPS = [
    {"name": "shop.orders", "state": "Empty", "members": 0, "lag": 7, "partitions": []},
    {"name": "warehouse", "state": "Stable", "members": 2, "lag": 1200, "partitions": []},
    {"name": "office", "state": "Empty", "members": 0, "lag": 30, "partitions": []},
]


def test_a_row_is_poisoned_once_and_a_group_of_a_flow_is_as_its_flow_is(desktop: Watched) -> None:
    page = desktop.page
    page.route("**/flows", lambda route: route.fulfill(json=FLOWS))
    page.route("**/groups", lambda route: route.fulfill(json=GROUPS))
    desktop.go("#/")
    poisoned = page.locator(".card").filter(has_text="Poisoned rows").locator(".figure")
    expect(poisoned).to_have_text("2")  # of two outputs of one flow, each of which counts it
    groups = page.get_by_role("region", name="Consumer groups")
    expect(groups.get_by_role("row", name="shop.orders")).to_contain_text("offsets of a flow, which is running")
    expect(groups.get_by_role("row", name="shop.orders")).not_to_contain_text("Empty")
    expect(groups.get_by_role("row", name="office")).to_contain_text("Empty")
    desktop.picture("overview-groups")


def test_tables_are_sorted_by_the_column_that_is_chosen_and_stay_so(desktop: Watched) -> None:
    page = desktop.page
    page.route("**/groups", lambda route: route.fulfill(json=GROUPS))
    desktop.go("#/")
    groups = page.get_by_role("region", name="Consumer groups")
    names = groups.locator("tbody td:first-child")
    groups.get_by_role("button", name="lag").click()
    expect(names).to_have_text(["warehouse", "office", "shop.orders"])
    expect(groups.get_by_role("columnheader", name="lag")).to_have_attribute("aria-sort", "descending")
    groups.evaluate("(region) => { region.old = true; }")
    expect(groups).not_to_have_js_property("old", True)
    expect(names).to_have_text(["warehouse", "office", "shop.orders"])
    groups.get_by_role("button", name="group").click()
    expect(names).to_have_text(["office", "shop.orders", "warehouse"])
    assert desktop.complaints == []


def test_rows_of_a_view_are_sorted_by_a_column(desktop: Watched, shop: Shop) -> None:
    shop.write([{"country": "XA", "amount": "9.00", "orders": 1}, {"country": "XB", "amount": "700.00", "orders": 2}])
    page = desktop.go("#/views/revenue")
    expect(page.get_by_text("700.00")).to_be_visible()
    page.get_by_role("button", name="amount").click()
    expect(page.locator("tbody tr").first).to_contain_text("XB")
    page.get_by_role("button", name="amount").click()
    expect(page.get_by_role("columnheader", name="amount")).to_have_attribute("aria-sort", "ascending")
    expect(page.locator("tbody tr").first).not_to_contain_text("XB")
    assert desktop.complaints == []


WINDOWS = pa.schema(
    [
        ("url", pa.string()),
        ("window_start", pa.timestamp("us", "UTC")),
        ("window_end", pa.timestamp("us", "UTC")),
        ("clicks", pa.int64()),
        ("newest", pa.list_(pa.struct([("user", pa.string()), ("at", pa.string())]))),
    ]
)


def test_bars_of_windows_say_which_and_lists_of_structs_are_tables(desktop: Watched, shop: Shop) -> None:
    start = datetime(2026, 1, 31, 12, tzinfo=UTC)
    rows = [
        {"_op": "c", "url": f"/page-{number}", "window_start": start, "window_end": start + timedelta(minutes=5),
         "clicks": number + 1, "newest": [{"user": "ada", "at": "12:01"}, {"user": "bob", "at": "12:02"}]}
        for number in range(12)
    ]  # fmt: skip
    shop.store.prepare("pages", WINDOWS, ["url", "window_start", "window_end"])
    schema = pa.schema([("_op", pa.string()), *WINDOWS])
    shop.store.write("pages", Mark("shop/clicks/1", 0, {"clicks": {0: 12}}), pa.Table.from_pylist(rows, schema))
    page = desktop.go("#/views/shop.pages")
    expect(page.get_by_text("The newest window: 2026-01-31 12:00:00 to 2026-01-31 12:05:00 UTC")).to_be_visible()
    inner = page.locator("table.inner").first
    expect(inner.locator("th")).to_have_text(["user", "at"])
    expect(inner.locator("tbody tr")).to_have_text(["ada12:01", "bob12:02"])
    desktop.picture("windows-and-structs")
    assert desktop.complaints == []


def test_the_charts_show_the_last_day_also_on_a_page_that_was_just_opened(desktop: Watched, shop: Shop) -> None:
    history = shop.node._http._api.history  # type: ignore[union-attr]
    for _ in range(3):
        history.take()
    page = desktop.go("#/")
    page.get_by_role("button", name="the last day").click()
    expect(page.get_by_role("button", name="the last day")).to_have_attribute("aria-pressed", "true")
    rate = page.locator(".card").filter(has_text="Records per second")
    expect(rate.locator("polyline")).to_have_count(1)
    expect(rate.locator(".axis")).to_contain_text("ago")
    desktop.picture("overview-day")
    said = json.loads(shop.get("/history").body)
    assert said["every_ms"] == 30_000
    assert len(said["samples"]) >= 3
    assert {"at_ms", "rate", "lag", "behind_seconds", "late", "poisoned"} <= said["samples"][0].keys()
    assert desktop.complaints == []


CAPTURES = [
    {"name": "shop", "state": "streaming", "lag_seconds": 0.2, "retained_bytes": 48_000_000, "said": ""},
    {"name": "files", "state": "streaming", "lag_seconds": None, "said": ""},
]


def test_captures_show_what_the_database_keeps_of_its_log(desktop: Watched) -> None:
    page = desktop.page
    page.route("**/captures", lambda route: route.fulfill(json=CAPTURES))
    desktop.go("#/captures")
    expect(page.get_by_role("columnheader", name="WAL kept")).to_be_visible()
    expect(page.get_by_role("row", name="shop")).to_contain_text("48.0 MB")
    desktop.picture("captures-wal")
    assert desktop.complaints == []
