"""A rebuild that a crash cut short, and what the next run may make of it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.errors import FlowError, JobRefused
from headwater.flow.commit.batch_processor import Processor
from headwater.flow.run.app_tester import AppTester
from headwater.testing import running_node
from headwater.views.view import View
from tests.crash.flow import shop
from tests.crash.flow.crashing import ROWS, Crash, Life, crash
from tests.crash.flow.moments import FINISH, PROCESS, SWAP, Moment, arm
from tests.flow.engines import Engine

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

OLD, NEW, NEWER = shop.LEAST
CARRY_OUT = "headwater.flow.deploy.rebuild:carry_out"


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


def run_and_crash(life: Life, least: int, moment: Moment, *, rebuild: bool = True) -> None:
    disarm = arm(moment, 1, crash)
    try:
        with pytest.raises((Crash, FlowError)) as raised:
            run(life, least, rebuild=rebuild)
        assert "Crash" in repr(raised.value)
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


def test_a_view_that_holds_a_batch_more_than_its_job_has_finished_never_goes_back(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its sinks are written and the batch is not noted when the old code crashes: the job is at the batch before."""
    life.write()
    disarm = arm(Moment(FINISH), 1, crash)
    with pytest.raises((Crash, FlowError)):
        run(life, OLD)
    disarm()
    with View.open(life.node.data, shop.APP, "revenue") as view:
        rows, looks = 2 * ROWS, list[int]()
        process = Processor.process

        def looking(self: Processor, *arguments: Any) -> Any:
            looks.append(offsets_of(view))
            done = process(self, *arguments)
            looks.append(offsets_of(view))
            return done

        monkeypatch.setattr(Processor, "process", looking)
        run_and_crash(life, NEW, Moment(CARRY_OUT))
        run_and_crash(life, NEW, Moment(SWAP, after=True), rebuild=False)
        looks.append(offsets_of(view))
        life.write()
        run(life, NEW)
        assert looks == sorted(looks)
        assert (looks[0], looks[-1]) == (rows, rows + ROWS)
    assert life.differences(least=NEW) == []


def offsets_of(view: View) -> int:
    return sum(offset for parts in view.position().values() for offset in parts.values())
