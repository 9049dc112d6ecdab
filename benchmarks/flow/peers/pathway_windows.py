"""Tumbling windows in Pathway: `python pathway_windows.py FILE`, with an interpreter that has pathway alone.

A line of JSON for each of two runs in one process: the first one cold, with the loading of the library in it.
"""

import json
import sys
import time

STARTED = time.monotonic()

import pathway as pw  # noqa: E402  # loading it is part of a cold start


class Event(pw.Schema):  # type: ignore[misc]
    key: str
    value: float
    at: str


def main(path: str) -> None:
    for run in ("cold", "warm"):
        begun = STARTED if run == "cold" else time.monotonic()
        pw.internals.parse_graph.G.clear()
        events = pw.io.jsonlines.read(path, schema=Event, mode="static")
        timed = events.with_columns(at=pw.this.at.dt.strptime("%Y-%m-%dT%H:%M:%S.%fZ"))
        windows = timed.windowby(
            timed.at, window=pw.temporal.tumbling(duration=pw.Duration("10s")), instance=timed.key
        ).reduce(key=pw.this._pw_instance, n=pw.reducers.count(), most=pw.reducers.max(pw.this.value))
        pw.io.null.write(windows)
        pw.run(monitoring_level=pw.MonitoringLevel.NONE)
        print(json.dumps({"run": run, "seconds": time.monotonic() - begun}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
