import numpy as np
import pyarrow as pa

from headwater.flow.operators.changes import change_schema, merge_changes

KEYS = pa.RecordBatch.from_pydict({"k": ["a", "b", "c", "d", "e"]})


def test_each_key_says_what_happened_to_it_or_nothing() -> None:
    existed, exists = np.array([False, True, True, True, False]), np.array([True, True, True, False, False])
    before = pa.RecordBatch.from_pydict({"n": pa.array([None, 1, 2, 3, None], pa.int64())})
    after = pa.RecordBatch.from_pydict({"n": pa.array([10, 1, 20, 3, None], pa.int64())})
    assert merge_changes(KEYS, existed, before, exists, after).to_pylist() == [
        {"_op": "c", "k": "a", "n": 10, "_before": None},
        {"_op": "u", "k": "c", "n": 20, "_before": {"n": 2}},
        {"_op": "d", "k": "d", "n": None, "_before": {"n": 3}},
    ]


def test_a_key_that_is_created_with_nulls_is_still_created() -> None:
    nothing = pa.RecordBatch.from_pydict({"n": pa.array([None], pa.int64())})
    changes = merge_changes(KEYS.slice(0, 1), np.array([False]), nothing, np.array([True]), nothing)
    assert changes.to_pylist() == [{"_op": "c", "k": "a", "n": None, "_before": None}]


def test_no_changes_have_the_same_columns() -> None:
    nothing = pa.RecordBatch.from_pydict({"n": pa.array([], pa.int64())})
    none = np.array([], np.bool_)
    changes = merge_changes(KEYS.slice(0, 0), none, nothing, none, nothing)
    assert changes.schema == change_schema(KEYS.schema, nothing.schema)
    assert changes.num_rows == 0
