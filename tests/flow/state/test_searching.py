import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headwater.flow.state.runs.hash_search import first_at_or_above, warm_up

hashes = st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 5)


@given(st.lists(hashes, min_size=1, max_size=60), st.lists(hashes, max_size=30))
def test_places_are_those_a_binary_search_finds(present: list[int], wanted: list[int]) -> None:
    kept, asked = (np.sort(np.array(values, np.int64)) for values in (present, wanted))
    assert first_at_or_above(kept, asked).tolist() == np.searchsorted(kept, asked).tolist()


def test_evenly_and_unevenly_spread_hashes_are_found_among_many() -> None:
    even = np.sort((np.arange(100_000, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)).view(np.int64))
    for kept in (even, np.sort(even // 2**40), np.concatenate([np.arange(99_999), [2**62]])):
        asked = np.sort(np.concatenate([kept[::7], kept[::11] + 1, [np.iinfo(np.int64).min, np.iinfo(np.int64).max]]))
        assert np.array_equal(first_at_or_above(kept, asked), np.searchsorted(kept, asked))


def test_warming_up_compiles_what_look_ups_use() -> None:
    warm_up()
    compiled = len(first_at_or_above.signatures)
    mapped = pa.array([1, 2, 3]).to_numpy()
    assert first_at_or_above(mapped, np.array([2])).tolist() == [1]
    assert len(first_at_or_above.signatures) == compiled
