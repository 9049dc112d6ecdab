"""One job of four fails in each of many ways: it is seen everywhere, the others go on, and it heals with its cause."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest
from playwright.sync_api import Page, sync_playwright
from pyspark.sql import SparkSession

from headwater.cli.main import main
from headwater.flow.run.supervision import State
from headwater.node import Node
from tests.flow.job.failing_ways import (
    BROKEN,
    HARMLESS,
    HEALTHY,
    LOSSES,
    NODE,
    WAYS,
    FourJobs,
    Moment,
    Way,
    four_jobs,
)
from tests.servers.chromium import chromium
from tests.servers.postgres import running_postgres

pytestmark = pytest.mark.timeout(1200)

SEEN_WITHIN_SECONDS = 5
"""On the clock of patience: a busy machine may take longer, but nothing may wait for longer."""
JARGON = re.compile(r"Traceback|org\.apache|Py4J|\bat java\.|\[[A-Z_]{6,}\]|SQLSTATE")


@pytest.fixture(scope="module")
def shop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FourJobs]:
    folder = tmp_path_factory.mktemp("four-jobs")
    with ExitStack() as stack:
        url = stack.enter_context(running_postgres())
        node = stack.enter_context(Node(folder / "data", NODE))
        yield stack.enter_context(four_jobs(folder, node, spark, url))


@pytest.fixture(scope="module")
def page(shop: FourJobs) -> Iterator[Page]:
    """The dashboard, left open on a page that has nothing to do with flows."""
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"])
        with closing(opened):
            page = opened.new_page()
            page.goto(f"{shop.node.http_url}/ui/#/topics")
            yield page


@pytest.fixture(autouse=True)
def healthy_again(shop: FourJobs) -> Iterator[None]:
    """One way that goes wrong is not the next one's failure."""
    yield
    if shop.node.http_url and shop.condition().state != State.RUNNING:
        shop.restart_job()
        shop.until(lambda: shop.condition().state == State.RUNNING, "healthy again")


@pytest.mark.parametrize(
    "way",
    [pytest.param(way, id=way.name.replace(" ", "-"), marks=[pytest.mark.torture] * way.long) for way in WAYS],
)
def test_a_job_that_fails_is_seen_everywhere_and_heals(
    way: Way,
    shop: FourJobs,
    page: Page,
    capsys: pytest.CaptureFixture[str],
    record_property: Callable[[str, object], None],
) -> None:
    assert shop.condition().state == State.RUNNING
    notified, broken = len(shop.notified), f"shop.{BROKEN}"
    banner = page.get_by_role("alert", name="Problems")

    def in_stderr() -> bool:
        """Another sentence is a failure at once: attempts go on, and would be taken for progress."""
        line = next((line for line in shop.notified[notified:] if f"job {BROKEN} failed" in line), "")
        assert not line or (way.says in line and not JARGON.search(line)), line
        return bool(line)

    def listed() -> dict[str, dict[str, str]]:
        assert main(["flow", "list", "--json", "--data", str(shop.node.data)]) == 0
        return {one["name"]: one for one in json.loads(capsys.readouterr().out)}

    def in_list() -> bool:
        found = listed()
        assert {found[f"shop.{one}"]["state"] for one in HEALTHY} == {"running"}
        return found[broken]["state"] == way.state and way.says in found[broken]["reason"]

    def in_flows() -> bool:
        flow = next(one for one in json.loads(shop.http("/flows")) if one["name"] == broken)
        return not flow["running"] and flow["state"] == way.state and way.says in flow["reason"]

    def in_metrics() -> bool:
        metrics = shop.http("/metrics")
        assert f'headwater_flow_running{{flow="shop.{HEALTHY[0]}"}} 1' in metrics
        return f'headwater_flow_running{{flow="{broken}"}} 0' in metrics

    channels = {
        "stderr": in_stderr,
        "flow list": in_list,
        "/flows": in_flows,
        "/problems": lambda: [one["flow"] for one in json.loads(shop.http("/problems"))] == [broken],
        "metrics": in_metrics,
        "dashboard": lambda: banner.filter(has_text=broken).filter(has_text=way.says).count() == 1,
    }
    shop.run.failed_at.clear()  # before it is broken: some ways fail at once, without another row
    with way.breaks(shop):
        shop.feed(BROKEN)
        seen = seen_by(shop, channels)
        # the others go on
        for topic in HEALTHY:
            shop.feed(topic)
        shop.until(lambda: all(shop.rows(one) == shop.fed[one] for one in HEALTHY), "the others go on")
    if way.state == State.FAILED:
        shop.restart_job()
    shop.until(lambda: shop.condition().state == State.RUNNING, "healed")
    shop.until(lambda: shop.rows(BROKEN) == shop.fed[BROKEN], "every row arrived")
    assert shop.condition().health.trouble is not None
    # The view is written first: the reason goes when the batch has ended.
    shop.until(lambda: shop.condition().reason == "", "the reason goes")
    shop.until(lambda: json.loads(shop.http("/problems")) == [], "no problem is left")
    shop.until(banner.is_hidden, "the banner goes")
    shop.until(lambda: "runs again" in " ".join(shop.notified[notified:]), "it is said")
    said = ", ".join(f"{name} {moment.wall_s:.1f}" for name, moment in seen.items())
    record_property("seconds from the failure to each channel", said)
    with capsys.disabled():
        print(f"\n{way.name}: seconds to {said}")
    assert max(moment.patience_s for moment in seen.values()) <= SEEN_WITHIN_SECONDS


def seen_by(shop: FourJobs, channels: dict[str, Callable[[], bool]]) -> dict[str, Moment]:
    """How long after the failure each channel showed it."""
    seen: dict[str, Moment] = {}

    def everywhere() -> bool:
        for name, sees in channels.items():
            if name not in seen and sees():
                now, failed = Moment(), shop.run.failed_at[BROKEN]
                seen[name] = Moment(now.wall_s - failed.wall_s, now.patience_s - failed.patience_s)
        return seen.keys() == channels.keys()

    shop.until(everywhere, "seen everywhere")
    return seen


@pytest.mark.parametrize("harm", HARMLESS, ids=lambda harm: harm.__name__)
def test_what_can_be_made_good_at_once_is_no_failure(harm: Callable[[FourJobs], None], shop: FourJobs) -> None:
    failures, notified = shop.condition().health.failures, len(shop.notified)
    harm(shop)
    shop.feed(BROKEN)
    shop.until(lambda: shop.rows(BROKEN) == shop.fed[BROKEN], "the row arrived")
    assert shop.condition().health.failures == failures
    assert shop.notified[notified:] == []
    assert len(json.loads(shop.http("/flows"))) == 4


def test_an_output_topic_that_was_deleted_is_told_and_made_again(shop: FourJobs) -> None:
    def copies() -> list[int]:
        return [json.loads(one.value or b"")["id"] for one in shop.node.log.read("copies")]

    # The view is written first: the batch before has to be done with the topic, too.
    shop.until(lambda: copies()[-1:] == [shop.fed[BROKEN]], "the batch before has ended")
    notified = len(shop.notified)
    shop.node.log.delete_topic("copies")
    shop.feed(BROKEN)
    shop.until(lambda: any("runs again" in line for line in shop.notified[notified:]), "healed")
    assert "copies" in shop.notified[notified]
    shop.until(lambda: shop.rows(BROKEN) == shop.fed[BROKEN], "the row arrived")
    shop.until(lambda: copies() == [shop.fed[BROKEN]], "it alone is in the new topic")


@pytest.mark.parametrize("topic, harm", LOSSES, ids=lambda one: getattr(one, "__name__", one))
def test_records_that_are_gone_before_they_are_read_fail_their_job_alone_and_for_good(
    topic: str, harm: Callable[[FourJobs, str], None], shop: FourJobs
) -> None:
    notified = len(shop.notified)
    harm(shop, topic)
    shop.until(lambda: any(f"job {topic} failed" in line for line in shop.notified[notified:]), "notified")
    line = next(line for line in shop.notified[notified:] if f"job {topic} failed" in line)
    assert not JARGON.search(line), line
    shop.feed(BROKEN)
    shop.until(lambda: shop.rows(BROKEN) == shop.fed[BROKEN], "the others go on")
    assert f"shop.{topic}" in {one["flow"] for one in json.loads(shop.http("/problems"))}


@pytest.mark.torture  # tasks wait for half a minute for a node that may come back
def test_a_node_that_is_away_fails_all_and_all_heal_when_it_is_back(shop: FourJobs) -> None:
    left = [BROKEN, HEALTHY[-1]]
    shop.node.stop()
    shop.until(lambda: shop.condition().state == State.RETRYING, "seen")
    shop.node = Node(shop.node.data, shop.node.settings)
    shop.node.start()
    for topic in left:
        shop.feed(topic)
    shop.until(lambda: all(shop.rows(topic) == shop.fed[topic] for topic in left), "all go on")
    shop.until(lambda: shop.condition().state == State.RUNNING, "healed")
    shop.node.stop()
