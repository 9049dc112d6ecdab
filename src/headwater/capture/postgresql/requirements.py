"""Checks a PostgreSQL database for a capture: reports what is missing, with the statement that fixes it."""

from collections.abc import Sequence
from typing import LiteralString, NamedTuple

from headwater.capture.finding import Finding
from headwater.capture.postgresql.database import Database
from headwater.capture.postgresql.setup import VERSION_MIN, quoted
from headwater.capture.postgresql.tables import FULL, TableFacts, chosen, parse_pattern

RESTART = "-- then restart the server"

SERVER: LiteralString = """
SELECT current_setting('server_version_num')::int / 10000 AS version,
       current_setting('server_encoding') AS encoding,
       current_setting('wal_level') AS wal_level,
       current_setting('max_wal_senders')::int AS senders_max,
       current_setting('max_replication_slots')::int AS slots_max,
       current_setting('max_slot_wal_keep_size') AS wal_keep,
       (SELECT count(*) FROM pg_stat_replication)::int AS senders,
       (SELECT count(*) FROM pg_replication_slots)::int AS slots,
       pg_is_in_recovery() AS standby,
       current_user AS role, current_database() AS database,
       has_database_privilege(current_database(), 'CREATE') AS may_create,
       (SELECT rolsuper OR rolreplication FROM pg_roles WHERE rolname = current_user)
           OR EXISTS (SELECT 1 FROM pg_roles r WHERE r.rolname = 'rds_replication'
                      AND pg_has_role(current_user, r.oid, 'MEMBER')) AS may_replicate
"""


class ServerFacts(NamedTuple):
    version: int
    encoding: str
    wal_level: str
    senders_max: int
    slots_max: int
    wal_keep: str
    senders: int
    slots: int
    standby: bool
    role: str
    database: str
    may_create: bool
    may_replicate: bool


def ask(database: Database) -> ServerFacts:
    return ServerFacts(**database.rows(SERVER)[0])  # type: ignore[arg-type]


def check_server(facts: ServerFacts) -> list[Finding]:
    findings = [*_settings(facts), *_rights(facts)]
    if facts.wal_keep == "-1":
        findings.append(
            Finding(
                True,
                "nothing bounds the WAL that the database keeps for a capture that does not run; a fuse:",
                "ALTER SYSTEM SET max_slot_wal_keep_size = '50GB'; SELECT pg_reload_conf();",
                note=True,
            )
        )
    return findings


def _settings(facts: ServerFacts) -> list[Finding]:
    logical = facts.wal_level == "logical"
    known = facts.encoding != "SQL_ASCII"
    return [
        Finding(
            facts.version >= VERSION_MIN,
            f"the server is PostgreSQL {facts.version}; {VERSION_MIN} or newer is needed",
        ),
        Finding(
            not facts.standby,
            "the server is a standby; connect to the primary" if facts.standby else "the server is a primary",
        ),
        Finding(
            known,
            f"text is encoded in {facts.encoding}"
            + ("" if known else ", which may be anything: it cannot become JSON"),
        ),
        Finding(
            logical,
            f"wal_level is {facts.wal_level}" + ("" if logical else "; it must be logical"),
            f"ALTER SYSTEM SET wal_level = 'logical'; {RESTART}",
        ),
        Finding(
            facts.slots < facts.slots_max,
            f"{facts.slots} of {facts.slots_max} replication slots are in use",
            f"ALTER SYSTEM SET max_replication_slots = {facts.slots_max + 10}; {RESTART}",
        ),
        Finding(
            facts.senders + 1 < facts.senders_max,
            f"{facts.senders} of {facts.senders_max} connections for replication are in use",
            f"ALTER SYSTEM SET max_wal_senders = {facts.senders_max + 10}; {RESTART}",
        ),
    ]


def _rights(facts: ServerFacts) -> list[Finding]:
    return [
        Finding(
            facts.may_replicate,
            f"role {facts.role} {_may(facts.may_replicate)} open replication connections",
            f"ALTER ROLE {_quoted(facts.role)} REPLICATION;",
        ),
        Finding(
            facts.may_create,
            f"role {facts.role} {_may(facts.may_create)} make a publication in {facts.database}",
            f"GRANT CREATE ON DATABASE {_quoted(facts.database)} TO {_quoted(facts.role)};",
        ),
    ]


def _may(allowed: bool) -> str:
    return "may" if allowed else "may not"


def check_table(table: TableFacts, role: str) -> list[Finding]:
    name, full = quoted(table), table.full_name
    identity = f"its key ({', '.join(table.key)})" if table.key else "the full old row"
    findings = [
        Finding(
            table.readable,
            f"role {role} {_may(table.readable)} read {full}",
            f"GRANT USAGE ON SCHEMA {_quoted(table.schema)} TO {_quoted(role)}; "
            f"GRANT SELECT ON {name} TO {_quoted(role)};",
        ),
        Finding(
            table.owned,
            f"role {role} {'owns' if table.owned else 'does not own'} {full}, as it must to publish it",
            f"ALTER TABLE {name} OWNER TO {_quoted(role)};  -- or make the role a member of its owner",
        ),
        Finding(
            not table.changes_refused,
            f"{full} has no key to identify changed rows by: published as it is, its updates and deletes would fail"
            if table.changes_refused
            else f"changed rows of {full} can be identified by {identity}",
            f"ALTER TABLE {name} REPLICA IDENTITY FULL;",
        ),
    ]
    if not table.changes_refused and table.identity != FULL:
        findings.append(
            Finding(
                True,
                f"`before` of {full} will hold the key only; for the full old row:",
                f"ALTER TABLE {name} REPLICA IDENTITY FULL;",
                note=True,
            )
        )
    return findings


def check(database: Database, patterns: Sequence[str]) -> list[Finding]:
    """Returns all findings before a capture is created; changes nothing."""
    facts = ask(database)
    findings = check_server(facts)
    tables = database.tables()
    for pattern in patterns:
        found = chosen(tables, [pattern])
        if not found:
            parsed = parse_pattern(pattern)
            findings.append(Finding(False, f"there is no table {parsed.schema}.{parsed.name} in {facts.database}"))
        for table in found:
            findings += check_table(table, facts.role)
    return findings


def _quoted(name: str) -> str:
    return name if name.isidentifier() and name.islower() and name.isascii() else '"' + name.replace('"', '""') + '"'
