"""The events of a small shop, the same in every run (pure)."""

import json
from collections.abc import Iterator
from typing import NamedTuple

CLICKS = "shop-clicks"
ORDERS = "shop-orders"
TOPICS = {CLICKS: 2, ORDERS: 4}

CUSTOMERS = (
    "ada",
    "alan",
    "barbara",
    "edsger",
    "frances",
    "grace",
    "john",
    "katherine",
    "leslie",
    "margaret",
    "tim",
    "tony",
)
GOODS = (
    ("lamp", 3900),
    ("chair", 8900),
    ("desk", 24900),
    ("shelf", 12900),
    ("rug", 15900),
    ("clock", 4500),
    ("vase", 2900),
)


class Event(NamedTuple):
    topic: str
    key: str
    value: str


def events() -> Iterator[Event]:
    """Customers look at goods, and after every few looks somebody buys; endless.

    >>> next(events()).topic
    'shop-clicks'
    """
    state = 1
    for number in range(2**63):
        # A small linear congruence: lively enough to look at, and the same for everybody.
        state = (state * 1103515245 + 12345) % 2**31
        customer = CUSTOMERS[(state >> 8) % len(CUSTOMERS)]
        name, cents = GOODS[(state >> 16) % len(GOODS)]
        if number % 4 == 3:
            pieces = 1 + (state >> 24) % 3
            bought = {"order": number, "customer": customer, "good": name, "pieces": pieces, "cents": cents * pieces}
            yield Event(ORDERS, customer, json.dumps(bought))
        else:
            yield Event(CLICKS, customer, json.dumps({"customer": customer, "good": name}))
