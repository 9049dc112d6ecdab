"""Windows that a job has emitted, compared with the rows that it says it has read. Sentences are broken promises."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from tests.crash.flow import shop
from tests.crash.flow.feeding import Fed

SIZE, GAP = timedelta(minutes=shop.WINDOW_MINUTES), timedelta(minutes=shop.GAP_MINUTES)
SOON = timedelta(minutes=shop.FOLLOWED_MINUTES)
HORIZON, LATENESS = timedelta(minutes=shop.CORRECTED_MINUTES), timedelta(minutes=shop.LATENESS_MINUTES)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Orders = list[dict[str, Any]]
Table = dict[tuple[Any, datetime, datetime], tuple[int, Decimal]]
"""By key, start and end of a window: how many orders, and what they come to."""
Triples = dict[tuple[Any, datetime, datetime], tuple[int, int, int]]
"""How many rows, and how many of them have an order that follows, from the first join and from the second."""


def moment(said: str | None) -> datetime:
    return EPOCH if said is None else datetime.fromisoformat(said)


def watermark_of(accounts: Sequence[Any], output: str, *, before: int = 0) -> datetime:
    """That of the last batch, or of one before it."""
    batches = sorted((row for row in accounts if row["output"] == output), key=lambda row: -int(row["batch"]))
    return moment(batches[before]["watermark"]) if before < len(batches) else EPOCH


def timely(orders: Sequence[Fed], late: Sequence[Any]) -> Orders:
    gone = {(row["partition"], row["offset"]) for row in late}
    return [one.row for one in orders if one.row is not None and (one.partition, one.offset) not in gone]


# -- what there should be ----------------------------------------------------------------------------------------------


def half_hours_of(orders: Orders, reached: datetime) -> Table:
    groups: dict[Any, list[Decimal]] = defaultdict(list)
    for row in orders:
        start = row["at"] - (row["at"] - EPOCH) % SIZE
        groups[row["currency"], start, start + SIZE].append(row["amount"])
    return {place: (len(amounts), sum(amounts, Decimal())) for place, amounts in groups.items() if place[2] <= reached}


def visits_of(orders: Orders, reached: datetime) -> Table:
    sessions: dict[int, list[Orders]] = defaultdict(list)
    for row in sorted(orders, key=lambda row: row["at"]):
        mine = sessions[row["user_id"]]
        if mine and row["at"] - mine[-1][-1]["at"] <= GAP:
            mine[-1].append(row)
        else:
            mine.append([row])
    return {
        (user, one[0]["at"], one[-1]["at"] + GAP): (len(one), max(row["amount"] for row in one))
        for user, mine in sessions.items()
        for one in mine
        if one[-1]["at"] + GAP < reached
    }


def followed_of(orders: Orders, others: Orders, reached: datetime) -> Triples:
    """By currency and half hour: every order with each one of the same user that follows soon, or alone; and each of
    these again with those that follow the first, of the orders that were not too late for that."""
    groups: dict[Any, list[tuple[int, int]]] = defaultdict(list)
    for row in orders:
        start = row["at"] - (row["at"] - EPOCH) % SIZE
        groups[row["currency"], start, start + SIZE].append((_soon(row, orders), _soon(row, others)))
    return {
        place: (
            sum(max(following, 1) * max(other, 1) for following, other in found),
            sum(following * max(other, 1) for following, other in found),
            sum(max(following, 1) * other for following, other in found),
        )
        for place, found in groups.items()
        if place[2] <= reached - 2 * SOON
    }


def _soon(row: dict[str, Any], orders: Orders) -> int:
    later = [other["at"] - row["at"] for other in orders if other["user_id"] == row["user_id"]]
    return sum(timedelta(seconds=1) <= one <= SOON for one in later)


# -- what is wrong -----------------------------------------------------------------------------------------------------


def lateness(accounts: Sequence[Any], late: Sequence[Any], orders: Sequence[Fed], output: str) -> Iterator[str]:
    """Each late row is emitted once, was late indeed, and is in the accounts."""
    for place, count in Counter((row["partition"], row["offset"]) for row in late).items():
        if count > 1:
            yield f"{shop.LATE} tells {output} of {place} {count} times"
    counted = sum(row["late"] for row in accounts if row["output"] == output)
    if counted != len(late):
        yield f"{output} accounts for {counted} late rows, and {len(late)} are emitted"
    newest = max((one.row["at"] for one in orders if one.row is not None), default=EPOCH)
    for row in late:
        at, reached = moment(row["time"]), moment(row["watermark"])
        over = at - (at - EPOCH) % SIZE + SIZE if output == shop.HALF_HOURS else at + HORIZON
        if over > reached or (output == shop.VISITS and over == reached) or reached > newest - LATENESS:
            yield f"{shop.LATE}: for {output} {at} was not late at {reached}"


def half_hours(rows: Sequence[Mapping[str, Any]], expected: Table) -> Iterator[str]:
    held = {(row["currency"], row["window_start"], row["window_end"]): (row["orders"], row["revenue"]) for row in rows}
    if held != expected:
        yield f"view {shop.HALF_HOURS} holds {held} and should hold {expected}"


def followed(rows: Sequence[Mapping[str, Any]], expected: Triples) -> Iterator[str]:
    held = {
        (row["currency"], row["window_start"], row["window_end"]): (row["rows"], row["followed"], row["others"])
        for row in rows
    }
    if held != expected:
        yield f"view {shop.FOLLOWED} holds {held} and should hold {expected}"


def visits(changes: Sequence[tuple[Any, Any]], expected: Table) -> Iterator[str]:
    """Every change follows the one before it; a deletion is followed by a tombstone; the last of each is the table."""
    table: Table = {}
    deleted: Any = None
    for key, change in changes:
        if (change is None) != (deleted is not None) or (deleted is not None and key != deleted):
            yield f"{shop.VISITS}: {key} says {change} where {deleted} was deleted before"
        deleted = None
        if change is None:
            continue
        before, after = change["before"], change["after"]
        place, held = _placed(before or after)
        if table.pop(place, None) != (held if before else None):
            yield f"{shop.VISITS}: a change of {place} says it was {before}"
        if after:
            table[place] = _placed(after)[1]
        else:
            deleted = key
    if table != expected or deleted is not None:
        yield f"{shop.VISITS} adds up to {table} and should to {expected}"


def _placed(row: Mapping[str, Any]) -> tuple[tuple[Any, datetime, datetime], tuple[int, Decimal]]:
    place = row["user_id"], moment(row["window_start"]), moment(row["window_end"])
    return place, (row["orders"], Decimal(row["most"]))
