"""Kill a job again and again while it works, and see whether everything it has written is right.

One data directory, one PostgreSQL and one log through all rounds. A round feeds some rows and starts the driver. At a
chosen moment it is killed, or its worker, its JVM or the node (moments.py); the next round has to recover from that,
and is killed too. At the end a driver may do its work in peace; then the judge looks at everything.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.crash.flow import shop
from tests.crash.flow.driver import SENTENCE
from tests.crash.flow.judge import Place, judge
from tests.crash.flow.moments import DRIVER, JVM, NODE, POINTS, REBUILD, WORKER, kill
from tests.crash.killing import Process, free_port

ROOT = Path(__file__).parents[3]
NODE_MODULE = "tests.crash.node_process"
ROWS_PER_ROUND = 90
DRIVER_TIMEOUT_S = 240
JVM_TIMEOUT_S = 60
KILLED = -9

# What may become of a driver whose victim has died: the job may ride it out, or stop with a sentence.
ENDS = {DRIVER: {KILLED}, WORKER: {0}, JVM: {SENTENCE}, NODE: {0, SENTENCE}}


@dataclass(frozen=True)
class Strike:
    """A point, and how many times its moment comes before it kills."""

    name: str
    nth: int = 1

    def __str__(self) -> str:
        return f"{self.name}@{self.nth}"


Round = Sequence[Strike]


@dataclass
class Outcome:
    rounds: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    """By point."""
    missed: int = 0
    """Strikes whose moment did not come."""
    rows: int = 0
    anomalies: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Ended:
    """How a driver ended, and what it said."""

    code: int
    said: dict[str, Any]
    node_died: bool


def random_rounds(random: Random) -> Iterator[Round]:
    """Every point once, in any order, then all again in another."""
    while True:
        names = list(POINTS)
        random.shuffle(names)
        for name in names:
            yield [Strike(name, random.randint(1, POINTS[name].most))]


class Killing:
    def __init__(self, folder: Path, seed: int, store: str) -> None:
        self._folder, self._random = folder, Random(seed)
        self._feed = shop.Feed(Random(seed))
        self._port = free_port()
        self._place = Place(folder / "data", f"127.0.0.1:{self._port}", store)
        self._node = self._started_node()
        self._variant, self._rebuilding = 0, False
        self._jvms: list[int] = []
        self.outcome = Outcome()

    def run(self, rounds: Sequence[Round], *, progress: Callable[[Outcome], None] = lambda outcome: None) -> Outcome:
        try:
            self._create_topics()
            for strikes in rounds:
                self._round(strikes)
                progress(self.outcome)
            self._finish()
        finally:
            self._node.kill()
            self._node.close()
            self._bury()
        return self.outcome

    # -- a round -------------------------------------------------------------------------------------------------------

    def _round(self, strikes: Round) -> None:
        self._write(self._feed.more(ROWS_PER_ROUND))
        self.outcome.rounds += 1
        if any(POINTS[strike.name].named == REBUILD for strike in strikes) and not self._rebuilding:
            self._rebuilding = True
            self._variant += 1
        ended = self._drive(["--node", str(self._node_process), *_options(strikes)])
        self._note(strikes, ended)
        if ended.code == 0:
            self._rebuilding = False

    def _note(self, strikes: Round, ended: Ended) -> None:
        victims = {POINTS[strike.name].victim for strike in strikes}
        struck = ended.code != 0 or ended.node_died or WORKER in victims
        if struck:
            self.outcome.kills.update(strike.name for strike in strikes)
        else:
            self.outcome.missed += 1
        allowed = {0}.union(*(ENDS[victim] for victim in victims))
        if ended.code not in allowed:
            which = f"round {self.outcome.rounds} ({', '.join(map(str, strikes))})"
            self.outcome.anomalies.append(f"{which}: the driver ended with {ended.code}: {ended.said}; see driver.log")

    def _finish(self) -> None:
        ended = self._drive(["--prove"])
        if ended.code != 0:
            self.outcome.anomalies.append(f"the last run, in peace, ended with {ended.code}: {ended.said}")
            return
        self.outcome.rows = len(self._feed.fed)
        for view, different in ended.said["different"].items():
            if different:
                self.outcome.anomalies.append(f"the proof of view {view} finds {different} differences")
        self.outcome.anomalies += judge(self._place, self._feed.fed, least=self._least)

    @property
    def _least(self) -> int:
        return shop.LEAST[self._variant % len(shop.LEAST)]

    # -- processes -----------------------------------------------------------------------------------------------------

    def _drive(self, options: list[str]) -> Ended:
        """Run the driver to its end, and the node again if it dies meanwhile."""
        place = self._place
        rebuild = ["--rebuild"] if self._rebuilding else []
        command = [sys.executable, "-m", "tests.crash.flow.driver", str(place.data), place.address, place.store,
                   "--least", str(self._least), *rebuild, *options]  # fmt: skip
        with (self._folder / "driver.log").open("ab") as log:
            log.write(f"\n--- round {self.outcome.rounds}: {' '.join(options)}\n".encode())
            log.flush()
            driver = subprocess.Popen(
                command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, env={**os.environ, "PYTHONPATH": str(ROOT)}
            )
            timer = threading.Timer(DRIVER_TIMEOUT_S, self._give_up, [driver])
            timer.start()
            node_died = self._watch(driver)
            timer.cancel()
        said = self._said(driver)
        return Ended(driver.returncode, said, node_died)

    def _give_up(self, driver: "subprocess.Popen[bytes]") -> None:
        self.outcome.anomalies.append(f"round {self.outcome.rounds}: the driver hangs; see driver.log")
        driver.kill()

    def _watch(self, driver: "subprocess.Popen[bytes]") -> bool:
        died = False
        while driver.poll() is None:
            if not self._node.alive(for_seconds=0.1):
                self._node.close()
                self._node = self._started_node()
                died = True
        return died

    def _said(self, driver: "subprocess.Popen[bytes]") -> dict[str, Any]:
        assert driver.stdout is not None
        lines = [json.loads(line) for line in driver.stdout.read().splitlines() if line.startswith(b"{")]
        driver.stdout.close()
        self._jvms += [line["jvm"] for line in lines if "jvm" in line]
        return dict(lines[-1]) if lines else {}

    def _started_node(self) -> Process:
        node = Process(NODE_MODULE, self._place.data, self._port)
        assert node.ready(), "the node does not start"
        return node

    @property
    def _node_process(self) -> int:
        return self._node._process.pid

    def _bury(self) -> None:
        """Spark's JVM ends by itself when its driver is gone; one that does not would fill the machine."""
        deadline = time.monotonic() + JVM_TIMEOUT_S
        for jvm in self._jvms:
            while self._lives(jvm) and time.monotonic() < deadline:
                time.sleep(0.2)
            if self._lives(jvm):
                self.outcome.anomalies.append(f"the JVM {jvm} has outlived its driver")
                kill(jvm)

    def _lives(self, jvm: int) -> bool:
        """By its command, because its number may be another's by now."""
        try:
            return str(self._folder).encode() in Path(f"/proc/{jvm}/cmdline").read_bytes()
        except FileNotFoundError:
            return False

    # -- the log -------------------------------------------------------------------------------------------------------

    def _create_topics(self) -> None:
        """The changelog is not compacted here: the judge wants to see every change."""
        admin = AdminClient({"bootstrap.servers": self._place.address})
        wanted = [NewTopic(shop.ORDERS, shop.PARTITIONS, 1), NewTopic(shop.TOTALS, 1, 1)]
        for created in admin.create_topics(wanted).values():
            created.result(10)

    def _write(self, rows: list[shop.Fed]) -> None:
        failures: list[str] = []

        def check(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                failures.append(str(error))

        producer = Producer({"bootstrap.servers": self._place.address, "enable.idempotence": True})
        for row in rows:
            producer.produce(shop.ORDERS, row.value, partition=row.partition, on_delivery=check)
        left = producer.flush(30)
        assert not failures, failures
        assert not left, f"{left} rows could not be fed"


def _options(strikes: Round) -> list[str]:
    return [part for strike in strikes for part in ("--point", str(strike))]
