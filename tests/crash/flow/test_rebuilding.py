"""A rebuild that a crash cut short, and what the next run may make of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.errors import JobRefused
from headwater.flow.run.app_tester import AppTester
from headwater.testing import running_node
from tests.crash.flow import shop
from tests.crash.flow.crashing import Crash, Life, crash
from tests.crash.flow.moments import PROCESS, SWAP, Moment, arm
from tests.flow.engines import Engine

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

OLD, NEW, NEWER = shop.LEAST


@pytest.fixture
def life(engine: Engine, tmp_path: Path) -> Iterator[Life]:
    """A job that stands at its first batch."""
    with running_node(tmp_path / "data") as node:
        life = Life(engine, node)
        life.write()
        run(life, OLD)
        yield life


def run(life: Life, least: int, *, rebuild: bool = False) -> None:
    tester = AppTester(
        shop.declare(life.place.store, life.place.files, least=least, customers=False), life.node, life.engine
    )
    tester.run(rebuild=["revenue"] if rebuild else [])


def run_and_crash(life: Life, least: int, moment: Moment) -> None:
    disarm = arm(moment, 1, crash)
    try:
        with pytest.raises(Crash):
            run(life, least, rebuild=True)
    finally:
        disarm()


def test_what_was_built_by_other_code_is_not_gone_on_with(life: Life) -> None:
    run_and_crash(life, NEW, Moment(PROCESS, after=True))
    life.write()
    run(life, NEWER, rebuild=True)
    assert life.differences(least=NEWER) == []


def test_once_it_is_being_carried_out_older_code_is_refused_and_the_new_goes_on(life: Life) -> None:
    run_and_crash(life, NEW, Moment(SWAP))
    life.write()
    with pytest.raises(JobRefused, match=f'was "amount >= {NEW}" and is "amount >= {OLD}"'):
        run(life, OLD)
    run(life, NEW)
    assert life.differences(least=NEW) == []
