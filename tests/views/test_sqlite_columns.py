import sqlite3
from decimal import Decimal

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headwater.views.query import Condition
from headwater.views.shape import Column
from headwater.views.sqlite_columns import comparison, encode, ordering, python_values

SIZES = st.sampled_from([(5, 2), (18, 0), (18, 6), (19, 2), (38, 18), (38, 37), (38, 0)])


@st.composite
def decimals(draw: st.DrawFn) -> tuple[Column, list[Decimal], Decimal]:
    """A column, values it can hold, and one to compare with that has perhaps more places than it."""
    precision, scale = draw(SIZES)
    whole = st.integers(-(10**precision) + 1, 10**precision - 1)
    held = draw(st.lists(whole | st.integers(-3, 3), min_size=1, max_size=8))
    other = draw(whole | st.sampled_from(held) | st.integers(-3, 3))
    asked = Decimal(other).scaleb(-scale) + draw(st.sampled_from([Decimal(0), Decimal("1e-40"), Decimal("-1e-40")]))
    return Column("n", pa.decimal128(precision, scale)), [Decimal(f"{n}e-{scale}") for n in held], asked


def stored(column: Column, values: list[Decimal]) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (n TEXT, place INTEGER)")
    texts = python_values(encode(column, pa.array(values, column.type)))
    connection.executemany("INSERT INTO t VALUES (?, ?)", zip(texts, range(len(texts)), strict=True))
    return connection


@given(decimals())
def test_decimals_are_ordered_as_numbers(drawn: tuple[Column, list[Decimal], Decimal]) -> None:
    column, values, _ = drawn
    connection = stored(column, values)
    found = connection.execute(f"SELECT place FROM t ORDER BY {', '.join(ordering(column))}").fetchall()
    connection.close()
    assert [values[index] for (index,) in found] == sorted(values)


@given(decimals(), st.sampled_from(["<", "<=", ">", ">=", "=", "!="]))
def test_decimals_are_compared_as_numbers(drawn: tuple[Column, list[Decimal], Decimal], operator: str) -> None:
    column, values, asked = drawn
    exact = {"<": asked.__gt__, "<=": asked.__ge__, ">": asked.__lt__, ">=": asked.__le__, "=": asked.__eq__,
             "!=": asked.__ne__}[operator]  # fmt: skip
    sql, bound = comparison(Condition(column, operator, (asked,)), 1)
    connection = stored(column, values)
    found = {index for (index,) in connection.execute(f"SELECT place FROM t WHERE {sql}", bound)}
    connection.close()
    assert found == {index for index, value in enumerate(values) if exact(value)}
