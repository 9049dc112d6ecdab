"""A change as records: the envelope that consumers of Debezium know. Pure.

    key    {"id":7}
    value  {"before":…,"after":…,"source":{…},"transaction":…,"op":"u","ts_ms":…,"ts_us":…,"ts_ns":…}

A delete is followed by a tombstone (the same key, no value), so that compaction forgets the row. A change of the key
itself is a delete of the old key, its tombstone, and a create under the new one, linked by headers as Debezium's are.
Each record carries the header `position`: where it stands in the source. The last record of a partition thereby says
what a restarted capture must not write again.
"""

from collections.abc import Sequence
from json import dumps

from headwater.capture.change import (
    BEGIN,
    CREATE,
    DELETE,
    END,
    POSITION,
    READ,
    TRUNCATE,
    UPDATE,
    CapturedTable,
    Change,
    Row,
    TransactionOrder,
)
from headwater.record import Header, Record

POSITION_HEADER = "position"
SNAPSHOT_HEADER = "snapshot"
OLD_KEY_HEADER, NEW_KEY_HEADER = "__debezium.oldkey", "__debezium.newkey"
UNAVAILABLE = b'"__debezium_unavailable_value"'
"""The placeholder for a value that neither the database nor the topic had."""

NULL = b"null"
VALUE = b'{"before":%b,"after":%b,"source":%b,"transaction":%b,"op":"%b",%b'
PASSED = b'"ts_ms":%d,"ts_us":%d000,"ts_ns":%d000000}'
OLD, TOMBSTONE, NEW = 0, 1, 2  # numbers of the records of one change
OPERATIONS = {name: name.encode() for name in (CREATE, UPDATE, DELETE, READ, TRUNCATE)}


class Shape:
    """How rows of one version of a table are written: the names as JSON, and patterns to fill whole rows into."""

    def __init__(self, table: CapturedTable) -> None:
        self.names = [dumps(column, ensure_ascii=False).encode() + b":" for column in table.columns]
        self.row = _pattern(self.names)
        self.key = _pattern([self.names[index] for index in table.key])


def _pattern(names: Sequence[bytes]) -> bytes:
    """
    >>> _pattern([b'"id":', b'"100%":'])
    b'{"id":%b,"100%%":%b}'
    """
    return b"{" + b",".join(name.replace(b"%", b"%%") + b"%b" for name in names) + b"}"


class Envelopes:
    """Makes the records of changes. `now_ms` is when they pass, the outer `ts_ms` of the envelope."""

    def __init__(self) -> None:
        self._shapes: dict[CapturedTable, Shape] = {}
        self._now_ms, self._passed = -1, b""

    def records(self, change: Change, *, now_ms: int) -> list[tuple[int, Record]]:
        """Each with its number within the change; none lies at or before a position that an earlier change had."""
        if change.plain is not None:
            key, value, headers = change.plain
            return [(OLD, Record(value, key, headers + self._headers(change, OLD), change.time_ms))]
        if change.operation == TRUNCATE:
            return [(OLD, self._record(change, TRUNCATE, None, None, None, OLD, now_ms))]
        if change.operation == DELETE:
            assert change.before is not None
            before = self._row(change.table, change.before, known_only=True)
            return self.deletion(change, self.key(change.table, change.before), before, now_ms=now_ms)
        assert change.after is not None
        if change.operation in (BEGIN, END):
            key = self.key(change.table, change.after)
            return [(OLD, Record(change.source, key, self._headers(change, OLD), change.time_ms))]
        key, after = self.key(change.table, change.after), self._row(change.table, change.after, known_only=False)
        if change.before is None:
            return [(OLD, self._record(change, change.operation, key, None, after, OLD, now_ms))]
        before, old = self._row(change.table, change.before, known_only=True), self.key(change.table, change.before)
        if old == key:
            return [(OLD, self._record(change, change.operation, key, before, after, OLD, now_ms))]
        moved: tuple[Header, ...] = ((OLD_KEY_HEADER, old),)
        created = self._record(change, CREATE, key, None, after, NEW, now_ms, moved)
        return [*self.deletion(change, old, before, now_ms=now_ms, new_key=key), (NEW, created)]

    def deletion(
        self, change: Change, key: bytes | None, before: bytes, *, now_ms: int, new_key: bytes | None = None
    ) -> list[tuple[int, Record]]:
        """The end of one key, whatever the change is: `before` is what is known of its row, as JSON."""
        moved: tuple[Header, ...] = ((NEW_KEY_HEADER, new_key),) if new_key is not None else ()
        deleted = (OLD, self._record(change, DELETE, key, before, None, OLD, now_ms, moved))
        if key is None:
            return [deleted]
        return [deleted, (TOMBSTONE, Record(None, key, self._headers(change, TOMBSTONE), change.time_ms))]

    def key(self, table: CapturedTable, row: Row) -> bytes | None:
        if not table.key:
            return None
        shape = self._shapes.get(table) or self._shape(table)
        return shape.key % tuple([row[index] or NULL for index in table.key])

    def _record(
        self,
        change: Change,
        operation: str,
        key: bytes | None,
        before: bytes | None,
        after: bytes | None,
        part: int,
        now_ms: int,
        more: tuple[Header, ...] = (),
    ) -> Record:
        where = change.order and change.order.next() if part == NEW else change.order
        if now_ms != self._now_ms:
            self._now_ms, self._passed = now_ms, PASSED % (now_ms, now_ms, now_ms)
        ordered = NULL if where is None else _order(where)
        value = VALUE % (before or NULL, after or NULL, change.source, ordered, OPERATIONS[operation], self._passed)
        headers = self._headers(change, part)
        return Record(value, key, headers + more if more else headers, change.time_ms)

    def _headers(self, change: Change, part: int) -> tuple[Header, ...]:
        commit, address, number = change.position
        position = POSITION % (commit, address, number + part)
        if change.operation == READ:
            return ((POSITION_HEADER, position), (SNAPSHOT_HEADER, change.chunk))
        return ((POSITION_HEADER, position),)

    def _row(self, table: CapturedTable, row: Row, *, known_only: bool) -> bytes:
        shape = self._shapes.get(table) or self._shape(table)
        try:
            return shape.row % tuple(row)
        except TypeError:
            pass  # at least one value is unknown
        names = shape.names
        if known_only:
            fields = [name + value for name, value in zip(names, row, strict=True) if value is not None]
        else:
            fields = [name + (UNAVAILABLE if value is None else value) for name, value in zip(names, row, strict=True)]
        return b"{" + b",".join(fields) + b"}"

    def _shape(self, table: CapturedTable) -> Shape:
        found = self._shapes[table] = Shape(table)
        return found


def _order(order: TransactionOrder) -> bytes:
    return dumps(
        {"id": order.transaction, "total_order": order.total, "data_collection_order": order.of_table},
        separators=(",", ":"),
    ).encode()
