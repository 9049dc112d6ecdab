"""The driver that is killed: runs the app once, as `headwater run --once`, up to its bad moments.

python -m tests.crash.flow.driver DATA ADDRESS STORE [--least N] [--rebuild] [--point NAME@NTH]... [--node PROCESS]

Prints a line when Spark is up and one when all is done. Exit code 3: stopped with a sentence, which is the last line.
"""

import argparse
import functools
import json
import os
import sys
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from headwater.errors import HeadwaterError
from headwater.flow.job import operating
from headwater.flow.job.proving import prove
from headwater.flow.job.running import RunningApp, RunSettings
from headwater.flow.session import start_session, stop_session
from headwater.flow.state.store import StateStore
from tests.crash.flow import shop
from tests.crash.flow.deadly_task import DeadlyTask
from tests.crash.flow.moments import DRIVER, JVM, MERGE, NODE, POINTS, PROCESS, WORKER, Flag, Moment, arm, kill

SENTENCE = 3
ROWS_PER_BATCH, ROWS_PER_BATCH_OF_MANY = 60, 400
"""Some batches in every round; not too many where all rows there ever were are read again."""
# It lives for a few seconds: what makes Spark faster later only makes it slower here.
SHORT_LIVED = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def main() -> int:
    wanted = parse()
    folder = wanted.data.parent / "spark"
    # What a killed JVM does not remove goes with everything else.
    settings = {**SHORT_LIVED, "spark.local.dir": str(folder / "local")}
    session = start_session("crash tests", folder, master="local[2,4]", settings=settings)
    say(jvm=jvm_of())
    # No task merges runs on the way, so that there is always something to merge beside the batches.
    vars(operating)["StateStore"] = functools.partial(StateStore, task_bytes_max=1)
    try:
        for one in wanted.point:
            name, nth = one.rsplit("@", 1)
            prepare(name, int(nth), wanted)
        batches = run(session, wanted)
        proved = {view: proof(session, wanted, view) for view in shop.VIEWS} if wanted.prove else {}
        say(batches=batches, different=proved)
    except HeadwaterError as error:
        say(sentence=str(error))
        return SENTENCE
    stop_session(session)
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("address")
    parser.add_argument("store")
    parser.add_argument("--least", type=int, default=shop.LEAST[0])
    parser.add_argument("--rebuild", action="store_true")
    parser.add_argument("--point", action="append", default=[])
    parser.add_argument("--node", type=int, default=0)
    parser.add_argument("--prove", action="store_true")
    return parser.parse_args()


def say(**what: object) -> None:
    print(json.dumps(what), flush=True)


def prepare(name: str, nth: int, wanted: argparse.Namespace) -> None:
    point = POINTS[name]
    victim = {DRIVER: os.getpid(), NODE: wanted.node, JVM: jvm_of(), WORKER: None}[point.victim]
    if point.moment.place == MERGE:
        flag = Flag(wanted.data.parent / f"kill-{point.victim}")
        arm(Moment(PROCESS), nth, flag.raise_)
        vars(operating)["MergeTask"] = lambda operator, handle: DeadlyTask(operator, handle, flag, victim)
    elif victim is not None:
        arm(point.moment, nth, lambda: kill(victim))


def jvm_of() -> int:
    context = SparkContext._active_spark_context
    assert context is not None
    assert context._gateway is not None
    process: int = context._gateway.proc.pid
    return process


def run(session: SparkSession, wanted: argparse.Namespace) -> int:
    batches: list[int] = []
    rows = ROWS_PER_BATCH_OF_MANY if wanted.rebuild or wanted.prove else ROWS_PER_BATCH
    running = RunningApp(
        shop.declare(wanted.store, least=wanted.least),
        session,
        RunSettings(wanted.data, wanted.address, once=True, rows_per_batch=rows),
        watch=lambda job, progress: batches.append(progress.record.batch),
        rebuild=frozenset({"revenue"} if wanted.rebuild else ()),
    )
    try:
        running.start()
        running.wait()
    finally:
        running.stop()
    return len(batches)


def proof(session: SparkSession, wanted: argparse.Namespace, view: str) -> int:
    app = shop.declare(wanted.store, least=wanted.least)
    return prove(app, view, session, wanted.data, wanted.address, direct=True).different


if __name__ == "__main__":
    sys.exit(main())
