"""Commands, events and state over a storage of events."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

import headwater.events as ev
from headwater.clock import ManualClock
from headwater.errors import ConflictError, UsageError
from headwater.log.log import Log
from headwater.log.storage import MemoryStorage
from tests.events.theatre import Priced, Released, Reserve, Reserved, Seat


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> Iterator[ev.EventStore]:
    log = Log.open("data", storage=MemoryStorage(), clock=clock)
    with ev.EventStore.on(log, closing=log.close) as store:
        yield store


def test_the_example(tmp_path: Path) -> None:
    with ev.open(tmp_path / "data") as store:
        done = store.handle(Seat, "12A", "reserve", user="ada", id="request-77")
        assert (done.version, done.position, [one.type for one in done.events]) == (1, "events/0@0", ["Reserved"])
        assert store.load(Seat, "12A").holder == "ada"
        with pytest.raises(ev.Rejected, match="taken by ada"):
            store.handle(Seat, "12A", "reserve", user="bob")
    with ev.open(tmp_path / "data") as store:
        assert store.load(Seat, "12A").holder == "ada"


def test_a_command_that_is_sent_again_does_nothing_more(store: ev.EventStore) -> None:
    first = store.handle(Seat, "1", "reserve", user="ada", id="r")
    again = store.handle(Seat, "1", "reserve", user="ada", id="r")
    assert (again.events, again.repeated, first.repeated) == (first.events, True, False)


def test_what_would_be_rejected_by_what_it_did_is_a_repetition(
    store: ev.EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is sent twice at the same time: the second looks for the first, finds nothing, and then loads its event."""
    first = store.handle(Seat, "1", "reserve", user="ada", id="r")
    find, asked = store.events.find_request, 0

    def find_late(stream: str, request: str) -> ev.Stored | None:
        nonlocal asked
        asked += 1
        return find(stream, request) if asked > 1 else None

    monkeypatch.setattr(store.events, "find_request", find_late)
    assert store.handle(Seat, "1", "reserve", user="ada", id="r").events == first.events


def test_a_command_may_be_an_object(store: ev.EventStore) -> None:
    store.handle(Seat, "1", Reserve(user="ada"))
    assert store.load(Seat, "1").holder == "ada"


def test_several_events_are_stored_together_and_none_is_none(store: ev.EventStore) -> None:
    assert store.handle(Seat, "1", "release") == ev.Done(0)
    store.handle(Seat, "1", "reserve", user="ada")
    done = store.handle(Seat, "1", "change_hands", user="bob")
    assert [one.type for one in done.events] == ["Released", "Reserved"]
    assert (store.load(Seat, "1").holder, store.load(Seat, "1").earlier) == ("bob", ["ada"])
    assert store.load(Seat, "2").earlier == [], "a list of one aggregate is not that of another"


def test_a_pydantic_event_and_a_decimal_come_back(store: ev.EventStore) -> None:
    store.handle(Seat, "1", "set_price", amount=Decimal("12.50"))
    assert store.load(Seat, "1").price == Decimal("12.50")


@pytest.mark.parametrize("command", ["dance", Priced(amount=Decimal(1))])
def test_an_unknown_command_is_named(store: ev.EventStore, command: object) -> None:
    with pytest.raises(UsageError, match="Seat has no command"):
        store.handle(Seat, "1", command)


def test_who_and_why_is_kept(store: ev.EventStore) -> None:
    origin = ev.Origin(user="ada", correlation="order-1")
    [event] = store.handle(Seat, "1", "reserve", user="ada", id="r", origin=origin).events
    assert (event.origin, event.request) == (ev.Origin(correlation="order-1", causation="r", user="ada"), "r")


def test_a_story_is_what_happened_under_one_correlation(store: ev.EventStore) -> None:
    for number in range(1200):
        origin = ev.Origin(correlation=f"order-{number % 400}")
        store.handle(Seat, str(number), "reserve", user="ada", origin=origin)
    assert [one.stream for one in store.story("order-7")] == ["Seat-7", "Seat-407", "Seat-807"]


def test_the_state_of_a_version_and_of_a_time(store: ev.EventStore, clock: ManualClock) -> None:
    store.handle(Seat, "1", "reserve", user="ada")
    then = clock.now_ms()
    clock.advance(1000)
    store.handle(Seat, "1", "change_hands", user="bob")
    assert [store.load(Seat, "1", version=version).holder for version in range(4)] == [None, "ada", None, "bob"]
    assert [store.load(Seat, "1", time_ms=then + ms).holder for ms in (-1, 0, 999, 1000)] == [None, "ada", "ada", "bob"]
    assert [step.state["holder"] for step in store.history(Seat, "1")] == ["ada", None, "bob"]
    assert store.keys(Seat) == ["1"]


def test_other_writers_are_decided_upon(store: ev.EventStore) -> None:
    """Threads of two stores on one log: only one gets the seat, and the others know who."""
    stores = [store, *(ev.EventStore("events", store._storage_of) for _ in range(2))]

    def reserve(number: int) -> str:
        try:
            stores[number % 3].handle(Seat, "1", "reserve", user=f"user-{number}")
        except ev.Rejected as rejected:
            return str(rejected)
        return "done"

    with ThreadPoolExecutor(9) as pool:
        answers = list(pool.map(reserve, range(18)))
    holder = store.load(Seat, "1").holder
    assert sorted(answers) == ["done"] + [f"seat 1 is taken by {holder}"] * 17


def test_retries_are_bounded(store: ev.EventStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(append: ev.Append) -> ev.Stored:
        raise ev.WrongVersion("Seat-1", expected=0, actual=1)

    monkeypatch.setattr(store.events, "append", refused)
    with pytest.raises(ConflictError):
        store.handle(Seat, "1", "reserve", user="ada")


# Tentative events


def test_a_tentative_event_counts_until_its_time_is_up(store: ev.EventStore, clock: ManualClock) -> None:
    store.handle(Seat, "1", "hold", user="ada")
    clock.advance(15 * 60_000 - 1)
    with pytest.raises(ev.Rejected, match="taken by ada"):
        store.handle(Seat, "1", "reserve", user="bob")
    clock.advance(1)
    done = store.handle(Seat, "1", "reserve", user="bob")
    assert [one.type for one in done.events] == ["Expired", "Reserved"]
    state = store.load(Seat, "1")
    assert (state.holder, state.earlier, state.unconfirmed) == ("bob", [], ())


def test_what_was_confirmed_stays(store: ev.EventStore, clock: ManualClock) -> None:
    [held] = store.handle(Seat, "1", "hold", user="ada").events
    store.confirm(Seat, "1", held.id, id="payment-1")
    assert store.confirm(Seat, "1", held.id, id="payment-1").repeated
    clock.advance(10**9)
    with pytest.raises(ev.Rejected, match="taken by ada"):
        store.handle(Seat, "1", "reserve", user="bob")


def test_a_confirmation_that_comes_too_late_is_rejected(store: ev.EventStore, clock: ManualClock) -> None:
    [held] = store.handle(Seat, "1", "hold", user="ada").events
    clock.advance(10**9)
    with pytest.raises(ev.Rejected, match="waits to be confirmed"):
        store.confirm(Seat, "1", held.id)


# Upcasts


@dataclass
class Paid:
    cents: int
    currency: str


class Account(ev.Aggregate):
    upcasters = (
        ev.Upcast("Paid", 1, lambda data: {"cents": data["euros"] * 100}),
        ev.Upcast("Paid", 2, lambda data: {**data, "currency": "EUR"}),
    )
    balance: int = 0

    @ev.command
    def pay(self, cents: int) -> Paid:
        return Paid(cents, "EUR")

    @ev.apply
    def _(self, event: Paid) -> None:
        self.balance += event.cents


def test_old_shapes_of_events_pass_the_list_of_upcasters(store: ev.EventStore) -> None:
    old = [ev.NewEvent("Paid", b'{"euros": 3}'), ev.NewEvent("Paid", b'{"cents": 20}', schema=2)]
    store.events.append(ev.Append((ev.StreamWrite("Account-1", old),)))
    [new] = store.handle(Account, "1", "pay", cents=1).events
    assert (store.load(Account, "1").balance, new.schema) == (321, 3)


def test_a_shape_of_the_future_is_not_guessed(store: ev.EventStore) -> None:
    future = ev.NewEvent("Paid", b'{"euros": 3}', schema=9)
    store.events.append(ev.Append((ev.StreamWrite("Account-1", [future]),)))
    with pytest.raises(UsageError, match="stored in shape 9"):
        store.load(Account, "1")


def test_a_list_of_upcasters_has_no_holes() -> None:
    with pytest.raises(UsageError, match="count from 1"):
        type("Bad", (ev.Aggregate,), {"upcasters": (ev.Upcast("Paid", 2, dict),)})


def test_an_event_that_nothing_applies_is_named(store: ev.EventStore) -> None:
    store.events.append(ev.Append((ev.StreamWrite("Seat-1", [ev.NewEvent("Burnt", b"{}")]),)))
    with pytest.raises(UsageError, match="Seat has no @apply for Burnt"):
        store.load(Seat, "1")


def test_a_stream_with_a_hole_is_not_folded(store: ev.EventStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        store.handle(Seat, "1", "change_hands", user="bob")
    events = [one for one in store.events.read("Seat-1") if one.version != 2]
    monkeypatch.setattr(store.events, "read", lambda stream, **asked: iter(events))
    with pytest.raises(UsageError, match="version 1 is followed by 3"):
        store.load(Seat, "1")


# The test kit


def test_given_when_then() -> None:
    ev.given(Seat, Reserved(user="ada")).when("reserve", user="bob").then(ev.Rejected)
    ev.given(Seat, Reserved(user="ada")).when("reserve", user="bob").then(ev.Rejected("taken by ada"))
    ev.given(Seat).when("reserve", user="ada").then(Reserved(user="ada")).then_state(holder="ada")
    ev.given(Seat, Reserved(user="ada")).when("release").when("release").then(Released()).then_state(earlier=["ada"])
    ev.given(Seat).when("hold", user="ada").then(ev.tentative(Reserved("ada"), within=timedelta(minutes=15)))


@pytest.mark.parametrize("expected", [Reserved(user="bob"), ev.Rejected, Released()])
def test_what_did_not_happen_fails_the_test(expected: object) -> None:
    with pytest.raises(AssertionError):
        ev.given(Seat).when("reserve", user="ada").then(expected)


def test_a_rejection_that_was_not_expected_fails_the_test() -> None:
    with pytest.raises(AssertionError, match="it was rejected"):
        ev.given(Seat, Reserved(user="ada")).when("reserve", user="bob").then(Reserved(user="bob"))
