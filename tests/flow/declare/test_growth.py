"""Which state grows for ever, as headwater plan says."""

from functools import partial

import headwater as hw
from headwater.flow.declare.app import App
from headwater.flow.declare.pictures.outline import outline
from headwater.flow.declare.topology.graph import plan


def app() -> App:
    app = hw.App("shop")
    orders = app.stream("orders", "id long, customer long, amount long, at timestamp", time="at")
    customers = app.table("customers", "id long, country string", key="id")
    newest = orders.latest("customer")
    app.view(key="country", name="countries")(lambda: customers.by("country").agg("count(*) as n", name="by_country"))
    app.view(key="customer", name="spent")(lambda: orders.by("customer").agg("sum(amount) as spent", name="spending"))
    app.view(key="customer", name="newest")(lambda: newest)
    app.view(key="customer", name="located")(
        lambda: newest.join(customers, on=newest.customer == customers.id, name="with_country")
    )
    app.view(key="window", name="hours")(
        lambda: orders.window(hw.tumbling("1 hour")).agg("count(*) as n", emit="final", name="hours")
    )
    app.view(key="id", name="once")(lambda: orders.dedupe("id", within="1 hour", name="first").latest("id"))
    app.sql(
        "create materialized view countries_spent as select c.country, sum(o.amount) as spent "
        "from orders as o join customers as c on c.id = o.customer group by c.country"
    )
    return app


def growing(app: App) -> dict[str, str]:
    return {one.state: one.grows for job in outline(app, plan(app)).jobs for one in job.steps if one.grows}


def test_state_of_streams_by_key_grows_and_that_of_tables_and_windows_does_not() -> None:
    found = growing(app())
    assert found.pop("spending") == "a row for each customer that ever comes"
    assert found.pop("with_country") == "with what it is made of"
    assert not {"by_country", "hours", "first"} & set(found)


def test_a_stream_that_a_query_joins_as_a_table_is_kept_record_by_record() -> None:
    assert "a row for each record" in growing(app()).values()


def test_a_pattern_grows_if_nothing_ends_its_matches_or_they_are_numbered() -> None:
    app = hw.App("bank")
    payments = app.stream("payments", "card string, amount long, at timestamp", time="at")
    define = {"b": "amount > prev(amount)", "a": "amount > 1"}
    matches = partial(payments.match, by="card", pattern="a b+", define=define)
    app.topic("bounded")(lambda: matches(within="1 hour", name="bounded"))
    app.topic("open")(lambda: matches(name="open"))
    numbers = {"n": "match_number()"}
    app.topic("numbered")(lambda: matches(measures=numbers, max_rows=9, name="numbered"))
    assert growing(app) == {
        "open": "rows of matches that nothing ends (say within= or max_rows=)",
        "numbered": "a row for each card that ever comes",
    }
    said = {one.state: one.words for job in outline(app, plan(app)).jobs for one in job.steps}
    assert said["bounded"] == "by card: a b+, within 1 hour; a in whole columns; b looks back"
