"""What the compiled loops write is what the long way writes, byte for byte, whatever comes between."""

import shutil
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import UndecodableChange
from tests.capture.postgres import message_builder as pg
from tests.capture.postgres.message_builder import NOW_MS, UNCHANGED, Cell, KeptBatches, ScriptedSource, Table, captured

Operation = tuple[Any, ...]

_days = st.one_of(
    st.dates().map(str), st.sampled_from(["infinity", "-infinity", "0044-03-15 BC", "12026-01-31", "0001-01-01"])
)  # fmt: skip
_moments = st.one_of(
    st.datetimes().map(str),
    st.sampled_from(["infinity", "-infinity", "0044-03-15 12:00:00.25 BC", "12026-01-31 00:00:00"]),
)
_texts = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12),
    st.sampled_from(
        ['say "no"', "a\\b", "\n\r\t\b\f\x01\x1f\x7f", "é€😀", "null", "", "x" * 70, "\\\n" * 40, "x" * 9000]
    ),
)
_with_zone = _moments.map(lambda moment: moment if moment.endswith("y") else moment.replace(" BC", "+00 BC"))
VALUES: dict[int, st.SearchStrategy[str]] = {
    16: st.sampled_from(["t", "f"]),
    17: st.binary(max_size=4).map(lambda value: "\\x" + value.hex()),
    20: st.integers(-(2**63), 2**63 - 1).map(str),
    23: st.integers(-(2**31), 2**31 - 1).map(str),
    25: _texts,
    701: st.one_of(st.floats(allow_nan=False).map(repr), st.sampled_from(["NaN", "Infinity", "-Infinity", "1e+20"])),
    1082: _days,
    1114: _moments,
    1184: _with_zone.map(lambda moment: moment if moment.endswith(("y", "BC")) else moment + "+00"),
    1266: st.sampled_from(["12:00:00+00", "12:00:00.5-08"]),
    1560: st.sampled_from(["0", "1"]),
    1700: st.one_of(st.decimals(allow_nan=False, allow_infinity=False).map(str), st.just("NaN")),
}
LOOPS_KNOW = [type for type in VALUES if type not in (17, 1266)]
IDENTITIES: list[tuple[tuple[int, ...], bool]] = [((0,), False), ((0,), True), ((), True), ((1, 0), False)]
"""The key, and whether whole rows are pg."""


def tables(id: int) -> st.SearchStrategy[Table]:
    more = st.lists(st.sampled_from(LOOPS_KNOW + list(VALUES)), max_size=5)
    facts = st.tuples(more, st.sampled_from(IDENTITIES), st.sampled_from([30, 254]), st.sampled_from([1, 3]))
    return facts.map(
        lambda one: Table(
            id, (20, 25, *one[0]), *one[1], wide_bytes=one[2], partitions=one[3] if one[1][0] else 1
        )
    )  # fmt: skip


@st.composite
def cells(draw: st.DrawFn, table: Table, *, unchanged: bool = False) -> list[Cell]:
    row: list[Cell] = [draw(st.integers(1, 3).map(str)).encode(), draw(st.sampled_from([b"a", b'"', b"b"]))]
    for type in table.types[2:]:
        row.append(draw(st.one_of(st.none(), VALUES[type].map(str.encode))))
    if unchanged and len(row) > 2 and draw(st.integers(0, 9)) == 0:
        row[-1] = UNCHANGED
    return row


@st.composite
def changes(draw: st.DrawFn, table: Table) -> bytes:
    kind = draw(st.sampled_from(["insert", "insert", "update", "delete", "moved", "odd"]))
    old = draw(cells(table))
    known: list[Cell] = [cell if index in table.key else None for index, cell in enumerate(old)]
    if kind == "insert":
        return pg.insert(table, old)
    if kind == "delete":
        return pg.delete(table, old if table.full else known, whole=table.full)
    new = draw(cells(table, unchanged=True))
    if kind == "moved":
        return pg.update(table, new, old=old if table.full else known, whole=table.full)
    if kind == "odd":
        return b"M\1" + bytes(8) + b"app\0\0\0\0\2hi"
    stays = [old[index] if index in table.key else cell for index, cell in enumerate(new)]
    return pg.update(table, stays, old=old if table.full else None, whole=table.full)


@st.composite
def streams(draw: st.DrawFn) -> tuple[dict[int, Table], list[bytes]]:
    """Tables, and transactions that change them, with whatever else a stream has in between."""
    chosen = {id: draw(tables(id)) for id in draw(st.sampled_from([(16,), (16, 900), (5, 16, 900)]))}
    address, messages = (
        100,
        [pg.data_message(100, pg.relation_message(table)) for table in chosen.values()],
    )
    for number in range(draw(st.integers(1, 4))):
        commit = address + 10_000
        # A clock ahead of ours: records do not come from the future.
        ahead = draw(st.sampled_from([-5_000_001, -1, 7_000_000]))
        messages.append(pg.data_message(commit, pg.begin(commit, 700 + number, time_us=NOW_MS * 1000 + ahead)))
        for _ in range(draw(st.integers(0, 12))):
            table = draw(st.sampled_from(list(chosen.values())))
            address += draw(st.sampled_from([0, 0, 8, 300]))
            between = draw(st.integers(0, 19))
            if between == 0:
                messages.append(b"k" + bytes(16) + b"\0")
            elif between == 1:
                messages.append(pg.data_message(address, pg.relation_message(table)))
            elif between == 2 and table.key:
                messages.append(pg.data_message(address, b"T\0\0\0\1\0" + table.id.to_bytes(4, "big")))
            messages.append(pg.data_message(address, draw(changes(table))))
        messages.append(pg.data_message(commit, pg.commit(commit)))
        address = commit + 8
    return chosen, messages


_numbers = count()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rows")


def outcome(
    stream: tuple[dict[int, Table], list[bytes]], folder: Path, *, runs: bool, known: int, cut: int, generation: int
) -> dict[str, Any]:
    """The records of a capture that joined the stream when a part of it was in the topics already."""
    chosen, messages = stream
    appender = KeptBatches({f"topic{table.id}": table.partitions for table in chosen.values()})
    home = folder / str(next(_numbers))
    if known:
        before = ScriptedSource(chosen, [messages[:known]], runs=False, generation=generation)
        captured(before, appender, home / "before")._values.close()
    source = ScriptedSource(chosen, [messages[:cut], messages[cut:]], runs=runs, generation=generation)
    runner = captured(source, appender, home / "then")
    runner._values.flush()
    kept = runner._values._database.execute("SELECT topic, key, names, row FROM value ORDER BY topic, key").fetchall()
    runner._values.close()
    shutil.rmtree(home)
    return {
        "logs": appender.logs,
        "kept": kept,
        "counts": runner.counts,
        "asked": source.wanted_rows,
        "last": {topic: landing.last for topic, landing in runner._landings.items()},
        "passing": source.assembler.passing(),
        "committed": source.assembler.committed,
    }


@settings(max_examples=80)
@given(stream=streams(), shares=st.tuples(st.floats(0, 1), st.floats(0, 1)), again=st.booleans(), later=st.booleans())
def test_runs_leave_the_same_records(
    folder: Path, stream: tuple[dict[int, Table], list[bytes]], shares: tuple[float, float], again: bool, later: bool
) -> None:
    total = len(stream[1])
    how = {
        "known": int(shares[0] * total) if again else 0,
        "cut": int(shares[1] * total),
        "generation": NOW_MS if later else 0,
    }
    one_by_one = outcome(stream, folder, runs=False, **how)
    assert outcome(stream, folder, runs=True, **how) == one_by_one


ORDERS = Table(16, (20, 25, 1700, 25, 1184))
ORDER: list[Cell] = [b"7", b"customer-7", b"12.50", b'what there is to say about "7"', b"2026-01-01 00:00:07+00"]


def transaction(*bodies: bytes) -> list[bytes]:
    whole = [pg.relation_message(ORDERS), pg.begin(9_000, 700), *bodies, pg.commit(9_000)]
    return [pg.data_message(100 + index, body) for index, body in enumerate(whole)]


def test_ordinary_changes_are_decoded_in_runs(tmp_path: Path) -> None:
    messages = transaction(
        pg.insert(ORDERS, ORDER),
        pg.update(ORDERS, ORDER),
        pg.delete(ORDERS, [b"7", None, None, None, None]),
    )
    source = ScriptedSource({16: ORDERS}, [messages], runs=True)
    runner = captured(source, KeptBatches({}), tmp_path)
    assert (source.taken_in_runs, runner.counts.records) == (3, 4)
    runner._values.close()


def test_a_length_is_not_believed_before_it_is_compared(tmp_path: Path) -> None:
    whole = pg.insert(ORDERS, ORDER)
    value = ORDER[-1]
    assert isinstance(value, bytes)
    claim = whole[: -len(value) - 4] + (2**31 - 1).to_bytes(4, "big") + value
    source = ScriptedSource({16: ORDERS}, [transaction(claim)], runs=True)
    with pytest.raises(UndecodableChange, match="claims 2147483647 bytes"):
        captured(source, KeptBatches({}), tmp_path)


@pytest.mark.parametrize("size", [300, 9_000, 2_000_000])
def test_last_values_follow_wide_rows_and_their_deletion_within_one_run(folder: Path, size: int) -> None:
    wide_text = b"x" * size
    wide: list[Cell] = [b"8", wide_text, b"1", b"\x1f", None]
    messages = transaction(
        pg.insert(ORDERS, [b"7", *wide[1:]]), pg.insert(ORDERS, wide),
        pg.delete(ORDERS, [b"7", None, None, None, None]), pg.insert(ORDERS, [b"9", *wide[1:]]),
        pg.update(ORDERS, [b"9", *ORDER[1:]]),
    )  # fmt: skip
    how = {"known": 0, "cut": 0, "generation": 0}
    outcomes = [outcome(({16: ORDERS}, messages), folder, runs=runs, **how) for runs in (True, False)]
    assert outcomes[0] == outcomes[1]
    assert outcomes[0]["kept"][0][3].split(b"\x1f")[1] == b'"%b"' % wide_text
    assert [key for _, key, _, _ in outcomes[0]["kept"]] == [b'{"c0 \\"%b\\"":8}']


def test_room_is_found_for_values_that_escapes_make_long(tmp_path: Path) -> None:
    long: list[Cell] = [b"7", b"\x01" * 30_000, b"0", b"\x02" * 9_000, None]
    messages = transaction(*[pg.insert(ORDERS, long)] * 30)
    logs = []
    for runs in (True, False):
        appender, source = KeptBatches({}), ScriptedSource({16: ORDERS}, [list(messages)], runs=runs)
        captured(source, appender, tmp_path / str(runs))._values.close()
        logs.append(appender.logs)
    assert logs[0] == logs[1]
    assert len(logs[0]["topic16", 0]) > 10


@settings(max_examples=200)
@given(
    index=st.integers(0, 3),
    at=st.floats(0, 1),
    byte=st.integers(0, 255),
    cut=st.integers(0, 30),
    more=st.binary(max_size=3),
)  # fmt: skip
def test_a_mangled_message_is_refused_by_both_or_decoded_by_both(
    folder: Path, index: int, at: float, byte: int, cut: int, more: bytes
) -> None:
    bodies = [
        pg.insert(ORDERS, ORDER), pg.update(ORDERS, ORDER), pg.update(ORDERS, ORDER, old=ORDER, whole=True),
        pg.delete(ORDERS, [b"7", None, None, None, None]),
    ]  # fmt: skip
    mangled = bytearray(bodies[index])
    mangled[int(at * (len(mangled) - 1))] = byte
    bodies[index] = bytes(mangled[: len(mangled) - cut]) + more
    said: list[object] = []
    for runs in (True, False):
        try:
            said.append(outcome(({16: ORDERS}, transaction(*bodies)), folder, runs=runs, known=0, cut=0, generation=0))
        except (UndecodableChange, ValueError) as refused:
            said.append(type(refused))
    assert said[0] == said[1]
