"""The demo runs, a real browser walks its dashboard meanwhile, and in the end the books are in order.

One run for all tests here, in the order they stand. Screenshots are kept in build/screenshots.
"""

import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from headwater.client import RemoteView, connect
from headwater.errors import RequestRefused
from tests.demo.process import Demo
from tests.rules.source import ROOT
from tests.serve.browsing import PATIENCE_MS, Scheme, Watched, watched
from tests.servers.chromium import chromium
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

VIEWS = {"click_through", "revenue", "rooms", "sales", "sessions", "speed", "trending", "unpaid"}
PAGES = [
    ("#/", "Overview", "Records per second"),
    ("#/topics", "Topics", "readings"),
    ("#/topics/readings", "readings", "celsius"),
    ("#/flows", "Flows", "balanced"),
    ("#/views", "Views", "shop.sales"),
    ("#/views/shop.speed", "shop.speed", "click"),
    ("#/views/shop.sales", "shop.sales", "furniture"),
    ("#/views/shop.rooms", "shop.rooms", "dairy"),
    ("#/captures", "Captures", "streaming"),
    ("#/alerts", "Alerts", "too_warm"),
]
SCREENS = [
    ("light", "desktop"),
    ("dark", "phone"),
    *(pytest.param(*one, marks=pytest.mark.torture) for one in (("dark", "desktop"), ("light", "phone"))),
]
"""Both schemes and both screens every time: Spark works as long as pages are walked."""


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """Running, and with something in every view: how long that takes is for the machine to say, and not for pages."""
    started = Demo(tmp_path_factory.mktemp("demo"))
    try:
        views = [connect(started.url).view(f"shop.{name}") for name in sorted(VIEWS)]
        wait_until(lambda: all(filled(view) for view in views), "every view has rows", seconds=300)
        yield started
    finally:
        started.kill()


def filled(view: RemoteView) -> bool:
    try:
        return bool(view.rows(limit=1))
    except RequestRefused:
        return False  # its flow is not that far yet


@pytest.fixture(scope="module")
def browser(demo: Demo) -> Iterator[Browser]:
    path = chromium()
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


@pytest.fixture
def desktop(browser: Browser, demo: Demo) -> Iterator[Watched]:
    with watched(browser, demo.url, "light", "desktop") as page:
        yield page
        assert page.complaints == []


def test_a_view_is_followed_live(desktop: Watched) -> None:
    page = desktop.go("#/views/shop.sales")
    body = page.locator("tbody")
    expect(body.get_by_text("furniture").first).to_be_visible()
    before = body.inner_text()
    expect(body).not_to_have_text(before)
    expect(page.get_by_role("img", name=re.compile("rows with the largest revenue"))).to_be_visible()


def test_a_record_is_found_by_its_time(desktop: Watched, demo: Demo) -> None:
    page = desktop.go("#/topics/readings")
    expect(page.get_by_text("celsius").first).to_be_visible()
    some = connect(demo.url).records("readings", offset=-20)["records"][0]
    second = datetime.fromtimestamp(some["timestamp_ms"] // 1000, UTC)
    page.get_by_label("or time (UTC)").fill(f"{second:%Y-%m-%dT%H:%M:%S}")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("caption", has_text="shown from")).to_be_visible()
    expect(page.locator("td.time").first).to_have_text(re.compile(f"^{second:%Y-%m-%d %H:%M:%S}"))


def test_charts_move(desktop: Watched) -> None:
    page = desktop.go("#/")
    rate = page.locator(".card").filter(has_text="Records per second")
    line = rate.locator("polyline")
    expect(line).to_have_count(1)
    before = line.get_attribute("points") or ""
    expect(line).not_to_have_attribute("points", before)
    expect(rate.locator(".figure")).not_to_have_text("0")
    speed = desktop.go("#/views/shop.speed").get_by_role("img", name=re.compile("p99 over time"))
    shown = speed.get_attribute("aria-label") or ""
    expect(speed).not_to_have_attribute("aria-label", shown)


@pytest.mark.parametrize("scheme, screen", SCREENS)
def test_every_page_fits_every_screen(browser: Browser, demo: Demo, scheme: Scheme, screen: str) -> None:
    with watched(browser, demo.url, scheme, screen) as walk:
        for address, heading, sign in PAGES:
            page = walk.go(address)
            expect(page.get_by_role("heading", level=1)).to_have_text(heading)
            expect(page.locator("main").get_by_text(sign).locator("visible=true").first).to_be_visible()
            assert too_wide(page) <= 0, f"{address} is wider than the screen"
            walk.picture(address.strip("#/").replace("/", "-") or "overview")
        assert walk.complaints == []


def too_wide(page: Page) -> int:
    width: int = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return width


def test_an_alert_is_raised_and_resolved(desktop: Watched) -> None:
    page = desktop.go("#/alerts")
    history = page.locator("table", has=page.locator("caption", has_text="Alert history"))
    expect(history.get_by_text("raised").first).to_be_visible()
    expect(history.get_by_text("resolved").first).to_be_visible()
    shown = page.locator("table", has=page.locator("caption", has_text="Deliveries"))
    expect(shown.get_by_text("delivered").first).to_be_visible()
    desktop.picture("alerts-notified")


def test_pictures_of_the_pages_are_taken(desktop: Watched) -> None:
    """Into docs where it is asked for, to be committed; they are other ones each time."""
    page = desktop.go("#/")
    line = page.locator(".card").filter(has_text="Records per second").locator("polyline")
    expect(line).to_have_attribute("points", re.compile(r"(\S+ ){6,}"))
    taken(desktop, "dashboard")
    desktop.go("#/views/shop.rooms")
    expect(page.get_by_role("img", name=re.compile("warmest over time"))).to_be_visible()
    taken(desktop, "view")


def taken(desktop: Watched, name: str) -> None:
    desktop.picture(name, whole=False)
    if os.environ.get("HEADWATER_PICTURES"):
        desktop.page.screenshot(path=str(ROOT / "docs" / "guide" / "pictures" / f"{name}.png"))


def test_in_the_end_accounts_balance_and_every_view_is_what_the_log_says(demo: Demo) -> None:
    assert {one["name"] for one in connect(demo.url).views()} >= {f"shop.{view}" for view in VIEWS}
    ended = demo.end()
    assert ended.code == 0, ended.errors
    summary = ended.summary
    assert summary["event"] == "summary"
    assert summary["good"] is True
    assert summary["records"] > 300
    assert summary["views"].keys() == {*VIEWS, "too_warm"}
    assert [name for name in VIEWS if summary["views"][name]["rows"] == 0] == []
    assert [name for name, view in summary["views"].items() if view["different"]] == []
    accounts = summary["accounts"]
    assert accounts.keys() == {*VIEWS, "orders-priced", "too_warm"}
    assert all(account["balanced"] for account in accounts.values())
    assert sum(account["poisoned"] for account in accounts.values()) > 0, "broken rows are among what is shown"
