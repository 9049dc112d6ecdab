"""What the app of times.py has left behind, compared with plain Python over what was fed. Sentences are differences.

Its k-means and its pattern are proved by `headwater verify` alone.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from headwater.flow.declare.checks.source_line import calling_place
from headwater.flow.declare.comparisons import fitted
from headwater.flow.kafka.client import Client
from headwater.flow.operators.windows.assignment import EPOCH, micros_of
from headwater.flow.operators.windows.kinds.hopping import Hopping
from headwater.flow.operators.windows.kinds.kept import Kept
from headwater.views.view import View
from tests.crash.flow import model, shop, times
from tests.crash.flow.feeding import Fed
from tests.crash.flow.folding import folded
from tests.crash.flow.oracle import Place, balanced, poisoned, records, same_rows, values
from tests.crash.flow.windows import moment, watermark_of
from tests.flow.operators.comparisons import oracle as comparisons_oracle
from tests.flow.operators.reference import Row
from tests.flow.operators.windows.oracle import Contents, ended_runs, is_late, windows_of

PARTITION = 10**9
"""Offsets of a partition and those of the next are this far apart, in a row's one number."""
WAIT = timedelta(minutes=times.WAIT_MINUTES)
Windows = dict[tuple[Any, ...], tuple[int, Decimal]]
"""By key and what names a window: how many orders, and what they come to."""


def differences(place: Place, fed: Sequence[Fed]) -> list[str]:
    with Client(place.address) as client:
        accounts, late = values(client, times.ACCOUNTS), values(client, times.LATE)
        taken = {operator: timely(fed, late, operator) for operator in times.WINDOWS}
        return [
            *lateness(accounts, late, fed),
            *windows(place, records(client, times.RECENT), accounts, taken),
            *trends(place, taken[times.HOURS]),
            *history(place, fed),
            *served(values(client, times.SERVED), accounts, fed),
            *balanced(accounts, fed, [shop.ORDERS], times.OUTPUTS_OF_ORDERS, times.ACCOUNTS),
            *balanced(accounts, fed, [shop.CUSTOMERS], [times.HISTORY], times.ACCOUNTS),
            *balanced(accounts, fed, [shop.ORDERS, shop.CUSTOMERS], [times.SERVED], times.ACCOUNTS),
            *(one for job in (shop.ORDERS, shop.CUSTOMERS) for one in poisoned(client, fed, times.APP, job)),
        ]


# -- windows -----------------------------------------------------------------------------------------------------------


def timely(fed: Sequence[Fed], late: Sequence[Any], operator: str) -> list[Row]:
    """The orders that an operator was in time for."""
    dropped = {(row["partition"], row["offset"]) for row in late if row["operator"] == operator}
    return [as_row(one) for one in model.good(fed) if (one.partition, one.offset) not in dropped]


def as_row(order: Fed) -> Row:
    at, partition, offset = order.at
    assert order.row is not None
    return Row(order.row["user_id"], order.row["amount"], micros_of(at), partition * PARTITION + offset)


def lateness(accounts: Sequence[Any], late: Sequence[Any], fed: Sequence[Fed]) -> Iterator[str]:
    """Each late row is reported once by an operator, was late indeed, and is in the accounts."""
    for which, count in Counter((row["operator"], row["partition"], row["offset"]) for row in late).items():
        if count > 1:
            yield f"{times.LATE} reports {which} {count} times"
    orders = {(one.partition, one.offset): as_row(one) for one in model.good(fed)}
    for row in late:
        order, watermark = orders[row["partition"], row["offset"]], micros_of(moment(row["watermark"]))
        window = times.WINDOWS.get(row["operator"])
        if not (order.time < watermark if window is None else is_late(window, order, watermark, 0)):
            yield f"{times.LATE}: {order} was not late for {row['operator']} at {row['watermark']}"
    outputs = {times.HOURS: times.TRENDS, f"{times.CENTRES}-windows": times.CENTRES}
    declared = Counter(outputs.get(row["operator"], row["operator"]) for row in late)
    for output in times.OUTPUTS_OF_ORDERS:
        counted = sum(row["late"] for row in accounts if row["output"] == output)
        if counted != declared[output]:
            yield f"{output} accounts for {counted} late rows, and {declared[output]} are reported"


def windows(
    place: Place, recent: Sequence[Any], accounts: Sequence[Any], taken: Mapping[str, Sequence[Row]]
) -> Iterator[str]:
    reached = micros_of(watermark_of(accounts, times.DAYS))
    days = totals(windows_of(times.WINDOWS[times.DAYS], taken[times.DAYS]))
    held: Windows = {(row["user_id"], *span(row)): total(row) for row in rows_of(place, times.DAYS)}
    yield from same(f"view {times.DAYS}", held, days)
    fives = finished(windows_of(times.WINDOWS[times.FIVES], taken[times.FIVES], reached), reached)
    held = {(row["user_id"], row["window"]): total(row) for row in rows_of(place, times.FIVES)}
    yield from same(f"view {times.FIVES}", held, fives)
    yield from lately(place, accounts, taken[times.LATELY], reached)
    changes = folded(times.RECENT, recent, ["user_id", "at"])
    yield from changes.wrong
    held = {(row["user_id"], micros_of(moment(row["at"]))): total(row) for row in changes.table.values()}
    wanted = finished(windows_of(times.WINDOWS[times.RECENT], taken[times.RECENT]), reached)
    yield from same(times.RECENT, held, wanted)


def lately(place: Place, accounts: Sequence[Any], taken: Sequence[Row], reached: int) -> Iterator[str]:
    window = times.WINDOWS[times.LATELY]
    assert isinstance(window, Kept)
    held: Windows = {(row["user_id"],): total(row) for row in rows_of(place, times.LATELY)}
    yield from same(f"view {times.LATELY}", held, totals(windows_of(window, taken, reached)))
    expired = sum(row["expired"] for row in accounts if row["output"] == times.LATELY)
    if expired != (ended := ended_runs(taken, window.gap_us, reached)):
        yield f"{times.LATELY} accounts for {expired} keys that have expired, and {ended} have"


def trends(place: Place, taken: Sequence[Row]) -> Iterator[str]:
    window = times.WINDOWS[times.HOURS]
    assert isinstance(window, Hopping)
    table = {(one.key, one.names[0]): len(inside) for one, inside in windows_of(window, taken).items()}
    comparisons = fitted(times.COMPARED, window, calling_place())
    back = comparisons_oracle.steps_back(window.slide_us)
    wanted = comparisons_oracle.compared(table, comparisons, back, lambda start: window.size_us)
    names = {"orders": "n", **{name: name for name in comparisons}}
    held = {
        (row["user_id"], micros_of(row["window_start"])): {to: row[name] for name, to in names.items()}
        for row in rows_of(place, times.TRENDS, store=place.store)
    }
    yield from same(f"view {times.TRENDS}", held, wanted)


def totals(contents: Contents) -> Windows:
    return {(one.key, *one.names): (len(rows), sum(row.x for row in rows)) for one, rows in contents.items()}


def finished(contents: Contents, reached: int) -> Windows:
    return totals({one: rows for one, rows in contents.items() if one.end <= reached})


def total(row: Mapping[str, Any]) -> tuple[int, Decimal]:
    return row["orders"], Decimal(row["revenue"])


def span(row: Mapping[str, Any]) -> tuple[int, int]:
    return micros_of(row["window_start"]), micros_of(row["window_end"])


# -- tables ------------------------------------------------------------------------------------------------------------


def history(place: Place, fed: Sequence[Fed]) -> Iterator[str]:
    """Every version of a customer, from its record's time until that of the next one."""
    versions: dict[int, list[tuple[datetime, Any]]] = {}
    for one in (one for one in fed if one.topic == shop.CUSTOMERS and not one.broken):
        assert one.key is not None
        versions.setdefault(json.loads(one.key)["user_id"], []).append(
            (EPOCH + timedelta(milliseconds=one.time_ms), one.row)
        )
    wanted = [
        {**row, "valid_from": since, "valid_to": until}
        for _, own in sorted(versions.items())
        for (since, row), until in zip(own, [*(since for since, _ in own[1:]), None], strict=True)
        if row is not None
    ]
    held = rows_of(place, times.HISTORY)
    if held != wanted:
        yield f"view {times.HISTORY} holds {held} and should hold {wanted}"


def served(emitted: Sequence[Any], accounts: Sequence[Any], fed: Sequence[Fed]) -> Iterator[str]:
    """Each order with its customer as the table is when the order comes, or, within a time, when the customer does."""
    batches = sorted((row for row in accounts if row["output"] == times.SERVED), key=lambda row: int(row["batch"]))
    table: dict[int, Any] = {}
    waiting: list[dict[str, Any]] = []
    wanted: Counter[Any] = Counter()
    start: dict[tuple[str, int], int] = {}
    for batch in batches:
        end = {(topic, int(number)): at for topic, parts in batch["end"].items() for number, at in parts.items()}
        read = [
            one for one in fed
            if start.get((one.topic, one.partition), 0) <= one.offset < end.get((one.topic, one.partition), 0)
        ]  # fmt: skip
        for one in (one for one in read if one.topic == shop.CUSTOMERS and not one.broken):
            assert one.key is not None
            table[json.loads(one.key)["user_id"]] = one.row
        waiting += model.orders_in(read)
        passed = moment(batch["watermark"])
        done = [one for one in waiting if table.get(one["user_id"]) or one["at"] + WAIT < passed]
        wanted.update(named(one, table.get(one["user_id"])) for one in done)
        waiting = [one for one in waiting if not table.get(one["user_id"]) and one["at"] + WAIT >= passed]
        start = end
    found = Counter(named({**row, "at": moment(row["at"])}, row) for row in emitted)
    yield from same_rows(times.SERVED, found, wanted)


def named(order: Mapping[str, Any], customer: Mapping[str, Any] | None) -> tuple[Any, ...]:
    return order["id"], order["at"], str((customer or {}).get("name")), str((customer or {}).get("city"))


def rows_of(place: Place, name: str, *, store: Any = None) -> list[Any]:
    with View.open(store or place.data, times.APP, name) as view:
        return view.rows(order=list(view.key))


def same(what: str, held: Mapping[Any, Any], wanted: Mapping[Any, Any]) -> Iterator[str]:
    for one in sorted(held.keys() | wanted.keys()):
        if held.get(one) != wanted.get(one):
            yield f"{what} holds {held.get(one)} for {one} and should hold {wanted.get(one)}"
