"""Processes react once to each event, whatever is killed in between."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

import headwater.events as ev
from headwater.clock import ManualClock
from headwater.events.process import Effect
from headwater.events.process_runner import ProcessRunner
from headwater.log.log import Log
from headwater.log.storage import MemoryStorage
from headwater.log.streams.condition import Append
from headwater.log.streams.event_topic import EventTopic
from tests.crash.planting import plant
from tests.events.theatre import Reserved, Seat


@dataclass
class Requested:
    seat: str


@dataclass
class Received:
    pass


@dataclass
class Cancelled:
    pass


class Payment(ev.Aggregate):
    seat: str = ""
    state: str = ""

    @ev.command
    def request(self, seat: str) -> Requested:
        if self.id.endswith("poor"):
            raise ev.Rejected("no credit")
        return Requested(seat)

    @ev.command
    def receive(self) -> Received:
        return Received()

    @ev.command
    def cancel(self) -> Cancelled:
        return Cancelled()

    @ev.apply
    def _(self, event: Requested) -> None:
        self.seat, self.state = event.seat, "requested"

    @ev.apply
    def _(self, event: Received) -> None:
        self.state = "received"

    @ev.apply
    def _(self, event: Cancelled) -> None:
        self.state = "cancelled"


class Booking(ev.Process):
    follows = (Seat, Payment)
    seat: str = ""
    seen: list[str] = []  # noqa: RUF012 (each instance gets a copy)

    @ev.react
    def _(self, event: Reserved, about: ev.Trigger) -> Iterator[Effect]:
        self.seat = about.key
        self.seen.append("reserved")
        yield ev.do(Payment, self.id, "request", seat=about.key)
        yield ev.remind("payment", after=timedelta(minutes=15))

    @ev.react
    def _(self, event: Received, about: ev.Trigger) -> Iterator[Effect]:
        self.seen.append("received")
        yield ev.forget("payment")

    @ev.react
    def _(self, event: ev.TimedOut, about: ev.Trigger) -> Iterator[Effect]:
        self.seen.append(f"timed out: {event.name}")
        yield ev.do(Payment, self.id, "cancel")
        yield ev.do(Seat, self.seat, "release")

    def rejected(self, command: ev.Do, why: ev.Rejected) -> Iterator[Effect]:
        self.seen.append(str(why))
        yield ev.do(Seat, self.seat, "release")
        yield ev.forget("payment")


class Killed(BaseException):
    pass


class Deadly(EventTopic):
    """Is killed before or after its n-th append."""

    appends, deadly, after = 0, 0, False
    armed = False

    def append(self, append: Append) -> ev.Stored:
        Deadly.appends += Deadly.armed
        if not Deadly.armed:
            return super().append(append)
        if Deadly.appends == Deadly.deadly and not Deadly.after:
            raise Killed
        stored = super().append(append)
        if Deadly.appends == Deadly.deadly:
            raise Killed
        return stored


class World:
    """A store whose process is run, killed at a chosen append, and run again by the next."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.log = Log.open("data", storage=MemoryStorage(), clock=self.clock)
        self.store = ev.EventStore(
            "events", lambda name, configs: Deadly.open(self.log, name, configs=configs), clock=self.clock
        )

    def run(self, deadly: int = 0, after: bool = False) -> int:
        """How many appends it made."""
        Deadly.appends, Deadly.deadly, Deadly.after, Deadly.armed = 0, deadly, after, True
        try:
            self.store.process(Booking).run()
        except Killed:
            Deadly.armed = False
            self.store.process(Booking).run()
        Deadly.armed = False
        return Deadly.appends

    def live(self, deadly: int = 0, after: bool = False) -> int:
        for name in ("ada", "bob", "poor"):
            self.store.handle(Seat, f"seat-{name}", "reserve", user=name, id=f"order-{name}")
        appends = self.run(deadly, after)
        self.clock.advance(60_000)
        origin = ev.Origin(correlation="order-ada")
        self.store.handle(Payment, "order-ada", "receive", origin=origin)
        self.clock.advance(15 * 60_000)
        appends += self.run(deadly - appends, after)
        return appends

    def outcome(self) -> dict[str, Any]:
        streams = sorted(self.store.events.streams())
        events = {stream: [one.type for one in self.store.events.read(stream)] for stream in streams}
        runner = self.store.process(Booking)
        seen = {f"order-{name}": runner._instance(f"order-{name}")[2].state["seen"] for name in ("ada", "bob", "poor")}
        return {**events, **seen, "timers": runner._timers}


def test_a_process_sends_commands_and_waits_for_what_comes_of_them() -> None:
    world = World()
    world.live()
    assert world.outcome() == {
        "Payment-order-ada": ["Requested", "Received"],
        "Payment-order-bob": ["Requested", "Cancelled"],
        "Seat-seat-ada": ["Reserved"],
        "Seat-seat-bob": ["Reserved", "Released"],
        "Seat-seat-poor": ["Reserved", "Released"],
        "order-ada": ["reserved", "received"],
        "order-bob": ["reserved", "timed out: payment"],
        "order-poor": ["reserved", "no credit"],
        "timers": {},
    }


def differences(stop: Callable[[int], bool] = lambda number: False) -> list[str]:
    """What a kill at each append of the process changes in the end."""
    whole = World()
    appends = whole.live()
    found = []
    for deadly in range(1, appends + 1):
        for after in (False, True):
            world = World()
            world.live(deadly, after)
            if world.outcome() != whole.outcome():
                found.append(f"killed {'after' if after else 'before'} append {deadly}: {world.outcome()}")
    return found


def test_a_kill_at_any_append_changes_nothing_in_the_end() -> None:
    assert differences() == []


def test_two_runners_at_once_react_once() -> None:
    world = World()
    first = world.store.process(Booking)
    for name in ("ada", "bob", "poor"):
        world.store.handle(Seat, f"seat-{name}", "reserve", user=name, id=f"order-{name}")
    second = world.store.process(Booking)
    second.run()
    first.run()
    assert [one.type for one in world.store.events.read("Payment-order-ada")] == ["Requested"]
    assert world.outcome()["order-ada"] == ["reserved"]


def test_a_time_out_is_due_by_the_time_of_events() -> None:
    world = World()
    world.store.handle(Seat, "1", "reserve", user="ada", id="order-ada")
    world.run()
    world.clock.advance(16 * 60_000)
    world.store.handle(Payment, "order-ada", "receive", origin=ev.Origin(correlation="order-ada"))
    world.run()
    types = [one.type for one in world.store.events.read("Payment-order-ada")]
    assert types == ["Requested", "Received", "Cancelled"], "the payment came after the time was up"


# Planted


def test_commands_without_a_name_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, ProcessRunner, "_do", "id=request, origin", "id='', origin")
    assert differences() != []


def test_a_reaction_that_cannot_be_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, ProcessRunner, "_react", "REACTED, said, request, version", "REACTED, said, '', version")
    world = World()
    first, _ = world.store.process(Booking), world.store.handle(Seat, "1", "reserve", user="a", id="order-ada")
    world.run()
    first.run()
    assert world.store.process(Booking)._instance("order-ada")[2].state["seen"] != ["reserved"]


def test_time_outs_that_are_forgotten_at_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, ProcessRunner, "_note", "self._timers.update(", "dict(")
    world = World()
    world.live()
    assert world.outcome()["order-bob"] == ["reserved"]
