"""Cells to Arrow columns, whatever the type: the recursion is over types, never over rows.

The elements of all arrays of a column are one longer column; the fields of all structs of a column are columns of the
same length. So nested types run through the same compiled code as flat ones.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.flow.formats.kernels.binaries import binaries
from headwater.flow.formats.kernels.cells import (
    ABSENT,
    ARRAY,
    ESCAPED,
    FALSE,
    NULL,
    OBJECT,
    TRUE,
    VALID,
    WRONG,
    ByteArray,
    Cells,
    Int32Array,
    texts_of,
    without_escapes,
)
from headwater.flow.formats.kernels.compiling import compiled
from headwater.flow.formats.kernels.json_scan import Elements, NameTable, same_bytes, scan_elements, scan_objects
from headwater.flow.formats.kernels.memory import address_of
from headwater.flow.formats.kernels.numbers import decimals, doubles, floats, integers
from headwater.flow.formats.kernels.times import AS_WRITTEN, TimeReading, dates, timestamps

BoolArray = npt.NDArray[np.bool_]


class Part(NamedTuple):
    """A column inside a column. `offsets` say which of its rows belong to a row of the outer one; None: one each."""

    label: str
    column: "Column"
    offsets: Int32Array | None = None


@dataclass
class Column:
    """A converted column before it is Arrow: rows may still be taken out of it, and wrong ones can be explained."""

    type: pa.DataType
    cells: Cells
    states: ByteArray
    buffers: list[pa.Buffer]
    parts: list[Part] = field(default_factory=list)
    required: bool = False
    times: TimeReading = AS_WRITTEN

    def array(self, kept: BoolArray | None = None) -> pa.Array:
        """As Arrow, null where a value is absent, wrong or not kept."""
        valid = self.states == VALID
        if kept is not None:
            valid &= kept
        inner = [part.column.array() for part in self.parts]
        if pa.types.is_map(self.type):
            # Arrow ends the process over a key that is null; one that is wrong is an empty text in a row that is null.
            keys = self.parts[0].column
            inner[0] = pa.Array.from_buffers(keys.type, len(keys.states), [None, *keys.buffers])
            entry = pa.struct([self.type.key_field, self.type.item_field])
            inner = [pa.Array.from_buffers(entry, len(inner[0]), [None], children=inner)]
        buffers = [_bitmap(valid), *self.buffers]
        return pa.Array.from_buffers(self.type, len(valid), buffers, children=inner or None)


def _bitmap(valid: BoolArray) -> pa.Buffer | None:
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))


def convert(cells: Cells, kind: pa.DataType, *, times: TimeReading = AS_WRITTEN, required: bool = False) -> Column:
    """The column of a type; `times` says what numbers and local times mean. Required: no cell may be absent."""
    if not pa.types.is_string(kind) and (cells.kinds == ESCAPED).any():
        cells = without_escapes(cells)
    if pa.types.is_struct(kind):
        column = _structs(cells, kind, times)
    elif pa.types.is_list(kind):
        column = _lists(cells, kind, times)
    elif pa.types.is_map(kind):
        column = _maps(cells, kind, times)
    else:
        column = _flat(cells, kind, times)
    column.required, column.times = required, times
    return column


def refuse_absent(column: Column, present: BoolArray) -> None:
    """Mark what is absent as wrong in a required column, where its row is present at all."""
    if column.required:
        column.states[(column.states == ABSENT) & present] = WRONG


def _flat(cells: Cells, kind: pa.DataType, times: TimeReading) -> Column:
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        texts = texts_of(cells) if pa.types.is_string(kind) else binaries(cells)
        return Column(kind, cells, texts.states, texts.buffers())
    if pa.types.is_boolean(kind):
        states = np.where(cells.kinds <= NULL, ABSENT, WRONG).astype(np.uint8)
        states[(cells.kinds == TRUE) | (cells.kinds == FALSE)] = VALID
        return Column(kind, cells, states, [pa.py_buffer(np.packbits(cells.kinds == TRUE, bitorder="little"))])
    values: npt.NDArray[np.generic]
    if pa.types.is_integer(kind):
        values, states = integers(cells, kind)
    elif pa.types.is_decimal(kind):
        values, states = decimals(cells, kind.precision, kind.scale)
    elif pa.types.is_timestamp(kind):
        values, states = timestamps(cells, zoned=kind.tz is not None, times=times)
    elif pa.types.is_date(kind):
        values, states = dates(cells)
    elif pa.types.is_float32(kind):
        values, states = floats(cells)
    else:
        values, states = doubles(cells)
    return Column(kind, cells, states, [pa.py_buffer(values)])


def _states_of(cells: Cells, wanted: int) -> ByteArray:
    states = np.where(cells.kinds <= NULL, ABSENT, WRONG).astype(np.uint8)
    states[cells.kinds == wanted] = VALID
    return states


@lru_cache(maxsize=256)
def name_table(names: tuple[str, ...]) -> NameTable:
    return NameTable.of(list(names))


def _structs(cells: Cells, kind: pa.DataType, times: TimeReading) -> Column:
    states = _states_of(cells, OBJECT)
    present = states == VALID
    inner = scan_objects(cells, name_table(tuple(field.name for field in kind.fields))).columns
    parts = []
    for cells_of_field, described in zip(inner, kind.fields, strict=True):
        column = convert(cells_of_field, described.type, times=times, required=not described.nullable)
        refuse_absent(column, present)
        states[column.states == WRONG] = WRONG
        parts.append(Part(f".{described.name}", column))
    return Column(kind, cells, states, [], parts)


def _lists(cells: Cells, kind: pa.DataType, times: TimeReading) -> Column:
    states = _states_of(cells, ARRAY)
    elements = scan_elements(cells, ARRAY)
    column = convert(elements.values, kind.value_type, times=times)
    states[_rows_with(elements.offsets, column.states == WRONG)] = WRONG
    return Column(kind, cells, states, [pa.py_buffer(elements.offsets)], [Part("", column, elements.offsets)])


def _maps(cells: Cells, kind: pa.DataType, times: TimeReading) -> Column:
    states = _states_of(cells, OBJECT)
    elements = _last_of_each_key(scan_elements(cells, OBJECT))
    parts = [
        Part("", convert(elements.keys, kind.key_type), elements.offsets),
        Part("", convert(elements.values, kind.item_type, times=times), elements.offsets),
    ]
    for part in parts:
        states[_rows_with(elements.offsets, part.column.states == WRONG)] = WRONG
    return Column(kind, cells, states, [pa.py_buffer(elements.offsets)], parts)


def _rows_with(offsets: Int32Array, wrong: BoolArray) -> npt.NDArray[np.intp]:
    """The rows to which at least one of the wrong elements belongs."""
    return np.searchsorted(offsets, np.flatnonzero(wrong), side="right") - 1


def _last_of_each_key(elements: Elements) -> Elements:
    """A name that occurs twice in an object counts once, with its last value."""
    texts = texts_of(elements.keys)
    kept = np.ones(len(texts.states), dtype=np.bool_)
    most = int(np.diff(elements.offsets).max(initial=0))
    slots = np.full(1 << (2 * most).bit_length(), -1, dtype=np.int32)
    if not _drop_repeated(texts.data, texts.offsets, elements.offsets, slots, kept):
        return elements
    before = np.concatenate(([0], np.cumsum(kept)))
    offsets = before[elements.offsets].astype(np.int32)
    return Elements(offsets, elements.keys.having(kept), elements.values.having(kept))


@compiled
def _drop_repeated(data, bounds, offsets, slots, kept):  # type: ignore[no-untyped-def]
    """Unmark all but the last of equal keys within a row; how many were unmarked. Slots hold the newest key seen, by
    hash; one from an earlier row is as good as free."""
    text = address_of(data)
    dropped = 0
    mask = len(slots) - 1
    for row in range(len(offsets) - 1):
        for key in range(offsets[row], offsets[row + 1]):
            start, length = bounds[key], bounds[key + 1] - bounds[key]
            hashed = np.uint64(0xCBF29CE484222325)
            for place in range(start, start + length):
                hashed = (hashed ^ np.uint64(data[place])) * np.uint64(0x100000001B3)
            slot = np.int64((hashed ^ (hashed >> np.uint64(32))) & np.uint64(mask))
            while slots[slot] >= offsets[row]:
                other = slots[slot]
                first, last = bounds[other], bounds[other + 1]
                if last - first == length and same_bytes(text, start, start + length, text, first, last):
                    kept[other] = False
                    dropped += 1
                    break
                slot = (slot + 1) & mask
            slots[slot] = key
    return dropped
