"""The driver of a small app that is kept at a URL, and that stops itself in the middle of a batch, as a machine does
that is suspended: another one takes the job over, and then this one wakes up.

python -m tests.crash.flow.zombie_process DATA ADDRESS STATE OUTPUT PLACE [--once] [--stop-at POINT] [--plant BUG]

Prints a line when it stops itself, and when it ends how it was refused: each error and the function that raised it,
from the first to what the user is told.
"""

import argparse
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import headwater as hw
from headwater.flow.declare.app import App
from headwater.flow.declare.retries import Retries
from headwater.flow.declare.sinks import Database, Parquet
from headwater.flow.local.columns import local_columns
from headwater.flow.local.session import LocalSession
from headwater.flow.objects.checkpoint import Checkpoint
from headwater.flow.run.running_app import RunningApp, RunSettings
from headwater.flow.sinks.parquet import ParquetSink
from headwater.flow.sinks.topics.producer_state import ProducerState
from tests.crash.flow.moments import RENAME, Moment, arm

ROWS_PER_BATCH = 20
# Where it stops, and how often it has been there then: always in its second batch. The accounts are a topic too.
POINTS = {
    "commits state": ("headwater.flow.state.job_state:JobState.commit", 2),
    "sends records": ("headwater.flow.sinks.topics.topic:TopicSink._produce", 3),
    "begins a transaction": ("headwater.views.tables:SqlStore.in_one_transaction", 2),
    "holds the locks of a transaction": ("headwater.views.tables:SqlStore._write", 2),
    "begins to publish files": ("headwater.flow.sinks.parquet:ParquetSink.publish", 2),
    "names files": (RENAME, 2),
    "notes the batch as finished": ("headwater.flow.commit.job_folder:JobFolder.finish", 2),
    "commits offsets": ("headwater.flow.commit.batch_processor:Processor._commit_offsets", 2),
}


def declare(output: str, place: str) -> App:
    app = hw.App("shop", shards=2)
    orders = app.stream("orders", "id long, amount long")
    # A transaction in SQLite keeps other writers out for as long as its process is suspended.
    store = output if output.startswith("postgresql://") else f"sqlite:///{place}/counts.sqlite"
    app.view(key="amount", name="counts", store=store)(lambda: orders.by("amount").agg("count(*) as orders"))
    if output == "topic":
        app.topic("out", key="id")(lambda: orders.select("id", "amount"))
    elif output == "parquet":
        app.sink(Parquet(f"{place}/out"), name="out")(lambda: orders.select("id", "amount"))
    elif output:
        app.sink(Database(output, "out"), name="out")(lambda: orders.select("id", "amount"))
    return app


def main() -> int:
    given = parsed()
    if given.plant:
        owner, name, planted = BUGS[given.plant]
        setattr(owner, name, planted)
    if given.stop_at:
        place, nth = POINTS[given.stop_at]
        arm(Moment(place), nth, stop)
    settings = RunSettings(
        given.data, given.address, once=given.once, rows_per_batch=ROWS_PER_BATCH, direct=False,
        retries=Retries(limit=0), state=given.state,
    )  # fmt: skip
    with local_columns():
        running = RunningApp(declare(given.output, given.place), LocalSession.as_spark(), settings)
        try:
            running.start()
            while not running.wait(0.2):
                pass
        except Exception as error:
            say(refused=list(chain(error)), sentence=str(error))
            return 1
        finally:
            running.stop()
    return 0


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("address")
    parser.add_argument("state")
    parser.add_argument("output")
    parser.add_argument("place")
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--stop-at", choices=[*POINTS, ""], default="")
    parser.add_argument("--plant", choices=[*BUGS, ""], default="")
    return parser.parse_args()


def stop() -> None:
    say(stops=os.getpid())
    # To this thread, which then does nothing more: sent to the process, another one may take it a moment later.
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


def chain(error: BaseException | None) -> list[str]:
    """The errors from the first on, each with the functions that it went through."""
    if error is None:
        return []
    frames = " ".join(frame.name for frame in traceback.extract_tb(error.__traceback__))
    return [*chain(error.__cause__ or error.__context__), f"{type(error).__name__}: {frames}"]


def say(**what: object) -> None:
    print(json.dumps(what), flush=True)


# -- bugs that the tests must find -------------------------------------------------------------------------------------


def nothing(*arguments: object, **named: object) -> None:
    """Checks nothing."""


def commit_over_anybody(self: Checkpoint, changes: dict[str, Any]) -> None:
    """Reads who has the job now, and writes over it."""
    self._read()
    COMMIT(self, changes)


COMMIT = Checkpoint._commit
BUGS: dict[str, tuple[type, str, Callable[..., object]]] = {
    "files do not check the epoch": (ParquetSink, "_refuse_older", nothing),
    "a stage of an older driver is left": (ParquetSink, "_empty", nothing),
    "the producer keeps its epoch": (ProducerState, "of_driver", lambda self, driver: self),
    "a commit does not check the epoch": (Checkpoint, "_check_own", nothing),
    "a commit is not conditional": (Checkpoint, "_commit", commit_over_anybody),
}

if __name__ == "__main__":
    sys.exit(main())
