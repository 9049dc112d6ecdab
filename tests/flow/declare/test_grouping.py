"""SQL text with GROUP BY, taken apart."""

import pytest

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.checks.sql_grouping import Grouping, groups, parse_grouping

TAKEN_APART = [
    (
        "select user, count(*) n from orders group by user",
        Grouping("select * from orders", ("user",), ("count(*) n",)),
    ),
    (
        "SELECT currency, sum(amount) AS revenue, max(at)\nFROM orders\nWHERE amount > 10 -- group by 2\nGROUP BY 1;",
        Grouping("select * from orders where amount > 10", ("currency",), ("sum(amount) AS revenue", "max(at)")),
    ),
    (
        "select date(at) as day, count(*) as n from orders group by day",
        Grouping("select *, (date(at)) as `day` from orders", ("day",), ("count(*) as n",)),
    ),
    (
        "select date_trunc('hour, of', at) as `an hour`, count(*) n from orders group by date_trunc('hour, of', at)",
        Grouping("select *, (date_trunc('hour, of', at)) as `an hour` from orders", ("an hour",), ("count(*) n",)),
    ),
    (
        "select a, b, count(*) filter (where c = 'group by (') as n from (select * from t group_by) group by a, b",
        Grouping(
            "select * from (select * from t group_by)", ("a", "b"), ("count(*) filter (where c = 'group by (') as n",)
        ),
    ),
    (
        "select offset, window(at, '1 minute') as w, count(*) n from orders group by 1, window(at, '1 minute')",
        Grouping("select *, (window(at, '1 minute')) as `w` from orders", ("offset", "w"), ("count(*) n",)),
    ),
]


@pytest.mark.parametrize("text, expected", TAKEN_APART)
def test_a_query_is_rows_a_key_and_aggregates(text: str, expected: Grouping) -> None:
    assert groups(text)
    assert parse_grouping(text, "here") == expected


@pytest.mark.parametrize(
    "text",
    ["select id from orders", "select 'group by' from orders", "select * from (select a from b group by a) c"],
)
def test_a_query_that_groups_nothing_itself_is_none(text: str) -> None:
    assert not groups(text)


REFUSED = [
    ("select a, count(*) n from t group by a having n > 1", "HAVING cannot be kept from batch to batch"),
    ("select a, count(*) n from t group by a order by n", "ORDER BY cannot be kept"),
    ("select a, count(*) n from t group by a limit 3", "LIMIT cannot be kept"),
    ("select a, count(*) n from t group by rollup (a)", "GROUP BY ROLLUP cannot be kept"),
    ("select a, count(*) n from t group by all", "GROUP BY ALL cannot be kept"),
    ("select a, count(*) n from t group by a union select a, 1 from t", "UNION cannot be kept"),
    ("select distinct a, count(*) n from t group by a", "SELECT DISTINCT cannot be kept"),
    ("select count(*) n from t group by a", "it groups by a, which it does not select"),
    ("select date(at), count(*) n from t group by date(at)", "which has no name"),
    ("select a from t group by a", "it selects no aggregate"),
    ("with x as (select 1) select a, count(*) n from x group by a", "WITH cannot be kept"),
    ("select a, count(*) n from t group by a with rollup", "WITH cannot be kept"),
]


@pytest.mark.parametrize("text, sentence", REFUSED)
def test_what_cannot_be_kept_is_refused_in_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(InvalidDeclaration, match="sql at here: .*" + sentence):
        parse_grouping(text, "here")
