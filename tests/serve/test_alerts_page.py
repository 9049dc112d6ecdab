"""A real browser sees an alert raised and resolved, and searches a view."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright

from headwater.alerts.definition import Alert, AppAlerts, Definitions
from headwater.alerts.episodes import Rule
from headwater.alerts.notify import topic
from headwater.flow.run.control import control_of
from headwater.flow.sinks.search import SearchSink
from headwater.settings import HttpSettings, NodeSettings
from headwater.testing import running_node
from headwater.views.full_text import index_folder
from headwater.views.store import open_store
from tests.alerts.written_views import ALERT, APP, PLAIN, VIEW, WrittenViews
from tests.serve.browsing import PATIENCE_MS, Watched, watched
from tests.servers.chromium import chromium

pytestmark = pytest.mark.timeout(180)

HOSTILE = "<img src=x onerror=window.hacked=1>"


@pytest.fixture
def views(tmp_path: Path) -> WrittenViews:
    return WrittenViews(tmp_path)


@pytest.fixture
def page(tmp_path: Path, views: WrittenViews) -> Iterator[Watched]:
    Definitions(tmp_path).save(AppAlerts(APP, (Alert(ALERT, VIEW, Rule(), (topic("on-call"),), "slow pages"),)))
    expect.set_options(timeout=PATIENCE_MS)
    path = chromium()
    with (
        running_node(tmp_path, NodeSettings(http=HttpSettings(), alerts=True)) as node,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        with watched(browser, node.http_url, "light", "desktop") as opened:
            yield opened
        browser.close()


def test_an_alert_is_seen_raised_and_resolved_and_hostile_text_as_text(page: Watched, views: WrittenViews) -> None:
    shown = page.go("#/alerts")
    expect(shown.get_by_role("heading", level=1)).to_have_text("Alerts")
    expect(shown.get_by_text("quiet").first).to_be_visible()
    views.write([{"url": HOSTILE, "p99": 2.0}])
    expect(shown.get_by_role("cell", name=f"url={HOSTILE}", exact=True)).to_be_visible()
    expect(shown.get_by_text("delivered").first).to_be_visible()
    views.write([{"url": HOSTILE, "_op": "d"}])
    expect(shown.get_by_text("resolved").first).to_be_visible()
    assert shown.evaluate("window.hacked") is None
    assert page.complaints == []


def test_a_view_that_can_be_searched_has_a_box_for_it(page: Watched, views: WrittenViews, tmp_path: Path) -> None:
    views.write([{"url": "/lamp bright", "p99": 2.0}, {"url": "/desk", "p99": 3.0}])
    sink = SearchSink(index_folder(tmp_path, APP, VIEW), VIEW, ["url"], open_store(tmp_path, APP))
    sink.prepare(PLAIN, ["url"])
    sink.close()
    shown = page.go(f"#/views/{APP}.{VIEW}")
    shown.get_by_role("searchbox").fill("bright")
    shown.get_by_role("searchbox").press("Enter")
    expect(shown.get_by_text("1 row with bright, best first")).to_be_visible()
    assert page.complaints == []


def test_a_flow_is_paused_with_the_keyboard(page: Watched, tmp_path: Path) -> None:
    folder = tmp_path / "flows" / "shop" / "orders"
    folder.mkdir(parents=True)
    (folder / "identity.json").write_text("{}")
    shown = page.go("#/flows")
    shown.get_by_role("button", name="Flow shop.orders").press("Enter")
    shown.get_by_role("button", name="Pause").press("Enter")
    expect(shown.get_by_role("button", name="Resume")).to_be_visible()
    assert control_of(folder).paused
    shown.get_by_role("button", name="Resume").press("Enter")
    expect(shown.get_by_role("button", name="Pause")).to_be_visible()
    assert page.complaints == []
