"""Windows in headwater: `python -m benchmarks.flow.peers.headwater_windows KIND STEPS DATA ADDRESS TOPIC ...`."""

from benchmarks.flow.peers.headwater_runs import run_twice  # isort: skip  # first: a cold start begins with it

import argparse
from pathlib import Path
from typing import Any

import headwater as hw
from benchmarks.flow.events import LATENESS, SCHEMA
from benchmarks.flow.peers.row_steps import KINDS, with_steps
from headwater.flow.run.running_app import RunSettings

WINDOWS = {
    "tumbling": hw.tumbling("10 seconds"),
    "session": hw.session("10 seconds"),
    "sliding": hw.sliding("10 seconds"),
}


def windowed(kind: str, steps: str, app: hw.App, topic: str) -> Any:
    events = app.stream(topic, SCHEMA, time="at", lateness=LATENESS)
    windows = with_steps(events, steps, number="value", text="key", others=["at"]).window(WINDOWS[kind])
    return windows.by("key").agg("count(*) as n", "max(value) as most", emit="final")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=WINDOWS)
    parser.add_argument("steps", choices=KINDS)
    for name in ("data", "address", "topic", "folder", "rows_per_batch"):
        parser.add_argument(name)
    given = parser.parse_args()

    def declare(app: hw.App) -> Any:
        return windowed(given.kind, given.steps, app, given.topic)

    settings = RunSettings(Path(given.data), given.address, once=True, rows_per_batch=int(given.rows_per_batch))
    run_twice(f"{given.topic}-{given.kind}-{given.steps}", declare, settings, Path(given.folder))


if __name__ == "__main__":
    main()
