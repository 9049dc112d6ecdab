import pyarrow as pa
import pytest

from headwater.errors import InvalidQuery, JobRefused
from headwater.views.shape import Shape, evolved, shape_of
from tests.views import rows as samples


def test_a_shape_is_kept_as_json_and_comes_back() -> None:
    shape = shape_of("samples", samples.SCHEMA, ["id"])
    assert Shape.from_json(shape.to_json()) == shape


def test_large_and_encoded_types_are_the_plain_ones() -> None:
    schema = pa.schema(
        [
            ("id", pa.dictionary(pa.int32(), pa.large_string())),
            ("tags", pa.large_list(pa.string_view())),
            ("at", pa.timestamp("ns", "Europe/Berlin")),
        ]
    )
    types = [column.type for column in shape_of("v", schema, ["id"]).columns]
    assert types == [pa.string(), pa.list_(pa.field("element", pa.string())), pa.timestamp("us", "UTC")]


def test_reserved_columns_are_no_part_of_it() -> None:
    schema = pa.schema([("_op", pa.string()), ("id", pa.int64()), ("_before", pa.struct([("n", pa.int64())]))])
    assert shape_of("v", schema, ["id"]).names == ("id",)


@pytest.mark.parametrize("names", [["a", "A"], [""], ["x" * 64], ["nul\0"]])
def test_names_that_some_database_mistakes_are_refused(names: list[str]) -> None:
    with pytest.raises(JobRefused, match='"v"'):
        shape_of("v", pa.schema([(name, pa.int64()) for name in names]), [])


def test_a_key_must_be_among_the_columns() -> None:
    with pytest.raises(JobRefused, match='no column "id" to be its key'):
        shape_of("v", pa.schema([("n", pa.int64())]), ["id"])


def test_nullability_is_no_change() -> None:
    stored = shape_of("v", pa.schema([pa.field("id", pa.int64(), nullable=False)]), ["id"])
    assert evolved("v", stored, shape_of("v", pa.schema([("id", pa.int64())]), ["id"])) == stored


def test_names_of_list_elements_are_no_change() -> None:
    one = shape_of("v", pa.schema([("t", pa.list_(pa.field("item", pa.string())))]), [])
    other = shape_of("v", pa.schema([("t", pa.list_(pa.field("element", pa.string(), nullable=False)))]), [])
    assert evolved("v", one, other) == one


def test_an_unknown_column_is_answered_with_those_there_are() -> None:
    with pytest.raises(InvalidQuery, match="The columns are id, n"):
        shape_of("v", pa.schema([("id", pa.int64()), ("n", pa.int64())]), []).column("m")
