"""Sets up slot and publication in the database, and detects gaps. Decisions are pure."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from psycopg.sql import SQL, Composed, Identifier

from headwater.capture.notes import Note
from headwater.capture.postgresql.database import Database, SlotFacts
from headwater.capture.postgresql.replication import ReplicationConnection
from headwater.capture.postgresql.tables import TableFacts
from headwater.errors import SourceGap, SourceRefused, SourceUnavailable

VERSION_MIN = 14
NAME_LENGTH_MAX = 63
FAILOVER_VERSION = 17


class Identity(NamedTuple):
    """The identity of a server."""

    system: str
    timeline: int
    database: str
    version: int


def object_name(capture: str, token: str) -> str:
    """The name of a capture's slot and publication; the token keeps two logs apart that capture the same database.

    >>> object_name("Shop.users", "3f9a1c")
    'headwater_shop_users_3f9a1c'
    """
    plain = re.sub(r"[^a-z0-9_]", "_", capture.lower())
    return f"headwater_{plain[: NAME_LENGTH_MAX - 11 - len(token)]}_{token}"


def protocol_version(server: int) -> int:
    """The newest version of the protocol that a server speaks, up to 4.

    >>> [protocol_version(version) for version in (14, 15, 16, 18)]
    [2, 3, 4, 4]
    """
    return {14: 2, 15: 3}.get(server, 4 if server > 15 else 1)


def check_slot(name: str, slot: SlotFacts | None, notes: Mapping[str, Note], identity: Identity) -> bool:
    """Whether a slot must be made. SourceGap if an existing one was deleted, or was read by another client."""
    known = notes.get("slot")
    if known is None:
        return slot is None
    again = 'What happened in between may be missing: copy the tables again with "headwater capture snapshot NAME".'
    if known.get("system") not in (None, identity.system):
        raise SourceGap(f"the database is another one: it says it is system {identity.system}", again)
    if slot is None:
        raise SourceGap(f"replication slot {name} was deleted from the database", again)
    if slot.lost:
        raise SourceGap(f"the database has thrown away WAL that replication slot {name} needed", again)
    confirmed = max(_address(notes.get("confirmed")), _address(known))
    if slot.confirmed > confirmed:
        raise SourceGap(
            f"replication slot {name} was confirmed to {lsn(slot.confirmed)}, and the log has only {lsn(confirmed)}",
            again,
        )
    if slot.now < confirmed:
        raise SourceGap(
            f"the database is at {lsn(slot.now)}, and the log has its changes up to {lsn(confirmed)}: it has lost some",
            again,
        )
    return False


def _address(note: Note | None) -> int:
    return int(str(note["address"])) if note and note.get("address") is not None else 0


def lsn(address: int) -> str:
    """
    >>> lsn(0x16_B374_8D80)
    '16/B3748D80'
    """
    return f"{address >> 32:X}/{address & 0xFFFFFFFF:X}"


def parse_lsn(text: str) -> int:
    """
    >>> hex(parse_lsn("16/B3748D80"))
    '0x16b3748d80'
    """
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)


# -- and what is done ----------------------------------------------------------------------------------------------


def identify(replication: ReplicationConnection, database: Database) -> Identity:
    row = replication.command("IDENTIFY_SYSTEM")[0]
    version = int(str(database.one("SHOW server_version_num"))) // 10_000
    if version < VERSION_MIN:
        raise SourceRefused(f"PostgreSQL {version} is too old: captures need {VERSION_MIN} or newer")
    return Identity(str(row["systemid"]), int(str(row["timeline"])), str(row["dbname"]), version)


def create_slot(replication: ReplicationConnection, name: str, identity: Identity) -> int:
    """Creates the slot; returns the address from which it has every change."""
    options = "SNAPSHOT 'nothing'" if identity.version >= 15 else ""
    if identity.version >= FAILOVER_VERSION:
        options += ", FAILOVER true"
    how = f"({options})" if options else "NOEXPORT_SNAPSHOT"
    row = replication.command(f'CREATE_REPLICATION_SLOT "{name}" LOGICAL pgoutput {how}')[0]
    return parse_lsn(str(row["consistent_point"]))


def publish(database: Database, publication: str, tables: Sequence[TableFacts]) -> list[TableFacts]:
    """Adds these tables to the publication; returns those that it did not have before."""
    if refused := [table for table in tables if table.changes_refused]:
        table = refused[0]
        raise SourceRefused(
            f"table {table.full_name} has no key that identifies changed rows, so that publishing it would make "
            "PostgreSQL refuse its updates and deletes",
            f"ALTER TABLE {quoted(table)} REPLICA IDENTITY FULL; or give it a primary key.",
        )
    published = database.published(publication)
    missing = [table for table in tables if (table.schema, table.name) not in (published or {})]
    if published is None:
        database.run(Composed([
            SQL("CREATE PUBLICATION {} FOR TABLE ").format(Identifier(publication)),
            SQL(", ").join(_named(table) for table in tables),
            SQL(" WITH (publish_via_partition_root = true)"),
        ]))  # fmt: skip
    elif missing:
        database.run(Composed([
            SQL("ALTER PUBLICATION {} ADD TABLE ").format(Identifier(publication)),
            SQL(", ").join(_named(table) for table in missing),
        ]))  # fmt: skip
    return missing


def drop(database: Database, name: str) -> None:
    """Take away the slot and the publication, if they are there."""
    database.run(SQL("DROP PUBLICATION IF EXISTS {}").format(Identifier(name)))
    drop_slot(database, name)


def drop_slot(database: Database, name: str) -> None:
    slot = database.slot(name)
    if slot is None:
        return
    if slot.active:
        database.run("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = %s", name)
        for _ in range(50):
            slot = database.slot(name)
            if slot is None or not slot.active:
                break
            database.run("SELECT pg_sleep(0.1)")
        else:
            raise SourceUnavailable(f"replication slot {name} is in use by another process")
    database.run("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s", name)


def _named(table: TableFacts) -> Composed:
    only = SQL("") if table.partitioned else SQL("ONLY ")
    return Composed([only, Identifier(table.schema, table.name)])


def quoted(table: TableFacts) -> str:
    """
    >>> quoted(TableFacts(1, "public", "Odd name", "d", (), (), ()))
    'public."Odd name"'
    """
    return ".".join(
        part if re.fullmatch("[a-z_][a-z0-9_]*", part) else '"' + part.replace('"', '""') + '"'
        for part in (table.schema, table.name)
    )
