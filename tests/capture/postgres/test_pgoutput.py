"""Messages as a real server writes them, all kinds; and whatever comes instead of them."""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.capture.change import CapturedTable, Change
from headwater.capture.postgresql import pgoutput
from headwater.capture.postgresql.assembler import Accounts, Assembler, SourceBlock
from headwater.capture.postgresql.pgoutput import Begin, Column, Decoder, Message, Relation
from headwater.capture.postgresql.tables import Plan
from headwater.capture.postgresql.types import TypeFacts
from headwater.errors import UndecodableChange
from tests.capture.kit import run
from tests.servers.postgres_cluster import Cluster, empty_database

Connection = psycopg.Connection[Any]
Raw = list[tuple[int, bytes]]

WORK = (
    "INSERT INTO things VALUES (1, 'happy', 'one'), (2, NULL, 'two')",
    "UPDATE things SET label = 'uno' WHERE id = 1",
    "UPDATE things SET id = 3 WHERE id = 2",
    "DELETE FROM things WHERE id = 3",
    "UPDATE full_things SET label = 'x'",
    "SELECT pg_logical_emit_message(true, 'app', 'inside')",
    "SELECT pg_logical_emit_message(false, 'app', 'outside')",
    "BEGIN",
    "INSERT INTO things SELECT i, 'sad', repeat('x', 200) FROM generate_series(100, 3000) i",
    "SAVEPOINT part",
    "INSERT INTO things SELECT i, 'sad', repeat('y', 200) FROM generate_series(4000, 6000) i",
    "ROLLBACK TO SAVEPOINT part",
    "INSERT INTO things VALUES (7000, 'happy', 'after')",
    "COMMIT",
    "BEGIN",
    "INSERT INTO things SELECT i, 'sad', repeat('z', 200) FROM generate_series(10000, 12000) i",
    "ROLLBACK",
    "BEGIN",
    "INSERT INTO things VALUES (20000, 'happy', 'prepared')",
    "PREPARE TRANSACTION 'small'",
    "INSERT INTO things VALUES (20001, 'happy', 'between')",
    "COMMIT PREPARED 'small'",
    "BEGIN",
    "INSERT INTO things SELECT i, 'sad', repeat('p', 200) FROM generate_series(30000, 32000) i",
    "PREPARE TRANSACTION 'large'",
    "COMMIT PREPARED 'large'",
    "BEGIN",
    "INSERT INTO things VALUES (40000, 'happy', 'never')",
    "PREPARE TRANSACTION 'given up'",
    "ROLLBACK PREPARED 'given up'",
    "SELECT pg_replication_origin_session_setup('elsewhere')",
    "INSERT INTO things VALUES (50000, 'happy', 'from elsewhere')",
    "SELECT pg_replication_origin_session_reset()",
    "TRUNCATE things, full_things",
)


@pytest.fixture(scope="module")
def messages(cluster: Cluster) -> Iterator[dict[str, Raw]]:
    """The same work, streamed whole and in pieces."""
    with psycopg.connect(empty_database(cluster, "pgoutput"), autocommit=True) as database:
        run(
            database,
            "SET logical_decoding_work_mem TO '64kB'",
            "CREATE TYPE mood AS ENUM ('happy', 'sad')",
            "CREATE TABLE things (id int PRIMARY KEY, feeling mood, label text)",
            "CREATE TABLE full_things (id int, label text)",
            "ALTER TABLE full_things REPLICA IDENTITY FULL",
            "INSERT INTO full_things VALUES (1, 'a')",
            "CREATE PUBLICATION judge FOR TABLE things, full_things",
            "SELECT pg_replication_origin_create('elsewhere')",
            "SELECT pg_create_logical_replication_slot('plain', 'pgoutput')",
            "SELECT pg_create_logical_replication_slot('pieces', 'pgoutput', false, true)",
            *WORK,
        )
        yield {"plain": peek(database, "plain", 1, {}), "pieces": peek(database, "pieces", 4, {"streaming": "on"})}
        run(
            database,
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = current_database()",
            "SELECT pg_replication_origin_drop('elsewhere')",
        )


def peek(database: Connection, slot: str, version: int, more: dict[str, str]) -> Raw:
    options = {"proto_version": str(version), "publication_names": "judge", "messages": "true", **more}
    emitted = [part for pair in options.items() for part in pair]
    rows = database.execute(
        f"SELECT (lsn - '0/0')::bigint, data FROM pg_logical_slot_peek_binary_changes(%s, NULL, NULL, "
        f"{', '.join(['%s'] * len(emitted))})",
        (slot, *emitted),
    )
    return [(address, bytes(data)) for address, data in rows]


def decoded(raw: Raw) -> list[tuple[int, Message]]:
    decoder = Decoder()
    return [(address, decoder.decode(data)) for address, data in raw]


def changes(raw: Raw, accounts: Accounts | None = None, *, short: bool = False) -> list[Change]:
    """`short`: by the short way where it leads."""

    def plan(relation: Relation) -> Plan:
        names = tuple(column.name for column in relation.columns)
        table = CapturedTable(relation.namespace, relation.name, relation.name, names, (0,))
        return Plan(table, relation, {23: TypeFacts("int4")})

    source = SourceBlock(capture="shop", database="shop", version="1")
    assembler = Assembler(plan, source, accounts=accounts)
    decoder = Decoder()
    for address, data in raw:
        if not (short and assembler.take_row(address, data)):
            assembler.take(address, decoder.decode(data))
    return assembler.changes


def test_every_kind_of_message_was_seen(messages: dict[str, Raw]) -> None:
    kinds = {type(message).__name__ for raw in messages.values() for _, message in decoded(raw)}
    assert kinds == {kind.__name__ for kind in pgoutput.Message.__args__}


def test_what_is_emitted_in_pieces_is_what_is_emitted_as_a_whole(messages: dict[str, Raw]) -> None:
    """Streamed, rolled back in part, prepared: the changes are the same, in the same order, at the same commit."""
    plain, pieces = (
        [(one.operation, one.position.commit, one.before, one.after) for one in changes(messages[way])]
        for way in ("plain", "pieces")
    )
    assert len(plain) > 4_900
    # A prepared transaction is sent with its COMMIT PREPARED, which has an address of its own in both.
    assert [one[0::2] for one in plain] == [one[0::2] for one in pieces]
    assert [one[1] for one in plain] == [one[1] for one in pieces]


def test_the_short_path_decodes_the_same(messages: dict[str, Raw]) -> None:
    for way in ("plain", "pieces"):
        long, short = (
            [
                (one.operation, one.position, one.source, one.before, one.after, one.time_ms)
                for one in changes(raw, short=by)
            ]
            for raw, by in ((messages[way], False), (messages[way], True))
        )
        assert long == short


COLUMNS = Relation(
    1,
    "public",
    "things",
    "d",
    tuple(Column(name, type, -1, name == "a") for name, type in (("a", 23), ("b", 25), ("c", 16))),
)
VALUES = st.one_of(
    st.just(b"n"), st.just(b"u"),
    st.tuples(st.sampled_from([b"t", b"b"]), st.binary(max_size=6)).map(lambda one: cell(*one)),
)  # fmt: skip


def cell(kind: bytes, value: bytes) -> bytes:
    return kind + len(value).to_bytes(4, "big") + value


@given(
    kind=st.sampled_from(b"IU"),
    values=st.lists(VALUES, min_size=2, max_size=4),
    cut=st.integers(0, 12),
    more=st.binary(max_size=3),
)
def test_the_short_way_takes_a_row_as_it_is_or_leaves_it(kind: int, values: list[bytes], cut: int, more: bytes) -> None:
    row = len(values).to_bytes(2, "big") + b"".join(values)
    message = bytes([kind]) + (1).to_bytes(4, "big") + b"N" + row[: len(row) - cut] + more
    emitted: list[list[object]] = []
    for short in (True, False):
        table = CapturedTable("public", "things", "things", ("a", "b", "c"), (0,))
        types = {23: TypeFacts("int4"), 25: TypeFacts("text"), 16: TypeFacts("bool")}
        planner = partial(Plan, table, catalog=types)
        assembler = Assembler(planner, SourceBlock(capture="s", database="s", version="1"))
        assembler.take(1, COLUMNS)
        assembler.take(1, Begin(5, 0, 7))
        try:
            if not (short and assembler.take_row(3, message)):
                assembler.take(3, Decoder().decode(message))
        except (UndecodableChange, ValueError):
            emitted.append(["refused"])
        else:
            emitted.append([(one.operation, one.position, one.after) for one in assembler.changes])
    assert emitted[0] == emitted[1]


def test_positions_only_grow(messages: dict[str, Raw]) -> None:
    for raw in messages.values():
        positions = [change.position for change in changes(raw)]
        assert positions == sorted(set(positions))


def test_the_end_of_a_transaction_counts_what_was_in_it(messages: dict[str, Raw]) -> None:
    emitted = changes(messages["plain"], Accounts("shop.transaction"))
    ends = [json.loads(change.source) for change in emitted if change.operation == "END"]
    begins = [json.loads(change.source) for change in emitted if change.operation == "BEGIN"]
    assert [one["id"] for one in begins] == [one["id"] for one in ends]
    assert max(one["event_count"] for one in ends) == 2902
    moved = next(change for change in emitted if change.operation == "u" and change.before is not None)
    assert moved.order is not None
    assert next(one for one in ends if one["id"] == moved.order.transaction)["event_count"] == 2


@given(data=st.data())
def test_only_one_error_escapes_whatever_the_bytes(messages: dict[str, Raw], data: st.DataObject) -> None:
    kinds = {raw[:1]: raw for _, raw in messages["pieces"]}
    message = bytearray(data.draw(st.sampled_from(sorted(kinds.values()))))
    for at, byte in data.draw(st.lists(st.tuples(st.integers(0, len(message) - 1), st.integers(0, 255)), max_size=4)):
        message[at] = byte
    cut = data.draw(st.integers(0, len(message)))
    decoder = Decoder()
    if data.draw(st.booleans()):
        decoder.decode(next(raw for _, raw in messages["pieces"] if raw[:1] == b"S"))
    for broken in (bytes(message), bytes(message[:cut])):
        try:
            decoder.decode(broken)
        except UndecodableChange:
            pass


@given(st.binary(max_size=60))
def test_random_bytes_are_refused_or_decoded(message: bytes) -> None:
    try:
        Decoder().decode(message)
    except UndecodableChange:
        pass


def test_a_claim_of_length_is_not_believed() -> None:
    insert = b"I" + (1).to_bytes(4, "big") + b"N" + (1).to_bytes(2, "big") + b"t" + (2**31 - 1).to_bytes(4, "big")
    with pytest.raises(UndecodableChange, match="claims 2147483647 bytes where 0 remain"):
        Decoder().decode(insert)
