"""The queries of TPC-H as an app over tables that are captured from PostgreSQL."""

import os
from collections.abc import Sequence
from pathlib import Path

import headwater as hw

FOLDER = Path(__file__).parent
QUERIES = tuple(f"q{number}" for number in range(1, 23))
TABLES = ("region", "nation", "supplier", "part", "partsupp", "customer", "orders", "lineitem")


def app_of(queries: Sequence[str], name: str = "tpch", url: str = "") -> hw.App:
    """With `url` the tables are captured from there; else their topics are filled by whoever runs the app."""
    app = hw.App(name, one_job=True)
    tables = (FOLDER / "tables.sql").read_text()
    for table in TABLES if url else ():
        tables = tables.replace(f"FROM TOPIC {table};", f"CAPTURED FROM '{url}' TABLE public.{table};")
    app.sql(tables)
    for query in queries:
        app.sql((FOLDER / "queries" / f"{query}.sql").read_text())
    return app


def batch_query(query: str) -> str:
    """The same as a query of PostgreSQL."""
    text = (FOLDER / "queries" / f"{query}.sql").read_text()
    return text[text.index("AS\n") + 3 :].strip().removesuffix(";")


app = app_of(QUERIES, url=os.environ.get("TPCH_URL", ""))
