"""Which joins are chains, that one task can do."""

from collections.abc import Callable
from typing import Any

import headwater as hw
from headwater.flow.declare.chains import chains_of
from headwater.flow.declare.graph import plan
from headwater.flow.declare.outline import outline
from headwater.flow.declare.picture import as_text

Made = Callable[["Inputs"], Any]


class Inputs:
    """Streams and tables that all have a session."""

    def __init__(self) -> None:
        self.app = hw.App("web")
        event = "session string, {} long, at timestamp"
        self.searches, self.clicks, self.orders = (
            self.app.stream(name, event.format(name), time="at") for name in ("searches", "clicks", "orders")
        )
        row = "session string, {} long, other string, valid timestamp"
        self.users, self.places, self.rates = (
            self.app.table(name, row.format(name), key="session", versions=kept)
            for name, kept in (("users", "1 hour"), ("places", "1 hour"), ("rates", "1 minute"))
        )

    def near(self, **said: Any) -> Any:
        words = {"on": "session", "within": "1 hour", "name": "near"} | said
        return self.searches.join(self.clicks, prefix="c_", **words)


def names_of(*made: Made) -> list[list[str]]:
    inputs = Inputs()
    for place, one in enumerate(made):
        inputs.app.topic(f"out{place}")(lambda one=one: one(inputs))
    jobs = plan(inputs.app)
    return [
        [job.operators[link] for link in chain]
        for job in jobs
        for chain in chains_of(planned.node for planned in job.outputs)
    ]


def again(first: Any, inputs: Inputs, **said: Any) -> Any:
    return first.join(inputs.orders, **{"on": "session", "within": "1 hour", "prefix": "o_", "name": "again"} | said)


def test_joins_one_behind_the_other_on_the_same_columns_are_a_chain() -> None:
    assert names_of(lambda one: again(one.near(), one)) == [["near", "again"]]
    assert names_of(lambda one: again(one.near(), one).join(one.users, on="session", prefix="u_", name="last")) == [
        ["near", "again", "last"]
    ]


def test_tables_are_a_chain_in_the_same_way() -> None:
    def three(one: Inputs) -> Any:
        both = one.users.join(one.places, on="session", prefix="p_", name="both")
        return both.join(one.rates, on="session", prefix="r_", name="all", how="full")

    assert names_of(three) == [["both", "all"]]


def test_what_is_joined_on_something_else_is_none() -> None:
    def other(one: Inputs) -> Any:
        near = one.near()
        return again(near, one, on=near.searches == one.orders.orders)

    def more(one: Inputs) -> Any:
        near = one.near()
        return again(near, one, on=(near.session == one.orders.session) & (near.searches == one.orders.orders))

    assert names_of(other) == []
    assert names_of(more) == []


def test_what_has_another_step_in_between_is_none() -> None:
    assert names_of(lambda one: again(one.near().where("searches > 1"), one)) == []
    assert names_of(lambda one: again(one.near().select("session", "searches * 2 as searches"), one)) == []


def test_columns_may_be_chosen_in_between_unless_rows_without_a_partner_need_them() -> None:
    def with_chosen(one: Inputs, how: str) -> Any:
        first = one.searches.join(one.users, on="session", prefix="u_", how=how, name="near")
        return first.select("session", "searches").join(one.places, on="session", prefix="p_", name="last")

    assert names_of(lambda one: again(one.near().select("session", "searches"), one)) == [["near", "again"]]
    assert names_of(lambda one: with_chosen(one, "left")) == [["near", "last"]]
    assert names_of(lambda one: with_chosen(one, "inner")) == []


def test_what_somebody_else_wants_too_is_none() -> None:
    shared: dict[Inputs, Any] = {}

    def near(one: Inputs) -> Any:
        return shared.setdefault(one, one.near())

    assert names_of(lambda one: again(near(one), one), lambda one: again(near(one), one, name="third")) == []


def test_rows_that_might_be_too_late_for_the_second_are_given_to_it_by_spark() -> None:
    """Events meet a table as it is however old they are; joins in time behind it have to tell those apart."""

    def latest(one: Inputs) -> Any:
        return one.searches.join(one.users, on="session", prefix="u_", name="near")

    assert names_of(lambda one: again(latest(one), one)) == []
    assert names_of(lambda one: latest(one).join(one.places, on="session", prefix="p_", name="last")) == [
        ["near", "last"]
    ]


def test_versions_that_are_kept_for_less_time_are_none() -> None:
    def priced(first: str, second: str) -> list[list[str]]:
        def made(one: Inputs) -> Any:
            held: Any = one.searches.join(getattr(one, first), on="session", as_of="at", prefix="f_", name="first")
            return held.join(getattr(one, second), on="session", as_of="at", prefix="s_", name="second")

        return names_of(made)

    assert priced("users", "places") == [["first", "second"]]
    assert priced("rates", "places") == [["first", "second"]]
    assert priced("users", "rates") == []


def test_what_can_be_taken_back_is_none() -> None:
    assert names_of(lambda one: again(one.near(), one, corrections="1 minute")) == []


def test_the_plan_says_which_joins_share_a_shuffle() -> None:
    inputs = Inputs()
    inputs.app.topic("out")(lambda: again(inputs.near(), inputs))
    said = as_text(outline(inputs.app, plan(inputs.app)))
    assert said.count("in one shuffle with") == 1
    assert "to 1 hour behind, in one shuffle with near  [state again]" in said
