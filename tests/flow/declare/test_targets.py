"""Two outputs never write to one place."""

import pytest

import headwater as hw
from headwater.errors import InvalidDeclaration
from headwater.flow.declare.sinks import SinkDeclaration
from headwater.flow.declare.topology.graph import plan

PLACES = {
    "entries": [hw.sinks.Redis("redis://:s3cret@cache/0", prefix="order:")] * 2,
    "a folder": [hw.sinks.Parquet("lake/orders"), hw.sinks.Parquet("file://lake/./orders/")],
    "a folder elsewhere": [hw.sinks.Parquet("s3://key:s3cret@lake/orders")] * 2,
    "a table of SQLite": [hw.sinks.Database("sqlite:///a.db", "Orders"), hw.sinks.Database("sqlite:///a.db", "orders")],
    "a table of PostgreSQL": [
        hw.sinks.Database("postgresql://ada:s3cret@db/a", "orders"),
        hw.sinks.Database("postgresql://ada:s3cret@db/a", "public.orders"),
    ],
}


def shop(*sinks: SinkDeclaration) -> hw.App:
    app = hw.App("shop")
    orders = app.stream("orders", "id long, title string")
    for number, sink in enumerate(sinks):
        app.sink(sink, key="id", name=f"copy{number}")(lambda: orders.latest("id"))
    return app


@pytest.mark.parametrize("sinks", PLACES.values(), ids=PLACES.keys())
def test_two_outputs_to_one_place_are_refused_with_both_places(sinks: list[SinkDeclaration]) -> None:
    with pytest.raises(InvalidDeclaration, match=r"sink copy1 \(.*\) writes to .*, and so does sink copy0") as refused:
        plan(shop(*sinks))
    assert "s3cret" not in str(refused.value)


def test_a_view_and_a_table_of_one_name_in_one_database_are_refused() -> None:
    app = shop(hw.sinks.Database("postgresql://db/a", "shop.newest"))
    orders = app.stream("orders", "id long, title string")
    app.view(key="id", store="postgresql://db/a", name="newest")(lambda: orders.latest("id"))
    with pytest.raises(InvalidDeclaration, match=r"view newest \(.*\) writes to table shop\.newest"):
        plan(app)


def test_places_that_differ_in_anything_are_each_its_own() -> None:
    several: list[SinkDeclaration] = [
        hw.sinks.Redis("redis://cache/0", prefix="order:"),
        hw.sinks.Redis("redis://cache/1", prefix="order:"),
        hw.sinks.Parquet("lake/orders"),
        hw.sinks.Parquet("s3://lake/orders"),
        hw.sinks.Database("postgresql://db/a", "orders"),
        hw.sinks.Database("postgresql://db/a", "reports.orders"),
        hw.sinks.Database("sqlite:///a.db", "orders"),
        hw.sinks.Console(),
        hw.sinks.Console(),
    ]
    [job] = plan(shop(*several))
    assert len(job.outputs) == len(several)
