"""What an app refuses while it is being declared: each mistake is one sentence with the line it is on."""

import re
from collections.abc import Callable

import pytest

import headwater as hw
from headwater.errors import InvalidDeclaration
from headwater.flow.declare.app import App
from headwater.flow.declare.stream import Table
from headwater.flow.declare.topology.nodes import key_of

HERE = r"test_app\.py:\d+"
ORDERS = "id string, user_id long, amount decimal(12,2), at timestamp"


def refusal(declare: Callable[[App], object]) -> str:
    with pytest.raises(InvalidDeclaration) as caught:
        declare(hw.App("shop"))
    return str(caught.value)


@pytest.mark.parametrize(
    "declare, sentence",
    [
        (
            lambda app: app.stream("orders", "id strng"),
            rf"the schema of orders \({HERE}\): \"strng\" at character 4 is not a type\. Did you mean string\?",
        ),
        (
            lambda app: app.stream("orders", "id string, _offset long"),
            rf"the schema of orders \({HERE}\): .*_offset.*",
        ),
        (
            lambda app: app.stream("orders", ORDERS, time="att"),
            rf"the time of stream orders \({HERE}\) is att, which is not in its schema\. Did you mean at\?",
        ),
        (
            lambda app: app.stream("orders", ORDERS, time="id"),
            rf"the time of stream orders \({HERE}\) is column id, which is no timestamp\. Declare it as .*",
        ),
        (
            lambda app: app.stream("orders", ORDERS, time="at", lateness="soon"),
            rf"'soon' \({HERE}\) is not a duration\. Write for example .*",
        ),
        (
            lambda app: app.stream("orders", ORDERS, format="jsn"),
            rf"orders \({HERE}\) is of format jsn, which there is not\. Did you mean json\?",
        ),
        (
            lambda app: app.stream("or/ders", ORDERS),
            rf"'or/ders' \({HERE}\) cannot name a topic\. Use .*",
        ),
        (
            lambda app: app.stream("orders", ORDERS, name="../orders"),
            rf"'\.\./orders' \({HERE}\) cannot name a stream or table\. Use .*",
        ),
        (
            lambda app: app.table("users", "id long, name string", key="idd"),
            rf"the key of table users \({HERE}\) is idd, which is not in its schema\. Did you mean id\?",
        ),
        (
            lambda app: app.table("users", "id long, name string", key=["id", "country"]),
            rf"the key of table users \({HERE}\) is country, which is not in its schema\. There are: id, name\.",
        ),
        (
            lambda app: app.sql("select * from orders"),
            rf"sql at {HERE}: there is no stream, table or view orders \(line 1, column 15 of it\)\. "
            r"Declare one first\.",
        ),
        (
            lambda app: app.topic("big orders"),
            rf"'big orders' \({HERE}\) cannot name a topic\. Use .*",
        ),
        (
            lambda app: app.topic("big-orders", partitions=0),
            rf"topic big-orders \({HERE}\) cannot have 0 partitions\. .*",
        ),
        (
            lambda app: app.view(key="id", name="big-orders")(lambda: app.stream("orders", ORDERS)),
            rf"'big-orders' \({HERE}\) cannot name a view\. Use .*",
        ),
        (
            lambda app: app.sink(hw.sinks.Console(), name="../out")(lambda: app.stream("orders", ORDERS)),
            rf"'\.\./out' \({HERE}\) cannot name a sink\. Use .*",
        ),
        (
            lambda app: hw.App("my shop"),
            rf"'my shop' \({HERE}\) cannot name an app\. Use .*",
        ),
    ],
)
def test_a_mistake_is_one_sentence_with_its_place(declare: Callable[[App], object], sentence: str) -> None:
    said = refusal(declare)
    assert re.fullmatch(sentence, said), said
    assert "\n" not in said


def test_a_name_that_is_declared_twice_is_refused_with_both_places() -> None:
    app = hw.App("shop")
    app.stream("orders", ORDERS)
    with pytest.raises(
        InvalidDeclaration, match=rf"orders is declared at {HERE} and again at {HERE}\. Give one another"
    ):
        app.table("orders", ORDERS, key="id")


def test_the_same_declaration_again_is_the_same_stream() -> None:
    app = hw.App("shop")
    assert app.stream("orders", ORDERS).node is app.stream("orders", ORDERS).node
    with pytest.raises(InvalidDeclaration, match="Give one another name"):
        app.stream("orders", "id string")


def test_a_topic_may_be_declared_again_under_another_name() -> None:
    app = hw.App("shop")
    app.stream("orders", ORDERS)
    app.stream("orders", ORDERS, name="orders-again")
    assert list(app.sources) == ["orders", "orders-again"]


def test_a_topic_with_two_writers_is_refused_with_both_places() -> None:
    app = hw.App("shop")
    orders = app.stream("orders", ORDERS)
    app.topic("big")(lambda: orders)
    with pytest.raises(
        InvalidDeclaration, match=rf"topic big is written at {HERE} and again at {HERE}\. One output has"
    ):
        app.topic("big")(lambda: orders)


def test_views_whose_names_differ_only_in_capital_letters_are_refused() -> None:
    app = hw.App("shop")
    orders = app.stream("orders", ORDERS)
    app.view(key="id", name="orders_now")(lambda: orders.latest("id"))
    with pytest.raises(InvalidDeclaration, match=rf"view Orders_Now is declared at {HERE} and again at {HERE}"):
        app.view(key="id", name="Orders_Now")(lambda: orders.latest("id"))


def test_topics_whose_names_differ_only_in_capital_letters_are_two() -> None:
    app = hw.App("shop")
    orders = app.stream("orders", ORDERS)
    app.topic("big")(lambda: orders)
    app.topic("Big")(lambda: orders)
    assert list(app.outputs) == ["big", "Big"]


def test_sql_over_a_table_is_a_table_with_its_key() -> None:
    app = hw.App("shop")
    app.table("users", "id long, name string", key="id")
    named = app.sql("select id as user, upper(name) as name from users")
    assert named.node.keyed
    assert key_of(named.node) == ("user",)


def test_sql_finds_the_streams_it_names() -> None:
    app = hw.App("shop")
    app.stream("orders", ORDERS)
    app.stream("orders2", ORDERS)
    node = app.sql("select id from orders2").node
    assert [one.name for one in node.inputs] == ["orders2"]  # type: ignore[attr-defined]


def test_a_stream_without_a_schema_is_raw_and_one_with_a_schema_is_json() -> None:
    app = hw.App("shop")
    app.stream("blobs")
    app.stream("orders", ORDERS)
    assert [source.format for source in app.sources.values()] == ["raw", "json"]


def test_an_output_remembers_its_place_its_key_and_the_first_line_of_its_doc() -> None:
    app = hw.App("shop", store="postgresql://db/shop")
    orders = app.stream("orders", ORDERS)

    @app.view(key="id")
    def latest_orders() -> Table:
        """The newest of each order.

        With more to say below.
        """
        return orders.latest("id")

    output = app.outputs["latest_orders"]
    assert (output.kind, output.key, output.store) == ("view", ("id",), "postgresql://db/shop")
    assert output.doc == "The newest of each order."
    assert re.fullmatch(rf"view latest_orders \({HERE}\)", str(output))


def views_of(app: App) -> dict[str, str]:
    return {name: one.store for name, one in app.outputs.items() if one.kind == "view"}


def test_views_that_name_no_store_are_kept_where_a_run_says() -> None:
    app = hw.App("shop", store="postgresql://db/old")
    orders = app.stream("orders", ORDERS)
    app.view(key="id", name="here", search="id")(lambda: orders.latest("id"))
    app.view(key="id", name="there", store="postgresql://db/own")(lambda: orders.latest("id"))
    app.alert("large", on="here", when="amount > 9", notify=[hw.notify.topic("warnings")])
    app.keep_views_in("postgresql://db/new")
    new, own = "postgresql://db/new", "postgresql://db/own"
    assert views_of(app) == {"here": new, "there": own, "large": new}
    assert (app.store, app.alerts["large"].store) == (new, new)
    assert app.outputs["here.search"].sink.store == new  # type: ignore[union-attr]
