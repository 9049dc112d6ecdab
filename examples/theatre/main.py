"""Seats of a theatre: held for fifteen minutes, and taken when they are paid.

python examples/theatre/main.py DATA hold 12A ada        # answers with the number of the booking
python examples/theatre/main.py DATA pay BOOKING
python examples/theatre/main.py DATA show 12A
"""

import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta

import headwater.events as ev


@dataclass(frozen=True)
class Held:
    user: str


@dataclass(frozen=True)
class Requested:
    seat: str
    user: str


@dataclass(frozen=True)
class Received:
    pass


@dataclass(frozen=True)
class Refunded:
    why: str


class Seat(ev.Aggregate):
    holder: str | None = None

    @ev.command
    def hold(self, user: str) -> ev.Tentative:
        if self.holder is not None:
            raise ev.Rejected(f"seat {self.id} is taken by {self.holder}")
        return ev.tentative(Held(user), within=timedelta(minutes=15))

    @ev.command
    def take(self, user: str) -> list[ev.Confirmed]:
        """What was held stays: the tentative event is confirmed."""
        held = [one for one in self.unconfirmed if one.event.user == user]
        if not held:
            raise ev.Rejected(f"seat {self.id} is not held for {user} any more")
        return [ev.Confirmed(one.id) for one in held]

    @ev.apply
    def _(self, event: Held) -> None:
        self.holder = event.user


class Payment(ev.Aggregate):
    state: str = "unknown"

    @ev.command
    def request(self, seat: str, user: str) -> Requested:
        return Requested(seat, user)

    @ev.command
    def receive(self) -> Received:
        if self.state != "requested":
            raise ev.Rejected(f"payment {self.id} is {self.state}")
        return Received()

    @ev.command
    def refund(self, why: str) -> Refunded:
        return Refunded(why)

    @ev.apply
    def _(self, event: Requested) -> None:
        self.state = "requested"

    @ev.apply
    def _(self, event: Received) -> None:
        self.state = "received"

    @ev.apply
    def _(self, event: Refunded) -> None:
        self.state = "refunded"


class Booking(ev.Process):
    """One for each command that held a seat: asks for the money, and takes the seat when it is there."""

    follows = (Seat, Payment)
    seat: str = ""
    user: str = ""

    @ev.react
    def _(self, event: Held, about: ev.Trigger) -> Iterator[ev.Do]:
        self.seat, self.user = about.key, event.user
        yield ev.do(Payment, self.id, "request", seat=about.key, user=event.user)

    @ev.react
    def _(self, event: Received, about: ev.Trigger) -> Iterator[ev.Do]:
        yield ev.do(Seat, self.seat, "take", user=self.user)

    def rejected(self, command: ev.Do, why: ev.Rejected) -> Iterator[ev.Do]:
        if command.aggregate is Seat:  # its time was up, and perhaps somebody else has it
            yield ev.do(Payment, self.id, "refund", why=str(why))


def hold(store: ev.EventStore, seat: str, user: str) -> str:
    booking = uuid.uuid4().hex[:8]
    store.handle(Seat, seat, "hold", user=user, id=booking)
    store.process(Booking).run()
    return booking


def pay(store: ev.EventStore, booking: str) -> str:
    store.handle(Payment, booking, "receive", origin=ev.Origin(correlation=booking))
    store.process(Booking).run()
    return store.load(Payment, booking).state


def show(store: ev.EventStore, seat: str) -> str:
    lines = [f"{step.event.version}  {step.event.type:<10} {step.state}" for step in store.history(Seat, seat)]
    return "\n".join(lines) or "nothing has happened to this seat"


VERBS: dict[str, Callable[..., str]] = {"hold": hold, "pay": pay, "show": show}

if __name__ == "__main__":
    with ev.open(sys.argv[1]) as store:
        try:
            print(VERBS[sys.argv[2]](store, *sys.argv[3:]))
        except ev.Rejected as rejected:
            sys.exit(str(rejected))
