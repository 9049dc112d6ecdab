from hypothesis import given
from hypothesis import strategies as st

from headwater.log.offset_index import ENTRY_BYTES, OffsetIndex, entry_at_or_below


@st.composite
def indexes(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Entries as a segment writes them: last offsets and positions both grow."""
    steps = draw(st.lists(st.tuples(st.integers(1, 5), st.integers(61, 500)), max_size=30))
    entries, offset, position = [], draw(st.integers(-1, 3)), 0
    for offsets, size in steps:
        offset, position = offset + offsets, position + size
        entries.append((offset, position))
    return entries


@given(entries=indexes(), wanted=st.integers(0, 200))
def test_the_nearest_entry_at_or_below_is_found(entries: list[tuple[int, int]], wanted: int) -> None:
    below = [entry for entry in entries if entry[0] <= wanted]
    assert entry_at_or_below(entries, wanted) == (below[-1] if below else None)


@given(entries=indexes())
def test_entries_survive_the_way_through_their_file(entries: list[tuple[int, int]]) -> None:
    data = OffsetIndex(entries).to_bytes()
    assert len(data) == ENTRY_BYTES * len(entries)
    assert OffsetIndex.from_bytes(data).entries == entries


def test_an_entry_is_two_big_endian_numbers() -> None:
    assert OffsetIndex([(5, 4096)]).to_bytes() == bytes.fromhex("00000005 00001000")


def test_half_an_entry_at_the_end_is_not_read() -> None:
    data = OffsetIndex([(1, 100), (2, 200)]).to_bytes()
    assert OffsetIndex.from_bytes(data[:-1]).entries == [(1, 100)]


def test_the_largest_numbers_of_a_segment_fit() -> None:
    entries = [(2**31 - 1, 2**31 - 1)]
    assert OffsetIndex.from_bytes(OffsetIndex(entries).to_bytes()).entries == entries
