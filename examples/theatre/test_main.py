from collections.abc import Iterator

import pytest

import headwater.events as ev
from examples.theatre.main import Payment, Seat, hold, pay, show
from headwater.clock import ManualClock
from headwater.log.log import Log
from headwater.log.storage import MemoryStorage

QUARTER_MS = 15 * 60_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> Iterator[ev.EventStore]:
    with ev.EventStore.on(Log.open("data", storage=MemoryStorage(), clock=clock)) as store:
        yield store


def test_a_seat_that_is_paid_stays_taken(store: ev.EventStore, clock: ManualClock) -> None:
    assert pay(store, hold(store, "12A", "ada")) == "received"
    clock.advance(2 * QUARTER_MS)
    with pytest.raises(ev.Rejected, match="taken by ada"):
        hold(store, "12A", "bob")
    assert [line.split()[1] for line in show(store, "12A").splitlines()] == ["Held", "Confirmed"]


def test_a_seat_that_is_not_paid_is_free_again(store: ev.EventStore, clock: ManualClock) -> None:
    hold(store, "12A", "ada")
    clock.advance(QUARTER_MS)
    hold(store, "12A", "bob")
    assert store.load(Seat, "12A").holder == "bob"


def test_a_payment_that_comes_too_late_is_paid_back(store: ev.EventStore, clock: ManualClock) -> None:
    booking = hold(store, "12A", "ada")
    clock.advance(QUARTER_MS)
    hold(store, "12A", "bob")
    assert pay(store, booking) == "refunded"
    assert (store.load(Seat, "12A").holder, store.load(Payment, booking).state) == ("bob", "refunded")
