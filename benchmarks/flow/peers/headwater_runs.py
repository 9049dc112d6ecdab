"""An app of headwater that works twice over the same rows, cold and warm, in one process."""

import json
import time

STARTED = time.monotonic()

from collections.abc import Callable  # noqa: E402  # all that is loaded is part of a cold start
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import headwater as hw  # noqa: E402
from benchmarks.flow.queries import session  # noqa: E402
from headwater.flow.run.running_app import RunningApp, RunSettings  # noqa: E402


def run_twice(
    name: str, declare: Callable[[hw.App], Any], settings: RunSettings, folder: Path, *, files: Path | None = None
) -> None:
    """`declare` gives the stream or table whose rows are counted, and written nowhere; or in `files` as Parquet."""
    with session(folder) as spark:
        for run in ("cold", "warm"):
            begun = STARTED if run == "cold" else time.monotonic()
            results: list[int] = []
            running = RunningApp(app_of(f"{name}-{run}", declare, results, files), spark, settings)
            try:
                running.start()
                running.wait()
            finally:
                running.stop()
            report = {"run": run, "seconds": time.monotonic() - begun, "results": sum(results)}
            print(json.dumps(report), flush=True)


def app_of(name: str, declare: Callable[[hw.App], Any], results: list[int], files: Path | None = None) -> hw.App:
    """`results` gets the number of rows of each batch."""
    app = hw.App(name)
    declared = declare(app)
    nothing = hw.sinks.Foreach(lambda rows, batch: results.append(len(rows)))
    app.sink(nothing if files is None else hw.sinks.Parquet(f"{files}-{name}"), name="nothing")(lambda: declared)
    return app
