"""How far each producer has come."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headwater.flow.source.times.producers import Counted, hear_all

rows = st.lists(
    st.tuples(st.sampled_from(["pump", "fan", None]), st.integers(0, 100), st.integers(0, 100)), max_size=20
)


@given(st.lists(rows, max_size=4))
def test_the_newest_of_each_is_kept_however_rows_are_cut(chunks: list[list[tuple[str | None, int, int]]]) -> None:
    counted: Counted = {}
    for chunk in chunks:
        names, times, stamps = ([row[place] for row in chunk] for place in range(3))
        hear_all(counted, pa.array(names, pa.string()), pa.array(times, pa.int64()), np.array(stamps, dtype=np.int64))
    everything = [row for chunk in chunks for row in chunk]
    assert counted == {
        name or "": [
            max(time for other, time, _ in everything if other == name),
            max(stamp for other, _, stamp in everything if other == name),
            None,
        ]
        for name in {name for name, _, _ in everything}
    }


def test_a_producer_may_be_named_by_a_number() -> None:
    counted: Counted = {}
    hear_all(counted, pa.array([7], pa.int64()), pa.array([5]), np.array([1], dtype=np.int64))
    assert counted == {"7": [5, 1, None]}
