"""Joins in headwater: `python -m benchmarks.flow.peers.headwater_joins KIND STEPS DATA ADDRESS LEFT RIGHT ...`."""

from benchmarks.flow.peers.headwater_runs import run_twice  # isort: skip  # first: a cold start begins with it

import argparse
from pathlib import Path
from typing import Any

import headwater as hw
from benchmarks.flow.join_events import KINDS, LATENESS, LEFT_SCHEMA, RIGHT_SCHEMA, WITHIN_SECONDS
from benchmarks.flow.peers import row_steps
from benchmarks.flow.peers.row_steps import with_steps
from headwater.flow.run.running_app import RunSettings


def joined_by(kind: str, steps: str, app: hw.App, left: str, right: str) -> Any:
    if kind == "tables":
        rows = with_steps(
            app.table(left, LEFT_SCHEMA, key="id"), steps, number="value", text="key", others=["id", "at"]
        )
        return rows.join(app.table(right, RIGHT_SCHEMA, key="key"), on="key")
    events = app.stream(left, LEFT_SCHEMA, time="at", lateness=LATENESS)
    stepped = with_steps(events, steps, number="value", text="key", others=["id", "at"])
    if kind == "as-of":
        versions = app.table(right, RIGHT_SCHEMA, key="key", versions="1 day", valid_from="since")
        return stepped.join(versions, on="key", as_of="at")
    others = app.stream(right, RIGHT_SCHEMA, time="since", lateness=LATENESS)
    stepped_others = with_steps(others, steps, number="rate", text="key", others=["other", "since"])
    return stepped.join(stepped_others, on="key", within=f"{WITHIN_SECONDS} seconds")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("steps", choices=row_steps.KINDS)
    for name in ("data", "address", "left", "right", "folder", "rows_per_batch"):
        parser.add_argument(name)
    given = parser.parse_args()

    def declare(app: hw.App) -> Any:
        return joined_by(given.kind, given.steps, app, given.left, given.right)

    settings = RunSettings(Path(given.data), given.address, once=True, rows_per_batch=int(given.rows_per_batch))
    run_twice(f"{given.kind}-{given.steps}", declare, settings, Path(given.folder))


if __name__ == "__main__":
    main()
