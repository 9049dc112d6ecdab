"""The ordinary connection to a MariaDB server: queries, and snapshots of tables at a position of its log. Thin."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pymysql
from pymysql.constants import CLIENT
from pymysql.cursors import SSCursor

from headwater.capture.mariadb_binlog.charsets import Charsets
from headwater.capture.mariadb_binlog.positions import BinlogPosition, binlog_position
from headwater.capture.mariadb_binlog.queries import (
    COLLATIONS,
    COLUMNS,
    KEYS,
    NEWER_COLLATIONS,
    ONE_TABLE,
    TABLES,
    chunk_query,
    selection,
)
from headwater.capture.mariadb_binlog.tables import TableFacts
from headwater.capture.mariadb_binlog.text_values import ColumnFacts
from headwater.errors import InvalidCapture, SourceRefused, SourceUnavailable

CONNECT_SECONDS = 10
ANSWER_SECONDS = 10
"""The timeout of queries during streaming. A node that stops waits for its captures."""

READ_SECONDS = 600
"""For rows, and for a catalog as a whole."""

DEFAULT_PORT = 3306
SESSION = (
    "SET SESSION time_zone = '+00:00', sql_mode = '', net_write_timeout = 3600, wait_timeout = 86400, "
    "max_statement_time = 0, lock_wait_timeout = 30",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
)
"""How every session of a capture asks values to be written, whatever the server says otherwise."""

REFUSALS = {1044, 1045, 1049, 1054, 1064, 1142, 1143, 1146, 1227, 1305, 1698}
CHANGED_MEANWHILE = {1054, 1146, 1412}
Cells = Sequence[bytes | None]
Row = dict[str, bytes | None]


def options_of(url: str) -> dict[str, Any]:
    """The options of the driver.

    >>> options = options_of("mysql://ada:se%2Fcret@db.example:3307/shop?ssl-ca=ca.pem")
    >>> [options[name] for name in ("host", "port", "user", "password", "database", "ssl_ca")]
    ['db.example', 3307, 'ada', 'se/cret', 'shop', 'ca.pem']
    """
    parts = urlsplit(url)
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    password = query.pop("password", "")
    options: dict[str, Any] = {
        "host": unquote(parts.hostname or "127.0.0.1"),
        "port": parts.port or DEFAULT_PORT,
        "user": unquote(parts.username or "root"),
        "password": unquote(parts.password or "") or password,
        "database": unquote(parts.path.lstrip("/")) or None,
    }
    for name, value in query.items():
        if name not in ("socket", "ssl-ca", "ssl-cert", "ssl-key"):
            raise InvalidCapture(
                f"{name!r} in a MariaDB URL means nothing", "Known are socket, ssl-ca, ssl-cert, ssl-key."
            )
        options["unix_socket" if name == "socket" else name.replace("-", "_")] = value
    if "ssl_ca" in options:
        options |= {"ssl_verify_cert": True, "ssl_verify_identity": True}
    return options


def connect(url: str, *, read_seconds: float = ANSWER_SECONDS, cursor: type[Any] = pymysql.cursors.Cursor) -> Any:
    """A connection whose values are the bytes that the server sends."""
    plain = {kind: encode for kind, encode in pymysql.converters.conversions.items() if not isinstance(kind, int)}
    with database_errors():
        connection = pymysql.connect(
            **options_of(url), charset="utf8mb4", use_unicode=False, conv=plain, autocommit=True, cursorclass=cursor,
            connect_timeout=CONNECT_SECONDS, read_timeout=read_seconds, write_timeout=ANSWER_SECONDS,
            client_flag=CLIENT.FOUND_ROWS, program_name="headwater",
        )  # fmt: skip
        with closing(connection.cursor()) as asking:
            for statement in SESSION:
                asking.execute(statement)
    return connection


@contextmanager
def database_errors() -> Iterator[None]:
    """Errors of the driver as ours: what asks for a change of the database is a refusal, the rest may pass."""
    try:
        yield
    except pymysql.err.Error as error:
        code, *said = error.args or (0,)
        message = str(said[0] if said else error)[:300]
        if code in REFUSALS:
            raise SourceRefused(f"the database refused: {message}") from None
        raise SourceUnavailable(f"the database does not answer: {message}") from None
    except (OSError, EOFError) as error:
        raise SourceUnavailable(f"the database does not answer: {error}") from None


class Database:
    """Not thread-safe. Any failure of the connection is a SourceUnavailable."""

    def __init__(self, url: str, *, read_seconds: float = ANSWER_SECONDS) -> None:
        self.connection = connect(url, read_seconds=read_seconds)

    def rows(self, query: str, *values: object) -> list[Row]:
        with database_errors(), closing(self.connection.cursor()) as cursor:
            cursor.execute(query, values or None)
            names = [column[0] for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def one(self, query: str, *values: object) -> str:
        """The first column of the first row; "" if there is none."""
        found = self.rows(query, *values)
        return _text(next(iter(found[0].values()))) if found else ""

    def run(self, statement: str) -> None:
        self.rows(statement)

    @contextmanager
    def patiently(self) -> Iterator[None]:
        """What is asked within may take its time: the driver looks before each read how long it may wait."""
        usual, self.connection._read_timeout = self.connection._read_timeout, READ_SECONDS
        try:
            yield
        finally:
            self.connection._read_timeout = usual

    def close(self) -> None:
        try:
            self.connection.close()
        except pymysql.err.Error:
            pass  # it was closed already, or by the server

    # -- the catalog -------------------------------------------------------------------------------------------------

    def all_tables(self) -> list[TableFacts]:
        with self.patiently():
            return self.tables()

    def tables(self, schema: str = "", name: str = "") -> list[TableFacts]:
        """All tables, or the one with this name."""
        asked = (schema, name) if name else ()
        columns: dict[tuple[str, str], list[ColumnFacts]] = {}
        for row in self.rows(COLUMNS + (ONE_TABLE.format("") if name else "") + " ORDER BY ORDINAL_POSITION", *asked):
            column = ColumnFacts(
                _text(row["column"]), _text(row["type"]), _text(row["full_type"]), _integer(row["bits"])
            )
            columns.setdefault(_named(row), []).append(column)
        keys: dict[tuple[str, str], list[str]] = {}
        for row in self.rows(KEYS + (ONE_TABLE.format("") if name else "") + " ORDER BY SEQ_IN_INDEX", *asked):
            keys.setdefault(_named(row), []).append(_text(row["column"]))
        return [
            TableFacts(
                *_named(row), _text(row["kind"]), _text(row["engine"]), row["transactions"] == b"YES",
                _integer(row["estimate"]), tuple(columns.get(_named(row), ())), tuple(keys.get(_named(row), ())),
            )
            for row in self.rows(TABLES + (ONE_TABLE.format("t.") if name else ""), *asked)
        ]  # fmt: skip

    def charsets(self) -> Charsets:
        names = self.rows(COLLATIONS.format("COLLATIONS"))
        if self.rows(NEWER_COLLATIONS):
            names += self.rows(COLLATIONS.format("COLLATION_CHARACTER_SET_APPLICABILITY"))
        small = self.rows(
            "SELECT CHARACTER_SET_NAME AS charset FROM information_schema.CHARACTER_SETS "
            "WHERE MAXLEN = 1 AND CHARACTER_SET_NAME NOT IN ('binary', 'ascii')"
        )
        every_byte = bytes(range(256)).hex()
        asked = [
            f"CONVERT(_{_text(row['charset'])} X'{every_byte}' USING utf8mb4) AS {_text(row['charset'])}"
            for row in small
        ]
        letters = {name: _text(cell) for name, cell in self.rows(f"SELECT {', '.join(asked)}")[0].items()}
        return Charsets({_integer(row["ID"]): _text(row["charset"]) for row in names}, letters)

    def log_end(self) -> BinlogPosition:
        """Up to where everything that was committed stands in the log; in a transaction, of what it sees."""
        return binlog_position(*self._log_end())

    def _log_end(self) -> tuple[str, int]:
        found = {_text(row["Variable_name"]).lower(): _text(row["Value"]) for row in self.rows(
            "SHOW STATUS LIKE 'binlog_snapshot_%'"
        )}  # fmt: skip
        if not found.get("binlog_snapshot_file"):
            raise SourceRefused("the server writes no binary log", "Set log_bin in its configuration and restart it.")
        return found["binlog_snapshot_file"], int(found["binlog_snapshot_position"])

    def seen_position(self) -> str:
        """The GTID position up to which queries see all that was committed. @@gtid_binlog_pos is further at times: it
        has what is in the log, and perhaps waits for a replica before any client sees it."""
        with self.snapshot():
            file, position = self._log_end()
            (row,) = self.rows("SELECT BINLOG_GTID_POS(%s, %s) AS position", file, position)
        if row["position"] is None:
            raise SourceUnavailable(f"the database does not find position {position} of its own log {file}")
        return _text(row["position"])

    # -- rows --------------------------------------------------------------------------------------------------------

    @contextmanager
    def snapshot(self) -> Iterator[BinlogPosition]:
        """A transaction that sees exactly what was committed up to a position of the log."""
        self.run("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        try:
            yield self.log_end()
        finally:
            if self.connection.open:
                self.run("ROLLBACK")

    def chunk(
        self, facts: TableFacts, *, after: Sequence[str] | None, where: str, limit: int
    ) -> tuple[BinlogPosition, list[Cells]] | None:
        """Returns rows after a key, in its order, and the log position of their snapshot.

        None if the table is being altered.
        """
        try:
            with self.snapshot() as position, self.patiently(), closing(self.connection.cursor()) as cursor:
                cursor.execute(chunk_query(facts, after=after, where=where, limit=limit))
                rows: list[Cells] = list(cursor.fetchall())
        except pymysql.err.Error as error:
            if error.args and error.args[0] in CHANGED_MEANWHILE:
                return None
            with database_errors():
                raise
        found = self.tables(facts.schema, facts.name)
        return (position, rows) if found and facts.same_form(found[0]) else None


class WholeTable:
    """A table as it was at one position of the log, row by row: on a connection of its own, that lives as long."""

    def __init__(self, url: str, facts: TableFacts) -> None:
        self._database = Database(url, read_seconds=READ_SECONDS)
        self._database.run("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        self.position = self._database.log_end()
        self._query = selection(facts)

    def rows(self) -> Iterator[Cells]:
        with database_errors(), closing(self._database.connection.cursor(SSCursor)) as cursor:
            cursor.execute(self._query)
            yield from cursor

    def close(self) -> None:
        self._database.close()


def _named(row: Row) -> tuple[str, str]:
    return _text(row["schema"]), _text(row["name"])


def _text(cell: bytes | None) -> str:
    return "" if cell is None else cell.decode()


def _integer(cell: bytes | None) -> int:
    return int(cell or 0)
