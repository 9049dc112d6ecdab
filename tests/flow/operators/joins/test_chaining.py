"""What a join gives to the next one in the same task."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headwater.errors import FlowError
from headwater.flow.operators.joins.chaining import changes_given_on, events_given_on
from headwater.flow.operators.joins.events import CONTENT, LEFT_AT, MISSING, OFFSET, POSITION, RIGHT_AT, TIME
from headwater.flow.operators.joins.placing import event_hashes
from headwater.flow.operators.joins.tables import AFTER, ROW
from headwater.flow.operators.spark_hashes import shard_hashes
from headwater.flow.state.manifest import HASH

SHARDS = 4


def shard_of_key(key: str) -> int:
    return int(event_hashes([pa.array([key])], None, 1)[0]) % SHARDS


def told(*rows: tuple[str | None, int, int | None, int | None, bool]) -> pa.RecordBatch:
    """Results of a join: key, value, the offset of either event, and whether a partner is missing."""
    columns: dict[str, Any] = {"k": [row[0] for row in rows], "v": [row[1] for row in rows]}
    for side, place in ((LEFT_AT, 2), (RIGHT_AT, 3)):
        offsets = [row[place] for row in rows]
        columns |= {side + name: [None if at is None else 10 * at for at in offsets] for name in POSITION}
    kinds = {"k": pa.string(), MISSING: pa.bool_()}
    columns[MISSING] = [row[4] for row in rows]
    arrays = [pa.array(values, kinds.get(name, pa.int64())) for name, values in columns.items()]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def test_results_lie_where_the_event_of_the_left_lies_or_else_that_of_the_right() -> None:
    rows = told(("a", 1, 3, 4, False), ("a", 2, None, 5, False))
    given = events_given_on(rows, ["k", "v"], ["k"], shard=shard_of_key("a"), shards=SHARDS)
    assert given.column(OFFSET).to_pylist() == [30, 50]
    assert given.column(TIME).to_pylist() == [30, 50]
    assert given.column("v").to_pylist() == [1, 2]


def test_results_of_one_event_are_told_apart_by_what_they_were_made_from() -> None:
    rows = told(("a", 1, 3, 4, False), ("a", 1, 3, 5, False), ("a", 1, 3, 5, False))
    one, two, same = events_given_on(rows, ["v"], ["k"], shard=shard_of_key("a"), shards=SHARDS).column(CONTENT)
    assert one != two
    assert two == same


def test_rows_without_the_partner_that_they_must_have_go_no_further() -> None:
    rows = told(("a", 1, 3, None, True), ("a", 2, 4, None, False))
    given = events_given_on(rows, ["v"], ["k"], shard=shard_of_key("a"), shards=SHARDS)
    assert given.column("v").to_pylist() == [2]


def test_a_row_that_belongs_to_another_shard_stops_the_batch() -> None:
    elsewhere = (shard_of_key("a") + 1) % SHARDS
    with pytest.raises(FlowError, match=f"joined on a is in shard {elsewhere}, and belongs to shard"):
        events_given_on(told(("a", 1, 3, 4, False)), ["v"], ["k"], shard=elsewhere, shards=SHARDS)


def test_a_row_whose_key_is_null_stays_in_the_shard_where_it_is() -> None:
    given = events_given_on(told((None, 1, 3, 4, False)), ["v"], ["k"], shard=3, shards=SHARDS)
    assert np.mod(given.column(HASH).to_numpy(), SHARDS).tolist() == [3]


def test_rows_that_were_and_rows_that_are_have_the_same_hash_of_their_own_key() -> None:
    def rows(*found: tuple[str, int, int]) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist([{"k": k, "id": own, "v": value} for k, own, value in found])

    before, after = rows(("a", 7, 1)), rows(("a", 7, 2), ("a", 8, 3))
    own = int(shard_hashes([pa.array(["a"])], 1)[0]) % SHARDS
    given = changes_given_on(before, after, ["id", "k", "v"], ["id"], ["k"], shard=own, shards=SHARDS)
    was, is_, other = given.column(ROW).to_pylist()
    assert was == is_ != other
    assert given.column(AFTER).to_pylist() == [False, True, True]
    assert all(-(2**62) <= own < 2**62 for own in (was, other))
