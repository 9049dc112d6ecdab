"""Questions to the database over an ordinary connection. Thin: what the answers mean is decided elsewhere."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import LiteralString, NamedTuple

import psycopg
from psycopg import pq
from psycopg.rows import dict_row, tuple_row
from psycopg.sql import SQL, Composed, Identifier, Literal

from headwater.capture.postgresql.replication import APPLICATION, CONNECT_SECONDS, first_line
from headwater.capture.postgresql.tables import ColumnFacts, TableFacts
from headwater.capture.postgresql.types import DOMAIN, SESSION, TypeFacts
from headwater.errors import SourceRefused, SourceUnavailable

TABLES: LiteralString = """
SELECT c.oid, n.nspname, c.relname, c.relreplident, c.relispartition, c.relkind,
       pg_has_role(c.relowner, 'USAGE') AS owned,
       has_table_privilege(c.oid, 'SELECT') AND has_schema_privilege(n.oid, 'USAGE') AS readable,
       greatest(c.reltuples, 0)::bigint AS rows,
       (SELECT option_value::int FROM pg_options_to_table(c.reloptions)
        WHERE option_name = 'toast_tuple_target') AS toast_target,
       (SELECT array_agg(a.attname::text ORDER BY k.ordinal) FROM pg_index i,
               unnest(i.indkey) WITH ORDINALITY k(n, ordinal), pg_attribute a
        WHERE i.indrelid = c.oid AND i.indisprimary AND k.ordinal <= i.indnkeyatts
          AND a.attrelid = c.oid AND a.attnum = k.n) AS primary_key,
       (SELECT array_agg(a.attname::text ORDER BY k.ordinal) FROM pg_index i,
               unnest(i.indkey) WITH ORDINALITY k(n, ordinal), pg_attribute a
        WHERE i.indrelid = c.oid AND i.indisreplident AND k.ordinal <= i.indnkeyatts
          AND a.attrelid = c.oid AND a.attnum = k.n) AS index_key,
       (SELECT json_agg(json_build_array(a.attname, a.atttypid::bigint, a.atttypmod,
                                         format_type(a.atttypid, a.atttypmod)) ORDER BY a.attnum)
        FROM pg_attribute a
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '') AS columns
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p'
  AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_toast'
  AND (%s::oid IS NULL OR c.oid = %s)
ORDER BY n.nspname, c.relname
"""

TYPES: LiteralString = """
SELECT t.oid, t.typname, t.typdelim, t.typbasetype, t.typtypmod, t.typelem,
       CASE WHEN t.typtype = 'd' THEN 'domain' WHEN t.typoutput = 'array_out'::regproc THEN 'array'
            WHEN t.typtype = 'c' THEN 'composite' ELSE 'other' END AS kind,
       CASE WHEN t.typtype = 'c' THEN
           (SELECT json_agg(json_build_array(a.attname, a.atttypid::bigint, a.atttypmod) ORDER BY a.attnum)
            FROM pg_attribute a WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped) END AS fields
FROM pg_type t LEFT JOIN pg_class c ON c.oid = t.typrelid
WHERE t.typtype <> 'p' AND (t.typtype <> 'c' OR t.typnamespace <> 'pg_catalog'::regnamespace)
"""

SLOT: LiteralString = """
SELECT slot_name, plugin, slot_type, active, active_pid, database, wal_status,
       (confirmed_flush_lsn - '0/0')::bigint AS confirmed, (restart_lsn - '0/0')::bigint AS restart,
       (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END - restart_lsn)::bigint
           AS retained,
       (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END - '0/0')::bigint
           AS now
FROM pg_replication_slots WHERE slot_name = %s
"""


class SlotFacts(NamedTuple):
    """The state of a replication slot."""

    name: str
    active: bool
    database: str
    lost: bool
    confirmed: int
    retained: int
    """Bytes of WAL that the database keeps for it."""

    now: int
    """Where the database itself is."""


class Visible(NamedTuple):
    """Which transactions a query saw: those before `first`, and those before `end` that were not under way."""

    first: int
    end: int
    under_way: frozenset[int]

    def includes(self, transaction: int) -> bool:
        """`transaction` is the short id that the change stream gives, without its epoch.

        >>> seen = Visible(100, 110, frozenset({103}))
        >>> [seen.includes(id) for id in (99, 103, 104, 110)], Visible(2**32 + 5, 2**32 + 9, frozenset()).includes(4)
        ([True, False, True, False], True)
        """
        # The nearest long id, before or after, that ends in the short one: no two live ids are 2^31 apart.
        distance = (transaction - self.end + 2**31) % 2**32 - 2**31
        full = self.end + distance
        return full < self.first or (full < self.end and full not in self.under_way)


@contextmanager
def database_errors() -> Iterator[None]:
    """Translates errors of the driver into ours, which say whether to try again."""
    try:
        yield
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.UndefinedTable, psycopg.ProgrammingError) as error:
        raise SourceRefused(f"the database refused: {first_line(str(error))}") from None
    except psycopg.Error as error:
        raise SourceUnavailable(f"the database does not answer: {first_line(str(error))}") from None


class Database:
    """One ordinary connection. Not thread-safe."""

    def __init__(self, url: str) -> None:
        options = " ".join(f"-c {name}={value.replace(' ', '')}" for name, value in SESSION.items())
        with database_errors():
            self.connection = psycopg.connect(
                url,
                autocommit=True,
                options=options,
                fallback_application_name=APPLICATION,
                connect_timeout=CONNECT_SECONDS,
                row_factory=tuple_row,
            )

    def close(self) -> None:
        self.connection.close()

    def one(self, query: LiteralString | SQL | Composed, *values: object) -> object:
        """The first column of the first row; None if there is none."""
        with database_errors():
            row = self.connection.execute(_composed(query), values or None).fetchone()
        return row[0] if row else None

    def rows(self, query: LiteralString | SQL | Composed, *values: object) -> list[dict[str, object]]:
        with database_errors(), self.connection.cursor(row_factory=dict_row) as cursor:
            found: list[dict[str, object]] = cursor.execute(_composed(query), values or None).fetchall()
            return found

    def run(self, statement: LiteralString | SQL | Composed, *values: object) -> None:
        with database_errors():
            self.connection.execute(_composed(statement), values or None)

    # -- the catalog -------------------------------------------------------------------------------------------------

    def tables(self, id: int | None = None) -> list[TableFacts]:
        """All tables, or the one with this id."""
        return [_table_facts(row) for row in self.rows(TABLES, id, id)]

    def partitions(self, id: int) -> list[int]:
        """Returns the leaf partitions of a partitioned table."""
        found = self.rows("SELECT relid::oid AS id FROM pg_partition_tree(%s) WHERE isleaf AND relid <> %s", id, id)
        return sorted(_integer(row["id"]) for row in found)

    def types(self) -> dict[int, TypeFacts]:
        return {int(str(row["oid"])): _type_facts(row) for row in self.rows(TYPES)}

    def slot(self, name: str) -> SlotFacts | None:
        found = self.rows(SLOT, name)
        if not found:
            return None
        row = found[0]
        return SlotFacts(
            name=str(row["slot_name"]),
            active=bool(row["active"]),
            database=str(row["database"]),
            lost=row["wal_status"] == "lost" or row["restart"] is None,
            confirmed=_integer(row["confirmed"]),
            retained=_integer(row["retained"]),
            now=_integer(row["now"]),
        )

    def published(self, publication: str) -> dict[tuple[str, str], int] | None:
        """Tables that were named for a publication, each with a number that changes if it is named again; None if
        there is no such publication."""
        if self.one("SELECT 1 FROM pg_publication WHERE pubname = %s", publication) is None:
            return None
        found = self.rows(
            "SELECT n.nspname AS schema, c.relname AS name, r.oid AS entry FROM pg_publication_rel r "
            "JOIN pg_publication p ON p.oid = r.prpubid JOIN pg_class c ON c.oid = r.prrelid "
            "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE p.pubname = %s",
            publication,
        )
        return {(str(row["schema"]), str(row["name"])): _integer(row["entry"]) for row in found}

    # -- snapshots and marks -----------------------------------------------------------------------------------------

    def visible(self) -> Visible:
        """Returns the snapshot of this transaction."""
        text = str(self.one("SELECT pg_current_snapshot()::text"))
        first, end, under_way = text.split(":")
        return Visible(int(first), int(end), frozenset(int(id) for id in under_way.split(",") if id))

    def emit(self, prefix: str, content: str) -> None:
        """Write a mark into the database's log that only decoders see. It is on its way when this returns.

        What is no part of a transaction waits for the next flush; before PostgreSQL 17 only a commit is one.
        """
        if self.connection.info.server_version >= 170_000:
            self.run("SELECT pg_logical_emit_message(false, %s, %s::text, true)", prefix, content)
        else:
            self.run(
                "SELECT pg_logical_emit_message(false, %s, %s::text), pg_logical_emit_message(true, %s, '')",
                prefix, content, prefix,
            )  # fmt: skip

    def copy(self, query: SQL | Composed) -> Iterator[list[bytes | None]]:
        """Rows of a query as the text of their values.

        By libpq itself: the driver's own way looks at the socket once a row, which costs more than the row.
        """
        statement = Composed([SQL("COPY ("), query, SQL(") TO STDOUT")]).as_string(self.connection)
        link = self.connection.pgconn
        with database_errors():
            begun = link.exec_(statement.encode())
            if begun.status != pq.ExecStatus.COPY_OUT:
                raise SourceRefused(f"the database refused: {first_line(begun.error_message.decode())}")
            while True:
                length, line = link.get_copy_data(0)
                if length < 0:
                    break
                yield parse_copy_line(bytes(line))
            while (ended := link.get_result()) is not None:
                if ended.status == pq.ExecStatus.FATAL_ERROR:
                    raise SourceUnavailable(f"the copy broke off: {first_line(ended.error_message.decode())}")


def parse_copy_line(line: bytes) -> list[bytes | None]:
    r"""The values of one line of COPY's text format.

    >>> parse_copy_line(b"1\t\\N\ta\\tb\n")
    [b'1', None, b'a\tb']
    """
    cells = line[:-1].split(b"\t")
    if b"\\" not in line:
        return list(cells)
    return [None if cell == b"\\N" else _unescaped(cell) if b"\\" in cell else cell for cell in cells]


_ESCAPES = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}


def _unescaped(cell: bytes) -> bytes:
    pieces = cell.split(b"\\")
    out, index = [pieces[0]], 1
    while index < len(pieces):
        piece = pieces[index]
        if piece:
            out.append(_ESCAPES.get(piece[:1], piece[:1]) + piece[1:])
        else:  # two backslashes: the piece after them has nothing before it
            index += 1
            out.append(b"\\" + pieces[index])
        index += 1
    return b"".join(out)


def columns_list(names: Sequence[str]) -> Composed:
    return SQL(", ").join(Identifier(name) for name in names)


def typed_literals(values: Sequence[str], types: Sequence[str]) -> Composed:
    """Values as SQL, each with its type; a type's name comes from the catalog, which has quoted it already."""
    return SQL(", ").join(
        Composed([Literal(value), SQL("::"), SQL(type)]) for value, type in zip(values, types, strict=True)
    )


def _composed(query: LiteralString | SQL | Composed) -> SQL | Composed:
    return SQL(query) if isinstance(query, str) else query


def _integer(value: object) -> int:
    return int(str(value)) if value is not None else 0


def _table_facts(row: dict[str, object]) -> TableFacts:
    columns = [ColumnFacts(*map_column) for map_column in row["columns"] or []]  # type: ignore[attr-defined]
    return TableFacts(
        id=_integer(row["oid"]),
        schema=str(row["nspname"]),
        name=str(row["relname"]),
        identity=str(row["relreplident"]),
        primary_key=tuple(row["primary_key"] or ()),  # type: ignore[arg-type]
        index_key=tuple(row["index_key"] or ()),  # type: ignore[arg-type]
        columns=tuple(columns),
        partition=bool(row["relispartition"]),
        partitioned=row["relkind"] == "p",
        owned=bool(row["owned"]),
        readable=bool(row["readable"]),
        rows=_integer(row["rows"]),
        toast_target=_integer(row["toast_target"] or 2032),
    )


def _type_facts(row: dict[str, object]) -> TypeFacts:
    kind = str(row["kind"])
    fields = tuple((str(name), int(type), int(mod)) for name, type, mod in row["fields"] or [])  # type: ignore[attr-defined]
    below = _integer(row["typbasetype"]) if kind == DOMAIN else _integer(row["typelem"])
    return TypeFacts(str(row["typname"]), kind, below, _integer(row["typtypmod"]), str(row["typdelim"]), fields)
