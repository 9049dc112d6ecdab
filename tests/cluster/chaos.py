"""Failures of everything that the shop runs on, one after the other, while it is open.

A round does harm, waits a little, and puts it right; then the flows have to get on: all that was stored before the
harm was repaired is read within the patience of a round. What happened is in the name of the round.
"""

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from headwater.cli.failure import Failure
from tests.clients.brokers.kafka_cluster import BROKERS
from tests.clients.brokers.process import last_lines
from tests.cluster.books import Ends, group_offsets
from tests.cluster.open_shop import Broken, Play
from tests.cluster.servers import BROKER_NAMES, POSTGRES, WORKER_NAMES, WORKERS

HARM_SECONDS = (2.0, 8.0)
DELAY_MS = 150
PATIENCE_SECONDS = 1800
"""For a round to be got over: on a busy machine a batch takes a minute, and a driver ten to start."""


@dataclass(frozen=True)
class Harm:
    name: str
    do: Callable[[], object]
    undo: Callable[[], object]
    restarts_driver: bool = False


class Chaos:
    def __init__(self, play: Play, random: Random) -> None:
        self._play, self._random = play, random
        self._paused: list[int] = []

    def run(self, rounds: int) -> None:
        """Broken if the flows do not get on after one. Every kind of harm comes before any comes again."""
        self._get_on("the start")
        kinds: list[Callable[[], Harm]] = []
        for number in range(rounds):
            if not kinds:
                kinds = list(self.kinds())
                self._random.shuffle(kinds)
            harm = kinds.pop()()
            print(f"round {number + 1} of {rounds}: {harm.name}", flush=True)
            try:
                harm.do()
                self._pause(harm)
            finally:
                harm.undo()
            self._get_on(harm.name)

    def _pause(self, harm: Harm) -> None:
        seconds = self._random.uniform(*HARM_SECONDS)
        if harm.restarts_driver:
            self._play.sleep(seconds)
        else:
            self._play.wait(seconds)

    def _get_on(self, after: str) -> None:
        """Wait until every job has committed offsets beyond those that topics end at now."""
        clock, begun_ms = self._play.clock, self._play.clock.elapsed_ms()
        wanted: Ends | None = None
        waits_for = ["a broker that answers"]
        while waits_for:
            if clock.elapsed_ms() - begun_ms > 1000 * PATIENCE_SECONDS:
                said = last_lines(self._play.driver.log, 5)
                raise Broken(f"{PATIENCE_SECONDS} s after {after} {', '.join(waits_for)} had not got on: {said}")
            self._play.wait(1)
            try:
                now = group_offsets(self._play.servers.kafka.bootstrap)
            except Failure:
                continue
            wanted = now.ends if wanted is None else wanted
            waits_for = now.behind(wanted)
        print(f"  got on after {(clock.elapsed_ms() - begun_ms) / 1000:.0f} s", flush=True)

    # -- what may happen -----------------------------------------------------------------------------------------------

    def kinds(self) -> Sequence[Callable[[], Harm]]:
        """Network cuts only where hosts have networks of their own."""
        everywhere = [
            self.broker_killed, self.broker_paused, self.executor_killed, self.worker_lost, self.executor_paused,
            self.driver_killed, self.driver_paused, self.postgres_killed, self.master_killed,
        ]  # fmt: skip
        apart = [self.broker_cut, self.worker_cut, self.postgres_cut, self.slow_link]
        return [*everywhere, *(apart if self._play.servers.hosts.separate else [])]

    def broker_killed(self) -> Harm:
        kafka, number = self._play.servers.kafka, self._random.randrange(BROKERS)
        return Harm(f"broker {number} is killed", lambda: kafka.kill(number), lambda: kafka.start(number))

    def broker_paused(self) -> Harm:
        kafka, number = self._play.servers.kafka, self._random.randrange(BROKERS)
        return Harm(f"broker {number} is paused", lambda: kafka.pause(number), lambda: kafka.resume(number))

    def executor_killed(self) -> Harm:
        spark, number = self._play.servers.spark, self._random.randrange(WORKERS)
        return Harm(f"the executor of worker {number} is killed", lambda: spark.kill_executor(number), nothing)

    def executor_paused(self) -> Harm:
        spark, number = self._play.servers.spark, self._random.randrange(WORKERS)

        def pause() -> None:
            self._paused = spark.pause_executor(number)

        return Harm(f"the executor of worker {number} is paused", pause, lambda: spark.resume(self._paused))

    def worker_lost(self) -> Harm:
        spark, number = self._play.servers.spark, self._random.randrange(WORKERS)
        return Harm(
            f"worker {number} is killed with its executor",
            lambda: spark.kill_worker(number), lambda: spark.start_worker(number),
        )  # fmt: skip

    def master_killed(self) -> Harm:
        """It remembers nothing: what has executors goes on, and what starts finds the new one."""
        spark = self._play.servers.spark

        def restart() -> None:
            spark.start_master()
            for number in range(WORKERS):
                spark.kill_worker(number)
                spark.start_worker(number)
            self._restart_driver()

        return Harm("the master is killed, and all of Spark started again", spark.kill_master, restart, True)

    def driver_killed(self) -> Harm:
        driver = self._play.driver
        return Harm("the driver is killed", driver.kill, driver.start, True)

    def driver_paused(self) -> Harm:
        driver = self._play.driver
        return Harm("the driver is paused", driver.pause, driver.resume)

    def _restart_driver(self) -> None:
        self._play.driver.kill()
        self._play.driver.start()

    def postgres_killed(self) -> Harm:
        postgres = self._play.servers.postgres
        return Harm("PostgreSQL is killed", postgres.kill, postgres.start)

    def broker_cut(self) -> Harm:
        return self._cut(self._random.choice(BROKER_NAMES))

    def worker_cut(self) -> Harm:
        return self._cut(self._random.choice(WORKER_NAMES))

    def postgres_cut(self) -> Harm:
        return self._cut(POSTGRES)

    def _cut(self, name: str) -> Harm:
        hosts = self._play.servers.hosts
        return Harm(f"{name} is cut off the network", lambda: hosts.cut(name), lambda: hosts.heal(name))

    def slow_link(self) -> Harm:
        hosts, name = self._play.servers.hosts, self._random.choice([*BROKER_NAMES, *WORKER_NAMES, POSTGRES])

        def slow() -> None:
            try:
                hosts.slow(name, delay_ms=DELAY_MS)
            except subprocess.CalledProcessError:
                print("  this kernel cannot slow down a link", flush=True)

        return Harm(f"packets to {name} take {DELAY_MS} ms", slow, lambda: hosts.fast(name))


def nothing() -> None:
    """Spark starts executors again by itself."""
