"""Rows for the eight tables of TPC-H, and what its refresh functions insert and delete: the same for a seed (numpy).

Values that the queries ask for are more frequent than others, so that each query has rows at a small scale too.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import numpy as np

Row = tuple[Any, ...]
REGIONS = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")
NATIONS = (
    ("FRANCE", 3), ("GERMANY", 3), ("CANADA", 1), ("SAUDI ARABIA", 4), ("BRAZIL", 1), ("INDIA", 2), ("JAPAN", 2),
    ("ROMANIA", 3), ("RUSSIA", 3), ("UNITED KINGDOM", 3), ("ARGENTINA", 1), ("PERU", 1), ("UNITED STATES", 1),
    ("CHINA", 2), ("INDONESIA", 2), ("VIETNAM", 2), ("ALGERIA", 0), ("ETHIOPIA", 0), ("KENYA", 0), ("MOROCCO", 0),
    ("MOZAMBIQUE", 0), ("EGYPT", 4), ("IRAN", 4), ("IRAQ", 4), ("JORDAN", 4),
)  # fmt: skip
COLORS = ("green", "forest", "red", "azure", "linen", "plum")
CLASSES = ("PROMO", "ECONOMY", "MEDIUM", "SMALL", "STANDARD", "LARGE")
FINISHES = ("ANODIZED", "POLISHED", "BRUSHED", "PLATED", "BURNISHED")
METALS = ("STEEL", "BRASS", "COPPER", "NICKEL", "TIN")
SIZES = (15, 3, 9, 14, 19, 23, 36, 45, 49, 1, 5, 10)
BRANDS = (12, 23, 34, 45, 11, 55)
CONTAINERS = ("SM CASE", "SM BOX", "MED BOX", "MED BAG", "LG CASE", "LG BOX", "JUMBO JAR", "WRAP CAN")
SEGMENTS = ("BUILDING", "AUTOMOBILE", "FURNITURE", "HOUSEHOLD", "MACHINERY")
PRIORITIES = ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW")
INSTRUCTIONS = ("DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN")
MODES = ("AIR", "MAIL", "SHIP", "AIR REG", "RAIL", "TRUCK", "FOB")
CODES = (13, 31, 23, 29, 30, 18, 17, 11, 12, 25, 34)
WORDS = ("slow", "quick", "even", "final", "bold", "special", "packages", "requests", "deposits", "accounts", "sleep")
FIRST_DAY, DAYS = date(1992, 1, 1), 2400
TODAY = date(1995, 6, 17)
"""What was received before it may have been returned; what was shipped after it is still open."""
SUPPLIERS_OF_PART = 4
REFRESHED = 1500
"""Orders that each refresh function inserts or deletes at scale 1."""


@dataclass(frozen=True)
class Scale:
    """How many rows there are; lines are four times the orders."""

    factor: float

    @property
    def suppliers(self) -> int:
        return max(int(10_000 * self.factor), 25)

    @property
    def parts(self) -> int:
        return max(int(200_000 * self.factor), 100)

    @property
    def customers(self) -> int:
        return max(int(150_000 * self.factor), 90)

    @property
    def orders(self) -> int:
        return max(int(1_500_000 * self.factor), 600)

    @property
    def refreshed(self) -> int:
        return max(int(REFRESHED * self.factor), 12)


class Generator:
    """`tables` gives every table's rows; `refresh` the orders and lines of one insertion, with the keys to delete."""

    def __init__(self, scale: Scale, seed: int = 1) -> None:
        self.scale, self._dice = scale, np.random.default_rng(seed)
        self._next = 0
        self._keys: list[int] = []
        """Of orders that are there, the oldest first."""

    def tables(self) -> Iterator[tuple[str, Iterator[Row]]]:
        yield "region", ((number, name, self._text()) for number, name in enumerate(REGIONS))
        yield "nation", ((number, *one, self._text()) for number, one in enumerate(NATIONS))
        yield "supplier", self._suppliers()
        yield "part", self._parts()
        yield "partsupp", self._supplies()
        yield "customer", self._customers()
        orders, lines = self.new_orders(self.scale.orders)
        yield "orders", iter(orders)
        yield "lineitem", iter(lines)

    def refresh(self) -> tuple[list[Row], list[Row], list[int]]:
        """RF1's orders and lines, and the keys of the orders that RF2 deletes with their lines."""
        orders, lines = self.new_orders(self.scale.refreshed)
        chosen = self._dice.choice(len(self._keys), self.scale.refreshed, replace=False)
        deleted = [self._keys[place] for place in sorted(chosen.tolist())]
        dead = set(deleted)
        self._keys = [key for key in self._keys if key not in dead]
        return orders, lines, deleted

    def new_orders(self, count: int) -> tuple[list[Row], list[Row]]:
        orders, lines = [], []
        for _ in range(count):
            self._next += 1
            key = self._next * 3
            self._keys.append(key)
            own = self._lines(key)
            orders.append(self._order(key, own))
            lines += [one[1:] for one in own]
        return orders, lines

    # -- rows ----------------------------------------------------------------------------------------------------------

    def _suppliers(self) -> Iterator[Row]:
        for key in range(1, self.scale.suppliers + 1):
            complaint = "Customer said Complaints" if self._one_in(12) else self._text()
            yield (
                key,
                f"Supplier {key:09}",
                self._text(),
                self._nation(),
                self._phone(),
                self._money(-999, 9999),
                complaint,
            )

    def _parts(self) -> Iterator[Row]:
        for key in range(1, self.scale.parts + 1):
            name = f"{self._skewed(COLORS)} {self._skewed(COLORS)}"
            kind = f"{self._skewed(CLASSES)} {self._skewed(FINISHES)} {self._skewed(METALS)}"
            brand = self._skewed(BRANDS)
            yield (
                key, name, f"Manufacturer {brand // 10}", f"Brand#{brand}", kind, self._skewed(SIZES),
                self._skewed(CONTAINERS), self._money(900, 2000), self._text(),
            )  # fmt: skip

    def _supplies(self) -> Iterator[Row]:
        for key in range(1, self.scale.parts + 1):
            for supplier in self._suppliers_of(key):
                yield key, supplier, int(self._dice.integers(1, 300)), self._money(1, 1000), self._text()

    def _suppliers_of(self, part: int) -> list[int]:
        count = self.scale.suppliers
        return [(part + place * (count // SUPPLIERS_OF_PART) + part // count) % count + 1 for place in range(4)]

    def _customers(self) -> Iterator[Row]:
        for key in range(1, self.scale.customers + 1):
            yield (
                key, f"Customer {key:09}", self._text(), self._nation(), self._phone(), self._money(-999, 9999),
                self._skewed(SEGMENTS), self._text(),
            )  # fmt: skip

    def _order(self, key: int, lines: Sequence[Row]) -> Row:
        """Each third customer has no orders."""
        customer = int(self._dice.integers(0, self.scale.customers // 3)) * 3 + int(self._dice.integers(1, 3))
        states = {line[10] for line in lines}
        state = next(iter(states)) if len(states) == 1 else "P"
        total = sum((line[6] for line in lines), Decimal(0))
        clerk = f"Clerk {int(self._dice.integers(1, 1000)):09}"
        return key, customer, state, total, lines[0][0], self._skewed(PRIORITIES), clerk, 0, self._text()

    def _lines(self, key: int) -> list[Row]:
        """Each with the date of its order before it. A few orders are large."""
        ordered = FIRST_DAY + timedelta(days=int(self._dice.integers(0, DAYS)))
        large = self._one_in(60)
        count = 7 if large else int(self._dice.integers(1, 8))
        return [self._line(key, number, ordered, large=large) for number in range(1, count + 1)]

    def _line(self, key: int, number: int, ordered: date, *, large: bool) -> Row:
        draw = self._dice.integers
        part = int(draw(1, self.scale.parts + 1))
        supplier = self._suppliers_of(part)[int(draw(0, SUPPLIERS_OF_PART))]
        quantity = int(draw(44, 51)) if large else int(draw(1, 51))
        shipped = ordered + timedelta(days=int(draw(1, 122)))
        received = shipped + timedelta(days=int(draw(1, 31)))
        returned = ("R" if self._one_in(2) else "A") if received <= TODAY else "N"
        return (
            ordered, key, part, supplier, number, Decimal(quantity), Decimal(quantity) * self._money(900, 2000),
            Decimal(int(draw(0, 11))) / 100, Decimal(int(draw(0, 9))) / 100, returned, "O" if shipped > TODAY else "F",
            shipped, ordered + timedelta(days=int(draw(30, 91))), received, self._skewed(INSTRUCTIONS),
            self._skewed(MODES), self._text(2),
        )  # fmt: skip

    # -- values --------------------------------------------------------------------------------------------------------

    def _one_in(self, many: int) -> bool:
        return bool(self._dice.integers(0, many) == 0)

    def _skewed(self, values: Sequence[Any]) -> Any:
        """The first half of them most of the time."""
        most = len(values) if self._one_in(3) else (len(values) + 1) // 2
        return values[int(self._dice.integers(0, most))]

    def _nation(self) -> int:
        """One of the first six, which queries ask for, or any."""
        return int(self._dice.integers(0, 6 if self._one_in(2) else len(NATIONS)))

    def _money(self, low: int, high: int) -> Decimal:
        return Decimal(int(self._dice.integers(low * 100, high * 100))) / 100

    def _phone(self) -> str:
        return f"{self._skewed(CODES)}-{int(self._dice.integers(100, 1000))}-{int(self._dice.integers(1000, 10000))}"

    def _text(self, words: int = 4) -> str:
        return " ".join(WORDS[place] for place in self._dice.integers(0, len(WORDS), words))
