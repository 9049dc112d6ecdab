"""Kill a capture, its node or its database again and again, and see whether the topics have what the database did.

One database, one data directory and writers that never stop through all rounds. A round starts the node, which strikes
at its chosen moment (node_process.py) or is killed at a random time; the next has to recover from that. At the end the
writers stop, a node works in peace until it has caught up, and the oracle compares.
"""

import json
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

import psycopg

from headwater.capture.appender import LogAppender
from headwater.capture.definition import Definition, Definitions
from headwater.capture.notes import Notes
from headwater.log.log import Log
from tests.crash.capture.node_process import CAPTURE, DATABASE, NODE, NOTHING
from tests.crash.capture.oracle import (
    boundaries,
    committed,
    compare,
    cut_by_commit_points,
    differences,
    events_of,
    fold,
    prepare,
)
from tests.crash.capture.writers import SCHEMA, Writer
from tests.servers.postgres_cluster import Cluster, running_cluster
from tests.waiting import LONG, Deadline, patience, wait_until

NOTED = "after notes"
POINTS = (
    "before append",
    "after append",
    "after sync",
    "before commit point",
    NOTED,
    "before confirm",
    "after confirm",
)
RANDOM = "random time"
PATIENCE_SECONDS = 120
STRIKE_SECONDS, LOOK_SECONDS = 10, 0.1
TICKS_MIN = 6_000
"""How many ticks writers have given before they are stopped; 4,000 are those of the first rows."""
CAPTURES = {"one": (("public.users", "public.bag"), 1), "three": (("public.notes",), 3)}
TRANSACTIONS = "one.transaction"
TOPICS = {"users": "one.public.users", "bag": "one.public.bag", "notes": "three"}
ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Round:
    victim: str
    point: str
    nth: int = 1


@dataclass
class Outcome:
    rounds: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    """By victim and point."""
    missed: int = 0
    changes: int = 0
    anomalies: list[str] = field(default_factory=list)


def rounds(seed: int) -> Iterator[Round]:
    """Every point for every victim, in an order of the seed, and then again."""
    dice = Random(seed)
    while True:
        drawn = [Round(victim, point) for victim in (NODE, DATABASE, CAPTURE) for point in (*POINTS, RANDOM)]
        dice.shuffle(drawn)
        for one in drawn:
            yield Round(one.victim, one.point, 1 if one.point == NOTED else dice.choice((1, 1, 2, 3, 8)))


class Process:
    def __init__(self, folder: Path, data: Path, strike: Round, database: int) -> None:
        self._log = (folder / "node.log").open("ab")
        point = strike.point if strike.point != RANDOM else "-"
        command = [sys.executable, "-m", "tests.crash.capture.node_process", str(data), strike.victim, point,
                   str(strike.nth), str(database)]  # fmt: skip
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._log, cwd=ROOT)

    def line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return dict(json.loads(line)) if line else {}

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.wait_ended()

    def wait_ended(self) -> int:
        code = self.process.wait(LONG)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._log.close()
        return code


class Killing:
    def __init__(self, folder: Path, seed: int, *, release: str = "") -> None:
        self._folder, self._data, self._release = folder, folder / "data", release
        self._dice, self._seed = Random(seed), seed
        self.outcome = Outcome()

    def run(self, chosen: Iterator[Round], *, progress: Callable[[Outcome], None] = lambda outcome: None) -> Outcome:
        with running_cluster(self._release) as cluster:
            url = self._prepare(cluster)
            writers = [Writer(url, self._seed * 10 + number) for number in range(2)]
            for writer in writers:
                writer.start()
            try:
                for one in chosen:
                    self._round(cluster, one)
                    progress(self.outcome)
                if not cluster.alive:
                    cluster.revive()
                wait_until(lambda: _ticks(url) > TICKS_MIN, "rows are written")
            finally:
                for writer in writers:
                    writer.stop()
                    self.outcome.anomalies += writer.failures
            self._finish(cluster, url)
        return self.outcome

    def _prepare(self, cluster: Cluster) -> str:
        with psycopg.connect(cluster.url, autocommit=True) as connection:
            for statement in SCHEMA:
                connection.execute(statement)
            prepare(connection, list(TOPICS))
        for name, (tables, partitions) in CAPTURES.items():
            wanted = Definition(name=name, url=cluster.url, tables=tables, partitions=partitions, heartbeat_seconds=0.5)
            Definitions(self._data).add(replace(wanted, transactions=name == "one"))
        return cluster.url

    def _round(self, cluster: Cluster, one: Round) -> None:
        self.outcome.rounds += 1
        if not cluster.alive:
            cluster.revive()  # killed at the end of the round before, by a process that was itself killed just then
        if one.point == NOTED:
            # It notes how far a copy is, and there may be none left to make.
            capture = self._dice.choice(list(CAPTURES))
            Definitions(self._data).request(capture, {"tables": [], "where": ""})
        process = Process(self._folder, self._data, one, cluster.process_id)
        if not process.line():
            self.outcome.anomalies.append(f"round {self.outcome.rounds}: the node does not start; see node.log")
            process.wait_ended()
            return
        struck = self._strike_at_random(cluster, process, one) if one.point == RANDOM else self._wait(process)
        self.outcome.kills[f"{one.victim}, {one.point}"] += struck
        self.outcome.missed += not struck
        if not cluster.alive:
            cluster.revive()
            time.sleep(self._dice.uniform(0, 1.0))  # it continues with the revived one, before it is killed
        elif struck and one.victim == CAPTURE:
            time.sleep(self._dice.uniform(0, 1.0))
        if process.process.poll() is None:
            process.process.send_signal(signal.SIGKILL)
        process.wait_ended()
        self._look_for_gaps()
        if not cluster.alive:
            cluster.revive()  # it was struck after all, when we had given up waiting for that

    def _look_for_gaps(self) -> None:
        """Nothing that is done here makes one; and a copy that is asked for next would heal it unseen."""
        for name in CAPTURES:
            status = Definitions(self._data).status(name) or {}
            if status.get("state") == "gap":
                self.outcome.anomalies.append(f"round {self.outcome.rounds}: capture {name}: {status['said']}")

    def _wait(self, process: Process) -> bool:
        """Until it has struck. It may be that nothing comes by the point: then it is killed in vain."""
        assert process.process.stdout is not None
        deadline = Deadline(STRIKE_SECONDS)
        while not select.select([process.process.stdout], [], [], LOOK_SECONDS)[0]:
            if deadline.passed:
                return False
        return bool(process.line())

    def _strike_at_random(self, cluster: Cluster, process: Process, one: Round) -> bool:
        time.sleep(self._dice.uniform(0.2, 2.0))
        if one.victim == DATABASE:
            cluster.kill()
        elif one.victim == CAPTURE:
            try:
                with psycopg.connect(cluster.url, autocommit=True) as connection:
                    connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_replication")
            except psycopg.OperationalError:
                return False  # as above
        else:
            process.process.send_signal(signal.SIGKILL)
        return True

    # -- the end -----------------------------------------------------------------------------------------------------

    def _finish(self, cluster: Cluster, url: str) -> None:
        process = Process(self._folder, self._data, Round(NOTHING, RANDOM), 0)
        process.line()
        with psycopg.connect(url, autocommit=True) as connection:
            lagging = self._catch_up(connection)
            if (code := process.end(signal.SIGTERM)) != 0:
                self.outcome.anomalies.append(f"the node did not stop cleanly: exit code {code}")
            if lagging:
                self.outcome.anomalies.append(f"captures do not catch up any more: {lagging}; see node.log")
                return
            self._compare(connection)

    def _catch_up(self, connection: psycopg.Connection[Any]) -> list[str]:
        """Captures that have not come to where the database is now, and do not get on."""
        now = connection.execute("SELECT pg_current_wal_lsn()").fetchone()
        assert now is not None
        deadline, definitions = patience() + PATIENCE_SECONDS, Definitions(self._data)
        before: object = None
        while True:
            rows = connection.execute(
                "SELECT slot_name FROM pg_replication_slots WHERE slot_name <> 'judge' AND confirmed_flush_lsn < %s",
                now,
            ).fetchall()
            statuses = {name: definitions.status(name) for name in CAPTURES}
            copying = [name for name in CAPTURES if not _copied(statuses[name])]
            if not rows and not copying:
                return []
            if (reached := _progress(statuses)) != before:
                before, deadline = reached, patience() + PATIENCE_SECONDS
            if patience() > deadline:
                return [*(str(row[0]) for row in rows), *copying]
            time.sleep(0.1)

    def _compare(self, connection: psycopg.Connection[Any]) -> None:
        found = self.outcome.anomalies
        with Log.open(self._data) as log:
            starts = {name: _start_of(log, name) for name in CAPTURES}
            since = {table: starts[topic.partition(".")[0]] for table, topic in TOPICS.items()}
            expected = committed(connection, since=since)
            found += boundaries(TRANSACTIONS, log.read(TRANSACTIONS, 0))
            found += cut_by_commit_points(log)
            for table, topic in TOPICS.items():
                self.outcome.changes += len(expected[table])
                records = [list(log.read(topic, partition)) for partition in range(log.topic(topic).partitions)]
                found += self._differences(topic, expected[table], records)
                if table != "bag":
                    found += compare(topic, _table(connection, table), fold(chain.from_iterable(records)))

    def _differences(self, topic: str, expected: list[Any], records: list[list[Any]]) -> list[str]:
        if len(records) == 1:
            return differences(topic, expected, events_of(records[0]))
        # Several partitions: what is in order is each of them.
        appender = LogAppender(None)  # type: ignore[arg-type]
        found = []
        for partition, some in enumerate(records):
            own = [
                event for event in expected
                if appender.partition_of(b'{"id":%d}' % event.key, len(records)) == partition
            ]  # fmt: skip
            found += differences(f"{topic}-{partition}", own, events_of(some))
        return found


def _ticks(url: str) -> int:
    with psycopg.connect(url) as connection:
        (last,) = connection.execute("SELECT last_value FROM tick").fetchone() or (0,)
        return int(last)


def _progress(statuses: dict[str, dict[str, Any] | None]) -> object:
    return [((status or {}).get("position"), (status or {}).get("snapshots")) for status in statuses.values()]


def _copied(status: dict[str, Any] | None) -> bool:
    """A capture that has just begun has no snapshots yet."""
    tables = (status or {}).get("snapshots", [])
    return bool(tables) and all(table["done"] for table in tables)


def _start_of(log: Log, capture: str) -> int:
    """Where the slot of a capture began."""
    note = Notes(LogAppender(log), capture).get("slot")
    assert note is not None
    return int(str(note["address"]))


def _table(connection: psycopg.Connection[Any], table: str) -> dict[str, dict[str, Any]]:
    rows = connection.execute(f"SELECT to_jsonb({table}) FROM {table}").fetchall()
    found = {}
    for (row,) in rows:
        if "score" in row and row["score"] is not None:
            row["score"] = str(row["score"])
        found[json.dumps({"id": row["id"]}, separators=(",", ":"))] = row
    return found
