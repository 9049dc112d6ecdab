import pyarrow as pa
import pytest

from headwater.views.changes import changes_in
from headwater.views.shape import Column, shape_of

SCHEMA = pa.schema([("id", pa.string()), ("n", pa.int64())])
SHAPE = shape_of("v", SCHEMA, ["id"])


def as_it_is(column: Column, values: pa.Array, /) -> pa.Array:
    return values


def rows(*triples: tuple[str | None, str | None, int | None]) -> pa.Table:
    ops, ids, numbers = zip(*triples, strict=True)
    return pa.table({"_op": pa.array(ops, pa.string()), "id": pa.array(ids, pa.string()),
                     "n": pa.array(numbers, pa.int64())})  # fmt: skip


def test_deletes_are_separated() -> None:
    changes = changes_in(SHAPE, rows(("c", "a", 1), ("d", "b", None), (None, "c", 3)), as_it_is)
    assert changes.present.to_pylist() == [{"id": "a", "n": 1}, {"id": "c", "n": 3}]
    assert changes.deleted.to_pylist() == [{"id": "b"}]
    assert changes.deleted_keys.to_pylist() == ['{"id":"b"}']


def test_only_the_last_row_of_a_key_is_left() -> None:
    changes = changes_in(SHAPE, rows(("c", "a", 1), ("d", "a", None), ("c", "b", 2), ("c", "a", 3)), as_it_is)
    assert changes.present.to_pylist() == [{"id": "b", "n": 2}, {"id": "a", "n": 3}]
    assert changes.deleted.num_rows == 0


def test_nulls_are_one_key() -> None:
    changes = changes_in(SHAPE, rows(("c", None, 1), ("c", "", 2), ("c", None, 3)), as_it_is)
    assert changes.present.to_pylist() == [{"id": "", "n": 2}, {"id": None, "n": 3}]


@pytest.mark.parametrize(
    "kind", [pa.struct([("x", pa.int64())]), pa.list_(pa.int64()), pa.map_(pa.string(), pa.int64())]
)
def test_a_key_may_be_of_any_type(kind: pa.DataType) -> None:
    one, other = {"struct": ({"x": 1}, {"x": 2}), "list": ([1], [1, 2]), "map": ([("a", 1)], [("b", 1)])}[
        str(kind).partition("<")[0]
    ]
    shape = shape_of("v", pa.schema([("id", kind), ("n", pa.int64())]), ["id"])
    given = pa.table({"id": pa.array([one, other, one, None], kind), "n": [1, 2, 3, 4]})
    assert changes_in(shape, given, as_it_is).present["n"].to_pylist() == [2, 3, 4]


def test_rows_without_an_operation_are_as_they_stand() -> None:
    changes = changes_in(SHAPE, pa.table({"n": [1], "id": ["a"], "_before": [None]}), as_it_is)
    assert changes.present.to_pylist() == [{"id": "a", "n": 1}]


def test_chunks_are_put_together() -> None:
    several = pa.concat_tables([rows(("c", "a", 1)), rows(("c", "b", 2)), rows(("d", "a", None))])
    changes = changes_in(SHAPE, several, as_it_is)
    assert (changes.present.to_pylist(), changes.deleted.to_pylist()) == ([{"id": "b", "n": 2}], [{"id": "a"}])


def test_no_rows_are_no_changes() -> None:
    assert changes_in(SHAPE, rows(("c", "a", 1)).slice(0, 0), as_it_is).empty
    assert changes_in(SHAPE, SCHEMA.empty_table(), as_it_is).empty
