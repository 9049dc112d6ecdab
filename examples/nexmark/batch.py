"""What each query is in one batch of Spark, over the same events as tables: the query of its own file."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from pyspark.sql import SparkSession

from examples.nexmark.generator import events
from examples.nexmark.main import FOLDER, side_input

TABLES = {
    name: columns.replace(" PRIMARY KEY", "").replace("\n", " ")
    for name, columns in re.findall(
        r"CREATE (?:STREAM|TABLE) (\w+) \((.+?)\) FROM TOPIC", (FOLDER / "tables.sql").read_text().replace("\n)", ")"),
        re.DOTALL,
    )
}  # fmt: skip
"""The columns of each, as tables.sql has them."""
MOMENT = "2026-03-01T12:00:05Z"
"""When all events are processed: windows by processing time have them all in one."""
WINDOWED = "(SELECT *, w.start AS window_start, w.end AS window_end FROM (SELECT *, {window} AS w FROM {table}))"
SECONDS = r"INTERVAL '(\d+)' SECONDS"


def _tumble(found: re.Match[str]) -> str:
    table, time, size = found.groups()
    time = f"timestamp'{MOMENT}'" if time == "current_timestamp()" else time
    return WINDOWED.format(table=table, window=f"window({time}, '{size} seconds')")


def _hop(found: re.Match[str]) -> str:
    table, time, slide, size = found.groups()
    return WINDOWED.format(table=table, window=f"window({time}, '{size} seconds', '{slide} seconds')")


def _session(found: re.Match[str]) -> str:
    table, time, gap = found.groups()
    counted = f"SELECT bidder, session_window({time}, '{gap} seconds') AS w, count(*) AS bid_count FROM {table}"
    return f"SELECT bidder, w.start AS window_start, w.end AS window_end, bid_count FROM ({counted} GROUP BY bidder, w)"


UNKNOWN_TO_SPARK: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (rf"TUMBLE\((\w+), DESCRIPTOR\(([\w()]+)\), {SECONDS}\)", _tumble),
    (rf"HOP\((\w+), DESCRIPTOR\((\w+)\), {SECONDS}, {SECONDS}\)", _hop),
    (rf"SELECT [^;]+?\s+FROM SESSION\((\w+), DESCRIPTOR\((\w+)\), {SECONDS}\)\s+GROUP BY [\w, ]+", _session),
    (r"FOR SYSTEM_TIME AS OF current_timestamp\(\)", ""),
)
"""Windows as table functions, and a join with a table as it is, which here never changes."""


def select_of(query: str) -> str:
    """The SELECT of a file."""
    return (FOLDER / "queries" / f"{query}.sql").read_text().partition(" AS\n")[2].rstrip().rstrip(";")


def batch_text(query: str) -> str:
    """The same as Spark reads it."""
    text = select_of(query)
    for pattern, by in UNKNOWN_TO_SPARK:
        text = re.sub(pattern, by, text)
    return text


def flink_side_input() -> list[Mapping[str, Any]]:
    """With the time since when each row holds, which is before all events."""
    return [{**row, "since": "2026-01-01T00:00:00.000Z"} for row in side_input()]


def write_tables(folder: Path, seed: int, count: int) -> None:
    """Lines of JSON in a folder for each table."""
    files: dict[str, TextIO] = {}
    for name in TABLES:
        (folder / name).mkdir(parents=True)
        files[name] = (folder / name / "rows.json").open("w")
    for name, row in (*(("side_input", one) for one in flink_side_input()), *events(seed, count)):
        files[name].write(json.dumps(row) + "\n")
    for file in files.values():
        file.close()


def batch_rows(spark: SparkSession, folder: Path, queries: Iterable[str]) -> dict[str, Sequence[Mapping[str, Any]]]:
    """What the queries give of tables that lie in a folder."""
    for name, columns in TABLES.items():
        spark.read.schema(columns).json(str(folder / name)).createOrReplaceTempView(name)
    return {query: spark.sql(batch_text(query)).toArrow().to_pylist() for query in queries}
