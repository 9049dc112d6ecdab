"""Kill a job again and again while it works, and see whether everything it has written is right.

One data directory, one PostgreSQL and one log through all rounds. A round feeds some rows and starts the driver of one
app; another round may be of another app, which then has more to read. At a
chosen moment it is killed, or its worker, its JVM or the node (moments.py); the next round has to recover from that,
and is killed too. At the end a driver may do its work in peace; then the oracle looks at everything.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from headwater.flow.commit.job_folder import JobFolder
from tests.crash.flow import apps, shop, times
from tests.crash.flow.driver import ROWS_PER_BATCH, SENTENCE, WITHOUT_SPARK, Orders, board_of
from tests.crash.flow.feeding import Fed, Feed
from tests.crash.flow.moments import DRIVER, JVM, NODE, POINTS, REBUILD, WORKER
from tests.crash.flow.oracle import Place
from tests.crash.flow.round_schedule import Round
from tests.crash.killing import Process, free_port
from tests.waiting import LONG, Alarm, patience

ROOT = Path(__file__).parents[3]
NODE_MODULE = "tests.crash.node_process"
ROWS_PER_ROUND = 90
DRIVER_PATIENCE_S = 60
JVM_PATIENCE_S = 60
KILLED = -9

# What may become of a driver whose victim has died: the job may ride it out, or stop with a sentence.
ENDS = {DRIVER: {KILLED}, WORKER: {0}, JVM: {SENTENCE}, NODE: {0, SENTENCE}}


@dataclass
class Outcome:
    rounds: int = 0
    apps: Counter[str] = field(default_factory=Counter)
    """Rounds by app."""
    kills: Counter[str] = field(default_factory=Counter)
    """By point."""
    missed: Counter[str] = field(default_factory=Counter)
    """Strikes whose moment did not come, by point."""
    rows: int = 0
    notes: list[str] = field(default_factory=list)
    anomalies: list[str] = field(default_factory=list)

    @property
    def never_struck(self) -> list[str]:
        return [name for name in POINTS if name not in self.kills]


@dataclass(frozen=True)
class Ended:
    """How a driver ended, and what it said."""

    code: int
    said: dict[str, Any]
    struck: list[str]


class Killing:
    """With `ahead`, the next driver is on its way up while one works; `forgetful` ones sync nothing. At the end some
    views are `proved`, or all, which takes Spark: of most the oracle knows more."""

    def __init__(
        self, folder: Path, seed: int, store: str, *,
        rows: int = ROWS_PER_ROUND, proved: Sequence[str] | None = None, ahead: bool = True, forgetful: bool = False,
    ) -> None:  # fmt: skip
        self._folder, self._rows, self._proved, self._ahead, self._forgetful = folder, rows, proved, ahead, forgetful
        self._feed = Feed(Random(seed))
        self._port = free_port()
        self._place = Place(folder / "data", f"127.0.0.1:{self._port}", store)
        self._board = board_of(self._place.data)
        self._board.folder.mkdir(parents=True)
        self._node = self._started_node()
        self._variant, self._rebuilding = 0, False
        self._unread: Counter[str] = Counter()
        self._drivers: list[subprocess.Popen[bytes]] = []
        self._jvms: list[int] = []
        self.outcome = Outcome()

    def run(self, rounds: Iterable[Round], *, progress: Callable[[Outcome], None] = lambda outcome: None) -> Outcome:
        try:
            self.begin()
            for one in rounds:
                self.round(one)
                progress(self.outcome)
            self.finish()
        finally:
            self.end()
        return self.outcome

    # -- a round -------------------------------------------------------------------------------------------------------

    def round(self, now: Round) -> None:
        self._write(self._feed.more(self._rows))
        self._unread.update(dict.fromkeys(apps.PROVED, self._rows))
        self.outcome.rounds += 1
        self.outcome.apps[now.app] += 1
        if any(POINTS[strike.name].named == REBUILD for strike in now.strikes) and not self._rebuilding:
            if JobFolder(self._place.data / "flows" / shop.APP / shop.ORDERS).last_finished() is None:
                in_peace = replace(now, strikes=())
                self._note(in_peace, self._drive(in_peace))  # so that there is something to be built again
            self._rebuilding = True
            self._variant += 1
        ended = self._drive(now)
        self._note(now, ended)
        if ended.code == 0 and now.app == shop.APP:
            self._rebuilding = False

    def _note(self, now: Round, ended: Ended) -> None:
        self.outcome.kills.update(ended.struck)
        self.outcome.missed.update(strike.name for strike in now.strikes if strike.name not in ended.struck)
        allowed = set().union(*(ENDS[POINTS[name].victim] for name in ended.struck)) if ended.struck else {0}
        if ended.code not in allowed:
            which = f"round {self.outcome.rounds} ({now})"
            self.outcome.anomalies.append(f"{which}: the driver ended with {ended.code}: {ended.said}; see driver.log")

    def finish(self) -> None:
        """Every app that had a round does the rest of its work without being disturbed, and is looked at."""
        self.outcome.rows = len(self._feed.fed)
        had_rounds = sorted(self.outcome.apps)
        for app in had_rounds:
            views = [view for view in apps.PROVED[app] if self._proved is None or view in self._proved]
            done = Round([], app=app, without_spark=not views and app != times.APP)
            ended = self._drive(done, prove=views, last=app == had_rounds[-1])
            if ended.code != 0:
                self.outcome.anomalies.append(f"the last run of {app}, in peace, ended with {ended.code}: {ended.said}")
                continue
            for view, different in ended.said["different"].items():
                if different:
                    self.outcome.anomalies.append(f"the proof of view {view} finds {different} differences")
            self.outcome.anomalies += apps.differences(app, self._place, self._feed.fed, self._least)

    @property
    def _least(self) -> int:
        return shop.LEAST[self._variant % len(shop.LEAST)]

    def lose_power(self, cut: Callable[[], None]) -> None:
        """Nothing works any more, the disk is as it was in that moment, and the node starts again."""
        self._node.kill()
        cut()
        self._node.close()
        self._node = self._started_node()

    # -- processes -----------------------------------------------------------------------------------------------------

    def _drive(self, now: Round, *, prove: Iterable[str] = (), last: bool = False) -> Ended:
        """Run a driver to its end, and the node again if it dies meanwhile."""
        driver = self._driver_for(now)
        before = len(self._board.struck())
        self._board.lower_flags()
        self._log(f"round {self.outcome.rounds}: {now}")
        self._tell(driver, self._orders(now, prove))
        self._unread[now.app] = 0
        if self._ahead and not last and not self._drivers:
            # Spark takes long to start: the next driver that needs it can do that now.
            self._drivers.append(self._started_driver())
        alarm = Alarm(DRIVER_PATIENCE_S, lambda: self._give_up(driver))
        self._watch(driver)
        alarm.cancel()
        return Ended(driver.returncode, self._said(driver), self._board.struck()[before:])

    def _driver_for(self, now: Round) -> "subprocess.Popen[bytes]":
        """One that is on its way up. Whatever ended it before it had its orders, they are carried out by another."""
        if now.without_spark:
            return self._started_driver(WITHOUT_SPARK)
        if self._drivers and (code := self._drivers[-1].poll()) is not None:
            said = self._said(self._drivers.pop())
            self.outcome.notes.append(f"a driver without orders ended with {code}, and was replaced; it said {said}")
        return self._drivers.pop() if self._drivers else self._started_driver()

    def _orders(self, now: Round, prove: Iterable[str]) -> Orders:
        rows = apps.ROWS_PER_BATCH.get(now.app, ROWS_PER_BATCH)
        return Orders(
            now.app, self._least, self._node_process, self._rebuilding and now.app == shop.APP, list(prove),
            self._forgetful, points=[(strike.name, strike.nth) for strike in now.strikes], lowered=list(now.lowered),
            rows_per_batch=max(rows, self._unread[now.app] * rows // self._rows),
        )  # fmt: skip

    def _started_driver(self, *flags: str) -> "subprocess.Popen[bytes]":
        place = self._place
        command = [sys.executable, "-m", "tests.crash.flow.driver", str(place.data), place.address, place.store, *flags]
        with (self._folder / "driver.log").open("ab") as log:
            return subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
            )  # fmt: skip

    def _tell(self, driver: "subprocess.Popen[bytes]", orders: Orders) -> None:
        assert driver.stdin is not None
        driver.stdin.write(orders.to_json().encode() + b"\n")
        driver.stdin.flush()

    def _log(self, what: str) -> None:
        with (self._folder / "driver.log").open("a") as log:
            log.write(f"\n--- {what}\n")

    def _give_up(self, driver: "subprocess.Popen[bytes]") -> None:
        self.outcome.anomalies.append(f"round {self.outcome.rounds}: the driver hangs; see driver.log")
        driver.kill()

    def _watch(self, driver: "subprocess.Popen[bytes]") -> None:
        while driver.poll() is None:
            if not self._node.alive(for_seconds=0.1):
                self._node.close()
                self._node = self._started_node()

    def _said(self, driver: "subprocess.Popen[bytes]") -> dict[str, Any]:
        assert driver.stdout is not None
        lines = [json.loads(line) for line in driver.stdout.read().splitlines() if line.startswith(b"{")]
        driver.stdout.close()
        if driver.stdin is not None:
            driver.stdin.close()
        self._jvms += [line["jvm"] for line in lines if "jvm" in line]
        return dict(lines[-1]) if lines else {}

    def _started_node(self) -> Process:
        node = Process(NODE_MODULE, self._place.data, self._port)
        assert node.ready(), "the node does not start"
        return node

    @property
    def _node_process(self) -> int:
        return self._node._process.pid

    def end(self) -> None:
        for driver in self._drivers:
            driver.communicate()  # nothing more to do for it
        self._node.kill()
        self._node.close()
        self._bury()

    def _bury(self) -> None:
        """Spark's JVM ends by itself when its driver is gone; one that does not would fill the machine."""
        deadline = patience() + JVM_PATIENCE_S
        for jvm in self._jvms:
            while self._lives(jvm) and patience() < deadline:
                time.sleep(0.2)
            if self._lives(jvm):
                self.outcome.anomalies.append(f"the JVM {jvm} has outlived its driver")
                os.kill(jvm, signal.SIGKILL)

    def _lives(self, jvm: int) -> bool:
        """By its command, because its number may be another's by now."""
        try:
            return str(self._folder).encode() in Path(f"/proc/{jvm}/cmdline").read_bytes()
        except FileNotFoundError:
            return False

    # -- the log -------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Changelogs are not compacted here: the oracle wants to see every change."""
        admin = AdminClient({"bootstrap.servers": self._place.address})
        others = (shop.CUSTOMERS, shop.CITIES, *apps.CHANGELOGS)
        wanted = [NewTopic(shop.ORDERS, shop.PARTITIONS, 1), *(NewTopic(topic, 1, 1) for topic in others)]
        for created in admin.create_topics(wanted).values():
            created.result(LONG)

    def _write(self, rows: list[Fed]) -> None:
        failures: list[str] = []

        def check(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                failures.append(str(error))

        producer = Producer({"bootstrap.servers": self._place.address, "enable.idempotence": True})
        for row in rows:
            producer.produce(
                row.topic, row.value, row.key, partition=row.partition, timestamp=row.time_ms, on_delivery=check
            )
        left = producer.flush(LONG)
        assert not failures, failures
        assert not left, f"{left} rows could not be fed"
