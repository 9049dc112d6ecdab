"""Distinguishing whole batches from broken ones, byte by byte."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.log.batch_format import HEADER_BYTES, BatchHeader, check_crc, pack_header, plausible, read_header
from headwater.log.scan import (
    WINDOW_BYTES,
    Expectation,
    damage_at,
    find_damage,
    next_whole_batch,
    verify,
    whole_batches,
)
from headwater.log.storage.memory import Content, MemoryFile
from headwater.testing import ManualClock
from tests.log.subjects import Subject, batch, headers_in

CONTIGUOUS = Expectation(0, contiguous=True)
GAPS = Expectation(0, contiguous=False)


class ReadCounter(MemoryFile):
    """A file that counts the bytes read of it."""

    def __init__(self, data: bytes) -> None:
        content = Content(0)
        content.data += data
        super().__init__(content, ManualClock())
        self.bytes_read = 0

    def read_at(self, position: int, length: int) -> bytes:
        data = super().read_at(position, length)
        self.bytes_read += len(data)
        return data


def placed(*offsets: int, size: int = 20) -> bytes:
    """Batches of one record each, at these offsets."""
    batches = []
    for offset in offsets:
        one = batch(b"%d" % offset + b"." * size)
        one[:8] = offset.to_bytes(8)
        batches.append(bytes(one))
    return b"".join(batches)


def found_in(data: bytes, expected: Expectation = CONTIGUOUS) -> list[int]:
    return [
        found.header.base_offset for found in whole_batches(ReadCounter(data), 0, size=len(data), expected=expected)
    ]


def test_whole_batches_are_found_in_order() -> None:
    assert found_in(placed(0, 1, 2)) == [0, 1, 2]


def test_batches_are_found_across_the_pieces_in_which_a_file_is_read() -> None:
    data = placed(*range(12), size=WINDOW_BYTES // 5)
    file = ReadCounter(data)
    assert len(list(whole_batches(file, 0, size=len(data), expected=CONTIGUOUS))) == 12
    assert file.bytes_read < 1.5 * len(data)


@pytest.mark.parametrize(
    "what, offsets, expected, found",
    [
        ("a gap where none may be", (0, 1, 3), CONTIGUOUS, [0, 1]),
        ("a gap where compaction made one", (0, 1, 3), GAPS, [0, 1, 3]),
        ("an offset that was there before", (0, 1, 1), GAPS, [0, 1]),
        ("offsets that belong to the next segment", (0, 1, 2), Expectation(0, True, end_offset=2), [0, 1]),
        ("offsets before the segment", (0, 1, 2), Expectation(1, False), []),
    ],
)
def test_a_batch_must_be_at_its_offset(
    what: str, offsets: tuple[int, ...], expected: Expectation, found: list[int]
) -> None:
    assert found_in(placed(*offsets), expected) == found, what


@given(cut=st.integers(0, 300))
def test_a_file_cut_anywhere_has_the_batches_before_the_cut(cut: int) -> None:
    data = placed(0, 1, 2)
    ends = [position + header.size for position, header in headers_in(data)]
    assert found_in(data[:cut]) == [number for number, end in enumerate(ends) if end <= cut]


@given(bit=st.integers(0, len(placed(0, 1, 2)) * 8 - 1))
def test_any_flipped_bit_hides_its_batch_or_is_of_no_consequence(bit: int) -> None:
    data = bytearray(placed(0, 1, 2))
    data[bit // 8] ^= 1 << bit % 8
    size = len(data) // 3
    whole, within = bit // 8 // size, bit // 8 % size
    leader_epoch = 12 <= within < 16  # no checksum covers it, and no code reads it
    assert found_in(bytes(data)) == ([0, 1, 2] if leader_epoch else list(range(whole)))


def searched_by_force(data: bytes, position: int, expected: Expectation) -> int | None:
    for start in range(position, len(data) - HEADER_BYTES + 1):
        header = read_header(data, start)
        if (
            plausible(header, bytes_left=len(data) - start)
            and header.base_offset >= expected.offset
            and header.next_offset <= expected.end_offset
            and check_crc(data, header, start)
            and not contradicted(data, start + header.size, header, expected)
        ):
            return start
    return None


def contradicted(data: bytes, position: int, header: BatchHeader, expected: Expectation) -> bool:
    """Does the next batch have lower offsets, with room before them for this one?"""
    if position + HEADER_BYTES > len(data):
        return False
    following = read_header(data, position)
    earliest_end = expected.offset + header.last_offset_delta + 1
    plausible_next = plausible(following, bytes_left=len(data) - position)
    return plausible_next and earliest_end <= following.base_offset < header.next_offset


@given(data=st.data())
def test_the_search_after_damage_finds_what_trying_every_byte_finds(data: st.DataObject) -> None:
    pieces = data.draw(
        st.lists(
            st.one_of(
                st.integers(0, 9).map(lambda offset: placed(offset)),
                st.binary(max_size=30),
                st.just(b"\2" * 70),
                st.just(bytes(80)),
                st.integers(1, 80).map(lambda cut: placed(5)[:cut]),
            ),
            max_size=6,
        )
    )
    whole = b"".join(pieces)
    position = data.draw(st.integers(0, len(whole)))
    expected = Expectation(
        data.draw(st.integers(0, 5)), data.draw(st.booleans()), data.draw(st.sampled_from([6, 10, 2**63 - 1]))
    )
    found = next_whole_batch(ReadCounter(whole), position, size=len(whole), expected=expected)
    assert (None if found is None else found.position) == searched_by_force(whole, position, expected)


def test_the_search_after_damage_finds_a_batch_at_every_distance_from_a_piece_border() -> None:
    for distance in (*range(-70, 20), 16, 17):
        garbage = bytes(WINDOW_BYTES + distance)
        found = next_whole_batch(ReadCounter(garbage + placed(7)), 0, size=len(garbage) + len(placed(7)), expected=GAPS)
        assert found is not None
        assert found.position == len(garbage)


def test_the_search_through_noise_reads_the_file_about_once() -> None:
    noise = random.Random(3).randbytes(2 * 1024**2)
    data = noise + bytes(30 * 1024**2) + placed(9)
    file = ReadCounter(data)
    found = next_whole_batch(file, 0, size=len(data), expected=GAPS)
    assert found is not None
    assert found.header.base_offset == 9
    assert file.bytes_read < 2 * len(data)


def test_damage_goes_up_to_the_next_whole_batch() -> None:
    data = bytearray(placed(0, 1, 2, 3))
    size = len(data) // 4
    data[size + 70] ^= 1
    data[2 * size + 70] ^= 1
    damage = damage_at(ReadCounter(bytes(data)), size, size=len(data), expected=Expectation(1, True), synced_offset=4)
    assert damage == (size, 3 * size, 1, 3)


@pytest.mark.parametrize("synced_offset, end_offset", [(0, 2), (1, 2), (9, 9)])
def test_damage_at_the_end_hides_all_that_was_promised(synced_offset: int, end_offset: int) -> None:
    data = placed(0) + bytes(100)
    damage = damage_at(
        ReadCounter(data), len(placed(0)), size=len(data), expected=Expectation(1, True), synced_offset=synced_offset
    )
    assert damage == (len(placed(0)), len(data), 1, end_offset)


# On a segment


@pytest.fixture
def subject() -> Subject:
    subject = Subject({"index.interval.bytes": "0"})
    subject.fill(6)
    return subject


def flipped(subject: Subject, number: int, byte: int = 70) -> int:
    """Flip a bit of the n-th batch; answers where the batch begins."""
    data = subject.bytes_of(subject.path(0))
    position = headers_in(data)[number][0]
    subject.overwrite(subject.path(0), position + byte, bytes([data[position + byte] ^ 0x10]))
    return position


def test_damage_that_keeps_an_offset_from_being_read_is_found(subject: Subject) -> None:
    segment = subject.partition.segments[0]
    position = flipped(subject, 2)
    for offset in (0, 1, 3, 4, 5):
        assert find_damage(segment, offset, size=segment.size, end_offset=6) is None
    damage = find_damage(segment, 2, size=segment.size, end_offset=6)
    assert damage is not None
    assert (damage.position, damage.first_offset, damage.end_offset) == (position, 2, 3)
    segment.damage = (damage,)
    assert find_damage(segment, 2, size=segment.size, end_offset=6) is None


@pytest.mark.parametrize(
    "byte, what", [(0, "base offset"), (9, "length"), (16, "magic"), (18, "checksum"), (25, "last offset")]
)
def test_damage_in_a_header_is_found_too(subject: Subject, byte: int, what: str) -> None:
    segment = subject.partition.segments[0]
    flipped(subject, 2, byte)
    damage = find_damage(segment, 2, size=segment.size, end_offset=6)
    assert damage is not None, what
    assert (damage.first_offset, damage.end_offset) == (2, 3)


def test_bytes_are_verified_once(subject: Subject) -> None:
    subject.restart()
    segment = subject.partition.segments[0]
    whole = verify(segment, 0, segment.size, size=segment.size, end_offset=6)
    assert whole == segment.size
    flipped(subject, 1)
    assert verify(segment, 0, segment.size, size=segment.size, end_offset=6) == whole, "seen before, believed now"


def test_verification_stops_before_the_first_batch_that_is_not_whole(subject: Subject) -> None:
    subject.restart()
    segment = subject.partition.segments[0]
    segment.verified = type(segment.verified)()
    position = flipped(subject, 3)
    assert verify(segment, 0, segment.size, size=segment.size, end_offset=6) == position
    assert verify(segment, position, segment.size - position, size=segment.size, end_offset=6) == 0


@pytest.mark.parametrize("number, byte", [(2, 6), (2, 7), (5, 6), (5, 3), (0, 5)])
def test_offsets_that_no_checksum_covers_are_held_against_those_around_them(
    subject: Subject, number: int, byte: int
) -> None:
    segment = subject.partition.segments[0]
    segment.verified = type(segment.verified)()
    position = flipped(subject, number, byte)
    assert verify(segment, 0, segment.size, size=segment.size, end_offset=6) == position
    damage = find_damage(segment, number, size=segment.size, end_offset=6)
    assert damage is not None
    assert (damage.first_offset, damage.end_offset) == (number, number + 1)


def test_verification_of_a_piece_that_ends_inside_a_batch_keeps_to_the_piece(subject: Subject) -> None:
    segment = subject.partition.segments[0]
    segment.verified = type(segment.verified)()
    assert verify(segment, 0, 100, size=segment.size, end_offset=6) == 100


def test_a_header_of_the_largest_size_costs_nothing_but_the_file() -> None:
    header = read_header(placed(0))._replace(length=2**31 - 1 - 12)
    data = bytes(pack_header(header)) + bytes(500)
    assert found_in(data) == []
