"""The key of a row that has none of its own, read from the key of its record (pure): a deletion has no value.

As `_with_deletions` (sources.py) has it, for keys that are text or whole numbers: a field of a JSON object, or else,
where the key is one column, the text itself without quotes. Two things Spark reads otherwise: a fraction in a column of
text is the text that stands there, where Spark has it as a number first, and an object in single quotes is none.
"""

from functools import lru_cache
from json import JSONDecodeError, JSONDecoder

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.flow.formats.decoding import Decoder, decoder_for
from headwater.flow.formats.schema import Field, Schema
from headwater.flow.source.ranges import Columns

AROUND = "".join(map(chr, [*range(0x21), 0x7F]))
"""What Spark passes over before and behind a number."""
OPENING = r"^\s*\{"
WHOLE = r"^[\x00-\x20\x7f]*[+-]?[0-9]+[\x00-\x20\x7f]*$"


def can_be_read(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_int32(kind) or pa.types.is_int64(kind))


def with_keys(columns: Columns, key: tuple[str, ...]) -> Columns:
    """All columns; those of the key are there where the record's key says them."""
    made = dict(columns)
    lacking = np.zeros(len(columns["_offset"]), np.bool_)
    for name in key:
        lacking |= np.asarray(columns[name].is_null())
    offsets = np.flatnonzero(lacking)
    if not len(offsets):
        return made
    records = columns["_key"].take(pa.array(offsets))
    said = _objects(records, tuple((name, columns[name].type) for name in key))
    if len(key) == 1:
        kind = columns[key[0]].type
        said[key[0]] = pc.coalesce(said[key[0]], _plain(records, kind))
    mask = pa.array(lacking)
    for name in key:
        filled = pc.replace_with_mask(columns[name], mask, said[name])
        made[name] = pc.coalesce(columns[name], filled)
    return made


def _objects(records: pa.Array, key: tuple[tuple[str, pa.DataType], ...]) -> Columns:
    """What does not decode is null, each column by itself; what stands behind an object is passed over."""
    return {name: _fields(records, name, kind) for name, kind in key}


def _fields(records: pa.Array, name: str, kind: pa.DataType) -> pa.Array:
    decoder = _decoder(name, kind)
    found = decoder.decode(records)
    opening = np.asarray(pc.fill_null(pc.match_substring_regex(records, OPENING), False))
    cut = {offset: _object(records[offset].as_py()) for offset in found.bad[opening[found.bad]].tolist()}
    again = {offset: value for offset, value in cut.items() if value is not None}
    if not again:
        return found.columns.column(0)
    said = decoder.decode(pa.array(again.values(), records.type)).columns.column(0)
    mask = np.zeros(len(records), np.bool_)
    mask[list(again)] = True
    return pc.replace_with_mask(found.columns.column(0), pa.array(mask), said)


def _object(record: bytes) -> bytes | None:
    """The object that a text begins with, whatever stands behind it; what is no text in it has a mark in its offset."""
    text = record.decode(errors="replace").lstrip()
    try:
        return text[: JSONDecoder().raw_decode(text)[1]].encode()
    except JSONDecodeError:
        return None


@lru_cache(maxsize=64)
def _decoder(name: str, kind: pa.DataType) -> Decoder:
    return decoder_for("json", Schema((Field(name, kind),)), {})


def _plain(records: pa.Array, kind: pa.DataType) -> pa.Array:
    text = pc.ascii_trim(pc.cast(records, options=pc.CastOptions(pa.string(), allow_invalid_utf8=True)), '"')
    if pa.types.is_string(kind):
        return text
    whole = pc.if_else(pc.match_substring_regex(text, WHOLE), pc.ascii_trim(text, AROUND), None)
    bits = 31 if pa.types.is_int32(kind) else 63
    # Few rows come here: deletions of a table whose key is a number that is no field of an object.
    numbers = [None if one is None else int(one) for one in whole.to_pylist()]
    return pa.array([one if one is not None and -(2**bits) <= one < 2**bits else None for one in numbers], kind)
