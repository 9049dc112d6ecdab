"""Transactions of which a marker is damaged or missing: no reader sees a record of one that was aborted."""

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from headwater.cli.log import findings
from headwater.errors import DamagedRange
from headwater.log import Log
from headwater.log.check import check_log
from headwater.log.storage import LocalStorage
from headwater.record import Record

LEDGER = "ledger-0"


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """A log as `kill -9` leaves it, in one segment, after four transactions of one producer."""
    return transactions(tmp_path, "1000000", stopped=False)


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """A log after a clean stop, with each transaction in a segment of its own."""
    return transactions(tmp_path, "600", stopped=True)


def transactions(folder: Path, segment_bytes: str, *, stopped: bool) -> Path:
    with Log.open(folder / "log") as log:
        log.create_topic("ledger", configs={"segment.bytes": segment_bytes})
        for number in range(4):
            with suppress(ZeroDivisionError), log.transaction("payer") as transaction:
                transaction.append("ledger", [Record(b"%d" % number + b"x" * 100) for _ in range(2)])
                number // (number % 2)  # every second one is aborted
        if not stopped:
            shutil.copytree(folder / "log", folder / "copy")
    return folder / ("log" if stopped else "copy")


def flip(segment: Path, position: int) -> None:
    content = bytearray(segment.read_bytes())
    content[position] ^= 4
    segment.write_bytes(content)


def seen(data: Path) -> set[bytes]:
    """The transactions of which a reader sees records."""
    found, offset = set[bytes](), 0
    with Log.open(data) as log:
        while True:
            try:
                for record in log.read("ledger", offset=offset):
                    found.add((record.value or b"")[:1])
                return found
            except DamagedRange as damage:
                offset = damage.end


def test_records_of_an_aborted_transaction_stay_unseen_if_its_marker_is_damaged(killed: Path) -> None:
    (segment,) = (killed / LEDGER).glob("*.log")
    end = segment.read_bytes().index(b"1" + b"x" * 100) - 70  # before the header of the second transaction's batch
    flip(segment, end)
    assert seen(killed) == {b"1", b"3"}


def lose_index(folder: Path) -> None:
    for name in ("transactions.json", "transactions.copy"):
        (folder / name).unlink()


def first_segment(folder: Path) -> Path:
    return folder / f"{0:020}.log"


HARMS: dict[str, tuple[Callable[[Path], None], set[bytes]]] = {
    "nothing else": (lambda folder: None, {b"1", b"3"}),
    "the marker of an aborted transaction": (lambda folder: flip(first_segment(folder), -2), {b"1", b"3"}),
    "the segment of an aborted transaction": (lambda folder: first_segment(folder).unlink(), {b"1", b"3"}),
}


@pytest.mark.parametrize("also", HARMS)
def test_records_of_an_aborted_transaction_stay_unseen_if_the_index_is_lost_and(stopped: Path, also: str) -> None:
    harm, expected = HARMS[also]
    lose_index(stopped / LEDGER)
    harm(stopped / LEDGER)
    assert seen(stopped) == expected


@pytest.mark.parametrize("name", ["transactions.json", "transactions.copy"])
def test_a_damaged_index_is_named_and_its_copy_used(stopped: Path, name: str) -> None:
    flip(stopped / LEDGER / name, 20)
    storage = LocalStorage(stopped)
    try:
        assert [f"{LEDGER}/{name} is damaged" in line for line in findings(check_log(storage))] == [True]
    finally:
        storage.close()
    assert seen(stopped) == {b"1", b"3"}
