"""`headwater late replay`, killed at its steps, and the job that carries it out killed too: late rows count once."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from headwater.flow.run.app_tester import AppTester
from headwater.node import Node
from headwater.testing import running_node
from tests.crash.flow.crashing import Crash, crash
from tests.crash.flow.driver import SHORT_LIVED
from tests.crash.flow.moments import FINISH, PROCESS, TOPIC_WRITE, VIEW_WRITE, Moment, arm
from tests.crash.flow.replaying import EMITTED, FILE, READINGS, VIEWS, declare
from tests.flow.engines import Engine

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

FLOW = "headwater.flow"
MOMENTS = {
    "planned": (Moment(f"{FLOW}.commit.job_folder:JobFolder.plan", after=True), 1),
    "worked out": (Moment(f"{FLOW}.late.late_replay:LateReplay.corrections", after=True), 1),
    "state committed": (Moment(f"{FLOW}.operate.job_operators:Operators.commit", after=True), 1),
    "late topic written": (Moment(TOPIC_WRITE, after=True), 2),
    "first view written": (Moment(VIEW_WRITE, after=True), 1),
    "second view about to be written": (Moment(VIEW_WRITE), 2),
    "all sinks written": (Moment(FINISH), 1),
    "noted": (Moment(FINISH, after=True), 1),
    "about to be planned": (Moment(f"{FLOW}.commit.job_folder:JobFolder.plan"), 1),
    "processed": (Moment(PROCESS, after=True), 1),
}
BEGIN = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SIZES = {"minutes": MINUTE, "hops": 3 * MINUTE}
ROOT = Path(__file__).parents[3]


def reading(second: int, sensor: str = "a", value: float = 0.1) -> dict[str, Any]:
    return {"sensor": sensor, "value": value, "at": (BEGIN + timedelta(seconds=second)).isoformat()}


def time_of(row: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(row["at"])


class Life:
    """An app whose rows are all in time or, after a replay, as if they were."""

    def __init__(self, engine: Engine, node: Node) -> None:
        self.tester = AppTester(declare(), node, engine)
        self._data = node.data
        self._fed: list[dict[str, Any]] = []

    def feed(self, *rows: dict[str, Any]) -> None:
        self._fed += rows
        self.tester.feed(READINGS, rows)
        self.tester.run()

    def stragglers(self, second: int) -> None:
        """Rows that come when nearly all of their windows are over."""
        late = [reading(second + 60 * number, "ab"[number % 2], 0.7 + number) for number in range(4)]
        self.feed(*late, reading(second + 71, value=0.3))

    def kill(self, moment: str, *command: str) -> None:
        """headwater, until the moment comes."""
        (place, after, _), nth = MOMENTS[moment]
        folder = self._data.parent / "spark"
        settings = {**SHORT_LIVED, "spark.local.dir": str(folder)}
        said = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
        arguments = [place, "after" if after else "before", str(nth), *command, "--data", str(self._data)]
        with (self._data.parent / "headwater.log").open("ab") as log:  # a pipe would be held by the JVM
            killed = subprocess.run(
                [sys.executable, "-m", "tests.crash.flow.replaying", *arguments, "--master", "local[2,4]", *said],
                cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False, stdout=log, stderr=log,
            )  # fmt: skip
        assert killed.returncode == -signal.SIGKILL, Path(log.name).read_text()

    def crash(self, moment: str) -> None:
        disarm = arm(*MOMENTS[moment], crash)
        try:
            with pytest.raises(Crash):
                self.tester.replay_late()
        finally:
            disarm()

    def wrong(self) -> list[str]:
        """Of everything that was to be emitted of all rows, as if none had been late."""
        reached = max(map(time_of, self._fed))
        found = [f"the proof of {name} fails" for name in VIEWS if self.tester.prove(name).different]
        for name in VIEWS:
            held = {key(row): values(row) for row in self.tester.rows(name)}
            wanted = expected(self._fed, SIZES[name], reached)
            found += [] if held == wanted else [f"{name} holds {held} and should hold {wanted}"]
            account = self.tester.account(name)
            if (account.rows_in, account.rows_out, account.late) != (len(self._fed), len(self._fed), 0):
                found.append(f"{name} accounts for {account}")
        if emitted(self.tester) != expected(self._fed, MINUTE, reached):
            found.append(f"{EMITTED} adds up to {emitted(self.tester)}")
        return [*found, *self._twice()]

    def _twice(self) -> Iterator[str]:
        late = self.tester.values("plant.readings.late")
        marks = Counter((row["operator"], row["offset"]) for row in late if row.get("admitted"))
        rows = Counter((row["operator"], row["offset"]) for row in late if not row.get("admitted"))
        if marks != rows:
            yield f"{rows - marks} are late, and {marks - rows} were taken back"
        accounts = Counter((row["output"], row["batch"]) for row in self.tester.values("plant.accounts"))
        yield from (f"{count} accounts of {which}" for which, count in accounts.items() if count > 1)


def key(row: dict[str, Any]) -> tuple[str, datetime]:
    start = row["window_start"]
    return row["sensor"], datetime.fromisoformat(start) if isinstance(start, str) else start


def values(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["n"], round(row["total"], 9), row["first"], row["all"]


def expected(rows: list[dict[str, Any]], size: timedelta, reached: datetime) -> dict[Any, Any]:
    """Windows that are over, by sensor and start."""
    windows = defaultdict(list)
    for row in sorted(rows, key=time_of):  # rows of one time are in the order of the log
        start = time_of(row).replace(second=0)
        while start + size > time_of(row):
            windows[row["sensor"], start].append(row["value"])
            start -= MINUTE
    over = {place: found for place, found in windows.items() if place[1] + size <= reached}
    return {place: (len(found), round(sum(found), 9), found[0], found) for place, found in over.items()}


def emitted(tester: AppTester) -> dict[Any, Any]:
    """What the changes make; each says what was there before."""
    table: dict[Any, Any] = {}
    for change in (json.loads(record.value) for record in tester.records(EMITTED) if record.value is not None):
        row = change["after"] or change["before"]
        assert table.get(key(row)) == (change["before"] and values(change["before"]))
        table[key(row)] = change["after"] and values(change["after"])
    return table


@pytest.fixture
def life(engine: Engine, tmp_path: Path) -> Iterator[Life]:
    """A job that has left behind some rows that came too late."""
    with running_node(tmp_path / "data") as node:
        life = Life(engine, node)
        life.feed(*(reading(41 * number, "ab"[number % 2], 0.1 + number) for number in range(12)), reading(900))
        life.stragglers(30)
        yield life


REPLAY, RUN = ("late", "replay", "plant", "--file", str(FILE)), ("run", str(FILE), "--once")


def test_a_replay_that_is_killed_and_a_job_that_is_killed_over_it_take_each_late_row_back_once(life: Life) -> None:
    life.kill("first view written", *REPLAY)
    life.kill("all sinks written", *RUN)
    life.feed(reading(1000))
    assert life.wrong() == []
    assert life.tester.replay_late()["readings"].rows == {}


@pytest.mark.torture
@pytest.mark.parametrize("resumed_by", ["command", "job"])
@pytest.mark.parametrize("moment", MOMENTS)
def test_whatever_the_moment_the_next_run_carries_it_to_its_end(life: Life, moment: str, resumed_by: str) -> None:
    life.crash(moment)
    if resumed_by == "command":
        life.tester.replay_late()
    else:
        life.tester.run()
    assert life.wrong() == []
    life.feed(reading(1000))
    assert life.wrong() == []
    assert life.tester.replay_late()["readings"].rows == {}
