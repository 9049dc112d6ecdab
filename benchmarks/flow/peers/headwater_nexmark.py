"""Nexmark in headwater: `python -m benchmarks.flow.peers.headwater_nexmark QUERY DATA ADDRESS FOLDER ROWS_PER_BATCH`.

Results go nowhere, those of q10 into files.
"""

from benchmarks.flow.peers.headwater_runs import run_twice  # isort: skip  # first: a cold start begins with it

import sys
from pathlib import Path
from typing import Any

import headwater as hw
from examples.nexmark.batch import select_of
from examples.nexmark.main import FOLDER
from headwater.flow.run.running_app import RunSettings

FILES = "q10"


def main(query: str, data: str, address: str, folder: str, rows_per_batch: str) -> None:
    def declare(app: hw.App) -> Any:
        app.sql((FOLDER / "tables.sql").read_text())
        return app.sql(select_of(query))

    files = Path(folder) / "files" if query == FILES else None
    settings = RunSettings(Path(data), address, once=True, rows_per_batch=int(rows_per_batch))
    run_twice(query, declare, settings, Path(folder), files=files)


if __name__ == "__main__":
    main(*sys.argv[1:])
