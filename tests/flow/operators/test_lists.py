from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headwater.flow.operators.aggregation.lists import closed_lists, distinct, together

KIND = pa.list_(pa.int64())
some = st.none() | st.lists(st.integers(0, 4), max_size=4)
lists = st.lists(st.tuples(some, some), max_size=8)


@given(lists, st.integers(0, 2))
def test_lists_of_all_rows_are_merged_at_once(pairs: list[tuple[Any, Any]], skipped: int) -> None:
    old, new = (pa.array([pair[side] for pair in pairs], KIND).slice(skipped) for side in (0, 1))
    both = [sorted((one or []) + (other or [])) for one, other in pairs[skipped:]]
    elements = together(old, new)
    assert closed_lists(elements, len(both), KIND).to_pylist() == both
    assert closed_lists(distinct(elements), len(both), KIND).to_pylist() == [sorted(set(row)) for row in both]
