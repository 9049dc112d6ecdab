"""Nexmark in Flink SQL: `python flink_nexmark.py run|results FLINK.SQL FOLDER QUERY ...`, with an interpreter that
has apache-flink alone. FOLDER has a folder of JSON files for each table.

`run` does one query twice, as other peers do; its results go nowhere, those of q10 into files. `results` writes the
rows that each query has at its end, as lines of JSON, to FOLDER/results/QUERY.json.
"""

import json
import sys
import time

STARTED = time.monotonic()

from collections import Counter  # noqa: E402  # all that is loaded is part of a cold start
from collections.abc import Iterable  # noqa: E402
from pathlib import Path  # noqa: E402

from pyflink.common import Row, RowKind  # noqa: E402
from pyflink.table import EnvironmentSettings, TableDescriptor, TableEnvironment  # noqa: E402

SOURCE = """WITH (
  'connector' = 'filesystem', 'path' = 'file://{path}', 'format' = 'json',
  'json.timestamp-format.standard' = 'ISO-8601'
)"""
AS_NEXMARK_HAS_IT = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2s",
    "table.exec.mini-batch.size": "50000",
    "table.optimizer.distinct-agg.split.enabled": "true",
    "pipeline.object-reuse": "true",
}
RETRACTED = (RowKind.UPDATE_BEFORE, RowKind.DELETE)
RANKED = {"q9": ("id",), "q18": ("bidder", "auction"), "q19": ("auction", "place")}
"""Of these a row is replaced without a retraction: their keys."""
FILES = "q10"


def tables_of(sql: Path, folder: Path, settings: dict[str, str]) -> TableEnvironment:
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for name, value in {"table.local-time-zone": "UTC", **settings}.items():
        tables.get_config().set(name, value)
    for statement in sql.read_text().split(";"):
        if create := statement.strip():
            name = create.partition("CREATE TABLE ")[2].partition(" ")[0]
            tables.execute_sql(create.replace("{source}", SOURCE.format(path=folder / name)))
    return tables


def run(sql: Path, folder: Path, query: str) -> None:
    tables = tables_of(sql, folder, {"parallelism.default": "2", **AS_NEXMARK_HAS_IT})
    for which in ("cold", "warm"):
        begun = STARTED if which == "cold" else time.monotonic()
        sink = TableDescriptor.for_connector("blackhole").build()
        if query == FILES:
            files = TableDescriptor.for_connector("filesystem").format("csv").partitioned_by("dt", "hm")
            sink = files.option("path", f"file://{folder}/files-{which}").build()
        tables.from_path(query).execute_insert(sink).wait()
        print(json.dumps({"run": which, "seconds": time.monotonic() - begun}), flush=True)


def results(sql: Path, folder: Path, queries: list[str]) -> None:
    tables = tables_of(sql, folder, {"parallelism.default": "1", **AS_NEXMARK_HAS_IT})
    (folder / "results").mkdir()
    for query in queries:
        names = tables.from_path(query).get_schema().get_field_names()
        texts = ", ".join(f"CAST(`{name}` AS STRING) AS `{name}`" for name in names)
        with tables.execute_sql(f"SELECT {texts} FROM {query}").collect() as changes:
            rows = kept(changes, [names.index(name) for name in RANKED.get(query, ())])
        with (folder / "results" / f"{query}.json").open("w") as file:
            file.writelines(json.dumps(dict(zip(names, values, strict=True))) + "\n" for values in rows)


def kept(changes: Iterable[Row], key: list[int]) -> list[tuple[str, ...]]:
    """The rows that changes lead to: the last one of each key, or, without one, as many as were not retracted."""
    counted: Counter[tuple[str, ...]] = Counter()
    newest: dict[tuple[str, ...], tuple[str, ...]] = {}
    for row in changes:
        values, kind = tuple(row), row.get_row_kind()
        counted[values] += -1 if kind in RETRACTED else 1
        place = tuple(values[number] for number in key)
        if kind == RowKind.DELETE:
            newest.pop(place, None)
        elif kind != RowKind.UPDATE_BEFORE:
            newest[place] = values
    return list(newest.values()) if key else list(counted.elements())


def main(what: str, sql: str, folder: str, *queries: str) -> None:
    if what == "run":
        run(Path(sql), Path(folder), queries[0])
    else:
        results(Path(sql), Path(folder), list(queries))


if __name__ == "__main__":
    main(*sys.argv[1:])
