"""Windows in Flink SQL: `python flink_windows.py KIND FILE`, with an interpreter that has apache-flink alone.

A line of JSON for each of two runs in one process: the first one cold, with the start of everything in it.
"""

import json
import sys
import time

STARTED = time.monotonic()

from pyflink.table import EnvironmentSettings, TableEnvironment  # noqa: E402  # loading it is part of a cold start

SOURCE = """
CREATE TABLE events (
  `key` STRING, `value` DOUBLE, `at` TIMESTAMP_LTZ(3), WATERMARK FOR `at` AS `at` - INTERVAL '2' SECOND
) WITH (
  'connector' = 'filesystem', 'path' = 'file://{path}', 'format' = 'json',
  'json.timestamp-format.standard' = 'ISO-8601'
)
"""
COUNTED = "`key`, window_start, COUNT(*) AS n, MAX(`value`) AS most"
GROUPED = "GROUP BY `key`, window_start, window_end"
TUMBLING = f"SELECT {COUNTED} FROM TUMBLE(TABLE events, DESCRIPTOR(`at`), INTERVAL '10' SECOND) {GROUPED}"
SESSION = (
    f"SELECT {COUNTED} FROM SESSION(TABLE events PARTITION BY `key`, DESCRIPTOR(`at`), INTERVAL '10' SECOND) {GROUPED}"
)
SLIDING = """
SELECT `key`, `at`, COUNT(*) OVER w AS n, MAX(`value`) OVER w AS most FROM events
WINDOW w AS (PARTITION BY `key` ORDER BY `at` RANGE BETWEEN INTERVAL '10' SECOND PRECEDING AND CURRENT ROW)
"""
QUERIES = {"tumbling": TUMBLING, "session": SESSION, "sliding": SLIDING}
SINK = "CREATE TABLE nothing (`key` STRING, moment {time}, n BIGINT, most DOUBLE) WITH ('connector' = 'blackhole')"


def main(kind: str, path: str) -> None:
    settings = EnvironmentSettings.in_streaming_mode()
    tables = TableEnvironment.create(settings)
    for name, value in {
        "parallelism.default": "2",
        "table.local-time-zone": "UTC",
        "taskmanager.memory.process.size": "4g",
        "table.exec.mini-batch.enabled": "false",
    }.items():
        tables.get_config().set(name, value)
    tables.execute_sql(SOURCE.format(path=path))
    moment = "TIMESTAMP_LTZ(3)" if kind == "sliding" else "TIMESTAMP(3)"
    tables.execute_sql(SINK.format(time=moment))
    for run in ("cold", "warm"):
        begun = STARTED if run == "cold" else time.monotonic()
        tables.execute_sql(f"INSERT INTO nothing {QUERIES[kind]}").wait()
        print(json.dumps({"run": run, "seconds": time.monotonic() - begun}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
