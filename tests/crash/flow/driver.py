"""The driver that is killed: runs the app once, as `headwater run --once`, up to its bad moments.

python -m tests.crash.flow.driver DATA ADDRESS STORE [--without-spark]

Prints a line when Spark is up; then it waits for one with its orders; and it prints one when all is done. So the next
driver can be on its way up while this one works. Exit code 3: stopped with a sentence, which is the last line.
"""

import argparse
import functools
import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from headwater.errors import HeadwaterError
from headwater.flow.commit.batch_evaluation import DRIVER_ROWS
from headwater.flow.local.columns import local_columns
from headwater.flow.local.session import LocalSession
from headwater.flow.proof.proofs import prove
from headwater.flow.run.running_app import NO_RETRIES, RunningApp, RunSettings
from headwater.flow.session import start_session, stop_session
from headwater.flow.state import job_state
from headwater.flow.state.store import StateStore
from headwater.log.storage import local
from tests.crash.flow import deadly_workers
from tests.crash.flow.apps import declared
from tests.crash.flow.bounds import GATHERED, lower
from tests.crash.flow.moments import DRIVER, IN_WORKERS, JVM, NODE, POINTS, PROCESS, WORKER, Blackboard, Moment, arm
from tests.crash.flow.oracle import Place

SENTENCE = 3
WITHOUT_SPARK = "--without-spark"
ROWS_PER_BATCH, ROWS_PER_BATCH_OF_MANY = 50, 1000
"""Some batches in every round; not too many where all rows there ever were are read again, or those of many rounds."""
# It lives for a few seconds: what makes Spark faster later only makes it slower here.
SHORT_LIVED = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "2",
    DRIVER_ROWS: "0",
}
"""Batches are small, and yet run by Spark's tasks, some of which are to be killed; but not two hundred of them."""


@dataclass
class Orders:
    """What a driver is to do."""

    app: str
    least: int
    node: int
    """The node's process."""
    rebuild: bool = False
    prove: list[str] = field(default_factory=list)
    """Views."""
    forgetful: bool = False
    """Syncs nothing, to see that this is found."""
    points: list[tuple[str, int]] = field(default_factory=list)
    """Points, and how many times their moments come before they kill; each counts from when the one before it has."""
    lowered: list[str] = field(default_factory=list)
    """Ways that it goes although its rows are few."""
    rows_per_batch: int = ROWS_PER_BATCH

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def main() -> int:
    place, without_spark = parse()
    if without_spark:
        given = read_orders()
        assert given is not None
        with local_columns():
            return obey(LocalSession.as_spark(), place, given)
    folder = place.data.parent / "spark"
    os.environ[deadly_workers.BOARD] = str(board_of(place.data).folder)
    # What a killed JVM does not remove goes with everything else.
    settings = {
        **SHORT_LIVED,
        "spark.local.dir": str(folder / "local"),
        "spark.python.daemon.module": deadly_workers.__name__,
    }
    session = start_session("crash tests", folder, master="local[2,4]", settings=settings)
    say(jvm=jvm_of())
    code, given = 0, read_orders()
    if given is not None:
        if GATHERED in given.lowered:
            session.conf.set(DRIVER_ROWS, "1")
        code = obey(session, place, given)
    if code == 0:
        stop_session(session)
    return code


def read_orders() -> Orders | None:
    """None if there is nothing more to do."""
    line = sys.stdin.readline()
    return Orders(**json.loads(line)) if line else None


def parse() -> tuple[Place, bool]:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("address")
    parser.add_argument("store")
    parser.add_argument(WITHOUT_SPARK, action="store_true")
    given = parser.parse_args()
    return Place(given.data, given.address, given.store), given.without_spark


def board_of(data: Path) -> Blackboard:
    return Blackboard(data.parent / "board")


def say(**what: object) -> None:
    print(json.dumps(what), flush=True)


def jvm_of() -> int:
    context = SparkContext._active_spark_context
    assert context is not None
    assert context._jvm is not None
    return int(context._jvm.java.lang.ProcessHandle.current().pid())


def obey(session: SparkSession, place: Place, orders: Orders) -> int:
    # No task merges runs on the way, so that there is always something to merge beside the batches.
    vars(job_state)["StateStore"] = functools.partial(StateStore, task_bytes_max=1)
    if orders.forgetful:
        vars(local)["os"] = Forgetful()
    lower(orders.lowered)
    try:
        prepare_all(orders, board_of(place.data))
        batches = run(session, place, orders)
        say(batches=batches, different={view: proof(session, place, orders, view) for view in orders.prove})
    except HeadwaterError as error:
        say(sentence=str(error))
        return SENTENCE
    return 0


class Forgetful:
    """The operating system, which says that everything is on the disk."""

    def __getattr__(self, name: str) -> Any:
        return (lambda descriptor: None) if name in ("fsync", "fdatasync") else getattr(os, name)


def prepare_all(orders: Orders, board: Blackboard) -> None:
    before = len(board.struck())

    def have_struck(*names: str) -> bool:
        return {*names} <= {*board.struck()[before:]}

    for place, (name, nth) in enumerate(orders.points):
        earlier = [other for other, _ in orders.points[:place]]
        prepare(name, nth, orders, board, once=functools.partial(have_struck, *earlier))


def prepare(name: str, nth: int, orders: Orders, board: Blackboard, *, once: Callable[[], bool]) -> None:
    point = POINTS[name]
    victim = {DRIVER: os.getpid, NODE: lambda: orders.node, JVM: jvm_of, WORKER: lambda: 0}[point.victim]()
    in_workers = {moment: flag for flag, moment in IN_WORKERS.items()}
    if point.moment in in_workers:
        arm(Moment(PROCESS), nth, lambda: board.raise_flag(in_workers[point.moment], name, victim), once=once)
    else:
        arm(point.moment, nth, lambda: board.strike(name, victim), once=once)


def run(session: SparkSession, place: Place, orders: Orders) -> int:
    batches: list[int] = []
    rows = ROWS_PER_BATCH_OF_MANY if orders.rebuild or orders.prove else orders.rows_per_batch
    running = RunningApp(
        declared(orders.app, place, orders.least),
        session,
        RunSettings(place.data, place.address, once=True, rows_per_batch=rows, retries=NO_RETRIES),
        watch=lambda job, progress: batches.append(progress.record.batch),
        rebuild=frozenset({"revenue"} if orders.rebuild else ()),
    )
    try:
        running.start()
        running.wait()
    finally:
        running.stop()
    return len(batches)


def proof(session: SparkSession, place: Place, orders: Orders, view: str) -> int:
    app = declared(orders.app, place, orders.least)
    return prove(app, view, session, place.data, place.address, direct=True).different


if __name__ == "__main__":
    sys.exit(main())
