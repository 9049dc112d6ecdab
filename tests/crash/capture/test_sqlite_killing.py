"""A node that captures a SQLite database, and those who write to it, killed again and again."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from functools import partial
from itertools import cycle
from pathlib import Path
from random import Random

import pytest

from headwater.capture.definition import Definition, Definitions
from headwater.log.log import Log
from tests.crash.capture.killing import POINTS, RANDOM, ROOT, Process, Round
from tests.crash.capture.node_process import NODE, NOTHING
from tests.crash.capture.oracle import Event, compare, differences, events_of, fold
from tests.crash.capture.sqlite_writer import first_rows
from tests.waiting import LONG, patience, wait_until

PATIENCE_SECONDS = 60
ROUNDS = int(os.environ.get("HEADWATER_SQLITE_ROUNDS", "4"))
PARTITIONS, FIRST_ROWS, CHANGES_MIN = 3, 2_500, 30


def write(path: Path, seed: int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-m", "tests.crash.capture.sqlite_writer", str(path), str(seed)], cwd=ROOT)


def kill(process: "subprocess.Popen[bytes]") -> None:
    process.send_signal(signal.SIGKILL)
    process.wait(LONG)


def catch_up(database: sqlite3.Connection, data: Path) -> None:
    (token,) = [one.token for one in Definitions(data).all()]
    (last,) = database.execute(
        "SELECT seq FROM sqlite_sequence WHERE name = ?", (f"headwater_users_{token}",)
    ).fetchone()
    deadline = patience() + PATIENCE_SECONDS
    status: dict[str, object] = {}
    while status.get("state") != "streaming" or int(str(status["position"])) < last:
        assert patience() < deadline, f"it does not catch up: {status}"
        time.sleep(0.1)
        status = Definitions(data).status("users") or {}


def wait_for_triggers(database: sqlite3.Connection) -> None:
    """What is written before them is not emitted, only read."""
    deadline = patience() + PATIENCE_SECONDS
    while not database.execute("SELECT 1 FROM sqlite_master WHERE type = 'trigger'").fetchone():
        assert patience() < deadline, "the capture does not begin"
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.timeout(60 + 30 * ROUNDS)
def test_each_change_is_emitted_once_and_in_order_whichever_process_is_killed(tmp_path: Path) -> None:
    dice, path, data = Random(1), tmp_path / "shop.db", tmp_path / "data"
    database = sqlite3.connect(path, timeout=60, isolation_level=None)
    first_rows(database, FIRST_ROWS)
    definition = Definition(name="users", url=f"sqlite:///{path}", tables=("users",), partitions=PARTITIONS)
    Definitions(data).add(definition)
    struck = 0
    for seed, point in zip(range(ROUNDS), cycle(dice.sample([*POINTS, RANDOM], len(POINTS) + 1)), strict=False):
        node = Process(tmp_path, data, Round(NODE, point, dice.choice((1, 2, 5))), 0)
        node.line()
        wait_for_triggers(database)
        writers = [write(path, 10 * seed + number) for number in range(2)]
        if point == RANDOM:
            time.sleep(dice.uniform(0.3, 1.5))
            node.process.send_signal(signal.SIGKILL)
        else:
            struck += bool(node.line())
        node.wait_ended()
        wait_until(partial(more_changes_than, database, CHANGES_MIN * (seed + 1)), "rows are written")
        for writer in writers:
            kill(writer)
    node = Process(tmp_path, data, Round(NOTHING, RANDOM), 0)
    node.line()
    catch_up(database, data)
    assert node.end(signal.SIGTERM) == 0
    assert struck >= ROUNDS - 1 - ROUNDS // len(POINTS)
    assert compared(database, data) == []


def more_changes_than(database: sqlite3.Connection, some: int) -> bool:
    (count,) = database.execute("SELECT count(*) FROM truth").fetchone()
    return int(count) > some


def compared(database: sqlite3.Connection, data: Path) -> list[str]:
    truth = [
        Event(operation, id, None if operation == "d" else tick)
        for tick, operation, id in database.execute("SELECT tick, operation, id FROM truth ORDER BY tick")
    ]
    names = ("id", "tick", "email", "body")
    rows = [dict(zip(names, row, strict=True)) for row in database.execute("SELECT * FROM users")]
    with Log.open(data) as log:
        found, records = [], []
        for partition in range(PARTITIONS):
            mine = list(log.read("users", partition))
            keys = {json.loads(record.key or b"")["id"] for record in mine}
            found += differences("users", [event for event in truth if event.key in keys], events_of(mine))
            records += mine
    return found + compare("users", {f'{{"id":{row["id"]}}}': row for row in rows}, fold(records))
