import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given
from hypothesis import strategies as st

from headwater.flow.sinks.topics.partitioning import ROWS_TOGETHER, choose_partitions, in_order
from headwater.log.partitioner import partition_of


@given(st.lists(st.binary(max_size=40), min_size=1), st.integers(1, 50))
def test_keys_are_spread_as_the_log_spreads_them(keys: list[bytes], partitions: int) -> None:
    chosen = choose_partitions(pa.array(keys, pa.binary()), partitions, batch=0)
    assert chosen.tolist() == [partition_of(key, partitions) for key in keys]


def test_a_slice_of_keys_is_spread_like_the_whole() -> None:
    keys = pa.array([b"a", None, b"bcdef", b"", b"ghi"], pa.binary())
    whole = choose_partitions(keys, 7, batch=1).tolist()
    assert choose_partitions(keys.slice(2), 7, batch=1).tolist() == whole[2:]


def test_rows_without_a_key_take_turns_in_groups() -> None:
    keys = pa.nulls(2 * ROWS_TOGETHER + 1, pa.binary())
    chosen = choose_partitions(keys, 2, batch=5).tolist()
    assert chosen == [1] * ROWS_TOGETHER + [0] * ROWS_TOGETHER + [1]


@given(st.permutations(range(20)))
def test_any_order_of_rows_becomes_the_same(order: list[int]) -> None:
    rows = pa.table(
        {
            "_order": [number // 4 for number in range(20)],
            "_key": pa.array([b"%d" % (number % 3) for number in range(20)], pa.binary()),
            "_value": pa.array([None if number % 5 == 0 else b"%d" % number for number in range(20)], pa.binary()),
            "_timestamp_ms": list(range(20)),
        }
    )
    assert in_order(rows.take(pa.array(order))).equals(in_order(rows))
    assert pc.all(pc.equal(in_order(rows).column("_order"), rows.column("_order"))).as_py()
