import numpy as np
import pyarrow as pa

from headwater.flow.operators.latest import Latest, merge_latest

LATEST = Latest(pa.schema([("at", pa.int64()), ("_offset", pa.int64())]), pa.schema([("x", pa.string())]))


def rows(*given: tuple[int | None, int | None, str | None, bool | None]) -> pa.RecordBatch:
    columns = [pa.array([row[place] for row in given], field.type) for place, field in enumerate(LATEST.state)]
    return pa.RecordBatch.from_arrays(columns, schema=LATEST.state)


def test_the_newer_row_wins_field_by_field_of_its_order() -> None:
    incoming = rows((2, 1, "new", False), (1, 9, "new", False), (1, 0, "new", False), (1, 1, "new", False))
    old = rows(*[(1, 1, "old", False)] * 4)
    merged = merge_latest(LATEST, incoming, np.ones(4, np.bool_), old)
    assert merged.newer.tolist() == [True, True, False, False]
    assert merged.state.column("x").to_pylist() == ["new", "new", "old", "old"]


def test_a_row_without_a_time_is_older_than_any() -> None:
    merged = merge_latest(LATEST, rows((None, 9, "new", False)), np.array([True]), rows((1, 1, "old", False)))
    assert merged.newer.tolist() == [False]


def test_a_key_that_was_not_there_is_new_whatever_its_order() -> None:
    merged = merge_latest(LATEST, rows((None, 0, "new", False)), np.array([False]), rows((None, None, None, None)))
    assert (merged.newer.tolist(), merged.existed.tolist(), merged.exists.tolist()) == ([True], [False], [True])


def test_a_row_without_a_value_deletes_and_its_order_stays() -> None:
    merged = merge_latest(LATEST, rows((5, 5, None, True)), np.array([True]), rows((1, 1, "old", False)))
    assert (merged.existed.tolist(), merged.exists.tolist()) == ([True], [False])
    assert merged.state.to_pylist() == [{"_order_at": 5, "_order__offset": 5, "x": None, "_gone": True}]
