"""Checks a MariaDB server for a capture: reports what is missing, with the statement that fixes it."""

from collections.abc import Sequence
from typing import NamedTuple

from headwater.capture.finding import Finding
from headwater.capture.mariadb_binlog.database import Database
from headwater.capture.mariadb_binlog.table_map import METADATA
from headwater.capture.mariadb_binlog.tables import BASE_TABLE, TableFacts, chosen, parse_pattern
from headwater.capture.mariadb_binlog.text_values import converter, quoted

VERSION_MIN = (10, 5)
NEEDED = ("REPLICATION SLAVE", "ALL PRIVILEGES")
CASCADES = """
SELECT CONSTRAINT_SCHEMA AS `schema`, TABLE_NAME AS name, REFERENCED_TABLE_NAME AS parent
FROM information_schema.REFERENTIAL_CONSTRAINTS
WHERE DELETE_RULE IN ('CASCADE', 'SET NULL') OR UPDATE_RULE IN ('CASCADE', 'SET NULL')
"""


class ServerFacts(NamedTuple):
    version: str
    log_bin: bool
    format: str
    metadata: str
    image: str
    sync: int
    strict: bool
    kept_seconds: int
    user: str
    grants: tuple[str, ...]


def ask(database: Database) -> ServerFacts:
    def global_value(name: str) -> str:
        return database.one(f"SELECT @@global.{name}")

    expires = database.rows("SHOW GLOBAL VARIABLES LIKE 'binlog_expire_logs_seconds'")
    kept = int(expires[0]["Value"] or 0) if expires else 86_400 * int(float(global_value("expire_logs_days")))
    mariadb = "mariadb" in database.one("SELECT VERSION()").lower()
    return ServerFacts(
        version=database.one("SELECT VERSION()"),
        log_bin=global_value("log_bin") == "1",
        format=global_value("binlog_format"),
        metadata=global_value("binlog_row_metadata"),
        image=global_value("binlog_row_image"),
        sync=int(global_value("sync_binlog")),
        strict=mariadb and global_value("gtid_strict_mode") == "1",
        kept_seconds=kept,
        user=database.one("SELECT CURRENT_USER()"),
        grants=tuple(next(iter(row.values())).decode() for row in database.rows("SHOW GRANTS")),  # type: ignore[union-attr]
    )


def check_server(facts: ServerFacts) -> list[Finding]:
    mariadb = "mariadb" in facts.version.lower()
    numbers = tuple(int(part) for part in facts.version.partition("-")[0].split(".")[:2] if part.isdigit())
    user = "@".join(f"'{part}'" for part in facts.user.rsplit("@", 1))
    allowed = any(right in grant for grant in facts.grants for right in NEEDED if " ON *.* " in grant)
    findings = [
        Finding(
            mariadb and numbers >= VERSION_MIN,
            f"the server is {facts.version}; MariaDB 10.5 or newer is needed",
        ),
        Finding(
            facts.log_bin,
            "the binary log is on" if facts.log_bin else "the server writes no binary log",
            "[mysqld] log_bin = mysql-bin, in the server's configuration; -- then restart the server",
        ),
        _setting("binlog_format", facts.format, "ROW", "SET GLOBAL binlog_format = 'ROW';"),
        _setting("binlog_row_metadata", facts.metadata, "FULL", f"{METADATA};"),
        _setting("binlog_row_image", facts.image, "FULL", "SET GLOBAL binlog_row_image = 'FULL';"),
        Finding(
            allowed,
            f"user {facts.user} {'may' if allowed else 'may not'} read the binary log",
            f"GRANT REPLICATION SLAVE ON *.* TO {user};",
        ),
    ]
    return findings + _notes(facts)


def _setting(name: str, found: str, wanted: str, statement: str) -> Finding:
    fine = found == wanted
    return Finding(fine, f"{name} is {found}" + ("" if fine else f"; it must be {wanted}"), statement)


def _notes(facts: ServerFacts) -> list[Finding]:
    found = [Finding(True, "settings made with SET GLOBAL are lost after a restart: write them into the server's "
                           "configuration too", note=True)]  # fmt: skip
    if facts.sync != 1:
        found.append(
            Finding(
                True,
                f"sync_binlog is {facts.sync}: after a power cut the server may lack transactions that were captured, "
                "and the capture then stops at a gap",
                "SET GLOBAL sync_binlog = 1;",
                note=True,
            )
        )
    if not facts.strict:
        found.append(
            Finding(
                True,
                "gtid_strict_mode is off: GTIDs may be written out of order on a replica, and cannot be resumed by",
                "SET GLOBAL gtid_strict_mode = 1;",
                note=True,
            )
        )
    if 0 < facts.kept_seconds < 86_400:
        found.append(
            Finding(
                True,
                f"the log is kept for {facts.kept_seconds} seconds: a capture that is down for longer has a gap",
                "SET GLOBAL binlog_expire_logs_seconds = 604800;",
                note=True,
            )
        )
    return found


def check_table(table: TableFacts, facts: ServerFacts, parents: Sequence[str]) -> list[Finding]:
    full = table.full_name
    odd = [f"{column.name} ({column.full_type})" for column in table.columns if converter(column) is None]
    findings = [
        Finding(
            table.transactional,
            f"{full} is of engine {table.engine}"
            + ("" if table.transactional else ", which has no transactions: it cannot be copied while others write"),
            f"ALTER TABLE {quoted(table.schema)}.{quoted(table.name)} ENGINE = InnoDB;",
        ),
        Finding(
            not odd,
            f"the types of {full} can all be read"
            if not odd
            else f"{full} has types that cannot be read: {', '.join(odd)}",
        ),
    ]
    if not table.key:
        findings.append(
            Finding(True, f"{full} has no primary key: its topic has no keys, and is not compacted", note=True)
        )
    if parents:
        findings.append(
            Finding(
                True,
                f"changes that cascade from {', '.join(parents)} to {full} are in no log of MariaDB, and are not "
                "captured: change its rows yourself, or copy it again",
                note=True,
            )
        )
    return findings


def check(database: Database, patterns: Sequence[str], schema: str) -> list[Finding]:
    """Returns all findings before a capture is created; changes nothing."""
    facts = ask(database)
    findings = check_server(facts)
    tables = database.all_tables()
    cascades = [
        tuple((row[name] or b"").decode() for name in ("schema", "name", "parent")) for row in database.rows(CASCADES)
    ]
    for pattern in patterns:
        parsed = parse_pattern(pattern, schema)
        found = chosen(tables, [parsed])
        if not found:
            views = [one for one in tables if one.kind != BASE_TABLE and parsed.matches(one.schema, one.name)]
            why = f": it is a {views[0].kind.lower()}" if views else f", or {facts.user} may not read it"
            findings.append(
                Finding(
                    False,
                    f"there is no table {parsed.schema}.{parsed.name}{why}",
                    "" if views else f"GRANT SELECT ON {quoted(parsed.schema)}.* TO "
                    + "@".join(f"'{part}'" for part in facts.user.rsplit("@", 1)) + ";",
                )
            )  # fmt: skip
        for table in found:
            parents = [parent for of, name, parent in cascades if (of, name) == (table.schema, table.name)]
            findings += check_table(table, facts, parents)
    return findings
