"""SUBSCRIBE: a query that is asked again whenever one of its views has changed, and what became other in its result."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from http.client import HTTPException
from threading import Event
from typing import Any, NamedTuple

from headwater.cli.failure import Failure
from headwater.clock import Clock, SystemClock

WAIT_SECONDS = 5.0
"""How long one request waits for a change."""
PAUSE_SECONDS = 0.5

Row = dict[str, Any]
Answer = Mapping[str, Any]
Ask = Callable[..., Answer]


class Followed(NamedTuple):
    """An answer, and what is other than in the one before."""

    answer: Answer
    changes: list[tuple[str, Row]]
    """("insert" or "delete", row): first what was removed, then what was added. Equal rows are counted."""
    first: bool


def followed(ask: Ask, quiet_seconds: float | None, clock: Clock | None = None) -> Iterator[Followed]:
    """Yields the whole result, then changes, each with the position at which the result is what they make of it.

    A node that is restarted is asked again, for as long as it takes. Ends when nothing has changed for `quiet_seconds`.
    """
    clock = clock or SystemClock()
    rows: list[Row] = []
    version, first, quiet_ms = "", True, clock.elapsed_ms()
    while True:
        wait = WAIT_SECONDS if quiet_seconds is None else max(0.05, min(WAIT_SECONDS, quiet_seconds))
        answer = _asked(ask, version, wait, first)
        if answer is None:
            continue
        if answer.get("unchanged"):
            if quiet_seconds is not None and clock.elapsed_ms() - quiet_ms >= 1000 * quiet_seconds:
                return
            continue
        if answer["cut"]:
            raise Failure(
                f"the result has more than {len(answer['rows']):,} rows, and one that is followed must be whole. Ask "
                "for less, or for more rows with \\limit N (--limit N)"
            )
        yield Followed(answer, list(differences(rows, answer["rows"])), first)
        rows, version, first, quiet_ms = answer["rows"], answer["version"], False, clock.elapsed_ms()


def _asked(ask: Ask, version: str, wait: float, first: bool) -> Answer | None:
    """None: the node does not answer now. That is an error only at the beginning."""
    try:
        return ask(after=version, timeout_ms=round(1000 * wait)) if version else ask()
    except (OSError, HTTPException):
        if first:
            raise
        Event().wait(PAUSE_SECONDS)
        return None


def differences(before: Iterable[Row], now: Iterable[Row]) -> Iterator[tuple[str, Row]]:
    """
    >>> list(differences([{"a": 1}, {"a": 1}, {"a": 2}], [{"a": 1}, {"a": 3}]))
    [('delete', {'a': 1}), ('delete', {'a': 2}), ('insert', {'a': 3})]
    """
    old, new = _counted(before), _counted(now)
    for op, rows in (("delete", old - new), ("insert", new - old)):
        yield from ((op, json.loads(row)) for row in rows.elements())


def _counted(rows: Iterable[Row]) -> "Counter[str]":
    return Counter(json.dumps(row) for row in rows)
