"""A node that relays a table of events, killed again and again while several sessions write events and delete them."""

import os
import signal
import threading
import time
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest

from headwater.capture.appender import LogAppender
from headwater.capture.definition import Definition, Definitions
from headwater.capture.notes import Notes
from headwater.log.log import Log
from tests.crash.capture.killing import RANDOM, STRIKE_SECONDS, Process, Round
from tests.crash.capture.node_process import NODE, NOTHING
from tests.crash.capture.oracle import committed, prepare
from tests.servers.postgres_cluster import running_cluster
from tests.waiting import Alarm, patience, wait_until

ROUNDS = int(os.environ.get("HEADWATER_RELAY_ROUNDS", "4"))
POINTS = ("before append", "after append", "after sync", "before confirm", "after confirm", RANDOM)
PATIENCE_SECONDS, TICKS_MIN = 60, 300
OUTBOX = "CREATE TABLE outbox (tick bigint PRIMARY KEY DEFAULT nextval('tick'), name text, payload text)"
Connection = psycopg.Connection[Any]


class Writer(threading.Thread):
    """Events in transactions of any size; some are rolled back, some deleted as soon as they are written."""

    def __init__(self, url: str, seed: int) -> None:
        super().__init__(daemon=True)
        self._url, self._dice, self._ending = url, Random(seed), threading.Event()

    def run(self) -> None:
        with psycopg.connect(self._url) as connection:
            while not self._ending.wait(self._dice.uniform(0, 0.03)):
                count = self._dice.choice((1, 2, 20))
                connection.execute(
                    "INSERT INTO outbox (name, payload) SELECT 'e' || i %% 3, 'said' FROM generate_series(1, %s) i",
                    (count,),
                )
                kind = self._dice.random()
                if kind < 0.3:
                    connection.execute("DELETE FROM outbox")  # in the transaction that may have inserted them
                if kind > 0.9:
                    connection.rollback()
                connection.commit()

    def stop(self) -> None:
        self._ending.set()
        self.join()


def struck(node: Process, point: str, dice: Random) -> bool:
    if point == RANDOM:
        time.sleep(dice.uniform(0.3, 1.5))
        node.process.send_signal(signal.SIGKILL)
        return True
    alarm = Alarm(STRIKE_SECONDS, node.process.kill)  # if nothing comes by the point
    struck = bool(node.line())
    alarm.cancel()
    return struck


def ticks(connection: Connection) -> int:
    (last,) = connection.execute("SELECT last_value FROM tick").fetchone() or (0,)
    return int(last)


def catch_up(connection: Connection) -> None:
    now, deadline = connection.execute("SELECT pg_current_wal_lsn()").fetchone(), patience() + PATIENCE_SECONDS
    waiting = "SELECT 1 FROM pg_replication_slots WHERE slot_name <> 'judge' AND confirmed_flush_lsn < %s"
    while connection.execute(waiting, now).fetchone():
        assert patience() < deadline, "it does not catch up"
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.timeout(120 + 30 * ROUNDS)
def test_each_event_is_relayed_once_in_the_order_of_commits_whenever_the_node_is_killed(tmp_path: Path) -> None:
    data, dice, kills = tmp_path / "data", Random(3), 0
    with running_cluster() as cluster, psycopg.connect(cluster.url, autocommit=True) as connection:
        connection.execute("CREATE SEQUENCE tick")
        connection.execute(OUTBOX)
        prepare(connection, ["outbox"])
        Definitions(data).add(
            Definition(
                name="events",
                url=cluster.url,
                tables=("public.outbox",),
                heartbeat_seconds=0.5,
                outbox=True,
                key_column="name",
                value_column="payload",
            )
        )
        writers = [Writer(cluster.url, seed) for seed in range(2)]
        for writer in writers:
            writer.start()
        for _, point in zip(range(ROUNDS), cycle(dice.sample(POINTS, len(POINTS))), strict=False):
            node = Process(tmp_path, data, Round(NODE, point, dice.choice((1, 2, 5))), 0)
            node.line()
            kills += struck(node, point, dice)
            node.wait_ended()
        wait_until(lambda: ticks(connection) > TICKS_MIN, "events are written")
        for writer in writers:
            writer.stop()
        node = Process(tmp_path, data, Round(NOTHING, RANDOM), 0)
        node.line()
        catch_up(connection)
        assert node.end(signal.SIGTERM) == 0
        with Log.open(data) as log:
            start = Notes(LogAppender(log), "events").get("slot")
            assert start is not None
            expected = committed(connection, since={"outbox": int(str(start["address"]))})["outbox"]
            captured = [int(dict(record.headers)["tick"] or b"") for record in log.read("events", 0)]
    assert captured == [event.tick for event in expected if event.operation == "c"]
    assert captured
    assert kills >= ROUNDS - 1
