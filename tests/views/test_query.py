import pyarrow as pa
import pytest

from headwater.errors import InvalidQuery
from headwater.views.query import key_query, parse_query
from headwater.views.shape import Shape, shape_of

SHAPE = shape_of("v", pa.schema([("id", pa.int64()), ("in", pa.string()), ("a >", pa.string())]), ["id", "in"])


def parsed(where: dict[str, object]) -> list[tuple[str, str]]:
    return [(condition.column.name, condition.operator) for condition in parse_query(SHAPE, where, None, None).where]


@pytest.mark.parametrize(
    "term, column, operator",
    [
        ("id", "id", "="),
        ("id =", "id", "="),
        ("id ==", "id", "="),
        ("id <>", "id", "!="),
        ("id  >= ", "id", ">="),
        ("in", "in", "="),
        ("a >", "a >", "="),
        ("a > >", "a >", ">"),
    ],
)
def test_a_term_is_a_column_and_a_comparison(term: str, column: str, operator: str) -> None:
    assert parsed({term: 1}) == [(column, operator)]


def test_a_name_that_is_nearly_right_is_suggested() -> None:
    shape = shape_of("v", pa.schema([("amount", pa.int64())]), [])
    with pytest.raises(InvalidQuery, match='Did you mean "amount"'):
        parse_query(shape, {"amuont": 1}, None, None)


def test_a_key_may_be_given_by_name() -> None:
    query = key_query(SHAPE, "v", [{"in": "x", "id": 1}])
    assert [condition.values for condition in query.where] == [(1,), ("x",)]


def test_a_key_of_the_wrong_length_is_refused_with_its_columns() -> None:
    with pytest.raises(InvalidQuery, match=r"the key \(id, in\); 1 values were given"):
        key_query(SHAPE, "v", [1])


def test_a_table_without_a_key_says_so() -> None:
    with pytest.raises(InvalidQuery, match="has no key"):
        key_query(Shape(SHAPE.columns), "v", [1])
