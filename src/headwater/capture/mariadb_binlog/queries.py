"""Queries for a MariaDB server: its catalog, and the rows of a table. Pure."""

from collections.abc import Sequence

from headwater.capture.mariadb_binlog.tables import TableFacts
from headwater.capture.mariadb_binlog.text_values import ordered, quoted, selected

TABLES = """
SELECT t.TABLE_SCHEMA AS `schema`, t.TABLE_NAME AS name, t.TABLE_TYPE AS kind, t.ENGINE AS engine,
       COALESCE(e.TRANSACTIONS, '') AS transactions, COALESCE(t.TABLE_ROWS, 0) AS estimate
FROM information_schema.TABLES t LEFT JOIN information_schema.ENGINES e ON e.ENGINE = t.ENGINE
WHERE t.TABLE_SCHEMA NOT IN ('information_schema', 'performance_schema', 'mysql', 'sys')
"""
COLUMNS = """
SELECT TABLE_SCHEMA AS `schema`, TABLE_NAME AS name, COLUMN_NAME AS `column`, LOWER(DATA_TYPE) AS type,
       COLUMN_TYPE AS full_type, COALESCE(NUMERIC_PRECISION, 0) AS bits
FROM information_schema.COLUMNS
WHERE TABLE_SCHEMA NOT IN ('information_schema', 'performance_schema', 'mysql', 'sys')
"""
KEYS = """
SELECT TABLE_SCHEMA AS `schema`, TABLE_NAME AS name, COLUMN_NAME AS `column` FROM information_schema.STATISTICS
WHERE INDEX_NAME = 'PRIMARY' AND TABLE_SCHEMA NOT IN ('information_schema', 'performance_schema', 'mysql', 'sys')
"""
COLLATIONS = "SELECT ID, CHARACTER_SET_NAME AS charset FROM information_schema.{} WHERE ID IS NOT NULL"
NEWER_COLLATIONS = """
SELECT 1 FROM information_schema.COLUMNS
WHERE TABLE_SCHEMA = 'information_schema' AND COLUMN_NAME = 'ID'
  AND TABLE_NAME = 'COLLATION_CHARACTER_SET_APPLICABILITY'
"""
"""From 10.10 on there are collations of several character sets, which have a number for each."""

ONE_TABLE = " AND {0}TABLE_SCHEMA = %s AND {0}TABLE_NAME = %s"


def chunk_query(facts: TableFacts, *, after: Sequence[str] | None, where: str, limit: int) -> str:
    columns = {column.name: column for column in facts.columns}
    columns_sql = [ordered(columns[name]) for name in facts.key]
    conditions = [f"({where})"] if where else []
    if after is not None:
        conditions.append(f"({after_key(columns_sql, after)})")
    condition = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"{selection(facts)}{condition} ORDER BY {', '.join(columns_sql)} LIMIT {limit}"


def after_key(columns_sql: Sequence[str], after: Sequence[str]) -> str:
    """Returns the condition for rows after a key.

    Written out, because MariaDB reads the whole index for (a, b) > (1, 2).

    >>> after_key(["a", "b"], ["1", "2"])
    'a >= 1 AND (a > 1 OR (a = 1 AND b > 2))'
    """
    if len(columns_sql) == 1:
        return f"{columns_sql[0]} > {after[0]}"
    rest = after_key(columns_sql[1:], after[1:])
    first, value = columns_sql[0], after[0]
    return f"{first} >= {value} AND ({first} > {value} OR ({first} = {value} AND {rest}))"


def selection(facts: TableFacts) -> str:
    names = ", ".join(selected(column) for column in facts.columns)
    return f"SELECT {names} FROM {quoted(facts.schema)}.{quoted(facts.name)}"
