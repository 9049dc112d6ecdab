"""A flow that fails, and a topic that is damaged, is seen on every page of the dashboard, for as long as it is so."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright

from headwater.flow.commit.job_folder import JobFolder
from headwater.flow.commit.job_identity import identify
from headwater.flow.declare.retries import Retries
from headwater.flow.run.health import HealthFile
from headwater.flow.run.supervision import Event, Failure, Health, Warned
from headwater.log.groups.offsets import CommittedOffset
from headwater.node import Node
from headwater.record import Record, TopicPartition
from headwater.settings import HttpSettings, NodeSettings, WireSettings
from tests.serve.browsing import PATIENCE_MS, Watched, watched
from tests.servers.chromium import chromium

pytestmark = pytest.mark.timeout(180)

PAGES = ("#/", "#/topics", "#/topics/orders", "#/flows", "#/views", "#/captures", "#/alerts")
DOWN = Failure("StoreUnavailable", "view store postgresql://db/shop does not answer: <b>refused</b>")


@dataclass
class Job:
    """A job whose process is this one."""

    file: HealthFile
    health: Health

    def is_now(self, health: Health) -> None:
        self.health = health
        assert self.file.write(health) == ""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with Node(tmp_path, NodeSettings(wire=WireSettings(port=0), http=HttpSettings(port=0))) as node:
        node.log.create_topic("orders")
        yield node


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    folder = JobFolder(tmp_path / "flows" / "shop" / "orders")
    identify(folder, app="shop", job="orders", cluster="one", shards=1)
    folder.lock()
    file = HealthFile(folder.path)
    yield Job(file, file.read().begun())
    folder.unlock()


@pytest.fixture
def browser(node: Node, job: Job) -> Iterator[Watched]:
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"])
        with closing(opened), watched(opened, node.http_url, "light", "desktop") as found:
            yield found


def test_a_banner_on_every_page_says_what_fails_and_goes_when_it_is_healed(browser: Watched, job: Job) -> None:
    page, banner = browser.go("#/"), browser.page.get_by_role("alert", name="Problems")
    job.is_now(job.health)
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    expect(banner).to_have_count(0)
    job.is_now(job.health.failed(DOWN, Retries(), 1_000).failed(DOWN, Retries(), 61_000))
    for page_path in PAGES:
        browser.go(page_path)
        expect(banner).to_contain_text("shop.orders fails, and is tried again: view store")
        expect(banner).to_contain_text("<b>refused</b>")
        expect(banner).to_contain_text(
            "Failed 2 times since 1970-01-01 00:00:01.000 UTC; tried again at 1970-01-01 00:01:03"
        )
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{page_path} is wider than the screen"
    job.is_now(job.health.healed(90_000))
    expect(banner).to_have_count(0)
    assert browser.complaints == []


def test_the_page_of_flows_says_state_reason_attempts_and_when_the_next_is(browser: Watched, job: Job) -> None:
    job.is_now(job.health.failed(DOWN, Retries(), 1_000).failed(DOWN, Retries(), 61_000))
    page = browser.go("#/flows")
    details = page.locator("dl")
    expect(details).to_contain_text("retrying")
    expect(details).to_contain_text(DOWN.reason)
    expect(details).to_contain_text("1970-01-01 00:01:01.000 UTC, 2 times in a row")
    expect(details).to_contain_text("1970-01-01 00:01:03.000 UTC")
    job.is_now(job.health.failed(Failure("JobRefused", "view revenue has changed"), Retries(), 99_000))
    expect(details).to_contain_text("view revenue has changed")
    expect(details).to_contain_text("failed")
    job.is_now(job.health.resumed().healed(120_000))
    expect(details).to_contain_text("running")
    expect(details).to_contain_text("runs again since")


def test_offsets_of_a_flow_say_that_it_fails(browser: Watched, job: Job, node: Node) -> None:
    node.log.group_offsets.commit("shop.orders", {TopicPartition("orders", 0): CommittedOffset(0)})
    page = browser.go("#/")
    offsets = page.get_by_role("region", name="Consumer groups").get_by_role("row", name="shop.orders")
    job.is_now(job.health.failed(DOWN, Retries(), 1_000))
    expect(offsets).to_contain_text("fails, and is tried again")
    job.is_now(job.health.failed(Failure("JobRefused", "view revenue has changed"), Retries(), 99_000))
    expect(offsets).to_contain_text("has failed")
    job.is_now(job.health.resumed().healed(120_000))
    expect(offsets).to_contain_text("is running")


def test_a_paused_flow_has_no_banner_and_a_warning_has_one(browser: Watched, job: Job) -> None:
    page, banner = browser.go("#/views"), browser.page.get_by_role("alert", name="Problems")
    job.is_now(job.health.warned(Warned("topic", "topic ordres did not exist and was made, empty", 1)))
    expect(banner).to_contain_text("shop.orders warning: topic ordres did not exist")
    (job.file._path.parent / "control.json").write_text('{"paused": true, "restarts": 0}')
    job.is_now(job.health.failed(DOWN, Retries(), 1_000).after(Event.PAUSED))
    expect(banner).to_have_count(0)
    assert page.title()


def test_offsets_that_cannot_be_read_and_topics_that_are_offline_are_on_every_page(tmp_path: Path) -> None:
    data = tmp_path / "damaged"
    settings = NodeSettings(wire=WireSettings(port=0), http=HttpSettings(port=0))
    with Node(data, settings) as node:
        for topic in ("orders", "visits"):
            node.log.create_topic(topic, configs={"segment.bytes": "200"})
            for number in range(9):
                node.log.append(topic, Record(b"%d" % number * 50))
    _, second, third, *_ = sorted((data / "orders-0").glob("*.log"))
    second.unlink()
    for path in (data / "topics/visits.json", data / "topics/visits.copy"):
        path.write_bytes(b"")
    expect.set_options(timeout=PATIENCE_MS)
    with Node(data, settings) as node, sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"])
        with closing(opened), watched(opened, node.http_url, "light", "desktop") as browser:
            said = f"offsets {int(second.stem)} to {int(third.stem) - 1}"
            for page_path in PAGES:
                browser.go(page_path)
                banner = browser.page.get_by_role("alert", name="Problems")
                expect(banner).to_contain_text("topic visits is offline: it could not be opened")
                expect(banner).to_contain_text(f"topic orders: partition 0: {said}")
            page = browser.go("#/topics")
            expect(page.locator("p.error").filter(has_text="Topic visits is offline")).to_have_count(1)
            expect(page.locator("p.error").filter(has_text=f"partition 0: {said} cannot be read")).to_have_count(1)
            expect(page.get_by_role("row").filter(has_text="orders")).to_have_count(1)
            assert browser.complaints == []
