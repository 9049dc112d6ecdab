"""Joins in headwater: `python -m benchmarks.flow.peers.headwater_joins KIND DATA ADDRESS LEFT RIGHT FOLDER ...`."""

import argparse
import json
import time

STARTED = time.monotonic()

from pathlib import Path  # noqa: E402  # all that is loaded is part of a cold start
from typing import Any  # noqa: E402

import headwater as hw  # noqa: E402
from benchmarks.flow.join_events import LATENESS, LEFT_SCHEMA, RIGHT_SCHEMA, WITHIN_SECONDS  # noqa: E402
from benchmarks.flow.queries import session  # noqa: E402
from headwater.flow.run.running_app import RunningApp, RunSettings  # noqa: E402


def app_of(kind: str, topics: tuple[str, str], name: str, results: list[int]) -> hw.App:
    app = hw.App(name)
    joined = joined_by(kind, app, *topics)
    nothing = hw.sinks.Foreach(lambda rows, batch: results.append(len(rows)))
    app.sink(nothing, name="nothing")(lambda: joined)
    return app


def joined_by(kind: str, app: hw.App, left: str, right: str) -> Any:
    if kind == "tables":
        return app.table(left, LEFT_SCHEMA, key="id").join(app.table(right, RIGHT_SCHEMA, key="key"), on="key")
    events = app.stream(left, LEFT_SCHEMA, time="at", lateness=LATENESS)
    if kind == "as-of":
        versions = app.table(right, RIGHT_SCHEMA, key="key", versions="1 day", valid_from="since")
        return events.join(versions, on="key", as_of="at")
    others = app.stream(right, RIGHT_SCHEMA, time="since", lateness=LATENESS)
    return events.join(others, on="key", within=f"{WITHIN_SECONDS} seconds")


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("kind", "data", "address", "left", "right", "folder", "rows_per_batch"):
        parser.add_argument(name)
    given = parser.parse_args()
    settings = RunSettings(Path(given.data), given.address, once=True, rows_per_batch=int(given.rows_per_batch))
    with session(Path(given.folder)) as spark:
        for run in ("cold", "warm"):
            begun = STARTED if run == "cold" else time.monotonic()
            results: list[int] = []
            app = app_of(given.kind, (given.left, given.right), f"{given.kind}-{run}", results)
            running = RunningApp(app, spark, settings)
            try:
                running.start()
                running.wait()
            finally:
                running.stop()
            told = {"run": run, "seconds": time.monotonic() - begun, "results": sum(results)}
            print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
