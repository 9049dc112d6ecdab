"""A run that takes an app over, and the run that it takes it from, die at any point (kill -9): readers find a whole
view all the time, and the next run finishes what was begun."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from headwater.node import Node
from headwater.testing import running_node
from tests.crash.flow.takeover_process import BEFORE_THE_HANDOVER, BUGS, LIVE, REBUILDING
from tests.crash.flow.taking_over import KILLED, Run, Shop

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

OLD, NEW = 50, 10


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with running_node(tmp_path / "data") as node:
        yield node


def killed_while_it_rebuilds(shop: Shop, live: Run) -> None:
    """At each point, one run after the other; the last one is left alone."""
    for point in REBUILDING:
        taker = shop.take_over(NEW, die_at=point)
        assert taker.ended() == KILLED, (point, taker.said)
        assert taker.has_killed, point
        if point in BEFORE_THE_HANDOVER:
            assert live.runs, point
            shop.goes_on(f"the old run goes on after the other was killed {point}")
        else:
            assert live.ended() == 0, (point, "it has let its jobs go")
            shop.is_read()
    last = shop.take_over(NEW)
    last.wait_until_it_runs()
    shop.sees(NEW)
    shop.goes_on("the new run goes on")
    assert shop.anomalies == []
    assert last.stop() == 0


def test_readers_find_a_whole_view_wherever_the_run_that_rebuilds_is_killed(node: Node, tmp_path: Path) -> None:
    shop = Shop(node, tmp_path, [OLD, NEW])
    with shop.open() as live:
        killed_while_it_rebuilds(shop, live)
    assert shop.anomalies == []
    replayed = [one["report"] for run in shop.runs[1:3] for one in run.said if "replayed" in one.get("report", "")]
    assert len(replayed) == len(set(replayed)), "what one has built, the next one does not build again"


def killed_while_it_is_taken_over(shop: Shop, live: Run, points: Sequence[str]) -> None:
    """The run that is live dies at each point; the one that takes over goes on alone, and is live at the next."""
    for point, following, least in zip(points, [*points[1:], ""], shop.versions[1:], strict=True):
        killed_by_it = live if point in BEFORE_THE_HANDOVER else None
        taker = shop.take_over(least, kill=killed_by_it, at=point, die_at=following if following in LIVE else "")
        assert live.ended() == KILLED, (point, live.said)
        taker.wait_until_it_runs()
        shop.sees(least)
        shop.goes_on(f"the run goes on that took over from one that was killed {point}")
        live = taker
    assert live.stop() == 0


SOME_LIVE = ["in the middle of catching up", "about to let them go"]
ALL_LIVE = [*BEFORE_THE_HANDOVER, *LIVE]
VERSIONS = [50, 10, 60, 20, 70, 30, 80]


@pytest.mark.parametrize("points", [SOME_LIVE, pytest.param(ALL_LIVE, marks=pytest.mark.torture)], ids=["some", "all"])
def test_readers_find_a_whole_view_wherever_the_run_that_is_taken_over_is_killed(
    node: Node, tmp_path: Path, points: list[str]
) -> None:
    shop = Shop(node, tmp_path, VERSIONS[: len(points) + 1])
    with shop.open() as live:
        killed_while_it_is_taken_over(shop, live, points)
    assert shop.anomalies == []


@pytest.mark.torture
@pytest.mark.parametrize("flags", [(), ("--spark",)], ids=["without Spark", "on Spark"])
@pytest.mark.parametrize("killed", ["the run that rebuilds", "the run that is taken over"])
def test_the_same_in_postgresql_and_on_spark(
    node: Node, tmp_path: Path, postgres_url: str, flags: tuple[str, ...], killed: str
) -> None:
    rebuilds = killed == "the run that rebuilds"
    shop = Shop(node, tmp_path, [OLD, NEW] if rebuilds else VERSIONS, postgres_url, flags)
    with shop.open() as live:
        if rebuilds:
            killed_while_it_rebuilds(shop, live)
        else:
            killed_while_it_is_taken_over(shop, live, ALL_LIVE)
    assert shop.anomalies == []


@pytest.mark.torture
@pytest.mark.parametrize("bug", BUGS)
def test_the_readers_find_a_bug(node: Node, tmp_path: Path, bug: str) -> None:
    shop = Shop(node, tmp_path, [OLD, NEW])
    with shop.open():
        shop.take_over(NEW, plant=bug).wait_until_it_runs()
        shop.is_read()
    assert any("UnknownView" in one for one in shop.anomalies), shop.anomalies
