"""What is declared of joins, and how a plan says it."""

from typing import Any

import pytest

import headwater as hw
from headwater.errors import InvalidDeclaration
from headwater.flow.declare.pictures.outline import outline
from headwater.flow.declare.pictures.picture import as_text
from headwater.flow.declare.stream import Stream, Table
from headwater.flow.declare.topology.graph import plan
from headwater.flow.declare.topology.nodes import AsOfJoin, TableJoin, key_of

EVENTS = "id long, k string, at timestamp"


def tables(app: hw.App) -> tuple[Table, Table]:
    return app.table("orders", "id long, buyer string", key="id"), app.table("people", "name string", key="name")


@pytest.mark.parametrize(
    ("how", "key"), [("inner", ("id",)), ("left", ("id",)), ("right", ("id", "buyer")), ("full", ("id", "buyer"))]
)
def test_the_key_is_the_left_s_alone_where_every_row_of_it_is_there_once(how: str, key: tuple[str, ...]) -> None:
    orders, people = tables(hw.App("shop"))
    assert key_of(orders.join(people, on=orders.buyer == people.name, how=how).node) == key
    mirrored = {"left": "right", "right": "left"}.get(how, how)
    turned = key_of(people.join(orders, on=orders.buyer == people.name, how=mirrored).node)
    assert set(turned) == {"id"} if len(key) == 1 else {"id", "name"}


def test_a_full_join_in_which_two_rows_would_have_one_key_is_refused() -> None:
    app = hw.App("shop")
    usage, limits = (
        app.table("usage", "id long, used long", key="id"),
        app.table("limits", "id long, most long", key="id"),
    )
    on = (usage.id == limits.id) & (usage.used <= limits.most)
    with pytest.raises(InvalidDeclaration, match="where used <= most does not hold it would have two rows for one id"):
        usage.join(limits, on=on, how="full")
    for how in ("inner", "left", "right"):
        assert key_of(usage.join(limits, on=on, how=how).node) == ("id",)
    assert key_of(usage.join(limits, on="id", how="full").node) == ("id",)
    orders, people = tables(app)
    both = orders.join(people, on=(orders.buyer == people.name) & (orders.id < people.name), how="full")
    assert key_of(both.node) == ("id", "buyer")


def test_a_comparison_may_be_written_either_way_round_and_with_an_earlier_handle() -> None:
    orders, people = tables(hw.App("shop"))
    paid = orders.where("id > 3")
    node = paid.join(people, on=(people.name == orders.buyer) & (people["name"] > orders.id)).node
    assert isinstance(node, TableJoin)
    assert node.on == (("buyer", "name"),)
    assert node.further == (("id", "<", "name"),)


def test_conditions_are_connected_by_an_ampersand() -> None:
    orders, people = tables(hw.App("shop"))
    with pytest.raises(InvalidDeclaration, match="connected by &"):
        orders.join(people, on=orders.buyer == people.name and orders.id == people.name)
    with pytest.raises(InvalidDeclaration, match="use where"):
        orders.join(people, on=orders.buyer == "ann")


def test_a_plan_says_what_is_joined_how() -> None:
    app = hw.App("shop")
    left, right = (app.stream(topic, EVENTS, time="at", lateness="1m") for topic in ("left", "right"))
    table = app.table("right", EVENTS, key="k", versions="30 days", name="rates")
    near = left.join(right, on="k", between=("-5 minutes", "1 hour"), prefix="r_", how="full", corrections="2 hours")
    app.topic("near")(lambda: near)
    app.topic("held")(lambda: left.join(table, on="k", as_of="at", prefix="r_"))
    app.topic("now")(lambda: left.join(table, on="k", wait="10 minutes", prefix="r_"))
    text = as_text(outline(app, plan(app)))
    assert "full join on k, from -5 minutes to 1 hour behind, corrections for 2 hours" in text
    assert "inner join on k, as of the time of the left, versions of 30 days" in text
    assert "inner join on k, as it is, waiting up to 10 minutes" in text
    assert "reads versions of table rates.versions" in text


def test_the_versions_of_a_table_are_one_source_however_many_joins_ask_for_them() -> None:
    app = hw.App("shop")
    left = app.stream("left", EVENTS, time="at")
    table = app.table("right", EVENTS, key="k", versions="30 days", name="rates")
    app.topic("held")(lambda: left.join(table, on="k", as_of="at", prefix="r_"))
    app.topic("chosen")(lambda: left.join(table.select("k", "id as rate"), on="k", as_of="at"))
    (job,) = plan(app)
    assert [source.name for source in job.sources] == ["left", "rates.versions"]


def test_what_judges_rows_by_time_may_stand_behind_a_join_that_holds_them_back() -> None:
    app = hw.App("shop")
    left, right = (app.stream(topic, EVENTS, time="at") for topic in ("left", "right"))
    joined = left.join(right, on="k", within="1 hour", how="left", prefix="r_")
    assert isinstance(joined, Stream)
    counts = joined.dedupe("id", within="1 minute").window(hw.tumbling("1 minute")).by("k").agg("count(*) as n")
    assert counts.node.keyed
    with pytest.raises(InvalidDeclaration, match="counts rows after join"):
        joined.window(hw.count_window(3))


def test_a_table_is_waited_for_a_second_and_as_long_as_it_says() -> None:
    app = hw.App("shop")
    left = app.stream("left", EVENTS, time="at")
    said: Any
    for name, said, seconds in (("a", {}, 1), ("b", {"idle": "10 seconds"}, 10), ("c", {"idle": None}, None)):
        table = app.table("right", EVENTS, key="k", versions="30 days", name=name, **said)
        joined = left.join(table, on="k", as_of="at", prefix="r_").node
        assert isinstance(joined, AsOfJoin)
        assert joined.versions.idle_us == (None if seconds is None else seconds * 1_000_000)
