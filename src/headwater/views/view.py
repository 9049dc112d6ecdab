"""Reading a view: by key, by filter, at least at a position, and as it changes."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event
from typing import NamedTuple

from headwater.clock import Clock, SystemClock
from headwater.errors import ViewBehind
from headwater.record import Position
from headwater.views.mark import Offsets, covers, next_offsets, spoken
from headwater.views.query import Query, Where, key_query, parse_query
from headwater.views.store import Row, ViewStore, open_store

POLL_SECONDS = 0.02


class Change(NamedTuple):
    """`op` is `upsert`, `delete` (row is None), or `reset`: forget what you hold, all rows follow as upserts."""

    op: str
    key: Row
    row: Row | None


class View:
    """A view as people read it. May be used from several threads; works while its job writes, and while it does not.

    with View.open("data", "shop", "revenue") as revenue:
        revenue.get("DE")                                       {'country': 'DE', 'amount': Decimal('12.50')}
        revenue.rows(where={"amount >": 100}, order="amount desc", limit=10)
        revenue.get("DE", at_least=log.append("orders", order))     waits until that order is in
    """

    def __init__(self, store: ViewStore, name: str, clock: Clock | None = None) -> None:
        self.name = name
        self._store, self._clock = store, clock or SystemClock()

    @classmethod
    def open(cls, where: str | Path, app: str, name: str, *, clock: Clock | None = None) -> "View":
        """`where` is a data directory, `sqlite:///file` or a PostgreSQL URL. UnknownView if it is not there yet."""
        view = cls(open_store(where, app, read_only=True, clock=clock), name, clock)
        try:
            view.position()
        except BaseException:
            view.close()
            raise
        return view

    @property
    def columns(self) -> tuple[str, ...]:
        with self._store.snapshot(self.name) as snapshot:
            return snapshot.shape.names

    @property
    def key(self) -> tuple[str, ...]:
        with self._store.snapshot(self.name) as snapshot:
            return snapshot.shape.key

    def position(self) -> dict[str, dict[int, int]]:
        """Topic -> partition -> the next offset: all before it is in the view."""
        with self._store.snapshot(self.name) as snapshot:
            return {topic: dict(offsets) for topic, offsets in snapshot.mark.position.items()}

    def get(self, *key: object, at_least: Position | Offsets | None = None, timeout: float = 10) -> Row | None:
        """The row of a key, given by its values in order; None if there is none. Text is read as the key's type."""
        self._wait_for(at_least, timeout)
        with self._store.snapshot(self.name) as snapshot:
            rows = snapshot.select(key_query(snapshot.shape, self.name, key))
        return rows[0] if rows else None

    def rows(
        self,
        where: Where | None = None,
        order: str | Sequence[str] | None = None,
        limit: int | None = None,
        *,
        at_least: Position | Offsets | None = None,
        timeout: float = 10,
    ) -> list[Row]:
        """All rows that fit, as `query.py` says it: `rows({"amount >": 100}, order="amount desc", limit=10)`."""
        self._wait_for(at_least, timeout)
        with self._store.snapshot(self.name) as snapshot:
            return snapshot.select(parse_query(snapshot.shape, where, order, limit))

    def count(
        self, where: Where | None = None, *, at_least: Position | Offsets | None = None, timeout: float = 10
    ) -> int:
        self._wait_for(at_least, timeout)
        with self._store.snapshot(self.name) as snapshot:
            return snapshot.count(parse_query(snapshot.shape, where, None, None))

    def watch(self, *, snapshot: bool = False, timeout: float | None = None) -> Iterator[Change]:
        """Every change from the first `next` on; with `snapshot`, a reset and all rows first.

        No key is missed: each appears with what it is now, though not with every value it had between two looks.
        Ends when nothing has changed for `timeout` seconds; without one, never.
        """
        seen = None if snapshot else self._counters()
        quiet_since = self._clock.elapsed_ms()
        while True:
            seen, changes = self._changes_since(seen)
            yield from changes
            now = self._clock.elapsed_ms()
            if changes:
                quiet_since = now
            elif timeout is not None and now - quiet_since >= timeout * 1000:
                return
            else:
                _pause()

    def wait_for(self, wanted: Position | Offsets, timeout: float = 10) -> None:
        """Until the view includes a record, or all before some next offsets; ViewBehind after `timeout` seconds."""
        deadline = self._clock.elapsed_ms() + timeout * 1000
        while not covers(position := self.position(), wanted):
            if self._clock.elapsed_ms() >= deadline:
                raise ViewBehind(self.name, wanted=spoken(next_offsets(wanted)), has=spoken(position), waited=timeout)
            _pause()

    def close(self) -> None:
        self._store.close()

    def __enter__(self) -> "View":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _wait_for(self, wanted: Position | Offsets | None, timeout: float) -> None:
        if wanted is not None:
            self.wait_for(wanted, timeout)

    def _counters(self) -> tuple[int, int]:
        with self._store.snapshot(self.name) as snapshot:
            return snapshot.mark.generation, snapshot.mark.change

    def _changes_since(self, seen: tuple[int, int] | None) -> tuple[tuple[int, int], list[Change]]:
        """Returns the changes, and the generation and change that they are complete up to."""
        with self._store.snapshot(self.name) as snapshot:
            now = snapshot.mark.generation, snapshot.mark.change
            if seen == now:
                return now, []
            if seen is None or seen[0] != now[0] or seen[1] < snapshot.mark.changes_from:
                key = snapshot.shape.key
                rows = snapshot.select(Query())
                return now, [Change("reset", {}, None),
                             *(Change("upsert", {name: row[name] for name in key}, row) for row in rows)]  # fmt: skip
            changed = snapshot.changes_after(seen[1])
            return now, [Change("delete" if row is None else "upsert", key, row) for key, row in changed]


def _pause() -> None:
    """There is no signal across databases and processes: looking often is what works with all of them."""
    Event().wait(POLL_SECONDS)
