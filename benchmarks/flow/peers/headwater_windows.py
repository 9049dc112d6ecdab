"""Windows in headwater: `python -m benchmarks.flow.peers.headwater_windows KIND DATA ADDRESS TOPIC FOLDER ...`."""

import argparse
import json
import time

STARTED = time.monotonic()

from pathlib import Path  # noqa: E402  # all that is loaded is part of a cold start

import headwater as hw  # noqa: E402
from benchmarks.flow.events import LATENESS, SCHEMA  # noqa: E402
from benchmarks.flow.queries import session  # noqa: E402
from headwater.flow.run.running_app import RunningApp, RunSettings  # noqa: E402

WINDOWS = {
    "tumbling": hw.tumbling("10 seconds"),
    "session": hw.session("10 seconds"),
    "sliding": hw.sliding("10 seconds"),
}


def app_of(kind: str, topic: str, name: str, results: list[int]) -> hw.App:
    app = hw.App(name)
    events = app.stream(topic, SCHEMA, time="at", lateness=LATENESS)
    windows = events.window(WINDOWS[kind]).by("key").agg("count(*) as n", "max(value) as most", emit="final")
    nothing = hw.sinks.Foreach(lambda rows, batch: results.append(len(rows)))
    app.sink(nothing, name="nothing")(lambda: windows)
    return app


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("kind", "data", "address", "topic", "folder", "rows_per_batch"):
        parser.add_argument(name)
    given = parser.parse_args()
    settings = RunSettings(Path(given.data), given.address, once=True, rows_per_batch=int(given.rows_per_batch))
    with session(Path(given.folder)) as spark:
        for run in ("cold", "warm"):
            begun = STARTED if run == "cold" else time.monotonic()
            results: list[int] = []
            running = RunningApp(
                app_of(given.kind, given.topic, f"{given.topic}-{given.kind}-{run}", results), spark, settings
            )
            try:
                running.start()
                running.wait()
            finally:
                running.stop()
            told = {"run": run, "seconds": time.monotonic() - begun, "results": sum(results)}
            print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
