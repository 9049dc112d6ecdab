"""An app that is taken over again and again by changed code, while runs of it are killed and readers look at its views.

A thread feeds rows: a few whenever the views hold all that there are. Readers compare every answer with plain Python's
over the rows up to its position: it is the view of the old code or of the new one, whole, and never goes back, neither
in its position nor to older code. A view that is missing or empty is an anomaly.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from headwater.node import Node
from headwater.record import Record
from headwater.views.query import Query
from headwater.views.store import ViewStore, open_store
from tests.crash.flow.takeover_process import ALL, APP, LARGE, ORDERS
from tests.waiting import LONG, wait_until

ROOT = Path(__file__).parents[3]
CURRENCIES = ("DKK", "EUR", "SEK", "USD")
ROWS_AT_ONCE, FIRST_ROWS = 3, 60
READ_EVERY_S, FED_EVERY_S = 0.02, 0.2
PATIENCE_S = 120
KILLED = -signal.SIGKILL
FIRST_MS = 1_767_225_600_000
Totals = dict[str, tuple[int, int]]


class Answer(NamedTuple):
    """What readers found of two views at one moment."""

    offset: int
    large: Totals
    all: Totals


@dataclass
class Fed:
    """The rows of the topic in their order, and what views hold of the first N of them."""

    rows: list[tuple[str, int]] = field(default_factory=list)
    _totals: dict[int, list[Totals]] = field(default_factory=dict)

    def totals(self, least: int, count: int) -> Totals:
        known = self._totals.setdefault(least, [{}])
        while len(known) <= count:
            currency, amount = self.rows[len(known) - 1]
            orders, revenue = known[-1].get(currency, (0, 0))
            known.append({**known[-1], currency: (orders + 1, revenue + amount)} if amount >= least else known[-1])
        return known[count]


@dataclass
class Reader:
    """Looks again and again, with a connection that stays open or with a new one each time."""

    where: str | Path
    fed: Fed
    versions: list[int]
    """What `large` may be made of: the numbers of the code, in the order in which they are run."""
    stays: bool
    reads: int = 0
    newest: int = 0
    """The index of the version that was seen last."""
    offset: int = 0
    anomalies: list[str] = field(default_factory=list)

    def work(self, stopped: threading.Event) -> None:
        store = open_store(self.where, APP, read_only=True)
        try:
            while not stopped.wait(READ_EVERY_S):
                if not self.stays:
                    store.close()
                    store = open_store(self.where, APP, read_only=True)
                self.look(store)
        finally:
            store.close()

    def look(self, store: ViewStore) -> None:
        try:
            found = answer(store)
        except Exception as error:  # whatever it is, a reader was given no view
            self.anomalies.append(f"read {self.reads}: {type(error).__name__}: {error}")
            return
        self.reads += 1
        self.anomalies += self.compared(found)

    def compared(self, found: Answer) -> Iterator[str]:
        said = f"read {self.reads} at offset {found.offset}"
        if found.offset < self.offset:
            yield f"{said}: the position was {self.offset} before"
        self.offset = found.offset
        if found.all != self.fed.totals(0, found.offset):
            yield f"{said}: {ALL} holds {found.all}"
        fits = [
            index for index, least in enumerate(self.versions) if found.large == self.fed.totals(least, found.offset)
        ]
        if not fits:
            yield f"{said}: {LARGE} holds {found.large}, which no version of the code makes of these rows"
        elif fits[-1] < self.newest:
            yield f"{said}: {LARGE} is that of {self.versions[fits[-1]]} again"
        elif self.newest not in fits:
            self.newest = fits[0]


def answer(store: ViewStore) -> Answer:
    with store.snapshots([LARGE, ALL]) as (large, everything):
        offset, other = (one.mark.position.get(ORDERS, {}).get(0, 0) for one in (large, everything))
        assert offset == other, f"{LARGE} is at {offset}, {ALL} is at {other}"
        return Answer(offset, *(totals(one.select(Query())) for one in (large, everything)))


def totals(rows: Sequence[dict[str, Any]]) -> Totals:
    return {row["currency"]: (row["orders"], row["revenue"]) for row in rows}


class Run:
    """A process that runs the app."""

    def __init__(self, node: Node, store: str, least: int, *flags: str, log: Path) -> None:
        command = [sys.executable, "-m", "tests.crash.flow.takeover_process", str(node.data), node.kafka_address]
        self.said: list[dict[str, Any]] = []
        self._log = log.open("ab")
        self.process = subprocess.Popen(
            [*command, store, str(least), *flags], cwd=ROOT, stdout=subprocess.PIPE, stderr=self._log,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
        )  # fmt: skip
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(b"{"):
                self.said.append(json.loads(line))

    @property
    def runs(self) -> bool:
        return any("runs" in one for one in self.said) and self.process.poll() is None

    @property
    def has_killed(self) -> bool:
        return any("kills" in one for one in self.said)

    def wait_until_it_runs(self) -> None:
        wait_until(lambda: self.runs or self.process.poll() is not None, "the app runs", seconds=PATIENCE_S)
        assert self.process.poll() is None, self.said

    def ended(self) -> int:
        wait_until(lambda: self.process.poll() is not None, f"the run ends: {self.said}", seconds=PATIENCE_S)
        return self.close()

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.ended()

    def close(self) -> int:
        """The exit code; the process is killed if it still runs."""
        if self.process.poll() is None:
            self.process.kill()
        code = self.process.wait(LONG)
        self._reading.join()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self._log.close()
        return code


@dataclass
class Shop:
    """The node, the rows, the readers, and the processes that were started."""

    node: Node
    folder: Path
    versions: list[int]
    store: str = ""
    flags: tuple[str, ...] = ()
    fed: Fed = field(default_factory=Fed)
    readers: list[Reader] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    _stopped: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)
    _random: Random = field(default_factory=lambda: Random(1))

    @property
    def where(self) -> str | Path:
        return self.store or self.node.data

    @contextmanager
    def open(self) -> "Iterator[Run]":
        """Rows, the run of the first version, and readers from the moment that there are views."""
        self.node.log.create_topic(ORDERS)
        self.feed(FIRST_ROWS)
        live = self.run(self.versions[0])
        try:
            live.wait_until_it_runs()
            wait_until(lambda: self.offset() == FIRST_ROWS, "the views hold the first rows", seconds=PATIENCE_S)
            self.readers = [Reader(self.where, self.fed, self.versions, stays) for stays in (True, False)]
            work = [self._keep_feeding, *(lambda one=one: one.work(self._stopped) for one in self.readers)]
            self._threads = [threading.Thread(target=one) for one in work]
            for thread in self._threads:
                thread.start()
            yield live
        finally:
            self._stopped.set()
            for thread in self._threads:
                thread.join()
            for one in self.runs:
                one.close()

    def run(self, least: int, *flags: str) -> Run:
        made = Run(self.node, self.store, least, *flags, *self.flags, log=self.folder / "runs.log")
        self.runs.append(made)
        return made

    def take_over(self, least: int, *, die_at: str = "", kill: Run | None = None, at: str = "", plant: str = "") -> Run:
        whom = ["--kill", str(kill.process.pid), "--at", at] if kill else []
        return self.run(least, "--take-over", "--die-at", die_at, "--plant", plant, *whom)

    def feed(self, count: int) -> None:
        for _ in range(count):
            number, currency, amount = len(self.fed.rows), self._random.choice(CURRENCIES), self._random.randrange(100)
            self.fed.rows.append((currency, amount))
            row = {"id": number, "amount": amount, "currency": currency}
            self.node.log.append(ORDERS, Record(json.dumps(row).encode(), timestamp_ms=FIRST_MS + number))

    def _keep_feeding(self) -> None:
        while not self._stopped.wait(FED_EVERY_S):
            if self.readers[0].offset == len(self.fed.rows):
                self.feed(ROWS_AT_ONCE)

    def offset(self) -> int:
        """How many rows the views hold."""
        try:
            store = open_store(self.where, APP, read_only=True)
        except Exception:  # before its first batch there is no view
            return 0
        try:
            return answer(store).offset
        except Exception:
            return 0
        finally:
            store.close()

    def goes_on(self, what: str) -> None:
        """Wait until readers have seen rows that were not fed yet."""
        now = len(self.fed.rows)
        wait_until(
            lambda: all(one.offset > now for one in self.readers) or bool(self.anomalies), what, seconds=PATIENCE_S
        )

    def is_read(self, times: int = 5) -> None:
        """Wait until each reader has looked some times more."""
        before = [one.reads + len(one.anomalies) for one in self.readers]
        wait_until(
            lambda: all(one.reads + len(one.anomalies) >= count + times
                        for one, count in zip(self.readers, before, strict=True)),
            "views are read", seconds=PATIENCE_S,
        )  # fmt: skip

    def sees(self, least: int) -> None:
        """Wait until all readers have seen a version."""
        index = self.versions.index(least)
        wait_until(
            lambda: all(one.newest >= index for one in self.readers) or bool(self.anomalies),
            f"readers see the view of {least}", seconds=PATIENCE_S,
        )  # fmt: skip

    @property
    def anomalies(self) -> list[str]:
        return [said for one in self.readers for said in one.anomalies]
