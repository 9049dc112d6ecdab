"""Aggregates that tests share."""

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

import pydantic

import headwater.events as ev


@dataclass(frozen=True)
class Reserved:
    user: str


@dataclass(frozen=True)
class Released:
    pass


class Priced(pydantic.BaseModel):
    amount: Decimal


@dataclass(frozen=True)
class Reserve:
    user: str


class Seat(ev.Aggregate):
    holder: str | None = None
    price: Decimal = Decimal(0)
    earlier: list[str] = []  # noqa: RUF012 (each aggregate gets a copy)

    @ev.command
    def reserve(self, user: str) -> Reserved:
        if self.holder is not None:
            raise ev.Rejected(f"seat {self.id} is taken by {self.holder}")
        return Reserved(user=user)

    @ev.command
    def reserve_by_object(self, command: Reserve) -> Reserved:
        return self.reserve(command.user)

    @ev.command
    def hold(self, user: str, minutes: int = 15) -> ev.Tentative:
        return ev.tentative(self.reserve(user), within=timedelta(minutes=minutes))

    @ev.command
    def release(self) -> Released | None:
        return Released() if self.holder else None

    @ev.command
    def change_hands(self, user: str) -> list[object]:
        return [Released(), Reserved(user=user)]

    @ev.command
    def set_price(self, amount: Decimal) -> Priced:
        return Priced(amount=amount)

    @ev.apply
    def _(self, event: Reserved) -> None:
        self.holder = event.user

    @ev.apply
    def _(self, event: Released) -> None:
        if self.holder is not None:
            self.earlier.append(self.holder)
        self.holder = None

    @ev.apply
    def _(self, event: Priced) -> None:
        self.price = event.amount
