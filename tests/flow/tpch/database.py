"""The eight tables in PostgreSQL, their refresh functions, and its answers."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import psycopg

from examples.tpch.generator import Generator, Row
from examples.tpch.main import batch_query

TABLES = {
    "region": "r_regionkey int PRIMARY KEY, r_name text, r_comment text",
    "nation": "n_nationkey int PRIMARY KEY, n_name text, n_regionkey int, n_comment text",
    "supplier": "s_suppkey int PRIMARY KEY, s_name text, s_address text, s_nationkey int, s_phone text, "
    "s_acctbal numeric(15, 2), s_comment text",
    "part": "p_partkey int PRIMARY KEY, p_name text, p_mfgr text, p_brand text, p_type text, p_size int, "
    "p_container text, p_retailprice numeric(15, 2), p_comment text",
    "partsupp": "ps_partkey int, ps_suppkey int, ps_availqty int, ps_supplycost numeric(15, 2), ps_comment text, "
    "PRIMARY KEY (ps_partkey, ps_suppkey)",
    "customer": "c_custkey int PRIMARY KEY, c_name text, c_address text, c_nationkey int, c_phone text, "
    "c_acctbal numeric(15, 2), c_mktsegment text, c_comment text",
    "orders": "o_orderkey bigint PRIMARY KEY, o_custkey int, o_orderstatus text, o_totalprice numeric(15, 2), "
    "o_orderdate date, o_orderpriority text, o_clerk text, o_shippriority int, o_comment text",
    "lineitem": "l_orderkey bigint, l_partkey int, l_suppkey int, l_linenumber int, l_quantity numeric(15, 2), "
    "l_extendedprice numeric(15, 2), l_discount numeric(15, 2), l_tax numeric(15, 2), l_returnflag text, "
    "l_linestatus text, l_shipdate date, l_commitdate date, l_receiptdate date, l_shipinstruct text, l_shipmode text, "
    "l_comment text, PRIMARY KEY (l_orderkey, l_linenumber)",
}
INDEXES = (
    "CREATE INDEX ON lineitem (l_partkey, l_suppkey)", "CREATE INDEX ON orders (o_custkey)",
    "CREATE INDEX ON partsupp (ps_suppkey)",
)  # fmt: skip
OTHERS = (
    "UPDATE customer SET c_acctbal = c_acctbal + 500, c_nationkey = (c_nationkey + 1) % 25 WHERE c_custkey % 29 = {n}",
    "UPDATE supplier SET s_nationkey = (s_nationkey + 1) % 25 WHERE s_suppkey % 13 = {n}",
    "UPDATE supplier SET s_comment = 'Customer has Complaints' WHERE s_suppkey % 17 = {n}",
    "UPDATE partsupp SET ps_supplycost = CASE WHEN {n} % 2 = 1 THEN ps_supplycost * 2 ELSE ps_supplycost / 3 END, "
    "ps_availqty = ps_availqty * 2 WHERE (ps_partkey + ps_suppkey) % 5 = {n} / 2",
    "UPDATE part SET p_size = 15, p_type = 'PROMO ANODIZED BRASS', p_brand = 'Brand#23' WHERE p_partkey % 37 = {n}",
    "DELETE FROM supplier WHERE s_suppkey = {n} * 3 + 1",
    "UPDATE lineitem SET l_quantity = l_quantity + 1, l_shipdate = l_shipdate + 30 WHERE l_orderkey % 97 = {n}",
)
"""What no refresh function does: changes of tables that the queries look up."""
Connection = psycopg.Connection[Any]
Rows = Counter[tuple[Any, ...]]
EXACTLY = Context(prec=60)
SCALE = 12
"""Digits that a view's numbers have at most after the point."""


def fill(database: Connection, generator: Generator) -> None:
    for name, columns in TABLES.items():
        database.execute(f"CREATE TABLE {name} ({columns})".encode())
    for name, rows in generator.tables():
        _copy(database, name, rows)
    for statement in INDEXES:
        database.execute(statement.encode())
    database.execute("ANALYZE")


def _copy(database: Connection, table: str, rows: Iterable[Row]) -> None:
    with database.cursor() as cursor, cursor.copy(f"COPY {table} FROM STDIN".encode()) as copy:
        for row in rows:
            copy.write_row(row)


def insert(database: Connection, orders: Sequence[Row], lines: Sequence[Row]) -> None:
    """RF1: orders and their lines, in one transaction."""
    with database.transaction():
        _copy(database, "orders", orders)
        _copy(database, "lineitem", lines)


def delete(database: Connection, keys: Sequence[int]) -> None:
    """RF2: orders and their lines, in one transaction."""
    with database.transaction():
        database.execute("DELETE FROM lineitem WHERE l_orderkey = ANY(%s)", (list(keys),))
        database.execute("DELETE FROM orders WHERE o_orderkey = ANY(%s)", (list(keys),))


def change_others(database: Connection, number: int) -> None:
    with database.transaction():
        for statement in OTHERS:
            database.execute(statement.format(n=number).encode())


def answer(database: Connection, query: str) -> tuple[list[str], list[Row]]:
    found = database.execute(batch_query(query).replace("%", "%%").encode(), [])
    return [one.name for one in found.description or ()], found.fetchall()


def difference(database: Connection, query: str, rows: Sequence[Mapping[str, Any]]) -> tuple[int, str]:
    """How many rows PostgreSQL answers, and what a view has too few and too many of; "" if nothing."""
    names, wanted = answer(database, query)
    digits = [_digits(rows, name) for name in names]
    theirs = Counter(tuple(map(_value, row, digits)) for row in wanted)
    ours = Counter(tuple(_value(row[name], count) for name, count in zip(names, digits, strict=True)) for row in rows)
    if ours == theirs:
        return len(wanted), ""
    few, many = theirs - ours, ours - theirs
    return len(wanted), f"{few.total()} too few: {[*few][:3]}, {many.total()} too many: {[*many][:3]}"


def _digits(rows: Sequence[Mapping[str, Any]], name: str) -> int:
    """After the point, of a column of decimals: its quotients and averages are rounded to so many."""
    exponents = [int(row[name].as_tuple().exponent) for row in rows if isinstance(row[name], Decimal)]
    return min(SCALE, max((-one for one in exponents), default=SCALE))


def _value(value: Any, digits: int) -> Any:
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        rounded = Decimal(value).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP, EXACTLY)
        return rounded.normalize(EXACTLY) + 0
    return value.isoformat() if isinstance(value, date) else value
