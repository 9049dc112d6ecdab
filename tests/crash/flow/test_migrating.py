"""A migration cut short by a crash at every moment, and what the next run makes of it: with the new code or the old."""

import os
import signal
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.errors import JobRefused
from headwater.flow.run.app_tester import AppTester
from headwater.node import Node
from headwater.testing import running_node
from tests.crash.flow.crashing import Crash, crash
from tests.crash.flow.migrating import KEYS_PER_SHARE, app, expected
from tests.crash.flow.moments import Moment, arm
from tests.flow.engines import Engine
from tests.flow.job.shop import orders

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

MIGRATING, REBUILDING, STORE = (
    "headwater.flow.deploy.migration",
    "headwater.flow.deploy.rebuild",
    "headwater.views.tables",
)
MOMENTS = {
    "state written": (Moment(f"{MIGRATING}:restate", after=True), 1),
    "hidden table made": (Moment(f"{STORE}:SqlStore.begin_shadow", after=True), 1),
    "first share written": (Moment(f"{STORE}:SqlStore.write", after=True), 1),
    "second share about to be written": (Moment(f"{STORE}:SqlStore.write"), 2),
    "about to be noted": (Moment(f"{MIGRATING}:note_caught_up"), 1),
    "noted": (Moment(f"{MIGRATING}:note_caught_up", after=True), 1),
    "old state removed": (Moment("headwater.flow.commit.job_folder:shutil.rmtree", after=True), 1),
    "state moved": (Moment(f"{STORE}:SqlStore.swap"), 1),
    "view swapped": (Moment(f"{STORE}:SqlStore.swap", after=True), 1),
    "plan saved": (Moment(f"{REBUILDING}:save_one", after=True), 1),
    "first view done": (Moment(f"{MIGRATING}:carry_out", after=True), 1),
    "second view noted": (Moment(f"{MIGRATING}:note_caught_up", after=True), 2),
    "second view swapped": (Moment(f"{STORE}:SqlStore.swap", after=True), 2),
    "all done": (Moment("headwater.flow.deploy.deployment:save"), 1),
}


class Life:
    def __init__(self, engine: Engine, node: Node) -> None:
        self._engine, self.node = engine, node
        self.fed: list[dict[str, Any]] = []

    def feed(self, count: int, seed: int) -> None:
        rows = orders(count, seed=seed)
        self.fed += rows
        AppTester(app(changed=True), self.node, self._engine).feed("orders", rows)

    def run(self, *, changed: bool) -> AppTester:
        tester = AppTester(app(changed=changed), self.node, self._engine)
        tester.run(rows_per_batch=KEYS_PER_SHARE if changed else 100)
        return tester

    def crash(self, moment: Moment, nth: int) -> None:
        disarm = arm(moment, nth, crash)
        try:
            with pytest.raises(Crash):
                self.run(changed=True)
        finally:
            disarm()

    def wrong(self, tester: AppTester, *, changed: bool) -> list[str]:
        names = ("number", "spent") if changed else ("orders", "amount")
        found = []
        for view, rows in expected(self.fed, changed=changed).items():
            held = [(row["user_id"], *(row[name] for name in names)) for row in tester.rows(view)]
            found += [] if held == rows else [f"{view} holds {held} and should hold {rows}"]
            found += [f"the proof of {view} fails"] if tester.prove(view).different else []
        return found


@pytest.fixture
def life(engine: Engine, tmp_path: Path) -> Iterator[Life]:
    """A job that stands at its second batch."""
    with running_node(tmp_path / "data") as node:
        life = Life(engine, node)
        for seed in (1, 2):
            life.feed(30, seed)
            life.run(changed=False)
        yield life


EVERY_TIME = ("first share written", "state moved", "view swapped")
"""The moments that the short form has: all others differ in which of the same files are there."""


def long_form(moments: Iterable[str], short: Collection[str] = EVERY_TIME) -> list[Any]:
    return [moment if moment in short else pytest.param(moment, marks=pytest.mark.torture) for moment in moments]


@pytest.mark.parametrize("moment", long_form(MOMENTS))
def test_the_next_run_carries_on_and_everything_is_right(life: Life, moment: str) -> None:
    life.crash(*MOMENTS[moment])
    after = life.run(changed=True)
    assert life.wrong(after, changed=True) == []
    life.feed(7, 3)
    after.run()
    assert life.wrong(after, changed=True) == []


@pytest.mark.parametrize(
    "moment",
    long_form(["first share written", "noted", "state moved", "first view done", "all done"], ["first view done"]),
)
def test_with_the_old_code_it_is_as_before_or_refused_and_never_a_mixture(life: Life, moment: str) -> None:
    life.crash(*MOMENTS[moment])
    life.feed(7, 3)
    try:
        before = life.run(changed=False)
    except JobRefused:
        pass  # its state has become that of the new code, in which an aggregate is no more
    else:
        assert life.wrong(before, changed=False) == []
    assert life.wrong(life.run(changed=True), changed=True) == []


@pytest.mark.parametrize(
    "moment",
    long_form(["first share written", "old state removed", "view swapped", "second view noted"], ["old state removed"]),
)
def test_a_process_that_is_killed_leaves_nothing_that_the_next_cannot_finish(life: Life, moment: str) -> None:
    (place, after, _), nth = MOMENTS[moment]
    root = Path(__file__).parents[3]
    command = [sys.executable, "-m", "tests.crash.flow.migrating", str(life.node.data), life.node.kafka_address,
               place, "after" if after else "before", str(nth)]  # fmt: skip
    killed = subprocess.run(command, cwd=root, env={**os.environ, "PYTHONPATH": str(root)}, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert life.wrong(life.run(changed=True), changed=True) == []
