"""The outbox pattern: rows that are inserted into a user's table of events, as plain records.

A service writes its event into a table of its own database, in the transaction that made it true; the capture of that
table relays each event once, in the order of commits. It wraps the source of any database. What decides the order is
what decides it there: PostgreSQL's log has transactions as they were committed, whatever numbers a sequence gave them
before; SQLite lets one transaction write at a time. Updates and deletes are not events: rows that were relayed may be
deleted at any time, even in the transaction that inserts them.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from headwater.capture.change import BEGIN, CREATE, END, CapturedTable, Change, Plain
from headwater.capture.notes import Note
from headwater.capture.source import Batch, ChangeSource, Guarded, SourceStatus
from headwater.errors import InvalidCapture
from headwater.record import Header


class Relay:
    """A ChangeSource of events, made of a ChangeSource of rows."""

    def __init__(self, source: ChangeSource, *, key_column: str, value_column: str) -> None:
        self._source, self._key, self._value = source, key_column, value_column
        self._tables: dict[CapturedTable, CapturedTable] = {}

    def open(self, notes: Mapping[str, Note]) -> None:
        self._source.open(notes)

    def tables(self) -> Sequence[CapturedTable]:
        return [self._plain(table) for table in self._source.tables()]

    def _plain(self, table: CapturedTable) -> CapturedTable:
        if (found := self._tables.get(table)) is None:
            for column in (self._key, self._value):
                if column and column not in table.columns:
                    raise InvalidCapture(
                        f"table {table.full_name} has no column {column}",
                        f"It has {', '.join(table.columns)}: say which with --key-column and --value-column.",
                    )
            found = self._tables[table] = replace(table, plain=True)
        return found

    def poll(self, timeout_seconds: float) -> Batch:
        batch = self._source.poll(timeout_seconds)
        batch.changes = [
            self._event(change) if change.operation == CREATE else change
            for change in batch.changes
            if change.operation in (CREATE, BEGIN, END)
        ]
        return batch

    def _event(self, change: Change) -> Change:
        assert change.after is not None
        row = dict(zip(change.table.columns, change.after, strict=True))
        table = self._plain(change.table)
        headers: tuple[Header, ...] = tuple(
            (name, plain_text(row[name])) for name in change.table.columns if name not in (self._key, self._value)
        )
        key = plain_text(row[self._key]) if self._key else None
        change.table, change.plain = table, Plain(key, plain_text(row[self._value]), headers)
        return change

    def confirm(self, address: int) -> None:
        self._source.confirm(address)

    def read_row(self, table: str, key: tuple[str, ...], *, moved: bool) -> None:
        """An inserted row is whole."""

    def copy_again(self, tables: Sequence[str], *, where: str = "") -> None:
        raise InvalidCapture(
            "events are relayed when they are committed, and not copied again",
            "Insert those that are wanted once more as new rows.",
        )

    def status(self) -> SourceStatus:
        return self._source.status()

    def guard(self) -> SourceStatus:
        return self._source.guard() if isinstance(self._source, Guarded) else SourceStatus()

    def close(self) -> None:
        self._source.close()


def plain_text(value: bytes | None) -> bytes | None:
    """A value of a row as bytes of a record: text without its quotes, anything else as JSON, NULL as nothing.

    >>> plain_text(b'"{\\\\"id\\\\": 7}"'), plain_text(b"7"), plain_text(b"null")
    (b'{"id": 7}', b'7', None)
    """
    if value is None or value == b"null":
        return None
    if value.startswith(b'"'):
        return str(json.loads(value)).encode()
    return value
