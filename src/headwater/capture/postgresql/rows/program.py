"""Tables as arrays, for the compiled loops (scanning.py, writing.py). Pure.

A table has a program if the JSON of each of its columns is a plain function of the text, of a kind that is named here.
The words around the values are taken from the same patterns that envelope.py and assembler.py fill in.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from headwater.capture.change import CapturedTable
from headwater.capture.envelope import NULL, POSITION_HEADER, VALUE, Shape
from headwater.capture.postgresql import types
from headwater.capture.postgresql.assembler import SOURCE_HEAD, SOURCE_TAIL, SourceBlock
from headwater.capture.postgresql.tables import Plan
from headwater.capture.postgresql.types import Convert

Int64Array = npt.NDArray[np.int64]
ByteArray = npt.NDArray[np.uint8]

NUMBER, FLOATING, BOOLEAN, BIT, PLAIN, TEXT, DATE, TIMESTAMP, TIMESTAMP_WITH_ZONE = range(9)
KINDS: dict[Convert, int] = {
    types.number: NUMBER,
    types.floating: FLOATING,
    types.boolean: BOOLEAN,
    types.boolean_bit: BIT,
    types.plain: PLAIN,
    types.text: TEXT,
    types.date: DATE,
    types.timestamp: TIMESTAMP,
    types.timestamp_with_zone: TIMESTAMP_WITH_ZONE,
}

# Columns of `tables`: indexes into `columns` and `keys`, spans of `text`, and what a row may take beside its values.
(
    FIRST_COLUMN, COLUMN_COUNT, FIRST_KEY, KEY_COUNT,
    HEAD_START, HEAD_END, NAMED_START, NAMED_END, WIDE_BYTES, FIXED_BYTES,
) = range(10)  # fmt: skip

# Columns of `columns`.
KIND, IDENTITY, NAME_START, NAME_END = range(4)

# Rows of `words`, in the order in which they stand in a record.
BEFORE, AFTER, SOURCE, TS_US, TS_NS, SEQUENCE, ADDRESS, LSN, TRANSACTION, HEADERS, NONE = range(11)

ROOM_BYTES = 1024
"""More than the words, numbers and lengths of one record, without what its table brings."""


class Programs(NamedTuple):
    text: ByteArray
    words: Int64Array
    relations: Int64Array
    """Ids, ascending; one for each row of `tables`."""

    tables: Int64Array
    columns: Int64Array
    keys: Int64Array
    """Indexes of key columns among those of their table."""


class Program(NamedTuple):
    """Of one table, as if it were alone."""

    text: bytes
    table: list[int]
    columns: list[tuple[int, int, int, int]]
    keys: tuple[int, ...]


def _words() -> tuple[bytes, list[bytes]]:
    """The words of an envelope that are the same for all, and those of `source` that tables fill."""
    before, after, source, transaction, operation, _, _ = VALUE.split(b"%b")
    head, ts_ms, ts_us, ts_ns, between, id, xmin = re.split(rb"%[bd]", SOURCE_HEAD)
    _, sequence, address, lsn, end = re.split(rb"%[bd]", SOURCE_TAIL)
    name = POSITION_HEADER.encode()
    headers = bytes([1 << 1, len(name) << 1]) + name  # how many, and the name of the only one; as zigzag varints
    words = [
        before, after, source, ts_us, ts_ns, xmin + sequence, address, lsn,
        end + transaction + NULL + operation, headers, NULL,
    ]  # fmt: skip
    return b"".join(words), [head, ts_ms, between, id, *words]


WORDS, (_HEAD, _TS_MS, _BETWEEN, _ID, *_SHARED) = _words()
CLOSING = VALUE.split(b"%b")[5]
"""What stands between the operation and the time at which a change passes."""


def program_of(plan: Plan, source: SourceBlock) -> Program | None:
    """None for a table that has a value which is not for the compiled loops."""
    kinds = [KINDS.get(convert) for convert in plan.converters]
    if any(kind is None for kind in kinds):
        return None
    table = plan.table
    capture, named = source.fixed(table)
    head, middle = _HEAD + capture + _TS_MS, _BETWEEN + named + _ID
    names = Shape(table).names
    text = b"".join((head, middle, *names))
    ends = np.cumsum([len(head) + len(middle), *map(len, names)]).tolist()
    columns = [
        (kind or 0, int(known), start, end)
        for kind, known, start, end in zip(kinds, plan.identity, ends[:-1], ends[1:], strict=True)
    ]
    fixed = 4 * len(text) + 34 * len(columns) + 2 * ROOM_BYTES
    facts = [0, len(columns), 0, len(table.key), 0, len(head), len(head), len(head) + len(middle)]
    return Program(text, [*facts, table.wide_bytes, fixed], columns, table.key)


def together(programs: Mapping[int, Program]) -> Programs:
    """The programs of relations, in the order of their ids."""
    text, tables = [WORDS], []
    columns: list[tuple[int, int, int, int]] = []
    keys: list[int] = []
    offset = len(WORDS)
    for _, program in sorted(programs.items()):
        table = program.table.copy()
        table[FIRST_COLUMN], table[FIRST_KEY] = len(columns), len(keys)
        for field in (HEAD_START, HEAD_END, NAMED_START, NAMED_END):
            table[field] += offset
        columns += [(kind, known, start + offset, end + offset) for kind, known, start, end in program.columns]
        keys += program.keys
        tables.append(table)
        text.append(program.text)
        offset += len(program.text)
    ends = np.cumsum([0, *map(len, _SHARED)])
    return Programs(
        text=np.frombuffer(b"".join(text), dtype=np.uint8).copy(),
        words=np.stack((ends[:-1], ends[1:]), axis=1).astype(np.int64),
        relations=np.array(sorted(programs), dtype=np.int64),
        tables=np.array(tables, dtype=np.int64).reshape(-1, FIXED_BYTES + 1),
        columns=np.array(columns, dtype=np.int64).reshape(-1, NAME_END + 1),
        keys=np.array(keys, dtype=np.int64),
    )


def tables_of(plans: Mapping[int, Plan | None], programs: Programs) -> list[CapturedTable]:
    """The table of each row of `programs.tables`."""
    found = [plans[relation] for relation in programs.relations.tolist()]
    return [plan.table for plan in found if plan is not None]
