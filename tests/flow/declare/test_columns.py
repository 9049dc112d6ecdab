"""Columns that there are not are emitted before Spark is there, with the line that names them."""

import re
from collections.abc import Callable

import pytest

import headwater as hw
from headwater.errors import InvalidDeclaration
from headwater.flow.declare.stream import Stream, Table
from headwater.flow.declare.topology.graph import check, plan

HERE = r"test_columns\.py:\d+"
SCHEMA = "id string, amount double, place struct<city: string>, tags array<string>, at timestamp"

app = hw.App("columns")
orders = app.stream("orders", SCHEMA, time="at")
people = app.table("people", "id string, name string", key="id", versions="1 day")


def refused(body: Callable[[], Stream | Table], key: str = "id") -> str:
    one = hw.App("one")
    one.sources = dict(app.sources)
    one.view(key=key, name="v")(body)
    with pytest.raises(InvalidDeclaration) as caught:
        check(one)
    return str(caught.value)


@pytest.mark.parametrize(
    "body, sentence",
    [
        (lambda: orders.select("id", "amuont").latest("id"), "select at {}: there is no column amuont; did you mean"),
        (lambda: orders.where("amont > 1").latest("id"), "where at {}: there is no column amont; did you mean amount?"),
        (lambda: orders.with_columns(x="2 * amont").latest("id"), "withcolumns at {}: there is no column amont; did"),
        (lambda: orders.explode("tgas", "tag").latest("id"), "explode at {}: there is no column tgas; did you mean"),
        (lambda: orders.by("ids").agg("count(*) as n"), "by at {}: there is no column ids; did you mean id?"),
        (lambda: orders.by("id").agg("sum(amont) as n"), "agg at {}: there is no column amont; did you mean amount?"),
        (lambda: orders.by("id").agg(hw.distinct("usr").alias("n")), "agg at {}: there is no column usr; there are:"),
        (lambda: orders.dedupe("idd", within="1 hour").latest("id"), "dedupe at {}: there is no column idd; did you"),
        (lambda: orders.latest("ident"), "latest at {}: there is no column ident; "),
        (
            lambda: orders.window(hw.tumbling("1 hour")).by("citty").agg("count(*) as n"),
            "by at {}: there is no column citty; ",
        ),
        (
            lambda: orders.join(people, on="name").latest("id"),
            "join at {}: the left has no column name. There",
        ),
        (
            lambda: orders.join(people, on=orders.id == people.ident).latest("id"),
            "join at {}: the right has no column ident. ",
        ),
        (lambda: people.where("nme is null"), "where at {}: there is no column nme; did you mean name?"),
        (
            lambda: people.changes().where("after.name = befor.name").latest("id"),
            "where at {}: there is no column befo",
        ),
        (
            lambda: orders.select("id", "at").where("amount > 1").latest("id"),
            "where at {}: there is no column amount; ",
        ),
    ],
)
def test_a_column_that_there_is_not_is_refused_with_the_line_that_names_it(
    body: Callable[[], Table], sentence: str
) -> None:
    said = refused(body)
    assert re.match(re.escape(sentence).replace(r"\{\}", HERE), said), said


def test_columns_of_sql_are_looked_for_in_its_table() -> None:
    one = hw.App("one")
    one.stream("orders", SCHEMA)
    one.view(key="id", name="v")(lambda: one.sql("select id, sum(amont) as n from orders o group by id"))
    with pytest.raises(InvalidDeclaration, match=rf"sql at {HERE}: there is no column amont; did you mean amount\?"):
        check(one)
    other = hw.App("other")
    other.stream("orders", SCHEMA)
    other.topic("t")(lambda: other.sql("select id, o.amont from orders o where place.city = 'Ulm'"))
    with pytest.raises(
        InvalidDeclaration, match=rf"sql at {HERE}: there is no column o\.amont; did you mean o\.amount\?"
    ):
        check(other)


@pytest.mark.parametrize(
    "body, key, sentence",
    [
        (
            lambda: orders.by("id").agg("sum(amount) as n"),
            "ident",
            r"the key of view v \({}\) is ident, which is not in",
        ),
        (
            lambda: orders.by("id").agg("sum(amount) as n"),
            "n",
            r"the key of view v \({}\) is n, and its table has a row for each id\. Use key=\['id'\]",
        ),
        (lambda: people.select("name"), "name", r"view v \({}\) drops id, which is part of its table's key"),
    ],
)
def test_the_key_of_a_view_is_checked_without_spark(body: Callable[[], Table], key: str, sentence: str) -> None:
    said = refused(body, key)
    assert re.match(sentence.replace("{}", HERE), said), said


@pytest.mark.parametrize(
    "expression",
    [
        "AMOUNT + 1 as x",
        "place.city as x",
        "transform(tags, t -> upper(t)) as x",
        "aggregate(tags, 0, (sum, t) -> sum + length(t)) as x",
        "case when amount > 1 then 'big' end x",
        "date_trunc('day', at) as x",
        "timestampdiff(HOUR, at, current_timestamp) as x",
        "at - interval 10 minutes as x",
        "extract(year from at) as x",
        "cast(amount as decimal(12,2)) as x",
        "at::date as x",
        "_offset as x",
        "struct(id as key, amount) as x",
        "localtimestamp as x",
        "exists(tags, t -> t = 'new') as x",
        "amount in (1, 2) and id rlike '^a' as x",
        "not sql at all, which Spark will say (",
    ],
)
def test_what_spark_would_accept_or_has_to_read_itself_is_let_through(expression: str) -> None:
    one = hw.App("one")
    one.sources = dict(app.sources)
    one.topic("t")(lambda: orders.select("id", expression))
    check(one)


def test_columns_behind_a_free_function_are_left_to_spark() -> None:
    one = hw.App("one")
    one.sources = dict(app.sources)
    one.view(key="anything", name="v")(lambda: orders.apply(lambda frame: frame).latest("anything"))
    check(one)


def test_a_select_may_use_what_it_has_named_before() -> None:
    one = hw.App("one")
    one.sources = dict(app.sources)
    one.topic("t")(lambda: orders.select("id", "amount * 2 as doubled", "doubled + 1 as more"))
    plan(one)


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("selct id, sum(amount) as n from orders group by id", "sql at {} is no query: it begins with 'selct'"),
        (
            "select id, sum(amount) as n from orders",
            "sql at {}: id is neither grouped by nor aggregated",
        ),
        ("select id, sum(amount as n from orders", "sql at {} cannot be read: Expecting \\)"),
        ("select id, sum(amount as n from orders group by id", "sql at {} cannot be read: Expecting \\)"),
        ("select id, sum(amount) as n from orders grup by id", "sql at {} cannot be read: "),
    ],
)
def test_a_bad_select_is_told_as_what_it_is_and_not_as_a_stream_without_a_key(text: str, sentence: str) -> None:
    one = hw.App("one")
    one.stream("orders", SCHEMA)
    one.view(key="id", name="v")(lambda: one.sql(text))
    with pytest.raises(InvalidDeclaration) as caught:
        check(one)
    assert re.search(sentence.replace("{}", HERE), str(caught.value)), str(caught.value)
    assert "has no key" not in str(caught.value)


def test_all_mistakes_are_found_at_once_and_each_once() -> None:
    one = hw.App("one")
    one.sources = dict(app.sources)
    wrong = orders.where("amont > 1")
    one.view(key="id", name="a")(lambda: wrong.latest("id"))
    one.view(key="id", name="b")(lambda: wrong.by("id").agg("count(*) as n"))
    one.view(key="id", name="c")(lambda: orders.latest("ident"))
    one.view(key="id", name="d")(lambda: orders)
    with pytest.raises(InvalidDeclaration) as caught:
        check(one)
    said = [str(caught.value), *map(str, caught.value.also)]
    assert [re.sub(HERE, "HERE", text).split(";")[0].split(",")[0] for text in said] == [
        "view d (HERE) returns a stream",
        "where at HERE: there is no column amont",
        "latest at HERE: there is no column ident",
    ]
