"""Tumbling windows in Bytewax: `python bytewax_windows.py FILE`, with an interpreter that has bytewax alone.

A line of JSON for each of two runs in one process: the first one cold, with the loading of the library in it.
"""

import json
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

STARTED = time.monotonic()

import bytewax.operators as op  # noqa: E402  # loading it is part of a cold start
from bytewax.connectors.files import FileSource  # noqa: E402
from bytewax.dataflow import Dataflow  # noqa: E402
from bytewax.operators import windowing  # noqa: E402
from bytewax.outputs import DynamicSink, StatelessSinkPartition  # noqa: E402
from bytewax.testing import run_main  # noqa: E402

BATCH_LINES = 10_000


class NothingPartition(StatelessSinkPartition):  # type: ignore[misc]
    def write_batch(self, items: list[object]) -> None:
        """Results are wanted by nobody."""


class Nothing(DynamicSink):  # type: ignore[misc]
    def build(self, step_id: str, worker_index: int, worker_count: int) -> NothingPartition:
        return NothingPartition()


def flow_of(path: str) -> Dataflow:
    flow = Dataflow("windows")
    lines = op.input("lines", flow, FileSource(path, batch_size=BATCH_LINES))
    events = op.map("parsed", lines, json.loads)
    keyed = op.key_on("keyed", events, lambda event: event["key"])
    clock = windowing.EventClock(
        lambda event: datetime.fromisoformat(event["at"]), wait_for_system_duration=timedelta(seconds=2)
    )
    windower = windowing.TumblingWindower(length=timedelta(seconds=10), align_to=datetime(2026, 1, 1, tzinfo=UTC))
    counted = windowing.fold_window(
        "counted",
        keyed,
        clock,
        windower,
        lambda: (0, 0.0),
        lambda kept, event: (kept[0] + 1, max(kept[1], event["value"])),
        lambda one, other: (one[0] + other[0], max(one[1], other[1])),
    )
    op.output("nothing", counted.down, Nothing())
    return flow


def main(path: str) -> None:
    for run in ("cold", "warm"):
        begun = STARTED if run == "cold" else time.monotonic()
        run_main(flow_of(str(Path(path))))
        print(json.dumps({"run": run, "seconds": time.monotonic() - begun}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
