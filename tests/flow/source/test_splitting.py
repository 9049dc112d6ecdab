from hypothesis import given
from hypothesis import strategies as st

from headwater.flow.source.splitting import ROWS_MIN, Range, ranges_between, tasks_for
from headwater.record import TopicPartition

RANGES = st.lists(
    st.tuples(st.integers(0, 10**9), st.integers(1, 10**7)).map(lambda one: (one[0], one[0] + one[1])), max_size=12
).map(lambda edges: [Range("t", number, *edge) for number, edge in enumerate(edges)])


@given(RANGES, st.integers(1, 16))
def test_tasks_cover_every_range_once_and_in_order(ranges: list[Range], cores: int) -> None:
    pieces = [piece for task in tasks_for(ranges, cores=cores) for piece in task]
    joined: list[Range] = []
    for piece in pieces:
        assert piece.rows > 0
        if joined and joined[-1].partition == piece.partition:
            assert joined[-1].end == piece.first
            joined[-1] = joined[-1]._replace(end=piece.end)
        else:
            joined.append(piece)
    assert joined == ranges


@given(RANGES, st.integers(1, 16))
def test_there_is_work_for_every_core_where_there_is_enough_of_it(ranges: list[Range], cores: int) -> None:
    rows = sum(one.rows for one in ranges)
    assert len(tasks_for(ranges, cores=cores)) >= min(cores, rows // ROWS_MIN)


def test_small_ranges_share_a_task() -> None:
    ranges = [Range("t", number, 0, 10) for number in range(100)]
    assert len(tasks_for(ranges, cores=8)) == 1


def test_what_lies_between_two_positions_leaves_out_what_is_empty() -> None:
    a, b, c = (TopicPartition("t", number) for number in range(3))
    assert ranges_between({a: 3, b: 5}, {a: 7, b: 5, c: 2}) == [Range("t", 0, 3, 7), Range("t", 2, 0, 2)]
