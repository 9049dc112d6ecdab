import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.flow.source.record_batches import batch_positions
from headwater.flow.source.record_batches.batch_positions import APART_BYTES, BatchPositions, scan_start
from headwater.flow.source.record_batches.files import read_files
from headwater.log.batch_format import read_header
from headwater.node import Node
from headwater.record import Record
from headwater.testing import running_node
from tests.flow.source.test_files import fill, offsets_in

RECORDS = 200


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with running_node() as node:
        node.log.create_topic("orders")
        fill(node.log, "orders", RECORDS)
        yield node


@pytest.fixture
def bytes_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Of each read of a file."""
    found: list[int] = []
    read = os.pread

    def counting(file: int, size: int, position: int) -> bytes:
        data = read(file, size, position)
        found.append(len(data))
        return data

    monkeypatch.setattr(os, "pread", counting)
    return found


def begins_at(segment: Path) -> list[tuple[int, int]]:
    """The base offsets and positions of all batches of a segment."""
    data, position, found = segment.read_bytes(), 0, []
    while position < len(data):
        header = read_header(data[position:])
        found.append((header.base_offset, position))
        position += header.size
    return found


def test_who_reads_on_does_not_read_again_what_the_index_does_not_know_yet(bytes_read: list[int]) -> None:
    with running_node() as node:
        node.log.create_topic("orders")
        for first in range(0, 40, 4):
            node.log.append("orders", [Record(bytes(100_000), None, (), 5)] * 4)
            assert offsets_in(read_files(node.data / "orders-0", first, first + 4), first + 4) == [
                *range(first, first + 4)
            ]
        [index] = (node.data / "orders-0").glob("*.index")
    assert not index.exists() or index.stat().st_size == 0
    assert sum(bytes_read) < 2.5 * 40 * 100_000, "each batch, and the one before it"


@given(
    notes=st.lists(st.tuples(st.integers(0, RECORDS), st.integers(0, RECORDS - 1), st.integers(0, 1)), max_size=20),
    offset=st.integers(0, RECORDS - 1),
)
@settings(max_examples=100, deadline=None)
def test_a_position_that_is_wrong_is_not_believed(node: Node, notes: list[tuple[int, int, int]], offset: int) -> None:
    [segment] = (node.data / "orders-0").glob("*.log")
    right = begins_at(segment)
    known = BatchPositions()
    with segment.open("rb") as file:
        for base_offset, batch, beside in notes:  # of another batch, or of none
            known.note(file.fileno(), base_offset, right[batch][1] + beside)
        start = scan_start(segment.parent, 0, file.fileno(), offset, known)
    assert start in [position for base_offset, position in right if base_offset <= offset]


@pytest.mark.parametrize("offset", [0, 1, 57, RECORDS - 1])
def test_the_last_known_batch_before_an_offset_is_where_a_scan_starts(node: Node, offset: int) -> None:
    [segment] = (node.data / "orders-0").glob("*.log")
    right = begins_at(segment)
    known = BatchPositions()
    with segment.open("rb") as file:
        known.note(file.fileno(), *right[offset])
        assert scan_start(segment.parent, 0, file.fileno(), offset, known) == right[offset][1]
        assert scan_start(segment.parent, 0, file.fileno(), RECORDS, known) == right[offset][1]


def test_a_file_that_was_cut_off_is_scanned_from_before_it(node: Node, tmp_path: Path) -> None:
    [segment] = (node.data / "orders-0").glob("*.log")
    right = begins_at(segment)
    copy = tmp_path / segment.name
    copy.write_bytes(segment.read_bytes())
    known = BatchPositions()
    with copy.open("r+b") as file:
        known.note(file.fileno(), *right[100])
        file.truncate(right[50][1] + 10)
        assert scan_start(tmp_path, 0, file.fileno(), 120, known) == 0


@pytest.fixture
def two_files(tmp_path: Path) -> Iterator[Callable[[int], int]]:
    opened = [(tmp_path / str(number)).open("wb") for number in (0, 1)]
    yield lambda number: opened[number].fileno()
    for file in opened:
        file.close()


def test_the_last_position_is_kept_and_others_where_they_are_apart(two_files: Callable[[int], int]) -> None:
    known, file = BatchPositions(), two_files(0)
    for number in range(1000):
        known.note(file, number, number * 1000)
    kept = {known.at_or_below(file, offset) for offset in range(1000)} - {None}
    assert known.at_or_below(file, 5000) == (999, 999_000)
    assert len(kept) <= 1_000_000 // APART_BYTES + 2
    assert known.at_or_below(file, 2) == (0, 0)
    assert known.at_or_below(two_files(1), 5000) is None


def test_files_that_nobody_reads_any_more_are_forgotten(
    two_files: Callable[[int], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_positions, "FILES_MAX", 1)
    known = BatchPositions()
    known.note(two_files(0), 5, 500)
    known.note(two_files(1), 7, 700)
    assert known.at_or_below(two_files(1), 9) == (7, 700)
    assert known.at_or_below(two_files(0), 9) is None
