"""An app with rows that come too late, and a `headwater` that dies at a chosen moment.

python -m tests.crash.flow.replaying PLACE BEFORE|AFTER NTH ARGUMENTS OF HEADWATER ...
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import headwater as hw
from headwater.cli.main import main as headwater
from tests.crash.flow.moments import Moment, arm

FILE = Path(__file__)
SCHEMA = "sensor string, value double, at timestamp"
VIEWS = ("minutes", "hops")
EMITTED = "emitted-minutes"
READINGS = "readings"


def declare() -> hw.App:
    """Windows whose state is gone when a row is late, and some that overlap, of which parts are still there."""
    app = hw.App("plant", shards=2)
    readings = app.stream(READINGS, SCHEMA, time="at", ahead=None)
    aggregates = ("count(*) as n", "sum(value) as total", "first(value) as first", "collect_list(value) as all")
    windows = {"minutes": hw.tumbling("1 minute"), "hops": hw.hopping("3 minutes", "1 minute")}
    tables = {
        name: readings.window(window).by("sensor").agg(*aggregates, emit="final", name=name)
        for name, window in windows.items()
    }

    def table_of(name: str) -> Any:
        return lambda: tables[name]

    for name in VIEWS:
        app.view(key=["sensor", "window"], name=name)(table_of(name))
    app.topic(EMITTED)(table_of("minutes"))
    return app


app = declare()


if __name__ == "__main__":
    place, when, nth, *command = sys.argv[1:]
    arm(Moment(place, after=when == "after"), int(nth), lambda: os.kill(os.getpid(), signal.SIGKILL))
    sys.exit(headwater(command))
