"""What is found out about an app as a whole, before Spark is there: bodies with SQL text do not touch it."""

import re
from collections.abc import Callable

import pytest

import headwater as hw
from headwater.errors import InvalidDeclaration
from headwater.flow.declare.app import App
from headwater.flow.declare.sinks import SinkDeclaration
from headwater.flow.declare.stream import Stream
from headwater.flow.declare.topology.graph import JOB_NAME_MAX, job_name, plan

HERE = r"test_graph\.py:\d+"
SCHEMA = "id string, amount long"


def shop() -> tuple[App, Stream]:
    app = hw.App("shop")
    return app, app.stream("orders", SCHEMA)


class DataFrame:
    """Stands for what a body should not return."""


def raises() -> Stream:
    raise ZeroDivisionError("division by zero")


@pytest.mark.parametrize(
    "body, sentence",
    [
        (
            lambda orders: orders,
            rf"view v \({HERE}\) returns a stream, which has no key\. Say which row counts: \.latest\('id'\), or .*",
        ),
        (
            lambda orders: DataFrame(),
            rf"view v \({HERE}\) returns DataFrame\. Its body must return a stream or a table .*",
        ),
        (lambda orders: None, rf"view v \({HERE}\) returns NoneType\. Its body must return a stream or a table .*"),
        (lambda orders: raises(), rf"view v \({HERE}\): division by zero"),
        (lambda orders: orders.latest(), rf"latest\(\) at {HERE} needs names of columns\. .*"),
        (
            lambda orders: orders.latest("id", name="../state"),
            rf"'\.\./state' \({HERE}\) cannot name an operator\. Use .*",
        ),
    ],
)
def test_a_body_that_cannot_be_used_is_one_sentence_with_its_place(
    body: Callable[[Stream], object], sentence: str
) -> None:
    app, orders = shop()
    app.view(key="id", name="v")(lambda: body(orders))  # type: ignore[type-var]
    with pytest.raises(InvalidDeclaration) as caught:
        plan(app)
    assert re.fullmatch(sentence, str(caught.value)), str(caught.value)


@pytest.mark.parametrize("sink", [hw.sinks.Redis("redis://cache/0", "o:"), hw.sinks.Database("sqlite:///a.db", "o")])
def test_a_sink_with_one_row_for_each_key_wants_to_know_which_row_of_a_stream_counts(sink: SinkDeclaration) -> None:
    app, orders = shop()
    app.sink(sink, key="id", name="copy")(lambda: orders)
    with pytest.raises(InvalidDeclaration, match=r"sink copy .* returns a stream.* \.latest\('id'\)"):
        plan(app)


def test_rows_of_a_stream_are_appended_to_a_table_without_a_key() -> None:
    app, orders = shop()
    app.sink(hw.sinks.Database("sqlite:///a.db", "orders"), name="copy")(lambda: orders)
    assert [one.name for one in plan(app)[0].outputs] == ["copy"]


def test_what_a_body_raises_is_explained_by_whoever_plans() -> None:
    app, _ = shop()
    app.view(key="id", name="v")(raises)
    with pytest.raises(InvalidDeclaration, match=rf"view v \({HERE}\): explained ZeroDivisionError") as caught:
        plan(app, lambda error: f"explained {type(error).__name__}")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_an_app_without_outputs_is_refused() -> None:
    app, _ = shop()
    with pytest.raises(
        InvalidDeclaration, match=rf"app shop \({HERE}\) has nothing to keep up to date\. Declare a view"
    ):
        plan(app)


def test_a_topic_that_is_made_from_itself_is_refused() -> None:
    app, orders = shop()
    app.topic("orders")(lambda: orders)
    with pytest.raises(InvalidDeclaration, match=rf"topic orders \({HERE}\) is made from itself: orders → orders"):
        plan(app)


def test_a_cycle_through_topics_is_refused_with_the_way_round() -> None:
    app, orders = shop()
    priced = app.stream("priced", SCHEMA)
    checked = app.stream("checked", SCHEMA)
    app.topic("priced")(lambda: orders.union(checked))
    app.topic("checked")(lambda: priced.where("amount > 0"))
    with pytest.raises(
        InvalidDeclaration, match=rf"topic priced \({HERE}\) is made from itself: priced → checked → priced\. Write to"
    ):
        plan(app)


def test_a_chain_of_topics_is_no_cycle() -> None:
    app, orders = shop()
    priced = app.stream("priced", SCHEMA)
    app.topic("priced")(lambda: orders)
    app.topic("checked")(lambda: priced)
    assert [job.name for job in plan(app)] == ["orders", "priced"]


@pytest.mark.parametrize("topic", ["shop.accounts", "shop.orders.poisoned"])
def test_topics_in_which_jobs_report_cannot_be_outputs(topic: str) -> None:
    app, orders = shop()
    app.topic(topic)(lambda: orders)
    with pytest.raises(
        InvalidDeclaration, match=rf"topic {topic} \({HERE}\) is the topic in which the app's jobs report"
    ):
        plan(app)


def test_two_operators_of_one_name_are_refused_with_both_places() -> None:
    app, orders = shop()
    app.view(key="id", name="a")(lambda: orders.latest("id", name="newest"))
    app.view(key="id", name="b")(lambda: orders.where("amount > 1").latest("id", name="newest"))
    with pytest.raises(
        InvalidDeclaration, match=rf"two operators are named newest: at {HERE} and at {HERE}\. Give one"
    ):
        plan(app)


def test_a_topic_that_is_read_in_two_ways_is_one_topic_of_the_job() -> None:
    app, orders = shop()
    again = app.stream("orders", SCHEMA, name="again")
    app.topic("all")(lambda: orders.union(again))
    (job,) = plan(app)
    assert (job.name, job.topics) == ("orders", ["orders"])
    assert [source.name for source in job.sources] == ["again", "orders"]


def test_outputs_that_read_the_same_topics_share_a_job() -> None:
    app, orders = shop()
    users = app.table("users", "id string", key="id")
    app.view(key="id", name="newest")(lambda: orders.latest("id"))
    app.topic("user-changes")(users.changes)
    app.topic("big")(lambda: orders.where("amount > 100"))
    assert {job.name: [one.name for one in job.outputs] for job in plan(app)} == {
        "orders": ["newest", "big"],
        "users": ["user-changes"],
    }


def test_a_job_is_the_same_whatever_the_order_in_which_it_is_written() -> None:
    def sources(*, swapped: bool) -> tuple[str, list[str]]:
        app = hw.App("shop")
        a, b = app.stream("a", SCHEMA), app.stream("b", SCHEMA)
        app.topic("both")(lambda: b.union(a) if swapped else a.union(b))
        (job,) = plan(app)
        return job.name, [source.name for source in job.sources]

    assert sources(swapped=False) == sources(swapped=True) == ("a+b", ["a", "b"])


def test_operators_are_named_by_the_user_or_after_the_output_that_needs_them_first() -> None:
    app, orders = shop()
    counted = orders.by("id").count(name="per-id")
    app.view(key="id", name="counts")(lambda: counted)
    app.view(key="id", name="unique")(lambda: orders.dedupe("id", within="1h").by("id").count())
    (job,) = plan(app)
    assert sorted(job.operators.values()) == ["per-id", "unique", "unique.1"]


def test_an_operator_that_two_outputs_share_is_one() -> None:
    app, orders = shop()
    newest = orders.latest("id")
    app.view(key="id", name="newest")(lambda: newest)
    app.topic("newest-changes")(newest.changes)
    (job,) = plan(app)
    assert list(job.operators.values()) == ["newest"]


def test_the_name_of_a_job_is_never_too_long_for_a_folder_and_still_its_own() -> None:
    many, others = (tuple(f"topic-{number}-{end}" for number in range(50)) for end in "ab")
    assert len(job_name(many)) <= JOB_NAME_MAX
    assert job_name(many) != job_name(others)
