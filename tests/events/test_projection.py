"""A projection is a flow over the events, and a read of it may ask for what a command did."""

from dataclasses import dataclass
from decimal import Decimal

import pytest

import headwater as hw
import headwater.events as ev
from headwater.errors import UsageError
from headwater.events.projection import schema_of
from headwater.testing import running_app
from tests.events.theatre import Seat


def test_a_view_of_seats_follows_their_events() -> None:
    app = hw.App("theatre")
    with running_app(app) as tester:
        store = ev.EventStore.on(tester.node.log)
        latest = store.stream(app, Seat).latest("event_key").select("event_key", "event_type", "user")
        app.view(name="seats", key="event_key")(lambda: latest)
        store.handle(Seat, "12A", "reserve", user="ada")
        store.handle(Seat, "12B", "reserve", user="bob")
        store.handle(Seat, "12B", "set_price", amount=Decimal("1.50"))
        tester.run()
        rows = {row["event_key"]: (row["event_type"], row["user"]) for row in tester.view("seats").rows()}
        assert rows == {"12A": ("Reserved", "ada"), "12B": ("Priced", None)}


def test_the_schema_has_the_fields_of_all_events() -> None:
    assert schema_of(Seat._definition) == (
        "`event_of` string, `event_key` string, `event_type` string, `user` string, `amount` decimal(38,9), `of` string"
    )


@dataclass
class Text:
    value: str


@dataclass
class Number:
    value: int


class Odd(ev.Aggregate):
    @ev.apply
    def _(self, event: Text) -> None: ...

    @ev.apply
    def _(self, event: Number) -> None: ...


def test_events_that_disagree_about_a_field_are_no_stream() -> None:
    with pytest.raises(UsageError, match="field value of the types"):
        schema_of(Odd._definition)
