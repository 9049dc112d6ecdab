"""Which keys meet the condition of an alert now, as the view of the alert says; each look costs what has changed.

A view remembers which keys went, and with which write. So a look also finds those that came and went since the last
one, though their rows are no longer there to see.

A view of windows has a row for each window of a key. Its newest window counts: what an older one said is past. A newest
window is past too when the view has windows that begin after its end, though none of this key: then nothing of the key
was there to count.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headwater.alerts.episodes import Held
from headwater.alerts.journal import key_text
from headwater.alerts.row_limits import fitting
from headwater.errors import InvalidQuery
from headwater.views.plain import plain
from headwater.views.query import Order, Query, parse_query
from headwater.views.shape import Shape
from headwater.views.store import Row, Snapshot, ViewStore

WINDOW_COLUMNS = ("window_start", "window_end")
KEYS_MAX = 10_000
KEY_TEXT_MAX = 65_536
"""A key is in a record twice, and cannot be cut: it would be that of others too."""


@dataclass
class Watch:
    """One alert's view, and the view it is of. Used from one thread."""

    store: ViewStore
    name: str
    view: str
    since: tuple[int, int] | None = None
    """The position of the previous evaluation; None if there was none."""
    under_way: Callable[[], Iterable[Mapping[str, Any]]] = tuple
    """Keys that go before others where there are more than are kept."""
    held: dict[str, Held] = field(default_factory=dict)
    """All rows that meet the condition, by the text of their key; of windows the newest of each key."""
    passed: dict[str, Row] = field(default_factory=dict)
    """Keys that went since the last look, by their text, whether or not they were there then, or hold again."""
    seen: tuple[int, int] | None = None
    """Generation and change of the alert's view."""
    more: bool = False
    """There are more keys than are kept."""
    too_long: str = ""
    """The beginning of a key that is too long for a notification, if there was one."""
    _newest: dict[str, Row] = field(default_factory=dict)
    _base: tuple[int, int] | None = None

    def look(self) -> bool:
        """Bring `held` up to date; whether anything was there to see. UnknownView while the view is not made yet.

        What cannot be read raises, and leaves `held` as it was."""
        self.passed = {}
        base = self._base_mark()  # read first: then the alert's view is never older than the base view unnoticed
        with self.store.snapshot(self.name) as snapshot:
            mark = snapshot.mark
            now = mark.generation, mark.change
            if now == self.seen and base == self._base:
                return False
            windowed = is_windowed(snapshot.shape)
            deleted = self._take(snapshot, windowed=windowed) if now != self.seen else []
            shape, batch = snapshot.shape, mark.batch
        if windowed:
            settled = self._settle_windows(batch, deleted)
            if settled is None:
                return False  # the view is a batch ahead of the alert's: the next look sees both
            deleted = settled
        passed = [(key_text(own), own) for own in (_own(shape, key) for key in deleted)]
        self.passed = {text: own for text, own in passed if len(text) <= KEY_TEXT_MAX}
        self.seen, self._base = now, base
        return True

    def _base_mark(self) -> tuple[int, int] | None:
        mark = self.store.mark(self.view)
        return None if mark is None else (mark.generation, mark.change)

    def _take(self, snapshot: Snapshot, *, windowed: bool) -> list[Row]:
        """Bring all rows that meet the condition up to date; answers which keys went, as far as that is remembered."""
        before, mark, had_more = self.seen or self.since, snapshot.mark, self.more
        remembered = before is not None and before[0] == mark.generation and before[1] >= mark.changes_from
        changes = list(snapshot.changes_after(before[1])) if before is not None and remembered else []
        # A copy, until all is read: a store that fails in the middle must not look like keys that went.
        rows: dict[str, Any] = {}
        if self.seen is not None and remembered:
            rows, more = dict(self._newest if windowed else self.held), had_more
            # Windows that are merged go and come in one batch: what goes must not take what came with it.
            for one in sorted(changes, key=lambda one: one.row is not None):
                more |= not self._put(rows, snapshot.shape, one.key, one.row)
            if more and len(rows) < KEYS_MAX:
                more = self._fill(rows, snapshot)
        else:
            self._put_under_way(rows, snapshot)
            more = self._fill(rows, snapshot)
        if windowed:
            self._newest = rows
        else:
            self.held = rows
        self.more = more
        # Of keys beyond the limit it is not known whether they were notified.
        return [] if more or had_more else [one.key for one in changes if one.row is None]

    def _put_under_way(self, rows: dict[str, Any], snapshot: Snapshot) -> None:
        """Where not all have room, those that are under way come first: else they would be resolved for others."""
        shape = snapshot.shape
        if snapshot.count(Query()) <= KEYS_MAX:
            return
        order = f"{WINDOW_COLUMNS[0]} desc" if is_windowed(shape) else None
        for key in self.under_way():
            try:
                found = snapshot.select(parse_query(shape, key, order, 1))
            except InvalidQuery:
                continue  # the key has other columns by now, or a value that JSON has no word for
            for row in found:
                self._put(rows, shape, row, row)

    def _fill(self, rows: dict[str, Any], snapshot: Snapshot) -> bool:
        """Add what meets the condition, of windows the newest first, as long as there is room; was there more?"""
        shape, page, skip = snapshot.shape, KEYS_MAX + 1, 0
        where, order = None, [Order(column, descending=False) for column in shape.key_columns]
        if is_windowed(shape):
            order.insert(0, Order(shape.column(WINDOW_COLUMNS[0]), descending=True))
            # What is past is never looked at again, however much of it the view keeps.
            last = snapshot.select(Query(order=tuple(order), limit=1))
            where = {f"{WINDOW_COLUMNS[1]} >=": _start(last[0])} if last else None
        conditions = parse_query(shape, where, None, None).where
        while True:
            found = snapshot.select(Query(conditions, tuple(order), page, skip))
            fitted = [self._put(rows, shape, row, row) for row in found]
            if len(found) < page or not all(fitted):
                return not all(fitted)
            skip += page

    def _put(self, rows: dict[str, Any], shape: Shape, key: Row, row: Row | None) -> bool:
        """Into rows by the text of their key, or out of them; False if there is no room."""
        own, windowed = _own(shape, key), is_windowed(shape)
        text = key_text(own)
        if row is None:
            if not windowed or _same_window(rows.get(text), key):
                rows.pop(text, None)
        elif len(text) > KEY_TEXT_MAX:
            self.too_long = text[:80]
        elif text not in rows and len(rows) >= KEYS_MAX:
            return False
        elif not windowed:
            rows[text] = Held(own, _values(row, own))
        elif text not in rows or _start(row) >= _start(rows[text]):
            rows[text] = row
        return True

    def _settle_windows(self, batch: int, deleted: list[Row]) -> list[Row] | None:
        """Which of the newest windows that meet the condition are not past; answers which of those that went were not
        past either, and have no newer one that holds. None: they cannot be compared."""
        with self.store.snapshot(self.view) as base:
            if base.mark.batch > batch:
                return None
            last = base.select(parse_query(base.shape, None, f"{WINDOW_COLUMNS[0]} desc", 1))
            current: dict[str, Held] = {}
            for text, row in list(self._newest.items()):
                if _is_over(row, last):
                    del self._newest[text]  # time does not come back
                elif not self._has_newer(base, row):
                    own = _own(base.shape, row)
                    current[text] = Held(own, _values(row, own))
            self.held = current
            return [
                key
                for key in deleted
                if key_text(_own(base.shape, key)) not in current
                and not _is_over(key, last)
                and not self._has_newer(base, key)
            ]

    def _has_newer(self, base: Snapshot, row: Row) -> bool:
        same = {name: row[name] for name in own_key(base.shape)}
        newer = {**same, f"{WINDOW_COLUMNS[0]} >": _start(row)}
        return bool(base.select(parse_query(base.shape, newer, None, 1)))


def is_windowed(shape: Shape) -> bool:
    return all(name in shape.key for name in WINDOW_COLUMNS)


def own_key(shape: Shape) -> list[str]:
    """The key of an alert: without the window, if there is one."""
    return [name for name in shape.key if not is_windowed(shape) or name not in WINDOW_COLUMNS]


def _own(shape: Shape, key: Row) -> dict[str, Any]:
    return {name: plain(key[name]) for name in own_key(shape)}


def _start(row: Mapping[str, Any]) -> Any:
    return row[WINDOW_COLUMNS[0]]


def _is_over(row: Row, last: list[Row]) -> bool:
    """Returns whether a newer window exists."""
    return bool(last) and row[WINDOW_COLUMNS[1]] < last[0][WINDOW_COLUMNS[0]]  # type: ignore[operator]  # both are times


def _same_window(row: Row | None, key: Row) -> bool:
    return row is not None and all(row[name] == key[name] for name in WINDOW_COLUMNS)


def _values(row: Row, own: Mapping[str, object]) -> dict[str, Any]:
    return fitting({name: plain(value) for name, value in row.items() if name not in own})
