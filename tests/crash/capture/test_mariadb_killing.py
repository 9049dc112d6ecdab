"""A node that captures a MariaDB server, the server itself, and their connection, killed again and again."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pytest

from headwater.capture.definition import Definition, Definitions
from headwater.log.log import Log
from tests.crash.capture.killing import RANDOM, ROOT, Process, Round
from tests.crash.capture.mariadb_writer import SCHEMA
from tests.crash.capture.node_process import CAPTURE, DATABASE, NODE, NOTHING
from tests.crash.capture.oracle import Event, compare, differences, events_of, fold
from tests.servers.mariadb import Mariadb, running_mariadb
from tests.waiting import LONG, patience, wait_until

ROUNDS = int(os.environ.get("HEADWATER_MARIADB_ROUNDS", "3"))
POINTS = ("before append", "after append", "after sync", "after notes")
BEGUN = ("copying", "streaming")
PARTITIONS, FIRST_ROWS, CHANGES_MIN, PATIENCE_SECONDS = 3, 12_000, 100, 120


def drawn(dice: Random) -> list[Round]:
    """Each victim once before any comes again."""
    rounds: list[Round] = []
    while len(rounds) < ROUNDS:
        victims = (NODE, DATABASE, CAPTURE)
        some = [Round(victim, dice.choice((*POINTS, RANDOM)), dice.choice((1, 2, 5))) for victim in victims]
        dice.shuffle(some)
        rounds += some
    return list(islice(rounds, ROUNDS))


def strike_at_random(server: Mariadb, node: Process, victim: str) -> None:
    if victim == NODE:
        node.process.send_signal(signal.SIGKILL)
    elif victim == DATABASE:
        os.kill(server.process_id, signal.SIGKILL)
    else:
        connection = server.connect()
        with connection.cursor() as cursor:
            cursor.execute("SELECT ID FROM information_schema.PROCESSLIST WHERE COMMAND = 'Binlog Dump'")
            for (id,) in cursor.fetchall():
                cursor.execute(f"KILL {id}")
        connection.close()


@pytest.mark.slow
@pytest.mark.timeout(240 + 30 * ROUNDS)
def test_each_change_is_emitted_once_and_in_order_whichever_process_is_killed(tmp_path: Path) -> None:
    dice, data, struck = Random(3), tmp_path / "data", Counter[str]()
    with running_mariadb() as server:
        prepare(server, data)
        begin(tmp_path, data)
        command = [sys.executable, "-m", "tests.crash.capture.mariadb_writer", str(server.port)]
        writers = [subprocess.Popen([*command, str(seed)], cwd=ROOT) for seed in range(2)]
        try:
            for one in drawn(dice):
                struck[one.victim] += killed(server, one, tmp_path, data, dice)
            wait_until(lambda: changes(server) > CHANGES_MIN, "rows are written")
        finally:
            for writer in writers:
                writer.kill()
                writer.wait(LONG)
        node = Process(tmp_path, data, Round(NOTHING, RANDOM), 0)
        node.line()
        catch_up(server, data)
        assert node.end(signal.SIGTERM) == 0
        assert sum(struck.values()) >= ROUNDS - 1 - ROUNDS // 5
        assert compared(server, data) == []


def prepare(server: Mariadb, data: Path) -> None:
    connection = server.connect()
    with connection.cursor() as cursor:
        for statement in SCHEMA:
            cursor.execute(statement)
        rows = ", ".join(f"({number}, 0, 'first')" for number in range(1, FIRST_ROWS + 1))
        cursor.execute(f"INSERT INTO users VALUES {rows}")
    connection.close()
    for name, partitions in (("users", PARTITIONS), ("bag", 1)):
        url = f"{server.url}shop"
        Definitions(data).add(Definition(name=name, url=url, tables=(f"shop.{name}",), partitions=partitions))


def begin(folder: Path, data: Path) -> None:
    """What is written before a capture begins is not emitted, only read."""
    node = Process(folder, data, Round(NOTHING, RANDOM), 0)
    node.line()
    deadline = patience() + PATIENCE_SECONDS
    while any((Definitions(data).status(name) or {}).get("state") not in BEGUN for name in ("users", "bag")):
        assert patience() < deadline, "the captures do not begin"
        time.sleep(0.02)
    node.process.send_signal(signal.SIGKILL)
    node.wait_ended()


def killed(server: Mariadb, one: Round, folder: Path, data: Path, dice: Random) -> bool:
    """Whether it was struck where it should be."""
    node = Process(folder, data, one, server.process_id)
    node.line()
    struck = True
    if one.point == RANDOM:
        time.sleep(dice.uniform(0.5, 2.0))
        strike_at_random(server, node, one.victim)
    else:
        struck = bool(node.line())
    if one.victim == DATABASE:
        server.revive()
    if one.victim != NODE:
        time.sleep(dice.uniform(0.5, 1.5))  # it continues with the revived one, before it is killed
        node.process.send_signal(signal.SIGKILL)
    node.wait_ended()
    return struck


def changes(server: Mariadb) -> int:
    connection = server.connect()
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM shop.truth")
        (count,) = cursor.fetchone()
    connection.close()
    return int(count)


def catch_up(server: Mariadb, data: Path) -> None:
    connection = server.connect()
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@global.gtid_binlog_pos")
        (target,) = cursor.fetchone()
    connection.close()
    deadline, statuses = patience() + PATIENCE_SECONDS, dict[str, Any]()
    while not statuses or any(
        (one["state"], one.get("position")) != ("streaming", target) for one in statuses.values()
    ):
        assert patience() < deadline, f"they do not catch up to {target}: {statuses}"
        time.sleep(0.1)
        statuses = {name: Definitions(data).status(name) or {"state": ""} for name in ("users", "bag")}
    time.sleep(1)  # what is emitted is durable a moment later


def compared(server: Mariadb, data: Path) -> list[str]:
    connection = server.connect()
    with connection.cursor() as cursor:
        cursor.execute("SELECT tick, operation, id FROM shop.truth ORDER BY tick")
        truth = [Event(operation, id, None if operation == "d" else tick) for tick, operation, id in cursor.fetchall()]
        cursor.execute("SELECT id, tick, body FROM shop.users")
        rows = {f'{{"id":{id}}}': {"id": id, "tick": tick, "body": body} for id, tick, body in cursor.fetchall()}
        cursor.execute("SELECT tick FROM shop.bag ORDER BY tick")
        ticks = [tick for (tick,) in cursor.fetchall()]
    connection.close()
    found, records = [], []
    with Log.open(data) as log:
        for partition in range(PARTITIONS):
            mine = list(log.read("users", partition))
            keys = {json.loads(record.key or b"")["id"] for record in mine}
            found += differences("users", [event for event in truth if event.key in keys], events_of(mine))
            records += mine
        found += compare("users", rows, fold(records))
        told_ticks, expected_ticks = Counter(bag_of(log)), Counter(ticks)
    missing, more = expected_ticks - told_ticks, told_ticks - expected_ticks
    if missing:
        found.append(f"bag: {len(missing)} rows are missing, the first is {min(missing)}")
    if more:
        found.append(f"bag: {len(more)} rows are too many, the first is {min(more)}")
    return found


def bag_of(log: Log) -> list[int]:
    """The ticks that the topic without keys has: those of the last copy, and all that was inserted since."""
    ticks: list[int] = []
    for record in log.read("bag", 0):
        value = json.loads(record.value or b"")
        if value["op"] == "t":
            ticks.clear()
        elif value["after"] is not None:
            ticks.append(value["after"]["tick"])
    return sorted(ticks)
