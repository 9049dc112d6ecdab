"""Whatever join keys are split over tasks, and on whatever side: the same pairs, each once."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.flow.operators.joins.hot_keys import HOT_KEYS_MAX, HotKey, hot_after, hot_of_json, hot_to_json
from headwater.flow.operators.joins.splitting import (
    LEFT,
    RIGHT,
    may_split,
    owner_step,
    slice_bounds,
    slice_step,
    slices_of,
)
from headwater.flow.operators.joins.tables import ALL_ROWS, ROW, JoinStep, TableJoin
from headwater.flow.state import HASH
from headwater.flow.state.shard import ShardState
from tests.flow.operators.joins.test_tables import WAYS, Change, Given, Running, batches, join_of, joined

SLICES = 2


class Split(Running):
    """A join in one shard, some keys of which are worked on in slices."""

    def __init__(self, join: TableJoin, hot: tuple[HotKey, ...]) -> None:
        super().__init__(join)
        self.hot = tuple(one for one in hot if may_split(join, one.side))
        self.measured: tuple[HotKey, ...] = ()

    def step(self, left: ShardState, right: ShardState, given: Given) -> JoinStep:
        (before, after, runs), self.measured = owner_step(self.join, left, right, given, self.hot, hot_rows=5)
        made = [(before, after)]
        for side in (LEFT, RIGHT):
            hashes = pa.array([one.hash for one in self.hot if one.side == side], pa.int64())
            for number in range(SLICES):
                own = slice_bounds(number, SLICES)
                bounds = (own, ALL_ROWS) if side == LEFT else (ALL_ROWS, own)
                parts = [self._given(given[each], hashes, number if each == side else None) for each in (0, 1)]
                made.append(slice_step(self.join, left, right, (parts[0], parts[1]), bounds))
        before, after = (pa.concat_batches([pair[place] for pair in made]) for place in (0, 1))
        return JoinStep(before, after, runs)

    def _given(self, rows: pa.RecordBatch | None, hashes: pa.Array, number: int | None) -> pa.RecordBatch | None:
        """Rows of the larger side go to their slice, those of the other to all."""
        if rows is None:
            return None
        chosen = rows.filter(pc.is_in(rows.column(HASH), hashes))
        if number is None:
            return chosen
        return chosen.filter(pa.array(slices_of(chosen.column(ROW).to_numpy(), SLICES) == number))


hot_keys = st.dictionaries(st.integers(0, 4), st.integers(0, 1), max_size=4).map(
    lambda sides: tuple(HotKey(hash, side, 1, "") for hash, side in sides.items())
)


@settings(max_examples=50)
@given(how=st.sampled_from(WAYS), further=st.booleans(), hot=hot_keys, batches=batches)
def test_after_every_batch_a_split_join_is_that_of_the_tables_as_they_stand(
    how: str, further: bool, hot: tuple[HotKey, ...], batches: list[tuple[list[Change], int]]
) -> None:
    running = Split(join_of(how, further=further), hot)
    for changes, again in batches:
        running.batch(changes, again)
        assert sorted(running.result, key=repr) == joined(running.join, *running.tables)


def crowd(running: Split, side: int, size: int) -> tuple[HotKey, ...]:
    running.batch([Change(side, number, ("a", 0, 1.0)) for number in range(size)])
    running.batch([Change(1 - side, 99, ("a", 0, 1.0))])
    return running.measured


def test_a_key_with_many_rows_is_noticed_on_the_side_that_has_them() -> None:
    (left,), (right,) = (crowd(Split(join_of("inner"), ()), side, 9) for side in (LEFT, RIGHT))
    assert (left.side, left.rows, left.key) == (LEFT, 9, "a, 0")
    assert (right.side, right.rows) == (RIGHT, 9)
    assert crowd(Split(join_of("inner"), ()), LEFT, 4) == ()


def test_a_side_is_not_split_if_rows_of_the_other_are_there_without_a_partner() -> None:
    assert [may_split(join_of(how), LEFT) for how in WAYS] == [True, True, False, False, True, True]
    assert [may_split(join_of(how), RIGHT) for how in WAYS] == [True, False, True, False, False, False]
    assert crowd(Split(join_of("full"), ()), LEFT, 9) == ()


def test_every_row_is_in_the_slice_whose_bounds_it_lies_in() -> None:
    own = np.random.default_rng(1).integers(-(2**62), 2**62, 1000)
    own[:2] = -(2**62), 2**62 - 1
    for slices in (1, 2, 8, 64):
        numbers = slices_of(own, slices)
        bounds = [slice_bounds(number, slices) for number in range(slices)]
        assert all(bounds[number].first <= one < bounds[number].end for one, number in zip(own, numbers, strict=True))
        assert bounds[0].first == -(2**62)
        assert bounds[-1].end == 2**62


def test_only_the_keys_with_the_most_rows_are_kept_in_mind_and_counted_anew() -> None:
    many = tuple(HotKey(number, LEFT, 100 + number, f"k{number}") for number in range(HOT_KEYS_MAX + 5))
    known = hot_after({}, [("feed", many), ("other", ())])
    assert list(known) == ["feed"]
    assert [one.hash for one in known["feed"]] == list(range(HOT_KEYS_MAX + 4, 4, -1))
    again = hot_after(known, [("feed", (HotKey(7, RIGHT, 9_999, "k7"),))])
    assert again["feed"][0] == HotKey(7, RIGHT, 9_999, "k7")
    assert len(again["feed"]) == HOT_KEYS_MAX
    assert hot_of_json(hot_to_json(again)) == again
