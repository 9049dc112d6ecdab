"""The demo's shop on a cluster: opened, kept open for a time, closed, and its books looked at."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import psycopg

from headwater.cli.client import Client as Commands
from headwater.cli.failure import Failure
from headwater.clock import SystemClock
from headwater.demo.customers import TOPICS, Customers
from headwater.demo.database import EVERY_SECONDS, Merchant
from headwater.demo.traffic import Traffic
from headwater.errors import HeadwaterError
from tests.clients.brokers.process import last_lines
from tests.cluster.books import books_of, group_offsets
from tests.cluster.hosts import Hosts
from tests.cluster.servers import Driver, Servers

SEED = 7
LOOK_SECONDS = 0.5
DRAIN_SECONDS = 900


class Broken(RuntimeError):
    """Something that has to hold does not; the message is a sentence."""


class PatientMerchant(Merchant):
    """Changes rows also of a database that is killed now and then: what was not committed is of no interest."""

    def _work(self) -> None:
        while not self._stopping.is_set():
            try:
                with psycopg.connect(self._url, autocommit=True, connect_timeout=2) as connection:
                    while not self._stopping.wait(EVERY_SECONDS):
                        self.change(connection)
            except psycopg.Error:
                self._stopping.wait(EVERY_SECONDS)


@dataclass
class Play:
    """An open shop on running servers."""

    servers: Servers
    driver: Driver
    traffic: Traffic
    merchant: PatientMerchant
    clock: SystemClock = field(default_factory=SystemClock)

    def wait(self, seconds: float) -> None:
        """Broken if the driver ends meanwhile."""
        pause, end_ms = threading.Event(), self.clock.elapsed_ms() + 1000 * seconds
        while self.clock.elapsed_ms() < end_ms:
            pause.wait(LOOK_SECONDS)
            self.check_driver()

    @staticmethod
    def sleep(seconds: float) -> None:
        threading.Event().wait(seconds)

    def check_driver(self) -> None:
        if not self.driver.alive:
            raise Broken(f"the driver has ended: {last_lines(self.driver.log)}")

    def close(self) -> None:
        """No more customers, and all that they did is read."""
        self.traffic.stop()
        self.merchant.stop()
        if self.traffic.failure is not None:
            raise Broken(f"not every record could be stored: {self.traffic.failure}")
        end_ms = self.clock.elapsed_ms() + 1000 * DRAIN_SECONDS
        # Orders wait for the tables that they are joined with to come to their time.
        while not self._all_is_read() and self.clock.elapsed_ms() < end_ms:  # else the books say what is wrong
            self.wait(LOOK_SECONDS)

    def _all_is_read(self) -> bool:
        bootstrap = self.servers.kafka.bootstrap
        try:
            return not group_offsets(bootstrap).lag and not books_of(bootstrap).wrong
        except (Failure, HeadwaterError):
            return False

    def settle(self) -> dict[str, Any]:
        """Stop the driver, look at the books, and prove every view."""
        code = self.driver.stop()
        books, verified = books_of(self.servers.kafka.bootstrap), self.driver.verify()
        views = [json.loads(line) for line in verified.stdout.splitlines() if line.startswith("{")]
        wrong = list(books.wrong)
        if code not in (0, 130):
            wrong.append(f"the driver ended with {code}: {last_lines(self.driver.log, 3)}")
        if verified.returncode or not views:
            wrong.append(f"verify ended with {verified.returncode}: {verified.stderr.strip()[-500:]}")
        wrong += [f"view {one['view']} is {one['result']}" for one in views if one["result"] == "different"]
        return {
            "event": "summary", "records": sum(self.traffic.stored.values()),
            "accounts": {name: str(one) for name, one in sorted(books.accounts.items())},
            "views": {one["view"]: one["result"] for one in views}, "wrong": wrong,
        }  # fmt: skip


@contextmanager
def opened_shop(folder: Path, hosts: Hosts, *conf: str) -> Iterator[Play]:
    """Everything runs, and the driver's first batches are under way or done; all ends with the block."""
    servers = Servers(folder, hosts)
    driver = Driver(servers, *conf)
    play: Play | None = None
    try:
        servers.start()
        for name, address in servers.described():
            print(f"  {name}: {address}", flush=True)
        commands = Commands(servers.kafka.bootstrap)
        for topic, partitions in TOPICS.items():
            commands.create_topic(topic, partitions=partitions)
        clock = SystemClock()
        traffic = Traffic(servers.kafka.bootstrap, Customers(Random(SEED), clock.now_ms()), clock)
        play = Play(servers, driver, traffic, PatientMerchant(servers.shop_url, Random(SEED)))
        driver.start()
        traffic.start()
        play.merchant.start()
        yield play
    finally:
        if play is not None:
            play.merchant.stop()
        driver.kill()
        servers.stop()
