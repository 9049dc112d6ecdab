from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from headwater.log.byte_ranges import ByteRanges
from tests.log.subjects import in_threads

ranges = st.tuples(st.integers(0, 60), st.integers(0, 60))


@given(st.lists(ranges, max_size=20), ranges)
def test_covers_what_a_set_of_bytes_would(added, asked):
    known, model = ByteRanges(), set()
    for start, end in added:
        known.add(start, end)
        model |= set(range(start, end))
    assert known.covers(*asked) == (set(range(*asked)) <= model)


def test_ranges_added_by_many_threads_at_once_are_all_there():
    known = ByteRanges()
    shares = [list(range(first * 10, 40_000, 40)) for first in range(4)]

    def add(starts):
        for start in starts:
            known.add(start, start + 10)
            assert known.covers(start, start + 10)

    in_threads([partial(add, share) for share in shares])
    assert known.covers(0, 40_000)
    assert not known.covers(0, 40_001)
