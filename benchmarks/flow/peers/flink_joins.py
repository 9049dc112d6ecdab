"""Joins in Flink SQL: `python flink_joins.py KIND LEFT RIGHT`, with an interpreter that has apache-flink alone.

Its interval, temporal and regular join. A line of JSON for each of two runs in one process: the first one cold, with
the start of everything in it.
"""

import json
import sys
import time

STARTED = time.monotonic()

from pyflink.table import EnvironmentSettings, TableEnvironment  # noqa: E402  # loading it is part of a cold start

FILE = """WITH (
  'connector' = 'filesystem', 'path' = 'file://{path}', 'format' = 'json',
  'json.timestamp-format.standard' = 'ISO-8601'
)"""
LEFT = "CREATE TABLE events (id BIGINT, `key` STRING, `value` DOUBLE, `at` TIMESTAMP_LTZ(3){watermark})"
RIGHT = "CREATE TABLE others (other BIGINT, `key` STRING, rate DOUBLE, since TIMESTAMP_LTZ(3){watermark})"
WATERMARK = ", WATERMARK FOR `{column}` AS `{column}` - INTERVAL '2' SECOND"
"""A regular join takes no input with one."""
VERSIONS = """
CREATE VIEW versions AS SELECT other, `key`, rate, since FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY `key` ORDER BY since DESC) AS place FROM others
) WHERE place = 1
"""
COLUMNS = "e.id, e.`key`, e.`value`, e.`at`, o.other, o.rate"
"""Without the time of the right: a result has one time at most."""
QUERIES = {
    "interval": f"SELECT {COLUMNS} FROM events e JOIN others o ON e.`key` = o.`key` "
    "AND o.since BETWEEN e.`at` AND e.`at` + INTERVAL '10' SECOND",
    "as-of": f"SELECT {COLUMNS} FROM events e JOIN versions FOR SYSTEM_TIME AS OF e.`at` AS o ON e.`key` = o.`key`",
    "tables": f"SELECT {COLUMNS} FROM events e JOIN others o ON e.`key` = o.`key`",
}
SINK = """
CREATE TABLE nothing (
  id BIGINT, `key` STRING, `value` DOUBLE, `at` TIMESTAMP_LTZ(3), other BIGINT, rate DOUBLE
) WITH ('connector' = 'blackhole')
"""


def main(kind: str, left: str, right: str) -> None:
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for name, value in {
        "parallelism.default": "2",
        "table.local-time-zone": "UTC",
        "taskmanager.memory.process.size": "4g",
        "table.exec.mini-batch.enabled": "false",
    }.items():
        tables.get_config().set(name, value)
    for source, column, path in ((LEFT, "at", left), (RIGHT, "since", right)):
        watermark = "" if kind == "tables" else WATERMARK.format(column=column)
        tables.execute_sql(source.format(watermark=watermark) + FILE.format(path=path))
    for statement in (VERSIONS, SINK) if kind == "as-of" else (SINK,):
        tables.execute_sql(statement)
    for run in ("cold", "warm"):
        begun = STARTED if run == "cold" else time.monotonic()
        tables.execute_sql(f"INSERT INTO nothing {QUERIES[kind]}").wait()
        print(json.dumps({"run": run, "seconds": time.monotonic() - begun}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
