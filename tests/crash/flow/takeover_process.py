"""The run of a small app that is killed, or that kills the run before it, while an app is taken over.

python -m tests.crash.flow.takeover_process DATA ADDRESS STORE LEAST [options]

LEAST is in the condition of the view `large`: another number is a change of code. With --take-over the view is
rebuilt. Kills another process (--kill PID --at POINT), or itself (--die-at POINT), with SIGKILL, and prints that.
Prints a line when its jobs run, and ends after SIGTERM or when all its jobs are handed over.
"""

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from threading import Event

from pyspark.sql import SparkSession

import headwater as hw
from headwater.flow.declare.app import App
from headwater.flow.local.columns import local_columns
from headwater.flow.local.session import LocalSession
from headwater.flow.run.running_app import RunningApp, RunSettings
from headwater.flow.session import start_session, stop_session
from headwater.views.tables import SqlStore
from tests.crash.flow.moments import FINISH, POSTGRES, PROCESS, SQLITE, SWAP, Moment, arm

APP, ORDERS, LARGE, ALL = "shop", "orders", "large", "all"
SCHEMA = "id long, amount long, currency string"
ROWS_BUILT = 15
"""In a batch of a rebuild: there are some batches."""

END_LOOP = "headwater.flow.run.running_app:RunningApp._end_loop"
LET_GO = "headwater.flow.run.running_app:RunningApp._let_go"
ASK = "headwater.flow.run.control:ask"
NOTED = "headwater.flow.deploy.rebuild:note_caught_up"

# Moments that come one after the other, each with how often: the process dies at the last of them.
REBUILDING = {
    "before the first batch": [(Moment(PROCESS), 1)],
    "in the middle of catching up": [(Moment(FINISH), 2)],
    "caught up, before the jobs are asked for": [(Moment(ASK), 1)],
    "decided, before the swap": [(Moment(NOTED, after=True), 1)],
    "in the middle of the swap": [(Moment(SWAP), 1), (Moment("COMMIT"), 1)],
    "swapped, before what it was built from is removed": [(Moment(SWAP, after=True), 1)],
}
LIVE = {
    "asked for its jobs, while they run": [(Moment(END_LOOP), 1)],
    "about to let them go": [(Moment(LET_GO), 1)],
    "has let them go": [(Moment(LET_GO, after=True), 1)],
}
POINTS = {**REBUILDING, **LIVE}
BEFORE_THE_HANDOVER = list(REBUILDING)[:3]


def declare(store: str, least: int) -> App:
    app = hw.App(APP, shards=2)
    orders = app.stream(ORDERS, SCHEMA)
    where = {"store": store} if store else {}
    app.view(key="currency", name=LARGE, **where)(
        lambda: orders.where(f"amount >= {least}").by("currency").agg("count(*) as orders", "sum(amount) as revenue")
    )
    app.view(key="currency", name=ALL, **where)(
        lambda: orders.by("currency").agg("count(*) as orders", "sum(amount) as revenue")
    )
    return app


def main() -> int:
    given = parsed()
    for point, victim in ((given.at, given.kill), (given.die_at, os.getpid())):
        if point:
            arm_one_after_the_other(POINTS[point], POSTGRES if given.store else SQLITE, striking(victim))
    plant(given.plant)
    with ExitStack() as ending:
        session = session_in(given.data.parent, ending) if given.spark else local_session(ending)
        run(given, session)
    return 0


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("address")
    parser.add_argument("store")
    parser.add_argument("least", type=int)
    parser.add_argument("--take-over", action="store_true")
    parser.add_argument("--at", choices=[*POINTS, ""], default="")
    parser.add_argument("--die-at", choices=[*POINTS, ""], default="")
    parser.add_argument("--kill", type=int, default=0)
    parser.add_argument("--rows", type=int, default=ROWS_BUILT, help="in a batch of a rebuild")
    parser.add_argument("--spark", action="store_true")
    parser.add_argument("--plant", choices=[*BUGS, ""], default="")
    return parser.parse_args()


def striking(victim: int) -> Callable[[], None]:
    def strike() -> None:
        say(kills=victim)
        os.kill(victim, signal.SIGKILL)

    return strike


def arm_one_after_the_other(moments: list[tuple[Moment, int]], statements: str, strike: Callable[[], None]) -> None:
    (moment, nth), *rest = moments
    if moment.place == "COMMIT":
        moment = Moment(statements, first="COMMIT")
    arm(moment, nth, (lambda: arm_one_after_the_other(rest, statements, strike)) if rest else strike)


def local_session(ending: ExitStack) -> SparkSession:
    ending.enter_context(local_columns())
    return LocalSession.as_spark()


def session_in(folder: Path, ending: ExitStack) -> SparkSession:
    session = start_session("takeover tests", folder / "spark" / str(os.getpid()), master="local[2]")
    ending.callback(stop_session, session)
    return session


def run(given: argparse.Namespace, session: SparkSession) -> None:
    stopped = Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    settings = RunSettings(given.data, given.address, rows_per_batch=given.rows if given.take_over else 1_000_000)
    running = RunningApp(
        declare(given.store, given.least), session, settings,
        report=lambda sentence: say(report=sentence), rebuild=frozenset({LARGE} if given.take_over else ()),
    )  # fmt: skip
    try:
        if given.take_over:
            running.take_over()
        running.start()
        say(runs=os.getpid())
        while not stopped.is_set() and not running.wait(0.05):
            pass
    finally:
        running.stop()


def say(**what: object) -> None:
    print(json.dumps(what), flush=True)


# -- bugs that the readers must find -----------------------------------------------------------------------------------


def swap_in_steps(self: SqlStore, view: str, mark: object) -> None:
    """The old view is removed in a transaction of its own."""
    if self.mark(view, shadow=True) is not None:
        self.drop(view)
    Event().wait(0.3)
    SWAPPED(self, view, mark)  # type: ignore[arg-type]


SWAPPED = SqlStore.swap
BUGS: dict[str, tuple[type, str, Callable[..., object]]] = {"a swap in steps": (SqlStore, "swap", swap_in_steps)}


def plant(bug: str) -> None:
    if bug:
        where, name, planted = BUGS[bug]
        setattr(where, name, planted)


if __name__ == "__main__":
    sys.exit(main())
