"""Captures: how fast a table is copied and its changes follow, and how long a commit takes to be readable.

One contender at a time, each round again, on the same server and the same work: it copies two tables, of which the
second counts; follows changes that are not counted; then those that are; then single rows at a steady rate.
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from benchmarks.capture import workload, writing
from benchmarks.capture.contenders import Capturing, debezium, headwater
from benchmarks.capture.names import DEBEZIUM, HEADWATER
from benchmarks.capture.plan import CapturePlan
from benchmarks.capture.workload import BLOCK_CHANGES, BLOCK_EVENTS, INSERTED
from benchmarks.flow.flow_latency import delays_between
from benchmarks.flow.peers.resident import Resident
from benchmarks.process_clock import now_seconds
from benchmarks.progress import Progress
from benchmarks.results import Case, Results, percentile
from tests.clients.brokers.process import NotAvailable, free_port
from tests.servers.postgres_cluster import running_cluster

SECTION = "capture"
CHANGES, SNAPSHOT, LATENCY = Case(SECTION, ("changes",)), Case(SECTION, ("copy",)), Case(SECTION, ("latency",))
LOOK_SECONDS, LOOK_CLOSELY_SECONDS = 0.02, 0.002
"""Each look is a request that the node has to answer."""

STUCK_SECONDS = 120
MILLION = 1_000_000

Running = Callable[[str, Path], AbstractContextManager[Capturing]]
Seen = list[tuple[float, int]]


def measure(folder: Path, plan: CapturePlan, results: Results, progress: Progress) -> list[str]:
    contenders: dict[str, Running] = {HEADWATER: headwater, DEBEZIUM: debezium}
    notices, port = [], free_port()
    with running_cluster(listen_addresses="127.0.0.1", port=str(port), max_wal_size="8GB") as cluster:
        for number in range(plan.rounds):
            for name, running in list(contenders.items()):
                progress.say(f"capture: round {number + 1} of {plan.rounds}, {name}")
                try:
                    with psycopg.connect(cluster.url, autocommit=True) as connection:
                        forget_slots(connection)
                        workload.prepare(connection, rows=plan.snapshot_rows, warm_up_rows=plan.snapshot_warm_up_rows)
                    url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
                    with running(url, folder / f"capture-{number}-{len(name)}") as capturing:
                        Round(name, url, capturing, plan, results).run()
                except NotAvailable as reason:
                    notices.append(f"{name} is left out: {reason}")
                    del contenders[name]
    return notices


def forget_slots(connection: workload.Connection) -> None:
    """Those of whoever was measured before: nobody decodes for two. A server takes a moment to see that one is gone."""
    connection.execute("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active")
    while connection.execute("SELECT 1 FROM pg_replication_slots WHERE active").fetchone():
        time.sleep(0.05)
    connection.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
    for (name,) in connection.execute("SELECT pubname FROM pg_publication").fetchall():
        connection.execute(f'DROP PUBLICATION "{name}"'.encode())


@dataclass
class Round:
    who: str
    url: str
    capturing: Capturing
    plan: CapturePlan
    results: Results
    last: int = 0
    """The id that was inserted last."""

    events: int = 0
    """That there are once all that was written has come."""

    def run(self) -> None:
        self.last = self.events = self.plan.snapshot_rows
        self._copy()
        self._follow(self.plan.warm_up_changes)
        with Resident(self.capturing.process.process.pid) as resident:
            cpu = self.capturing.process.cpu_seconds()
            seconds = self._follow(self.plan.changes)
            cpu = self.capturing.process.cpu_seconds() - cpu
        self.results.add(
            CHANGES, self.who,
            rate=self.plan.changes / seconds, cpu=cpu * MILLION / self.plan.changes, memory=resident.peak_bytes / 2**20,
        )  # fmt: skip
        self._wait()

    def _copy(self) -> None:
        """From the first rows to the last: without the start, and without the table before."""
        with Resident(self.capturing.process.process.pid) as resident:
            began = self._watch(0, 1)
            cpu = self.capturing.process.cpu_seconds()
            seen = [*began, *self._watch(began[-1][1], self.events)]
            cpu = self.capturing.process.cpu_seconds() - cpu
        copied = self.plan.snapshot_rows - began[-1][1]
        self.results.add(
            SNAPSHOT, self.who,
            rate=rate_between(seen), cpu=cpu * MILLION / max(1, copied), memory=resident.peak_bytes / 2**20,
        )  # fmt: skip

    def _watch(self, first: int, events: int, *, every: float = LOOK_SECONDS) -> Seen:
        """When how many had come, until all have."""
        seen: Seen = []
        reached, deadline = first, now_seconds() + STUCK_SECONDS
        while reached < events:
            now_at = self.capturing.events()
            if now_at > reached:
                reached, deadline = now_at, now_seconds() + STUCK_SECONDS
                seen.append((now_seconds(), reached))
            elif now_seconds() > deadline:
                raise RuntimeError(f"{self.who} has report {reached} events of {events}, and no more for a while")
            time.sleep(every)
        return seen

    def _follow(self, changes: int) -> float:
        """Seconds from the first transaction until all are durable."""
        blocks = changes // BLOCK_CHANGES
        first, self.events = self.events, self.events + blocks * BLOCK_EVENTS
        writer = writing.started(self.url, "blocks", self.last, blocks)
        self.last += blocks * INSERTED
        seen = self._watch(first, self.events)
        return seen[-1][0] - writing.finished(writer)[0]

    def _wait(self) -> None:
        """How long each row takes from its commit to its readers."""
        plan = self.plan
        rows = plan.latency_rate * (plan.latency_seconds + plan.latency_warm_up_seconds)
        first, self.events = self.events, self.events + rows
        writer = writing.started(self.url, "rows", self.last, rows, plan.latency_rate)
        seen = self._watch(first, self.events, every=LOOK_CLOSELY_SECONDS)
        delays = delays_between(writing.finished(writer), seen, first)[
            plan.latency_rate * plan.latency_warm_up_seconds :
        ]
        shown = {"p50": 0.5, "p99": 0.99, "most": 1.0}
        self.results.add(
            LATENCY, self.who, **{name: percentile(delays, share) * 1000 for name, share in shown.items()}
        )  # fmt: skip


def rate_between(seen: Seen) -> float:
    """Rows a second from the first that were seen to the last: without the start.

    >>> rate_between([(10.0, 500), (11.0, 1500), (12.0, 4500)])
    2000.0
    """
    (began, first), (ended, last) = seen[0], seen[-1]
    return (last - first) / (ended - began) if ended > began else float(last)
