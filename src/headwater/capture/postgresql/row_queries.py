"""Rows of a table out of the database: a chunk by its key, or a table without one as a whole. Thin."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from psycopg.sql import SQL, Composed, Identifier, Literal

from headwater.capture.postgresql.database import Database, Visible, columns_list, typed_literals
from headwater.capture.postgresql.replication import ReplicationConnection
from headwater.capture.postgresql.setup import Identity, parse_lsn
from headwater.capture.postgresql.tables import TableFacts

Cells = list[bytes | None]


def keys_query(facts: TableFacts, keys: Sequence[tuple[str, ...]], names: Sequence[str]) -> Composed:
    """Rows with one of these keys; `names` are the key's columns in the order that the keys have."""
    types = {column.name: column.type_name for column in facts.columns}
    wanted = SQL(", ").join(SQL("({})").format(typed_literals(key, [types[name] for name in names])) for key in keys)
    return Composed([_selected(facts), SQL(" WHERE ({}) IN ({})").format(columns_list(names), wanted)])


def chunk_query(facts: TableFacts, *, after: tuple[str, ...] | None, where: str, limit: int) -> Composed:
    """Returns the query for rows after a key, in its order.

    A row comparison is what an index on the key answers at once.
    """
    types = {column.name: column.type_name for column in facts.columns}
    conditions = [SQL("({})").format(SQL(where))] if where else []
    if after is not None:
        literals = typed_literals(after, [types[name] for name in facts.key])
        conditions.append(SQL("({}) > ({})").format(columns_list(facts.key), literals))
    return Composed([
        _selected(facts),
        SQL(" WHERE ") + SQL(" AND ").join(conditions) if conditions else SQL(""),
        SQL(" ORDER BY {} LIMIT {}").format(columns_list(facts.key), Literal(limit)),
    ])  # fmt: skip


def _selected(facts: TableFacts) -> Composed:
    only = SQL("") if facts.partitioned else SQL("ONLY ")
    names = columns_list([column.name for column in facts.columns])
    return SQL("SELECT {} FROM {}{}").format(names, only, Identifier(facts.schema, facts.name))


def read_rows(database: Database, query: Composed, seen: Iterable[int]) -> tuple[Visible, list[Cells]] | None:
    """Rows, and which transactions they know of. None if one that has passed in the stream is not among them yet.

    Such a one is committed, and on its way to be visible: asking again a moment later helps.
    """
    with _transaction(database):
        visible = database.visible()
        if not all(visible.includes(transaction) for transaction in seen):
            return None
        return visible, list(database.copy(query))


@contextmanager
def _transaction(database: Database) -> Iterator[None]:
    database.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    try:
        yield
    finally:
        if not database.connection.closed:
            database.run("ROLLBACK")


class WholeTable:
    """A table as it was at one address of the log: by the exported snapshot of a slot that lives for this only."""

    def __init__(self, database: Database, replication: ReplicationConnection, name: str, identity: Identity) -> None:
        how = "(SNAPSHOT 'export')" if identity.version >= 15 else "EXPORT_SNAPSHOT"
        # The snapshot lives until this connection gets another command; the slot until it is closed.
        self._replication, self._database = replication, database
        row = replication.command(f'CREATE_REPLICATION_SLOT "{name}" TEMPORARY LOGICAL pgoutput {how}')[0]
        self.address = parse_lsn(str(row["consistent_point"]))
        database.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        database.run(SQL("SET TRANSACTION SNAPSHOT {}").format(Literal(row["snapshot_name"])))

    def rows(self, facts: TableFacts) -> Iterator[Cells]:
        """All of them, always: before they are emitted, all rows that the topic has of the table are deleted."""
        return self._database.copy(Composed([_selected(facts)]))

    def close(self) -> None:
        self._database.close()
        self._replication.close()
