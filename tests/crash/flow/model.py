"""In plain Python, what must come of what was fed."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from tests.crash.flow.feeding import Fed
from tests.crash.flow.shop import CITIES, CUSTOMERS, FIRST, LATENESS_MINUTES, ORDERS, WITHIN_MINUTES

LATENESS, WITHIN = timedelta(minutes=LATENESS_MINUTES), timedelta(minutes=WITHIN_MINUTES)


def good(fed: Iterable[Fed]) -> list[Fed]:
    """Orders that can be read."""
    return [one for one in fed if one.topic == ORDERS and one.row is not None]


def orders_in(fed: Iterable[Fed]) -> list[dict[str, Any]]:
    return [one.row for one in good(fed) if one.row is not None]


def revenue_of(fed: Iterable[Fed], least: int) -> list[dict[str, Any]]:
    groups: dict[str, list[Fed]] = defaultdict(list)
    for one in good(fed):
        if one.row and one.row["amount"] >= least:
            groups[one.row["currency"]].append(one)
    return [
        {
            "currency": currency,
            "orders": len(group),
            "revenue": sum(row["amount"] for row in orders_in(group)),
            "newest": max(row["at"] for row in orders_in(group)),
            "first_id": orders_in([min(group, key=lambda one: one.at)])[0]["id"],
        }
        for currency, group in sorted(groups.items())
    ]


def last_orders_of(fed: Iterable[Fed]) -> list[dict[str, Any]]:
    newest: dict[int, dict[str, Any]] = {}
    for row in orders_in(sorted(good(fed), key=lambda one: one.at)):
        newest[row["user_id"]] = row
    return [row for _, row in sorted(newest.items())]


def cheap_of(fed: Iterable[Fed]) -> list[dict[str, Any]]:
    return [row for row in last_orders_of(fed) if row["amount"] < 50]


def totals_of(fed: Iterable[Fed]) -> dict[int, tuple[int, Decimal]]:
    totals: dict[int, tuple[int, Decimal]] = defaultdict(lambda: (0, Decimal(0)))
    for row in orders_in(fed):
        count, spent = totals[row["user_id"]]
        totals[row["user_id"]] = count + 1, spent + row["amount"]
    return dict(totals)


def big_of(fed: Iterable[Fed]) -> list[str]:
    return [row["id"] for row in orders_in(fed) if row["amount"] > 60]


def customers_of(fed: Iterable[Fed]) -> list[dict[str, Any]]:
    there: dict[int, dict[str, Any]] = {}
    for one in fed:
        if one.topic != CUSTOMERS or one.broken:
            continue
        if one.row is not None:
            there[one.row["user_id"]] = one.row
        else:
            assert one.key is not None
            there.pop(json.loads(one.key)["user_id"], None)
    return [row for _, row in sorted(there.items())]


def cities_of(fed: Iterable[Fed]) -> list[dict[str, Any]]:
    there: dict[str, dict[str, Any]] = {}
    for one in (one for one in fed if one.topic == CITIES):
        if one.row is not None:
            there[one.row["city"]] = one.row
        else:
            assert one.key is not None
            there.pop(json.loads(one.key)["city"], None)
    return [row for _, row in sorted(there.items())]


def governed_of(fed: Iterable[Fed]) -> list[dict[str, Any]]:
    """Customers in a city that there is, and who its mayor is."""
    mayors = {row["city"]: row["mayor"] for row in cities_of(fed)}
    return [{**one, "mayor": mayors[one["city"]]} for one in customers_of(fed) if one["city"] in mayors]


def neighbours_of(fed: Iterable[Fed]) -> dict[tuple[int, int], dict[str, Any]]:
    """All pairs of customers in one city, and those with the highest numbers there."""
    people = [one for one in customers_of(fed) if one["city"] is not None]
    first: dict[str, list[dict[str, int]]] = defaultdict(list)
    for one in reversed(people):
        if len(first[one["city"]]) < FIRST:
            first[one["city"]].append({"user_id": one["user_id"]})
    return {
        (one["user_id"], other["user_id"]): {
            **one, "other_user_id": other["user_id"], "other_name": other["name"], "first": first[one["city"]],
        }
        for one in people
        for other in people
        if one["city"] == other["city"]
    }  # fmt: skip


class Deduplicated(NamedTuple):
    """Of orders that are let through once: which are, and which were late."""

    passed: list[str]
    late: list[tuple[int, int]]
    """Partition and offset."""


def once_of(fed: Sequence[Fed], ends: Sequence[Mapping[int, int]], watermarks: Sequence[datetime]) -> Deduplicated:
    """What is late depends on the batches: on how far a row's partition, and the watermark, had come before the one
    that it is in."""
    found, start = Deduplicated([], []), dict[int, int]()
    clocks: dict[int, datetime] = {}
    kept: dict[str, datetime] = {}
    for end, watermark in zip(ends, watermarks, strict=True):
        batch = [one for one in good(fed) if start.get(one.partition, 0) <= one.offset < end[one.partition]]
        before = dict(clocks)
        for one in sorted(batch, key=lambda one: one.at):
            at, partition, offset = one.at
            clocks[partition] = max(at, clocks.get(partition, at))
            if at < watermark or (partition in before and at < before[partition] - LATENESS):
                found.late.append((partition, offset))
            elif one.row is not None and _passes(one.row["id"], at, kept):
                found.passed.append(one.row["id"])
        start = dict(end)
    return found


def _passes(id: str, at: datetime, kept: dict[str, datetime]) -> bool:
    if id in kept and abs(at - kept[id]) <= WITHIN:
        return False
    kept[id] = max(at, kept.get(id, at))
    return True
