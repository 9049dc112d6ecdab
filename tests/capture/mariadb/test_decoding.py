"""The decoder against bytes that a server has sent, against bytes that none would send, and piece by piece."""

import json
import zlib
from base64 import b64encode
from pathlib import Path
from struct import pack
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headwater.capture.change import CapturedTable, Change
from headwater.capture.mariadb_binlog.assembler import Assembler, Plan
from headwater.capture.mariadb_binlog.charsets import Charsets
from headwater.capture.mariadb_binlog.events import Begin, Commit, Decoder, Header, Other, Prepared, Query, Rows
from headwater.capture.mariadb_binlog.gtid import Gtid
from headwater.capture.mariadb_binlog.packets import Packets
from headwater.capture.mariadb_binlog.positions import BinlogPosition, Reached
from headwater.capture.mariadb_binlog.source_block import SourceBlock
from headwater.capture.mariadb_binlog.statements import Effect, Meaning, effects
from headwater.capture.mariadb_binlog.table_map import describe
from headwater.capture.mariadb_binlog.values import RowReader, reader
from headwater.errors import CaptureError, SourceGap, UndecodableChange

LINES = [
    line.split() for line in Path(__file__).with_name("events.txt").read_text().splitlines() if not line.startswith("#")
]
EVENTS = [(kind, bytes.fromhex(data)) for kind, data in LINES]
LATIN1 = bytes(range(256)).decode("latin-1")
CHARSETS = Charsets({8: "latin1", 45: "utf8mb4", 63: "binary"}, {"latin1": LATIN1})
TABLE = CapturedTable("shop", "users", "users", ("id",), (0,))


def planned(content: bytes) -> Plan:
    described = describe(content)
    names = tuple(column.name for column in described.columns)
    table = CapturedTable(described.schema, described.name, "users", names, described.key)
    return Plan(table, RowReader([reader(column, CHARSETS) for column in described.columns]))


NOTHING_YET = Reached("")


def assembler(reached: Reached = NOTHING_YET, *, verify: bool = False) -> Assembler:
    source = SourceBlock(capture="shop", version="1")
    return Assembler(planned, lambda schema, name: [TABLE], source, base=0, reached=reached, verify=verify)


def passed(one: Assembler, events: list[tuple[str, bytes]]) -> list[Change]:
    decoder = Decoder()
    for _, data in events:
        one.take(*decoder.decode(data))
    return one.changes


def as_rows(change: Change) -> tuple[str, Any, Any]:
    names = change.table.columns
    before, after = (
        None if row is None else {name: json.loads(value or b"null") for name, value in zip(names, row, strict=True)}
        for row in (change.before, change.after)
    )
    return change.operation, before, after


def test_every_event_is_what_the_server_meant() -> None:
    decoder = Decoder()
    assert [type(decoder.decode(data)[1]).__name__ for _, data in EVENTS] == [kind for kind, _ in EVENTS]


def test_the_events_are_these_changes() -> None:
    one = assembler()
    changes = passed(one, EVENTS)
    zoe = {
        "id": 1, "name": "Zoë", "credit": "-12.50", "born": "1815-12-10", "joined": "2026-01-31T12:00:00.123Z",
        "kind": "b", "flags": "x,y", "picture": "AP8=", "ok": True,
    }  # fmt: skip
    empty = {**dict.fromkeys(zoe), "id": 4294967295}
    eve = {**zoe, "name": "Eve", "credit": "0.05"}
    assert [as_rows(change) for change in changes[:3]] == [("c", None, zoe), ("c", None, empty), ("u", zoe, eve)]
    assert as_rows(changes[3]) == ("u", eve, {**eve, "picture": b64encode(b"ab" * 100).decode()})
    assert as_rows(changes[4]) == ("d", empty, None)
    assert [change.operation for change in changes[5:]] == ["t", "t"]
    assert [change.position for change in changes] == sorted({change.position for change in changes})
    assert (one.reached.count, one.reached.gtid) == (8, "0-1-8")
    assert one.created == {("shop", "users")}


def test_a_group_that_is_read_again_has_the_same_positions() -> None:
    whole, first = assembler(), assembler()
    everything = [change.position for change in passed(whole, EVENTS)]
    half = next(n for n, (kind, _) in enumerate(EVENTS) if kind == "Rotate" and n > 5)
    before = len(passed(first, EVENTS[:half]))
    resumed = assembler(first.reached)
    assert [change.position for change in passed(resumed, EVENTS[half:])] == everything[before:]


def test_another_transaction_under_the_same_number_is_found_out() -> None:
    start = EVENTS[:14]
    one = assembler()
    passed(one, start)
    again = assembler(one.reached, verify=True)
    last = EVENTS[:2] + start[10:]
    assert passed(again, last) == []
    assert again.reached == one.reached
    other = Reached(one.reached.gtid, one.reached.count, one.reached.before, one.reached.last, one.reached.mark ^ 1)
    with pytest.raises(SourceGap):
        passed(assembler(other, verify=True), last)


def test_a_group_that_was_cut_off_by_a_crash_counts_for_nothing() -> None:
    one, rotated = (
        assembler(),
        next(n for n, (kind, _) in enumerate(EVENTS) if kind == "Rotate" and n > 5),
    )
    changes = passed(one, EVENTS[:9] + EVENTS[rotated:])
    assert [change.operation for change in changes] == ["d", "t", "t"]
    assert one.reached.count == 5


def test_what_was_emitted_of_a_large_group_that_is_cut_off_is_retracted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.capture.mariadb_binlog.assembler.HELD_BACK_MAX", 1)
    one, rotated = (
        assembler(),
        next(n for n, (kind, _) in enumerate(EVENTS) if kind == "Rotate" and n > 5),
    )
    passed(one, EVENTS[:9] + EVENTS[rotated : rotated + 1])
    assert one.unlogged == {("shop", "users"): 3}
    assert [change.position.commit for change in one.changes] == [2, 2]
    assert one.position(1, 0).commit == 3


def test_rows_after_a_truncation_in_one_transaction_come_after_each_of_its_records() -> None:
    """It becomes many records, each with a number of its own."""
    one = begun(standalone=False)
    one.take(HEADER, Query("shop", "CREATE OR REPLACE TABLE users (id INT) SELECT 1 AS id"))
    one.take(HEADER, Query("shop", "TRUNCATE users"))
    one.take(HEADER, Commit())
    first, second = (change.position for change in one.changes)
    assert second[:2] > first[:2]


HEADER = Header(1_700_000_000, 2, 1, 100, 200, 0)


def begun(*, standalone: bool = True, prepared: bool = False, emitted: int = 0) -> Assembler:
    one = Assembler(planned, lambda schema, name: [TABLE], SourceBlock(capture="shop", version="1"), base=0,
                    reached=NOTHING_YET, emitted=emitted)  # fmt: skip
    one.take(HEADER, Begin(Gtid(0, 1, 1), (1 if standalone else 0) | (64 if prepared else 0)))
    return one


def test_the_second_half_of_an_unknown_transaction_may_have_changed_anything() -> None:
    one, again = begun(), begun(emitted=1)
    for each in (one, again):
        each.take(HEADER, Query("", "XA COMMIT X'61',X'',1"))
    assert one.unlogged == {("shop", "users"): 1}
    assert again.unlogged == {}  # it was emitted before, and its first half need not come again


def test_a_large_distributed_transaction_is_not_remembered_but_its_tables_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.capture.mariadb_binlog.assembler.PREPARED_MAX", 1)
    kinds = [kind for kind, _ in EVENTS]
    described, rows = (Decoder().decode(EVENTS[kinds.index(kind)][1])[1] for kind in ("TableMap", "Rows"))
    one = begun(standalone=False, prepared=True)
    one.take(HEADER, described)
    for _ in range(3):
        one.take(HEADER, rows)
    one.take(HEADER, Prepared("X'61',X'',1", at_once=False))
    assert (one.unlogged, one.changes, one.reached) == ({}, [], NOTHING_YET)
    one.take(HEADER, Begin(Gtid(0, 1, 2), 1))
    one.take(HEADER, Query("", "XA COMMIT X'61',X'',1"))
    assert (one.unlogged, one.changes) == ({("shop", "users"): 2}, [])


def test_a_statement_is_read_in_the_character_set_of_its_client() -> None:
    status = bytes([0, 1, 2, 3, 4, 6, 3]) + b"std" + bytes([4, 8, 0, 8, 0, 45, 0])
    body = pack("<IIBHH", 1, 0, 4, 0, len(status)) + status + b"shop\0" + "TRUNCATE `größe`".encode("latin-1")
    event = pack("<IBIIIH", 0, 2, 1, 19 + len(body), 0, 0) + body
    assert Decoder(CHARSETS).decode(event)[1] == Query("shop", "TRUNCATE `größe`")


def test_letters_that_a_character_set_has_instead_of_ascii_are_emitted() -> None:
    swe7 = bytes(range(256)).decode("latin-1").replace("[", "Ä").replace("]", "Å")
    assert Charsets({10: "swe7"}, {"swe7": swe7}).converter(10)(b"[]") == '"ÄÅ"'.encode()


@pytest.mark.parametrize("event_index", range(2, len(EVENTS)))
def test_one_flipped_bit_is_noticed(event_index: int) -> None:
    decoder, (_, data) = Decoder(), EVENTS[event_index]
    for _, before in EVENTS[:2]:
        decoder.decode(before)
    if event_index == 20:
        return  # another description of a log begins
    with pytest.raises(UndecodableChange):
        decoder.decode(data[:20] + bytes([data[20] ^ 4]) + data[21:])


BODIES = [data for kind, data in EVENTS if kind in ("TableMap", "Rows", "Begin", "Query", "Prepared", "Rotate")]


@settings(max_examples=800, deadline=None)
@given(
    st.sampled_from(BODIES),
    st.lists(st.tuples(st.integers(19, 400), st.integers(0, 255)), max_size=4),
    st.integers(0, 80),
)
@example(BODIES[0], [(19, 255)], 0)
def test_mangled_events_raise_nothing_but_our_own_errors(data: bytes, pokes: list[tuple[int, int]], cut: int) -> None:
    mangled = bytearray(data[: max(19, len(data) - 4 - cut)])
    for event_index, value in pokes:
        if event_index < len(mangled):
            mangled[event_index] = value
    mangled[9:13] = pack("<I", len(mangled) + 4)
    checked = bytes(mangled) + pack("<I", zlib.crc32(mangled))
    one, decoder = assembler(), Decoder()
    for _, before in EVENTS[:9]:
        one.take(*decoder.decode(before))
    try:
        one.take(*decoder.decode(checked))
    except CaptureError:
        pass


@settings(max_examples=500, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_raise_nothing_but_our_own_errors(data: bytes) -> None:
    for kind in (2, 4, 15, 16, 19, 23, 26, 27, 31, 38, 162, 165, 166):
        event = pack("<IBIIIH", 0, kind, 1, 19 + len(data), 0, 0) + data
        try:
            assembler().take(*Decoder().decode(event))
        except CaptureError:
            pass


@given(st.lists(st.binary(max_size=50), max_size=5), st.integers(1, 20))
def test_packets_are_put_together_from_any_pieces(contents: list[bytes], size: int) -> None:
    data = b"".join(len(content).to_bytes(3, "little") + b"\0" + content for content in contents)
    packets, found = Packets(), list[bytes]()
    for start in range(0, len(data), size):
        found += packets.feed(data[start : start + size])
    assert found == contents


def test_a_packet_that_is_continued_is_one() -> None:
    first = b"x" * 0xFFFFFF
    assert Packets().feed(b"\xff\xff\xff\0" + first + b"\1\0\0\1y") == [first + b"y"]


def test_a_position_after_four_gibibytes_still_compares_as_later() -> None:
    one = assembler()
    one.take(*Decoder().decode(EVENTS[0][1]))
    for end in (4_000_000_000, 100, 4_000_000_000, 50):
        one.take(Header(0, 161, 1, 0, end, 0), Other())
    assert one.at == BinlogPosition(1, 2 * 2**32 + 50)
    one.take(Header(0, 161, 1, 0, 40, 0), Other())
    assert one.at == BinlogPosition(1, 2 * 2**32 + 50)  # a little less is no turn of the counter


EMPTIED, UNLOGGED, CREATED = Meaning.EMPTIED, Meaning.UNLOGGED, Meaning.CREATED


@pytest.mark.parametrize(
    "statement, expected",
    [
        ("TRUNCATE users", [Effect(EMPTIED, "shop", "users")]),
        ("/* mine */ truncate table `a``b`.`u s`", [Effect(EMPTIED, "a`b", "u s")]),
        ("DROP TABLE IF EXISTS `a`,`x`.`b` /* generated by server */",
         [Effect(EMPTIED, "shop", "a"), Effect(EMPTIED, "x", "b")]),
        ("DROP DATABASE `shop`", [Effect(EMPTIED, "shop", "")]),
        ("CREATE TABLE IF NOT EXISTS t (id int)", [Effect(CREATED, "shop", "t")]),
        ("CREATE OR REPLACE TABLE t (id int)", [Effect(EMPTIED, "shop", "t")]),
        ("CREATE TEMPORARY TABLE t (id int)", []),
        ("DROP TEMPORARY TABLE IF EXISTS `t`", []),
        ("RENAME TABLE a TO b",
         [Effect(UNLOGGED, "shop", "a"), Effect(UNLOGGED, "shop", "TO"), Effect(UNLOGGED, "shop", "b")]),
        ("ALTER TABLE a ADD COLUMN b INT DEFAULT 'RENAME TO c'", []),
        ("ALTER TABLE a RENAME COLUMN b TO c, RENAME INDEX d TO e", []),
        ("ALTER TABLE a RENAME x.b", [Effect(UNLOGGED, "shop", "a"), Effect(UNLOGGED, "x", "b")]),
        ("ALTER TABLE a TRUNCATE PARTITION p", [Effect(UNLOGGED, "shop", "a")]),
        ("ALTER TABLE a EXCHANGE PARTITION p WITH TABLE b",
         [Effect(UNLOGGED, "shop", "a"), Effect(UNLOGGED, "shop", "b")]),
        ("/*!50100 ALTER TABLE a DROP PARTITION p */", [Effect(UNLOGGED, "shop", "a")]),
        ("ALTER TABLE a CONVERT PARTITION p TO TABLE x.b", [Effect(UNLOGGED, "shop", "a"), Effect(UNLOGGED, "x", "b")]),
        ("ALTER TABLE a CONVERT TABLE b TO PARTITION p VALUES LESS THAN (3)",
         [Effect(UNLOGGED, "shop", "a"), Effect(UNLOGGED, "shop", "b")]),
        ("ALTER TABLE a CONVERT TO CHARACTER SET utf8mb4", []),
        ("DROP TABLE `orders#old`, `a -- b`",
         [Effect(EMPTIED, "shop", "orders#old"), Effect(EMPTIED, "shop", "a -- b")]),
        ("TRUNCATE `orders/*old*/`", [Effect(EMPTIED, "shop", "orders/*old*/")]),
        ("ALTER TABLE a COMMENT 'see #12', DROP PRIMARY KEY", [Effect(UNLOGGED, "shop", "a")]),
        ("ALTER TABLE a ADD `it's` INT, DROP PRIMARY KEY, ADD `isn't` INT", [Effect(UNLOGGED, "shop", "a")]),
        ("DROP TABLE a -- , b\n, c # , d\n/* , e */", [Effect(EMPTIED, "shop", "a"), Effect(EMPTIED, "shop", "c")]),
        ("CREATE INDEX i ON t (a)", []),
        ("GRANT SELECT ON users TO ada", []),
    ],
)  # fmt: skip
def test_a_statement_means(statement: str, expected: list[Effect]) -> None:
    assert effects(statement, "shop") == expected


def test_a_statement_that_writes_may_mean_any_table_it_names() -> None:
    found = effects("INSERT INTO users SELECT 'not.this' FROM `other`.`t`", "shop")
    assert Effect(UNLOGGED, "shop", "users") in found
    assert Effect(UNLOGGED, "other", "t") in found
    assert not [one for one in found if one.schema == "not"]


def test_a_begin_and_rows_are_read_by_hand() -> None:
    decoder = Decoder()
    events = [decoder.decode(data)[1] for _, data in EVENTS]
    begin, rows = (
        next(one for one in events if isinstance(one, Begin)),
        next(one for one in events if isinstance(one, Rows)),
    )
    assert (begin.gtid, begin.standalone) == (Gtid(0, 1, 1), True)
    assert (rows.kind, rows.width) == ("insert", 9)
