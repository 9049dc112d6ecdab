import json
from collections import Counter
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.cli.arguments import moment_ms
from headwater.demo.customers import BROKEN_PER_THOUSAND, TOPICS, WARM_ROOM, Customers, Event

MINUTES = 10
START_MS = 1_790_000_000_000


@pytest.fixture(scope="module")
def events() -> list[Event]:
    return list(Customers(Random(7), START_MS).until(START_MS + MINUTES * 60_000))


def rows_of(events: list[Event], topic: str) -> list[dict[str, Any]]:
    return [row for event in events if event.topic == topic and (row := decoded(event)) is not None]


def decoded(event: Event) -> dict[str, Any] | None:
    try:
        row: dict[str, Any] = json.loads(event.value)
    except ValueError:
        return None
    return row


@given(st.lists(st.integers(0, 30_000), max_size=20))
@settings(max_examples=40)
def test_it_does_not_matter_how_often_it_is_called(moments: list[int]) -> None:
    often, once = Customers(Random(3), 0), Customers(Random(3), 0)
    arrived = [event for moment in [*sorted(moments), 30_000] for event in often.until(moment)]
    assert arrived == list(once.until(30_000))
    assert arrived == sorted(arrived)


def test_the_same_seed_gives_the_same_day(events: list[Event]) -> None:
    again = list(Customers(Random(7), START_MS).until(START_MS + MINUTES * 60_000))
    assert again == events
    assert Counter(event.topic for event in events).keys() == TOPICS.keys()


def test_nothing_is_followed_by_what_it_caused_before_it_happened(events: list[Event]) -> None:
    searched = {row["id"]: row["at"] for row in rows_of(events, "searches")}
    clicked = [row for row in rows_of(events, "clicks") if row["search_id"] in searched]
    ordered = {row["id"]: row["at"] for row in rows_of(events, "orders")}
    paid = [row for row in rows_of(events, "payments") if row["order_id"] in ordered]
    assert clicked
    assert paid
    assert all(searched[row["search_id"]] < row["at"] for row in clicked)
    assert all(ordered[row["order_id"]] < row["at"] for row in paid)
    assert len(paid) < len(ordered), "some never pay"


def test_what_is_clicked_was_shown(events: list[Event]) -> None:
    shown = {row["id"]: row["results"] for row in rows_of(events, "searches")}
    clicks = [row for row in rows_of(events, "clicks") if row["search_id"] in shown]
    assert [row for row in clicks if row["url"] not in shown[row["search_id"]]] == []


def test_most_arrives_at_once_and_some_long_after_the_rest(events: list[Event]) -> None:
    ways = sorted(
        event.arrives_ms - moment_ms(row["at"])
        for event in events
        if event.topic == "clicks" and (row := decoded(event))
    )
    assert ways[len(ways) // 2] < 500
    assert 0.005 < sum(way > 9_000 for way in ways) / len(ways) < 0.03
    assert min(ways) > 0
    happened = [row["at"] for row in rows_of(events, "clicks")]
    assert any(later < earlier for earlier, later in pairwise(happened))


def test_a_little_of_it_is_broken(events: list[Event]) -> None:
    broken = sum(decoded(event) is None for event in events)
    assert 0 < 1000 * broken / len(events) < 3 * BROKEN_PER_THOUSAND


def test_one_room_is_warm_while_its_door_is_open_and_the_others_never(events: list[Event]) -> None:
    readings = rows_of(events, "readings")
    warm = {row["sensor"] for row in readings if row["celsius"] > 6}
    assert warm == {WARM_ROOM}
    share = sum(row["celsius"] > 6 for row in readings if row["sensor"] == WARM_ROOM) / (len(readings) / 4)
    assert 0.2 < share < 0.4
