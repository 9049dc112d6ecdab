"""Items of FROM come after those that they are equal to something of, and OR says what all of its sides say."""

import pytest
from sqlglot import exp, parse_one

from headwater.flow.sql.reading.join_order import implied, order_of
from headwater.flow.sql.relations import conjuncts

ITEMS = ("part", "supplier", "partsupp", "nation")


def items_of(node: exp.Expr) -> set[int] | None:
    if node.find(exp.Query):
        return None
    return {ITEMS.index(one.table) for one in node.find_all(exp.Column)}


def read(text: str) -> exp.Expr:
    return parse_one(text, dialect="spark")


@pytest.mark.parametrize(
    ("conditions", "free", "order"),
    [
        ("part.k = partsupp.p AND supplier.k = partsupp.s AND supplier.n = nation.k", 4, [0, 2, 1, 3]),
        ("part.k = supplier.k AND part.k = partsupp.p AND part.k = nation.k", 4, [0, 1, 2, 3]),
        ("part.k < partsupp.p AND supplier.k = nation.k", 4, [0, 1, 3, 2]),
        ("part.k + supplier.k = partsupp.p", 4, [0, 1, 2, 3]),
        ("part.k = nation.k AND supplier.k = nation.k", 3, [0, 1, 2, 3]),
        ("part.k = (SELECT 1) AND part.k = partsupp.p", 3, [0, 2, 1, 3]),
        ("part.k = 7", 4, [0, 1, 2, 3]),
    ],
)
def test_an_item_comes_after_those_it_is_equal_to_something_of(conditions: str, free: int, order: list[int]) -> None:
    given = [number < free for number in range(len(ITEMS))]
    assert order_of(given, conjuncts(read(conditions)), items_of) == order


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        (
            "(part.k = partsupp.p AND part.x = 1) OR (part.k = partsupp.p AND part.x = 2)",
            ["part.k = partsupp.p", "part.x = 1 OR part.x = 2"],
        ),
        (
            "(part.k = partsupp.p AND part.x = 1 AND partsupp.y = 1) OR (part.x <= 1 + 2 AND part.k = partsupp.p)",
            ["part.k = partsupp.p", "part.x = 1 OR part.x <= 1 + 2"],
        ),
        ("(nation.y = 1 AND 6 / part.x = 1) OR (nation.y = 2 AND 6 / part.x = 2)", ["nation.y = 1 OR nation.y = 2"]),
        ("(nation.y = 1 AND 6 / part.x = 1) OR (part.x < nation.y AND 6 / part.x = 1)", []),
        (
            "(part.x = 1 AND nation.y = 1) OR (part.x = 2 AND part.z = 3 AND nation.y = 2)",
            ["part.x = 1 OR (part.x = 2 AND part.z = 3)", "nation.y = 1 OR nation.y = 2"],
        ),
        ("(part.x = 1 AND nation.y = 1) OR part.x = 2", ["part.x = 1 OR part.x = 2"]),
        ("(part.x = 1 AND nation.y = 1) OR part.x < nation.y", []),
        ("part.x = 1 OR part.x = 2", []),
        ("part.x = 1 AND nation.y = 1", []),
        ("part.x = 1 OR part.x IN (SELECT 1)", []),
    ],
)
def test_what_all_sides_of_an_or_say_is_a_condition(condition: str, found: list[str]) -> None:
    said = [one.sql(dialect="spark") for one in implied(read(condition), items_of)]
    assert [text for text in said if text not in found] + [text for text in found if text not in said] == []
