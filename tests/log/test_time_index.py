from hypothesis import given
from hypothesis import strategies as st

from headwater.log.time_index import ENTRY_BYTES, TimeIndex, entry_before

TIMES = st.integers(-5, 40)


@given(times=st.lists(TIMES, max_size=30))
def test_only_growing_times_are_kept(times: list[int]) -> None:
    index = TimeIndex()
    for offset, time in enumerate(times):
        index.add(time, offset)
    kept = [time for time, _ in index.entries]
    assert kept == sorted(set(kept))
    assert kept[-1:] == ([max(times)] if times else [])


@given(times=st.lists(TIMES, max_size=30), wanted=TIMES)
def test_every_record_up_to_the_answer_is_older(times: list[int], wanted: int) -> None:
    index = TimeIndex()
    for offset in range(len(times)):
        largest = max(times[: offset + 1])
        index.add(largest, times.index(largest))
    before = entry_before(index.entries, wanted)
    older = -1 if before is None else before[1]
    assert all(time < wanted for time in times[: older + 1])
    first = next((offset for offset, time in enumerate(times) if time >= wanted), len(times))
    assert older < first


@given(times=st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**31 - 1)), max_size=20))
def test_entries_survive_the_way_through_their_file(times: list[tuple[int, int]]) -> None:
    data = TimeIndex(times).to_bytes()
    assert len(data) == ENTRY_BYTES * len(times)
    assert TimeIndex.from_bytes(data).entries == times
    assert TimeIndex.from_bytes(data[:-1]).entries == times[:-1]


def test_an_entry_is_a_signed_time_and_an_offset() -> None:
    assert TimeIndex([(-1, 7)]).to_bytes() == bytes.fromhex("ffffffffffffffff 00000007")
