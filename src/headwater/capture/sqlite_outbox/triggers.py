"""The triggers that write every change of a table into the outbox, as SQL text. Pure.

    outbox   number | shape | operation | at_ms | mark | b0 b1 … | a0 a1 …
    doomed   shape | id | c0 c1 …

`b` is the row before, `a` the row after, column by column and without a type: SQLite stores each value as it is.
`shape` says which version of which table they belong to.

REPLACE is why there are five triggers and not three. `INSERT OR REPLACE` and `UPDATE OR REPLACE` delete the rows that
are in the way, and SQLite runs no delete trigger for them (unless recursive_triggers is on). So the triggers before
note which rows would be in the way, and those after record the deletion of rows that were replaced. Where delete
triggers do run, they take the row off that note again: each deletion is recorded once.
"""

from collections.abc import Sequence

from headwater.capture.sqlite_outbox.tables import Table, Unique, quoted

CREATED, UPDATED, DELETED, READ, EMPTIED, ENDED = "c", "u", "d", "r", "t", "e"
NOW_MS = "CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER)"
MOMENTS = ("BEFORE INSERT", "BEFORE UPDATE", "AFTER INSERT", "AFTER UPDATE", "AFTER DELETE")


def outbox_columns(count: int) -> list[str]:
    return [f"{side}{index}" for index in range(count) for side in "ba"]


def doomed_columns(count: int) -> list[str]:
    return [f"c{index}" for index in range(count)]


def doomed_name(outbox: str) -> str:
    return f"{outbox}_doomed"


def trigger_name(outbox: str, table: str, moment: str) -> str:
    return f"{outbox}_{moment.lower().replace(' ', '_')}_{table}"


def triggers(outbox: str, shape: int, table: Table) -> dict[str, str]:
    """The statement that makes each trigger, by its name."""
    bodies = {
        "BEFORE INSERT": _note_doomed(outbox, shape, table, spared=""),
        "BEFORE UPDATE": _note_doomed(outbox, shape, table, spared=f"NOT ({_same(table, 'OLD')})"),
        "AFTER INSERT": [*_record_doomed(outbox, shape, table), _tell(outbox, shape, table, CREATED)],
        "AFTER UPDATE": [*_record_doomed(outbox, shape, table), _tell(outbox, shape, table, UPDATED)],
        "AFTER DELETE": [_forget(outbox, shape, table, "OLD"), _tell(outbox, shape, table, DELETED)],
    }
    made = {}
    for moment in MOMENTS:
        name = trigger_name(outbox, table.name, moment)
        body = " ".join(f"{statement};" for statement in bodies[moment])
        made[name] = f"CREATE TRIGGER {quoted(name)} {moment} ON {quoted(table.name)} BEGIN {body} END"
    return made


def _tell(outbox: str, shape: int, table: Table, operation: str) -> str:
    sides = {CREATED: ("NEW",), UPDATED: ("OLD", "NEW"), DELETED: ("OLD",)}[operation]
    names, values = [], []
    for side in sides:
        names += [f"{'b' if side == 'OLD' else 'a'}{index}" for index in range(len(table.columns))]
        values += [f"{side}.{quoted(column)}" for column in table.columns]
    return _into(outbox, names) + f"VALUES ({shape}, '{operation}', {NOW_MS}, {', '.join(values)})"


def _into(outbox: str, names: Sequence[str]) -> str:
    return f"INSERT INTO {quoted(outbox)} ({', '.join(['shape', 'operation', 'at_ms', *names])}) "


def _note_doomed(outbox: str, shape: int, table: Table, *, spared: str) -> list[str]:
    """Rows that have what the new row is going to have, where no two may have it."""
    if not table.uniques:
        return ["SELECT 1"]  # a trigger must do something
    doomed = quoted(doomed_name(outbox))
    in_the_way = " OR ".join(f"({_collides(unique)})" for unique in table.uniques)
    condition = f"({in_the_way}) AND {spared}" if spared else in_the_way
    names = ", ".join(["shape", "id", *doomed_columns(len(table.columns))])
    values = ", ".join([str(shape), table.rowid or "NULL", *map(quoted, table.columns)])
    return [
        f"DELETE FROM {doomed} WHERE shape = {shape}",
        f"INSERT INTO {doomed} ({names}) SELECT {values} FROM {quoted(table.name)} WHERE {condition}",
    ]


def _collides(unique: Unique) -> str:
    return " AND ".join(
        f"{quoted(column)} = NEW.{quoted(column)}" + (f" COLLATE {quoted(collation)}" if collation else "")
        for column, collation in unique.columns
    )


def _same(table: Table, side: str) -> str:
    """That a row of the table is the old, or the new one."""
    if table.rowid:
        return f"{table.rowid} IS {side}.{table.rowid}"
    names = [quoted(table.columns[index]) for index in _identity(table)]
    return " AND ".join(f"{name} IS {side}.{name} COLLATE BINARY" for name in names)


def _identity(table: Table) -> Sequence[int]:
    """Columns by which a row is known where it has no number of its own."""
    return table.key or range(len(table.columns))


def _record_doomed(outbox: str, shape: int, table: Table) -> list[str]:
    """Records the deletion of every conflicting row that was deleted, or that the new row has replaced."""
    if not table.uniques:
        return []
    doomed = quoted(doomed_name(outbox))
    count = len(table.columns)
    if table.rowid:
        still = f"{table.rowid} IS doomed.id"
    else:
        # Exactly the same: a column that takes "a" for "A" would find the new row instead of the old one.
        still = " AND ".join(
            f"{quoted(table.columns[index])} IS doomed.c{index} COLLATE BINARY" for index in _identity(table)
        )
    replaced = f"({_doomed_is(table, 'NEW')}) OR NOT EXISTS (SELECT 1 FROM {quoted(table.name)} WHERE {still})"
    columns = ", ".join(doomed_columns(count))
    return [
        _into(outbox, [f"b{index}" for index in range(count)])
        + f"SELECT {shape}, '{DELETED}', {NOW_MS}, {columns} FROM {doomed} AS doomed "
        + f"WHERE shape = {shape} AND ({replaced})",
        f"DELETE FROM {doomed} WHERE shape = {shape}",
    ]


def _doomed_is(table: Table, side: str) -> str:
    if table.rowid:
        return f"id IS {side}.{table.rowid}"
    return " AND ".join(
        f"c{index} IS {side}.{quoted(table.columns[index])} COLLATE BINARY" for index in _identity(table)
    )


def _forget(outbox: str, shape: int, table: Table, side: str) -> str:
    return f"DELETE FROM {quoted(doomed_name(outbox))} WHERE shape = {shape} AND ({_doomed_is(table, side)})"
