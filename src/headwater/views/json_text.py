"""Columns of any type as JSON text, a whole column at a time. Pure.

Numbers keep every digit; what JSON has no number for ("NaN", "Infinity", "-Infinity") is a string, as are dates and
timestamps, in the form in which they sort; binary is hexadecimal. Keys of a map are strings, whatever their type.
The reader knows the column's type, so that each value comes back as it was (values.py).
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import UnstorableValue
from headwater.views.column_types import nested

_HEX_DIGITS = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), dtype=np.uint8).reshape(256, 2)
_SHORT_ESCAPES = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_NOT_A_NUMBER = {"nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"'}

# Text of these has four digits for the year, so that it sorts.
FIRST_MICROSECOND = -62_135_596_800_000_000  # 0001-01-01
LAST_MICROSECOND = 253_402_300_799_999_999  # 9999-12-31 23:59:59.999999
FIRST_DAY, LAST_DAY = -719_162, 2_932_896


def json_text(values: pa.Array) -> pa.Array:
    """One JSON text per value; "null" for a null.

    >>> json_text(pa.array([{"a": [1, None]}, None])).to_pylist()
    ['{"a":[1,null]}', 'null']
    """
    return pc.fill_null(_valid_text(values), "null")


def _valid_text(values: pa.Array) -> pa.Array:
    type = values.type
    if pa.types.is_list(type):
        return _array_text(values)
    if pa.types.is_map(type):
        return _map_text(values)
    if pa.types.is_struct(type):
        return _struct_text(values)
    if pa.types.is_boolean(type) or pa.types.is_integer(type) or pa.types.is_decimal(type):
        return plain_text(values)
    if pa.types.is_floating(type):
        return _float_text(values)
    return _quoted(plain_text(values))


def plain_text(values: pa.Array) -> pa.Array:
    """Simple values as text: exact, and without an exponent for decimals."""
    if pa.types.is_binary(values.type):
        return hex_text(values)
    if pa.types.is_decimal(values.type):
        return decimal_text(values)
    if pa.types.is_timestamp(values.type) or pa.types.is_date(values.type):
        check_years(values)
    return values.cast(pa.string())


def decimal_text(values: pa.Array) -> pa.Array:
    """All decimals of the scale, never an exponent, so that equal numbers are equal texts.

    >>> decimal_text(pa.array(["-0.00000012", "5"]).cast(pa.decimal128(20, 8))).to_pylist()
    ['-0.00000012', '5.00000000']
    """
    precision, scale = values.type.precision, values.type.scale
    whole = pa.Array.from_buffers(pa.decimal128(precision, 0), len(values), values.buffers(), offset=values.offset)
    digits = whole.cast(pa.string())
    if scale == 0:
        return digits
    sign = pc.if_else(pc.starts_with(digits, "-"), "-", "")
    padded = pc.ascii_lpad(pc.ascii_ltrim(digits, "-"), width=scale + 1, padding="0")
    before, after = pc.utf8_slice_codeunits(padded, 0, -scale), pc.utf8_slice_codeunits(padded, -scale)
    return pc.binary_join_element_wise(sign, before, ".", after, "")


def check_years(values: pa.Array) -> None:
    """UnstorableValue for a time that cannot be written with four digits for the year."""
    first, last = (FIRST_DAY, LAST_DAY) if pa.types.is_date(values.type) else (FIRST_MICROSECOND, LAST_MICROSECOND)
    numbers = values.cast(pa.int32() if pa.types.is_date(values.type) else pa.int64())
    outside = pc.or_(pc.less(numbers, first), pc.greater(numbers, last))
    if pc.any(outside).as_py():
        raise UnstorableValue(
            "there is a date or time outside the years 1 to 9999", "Filter such rows, or keep the number instead."
        )


def hex_text(values: pa.Array) -> pa.Array:
    """
    >>> hex_text(pa.array([b"\\x00\\xff", None, b""], pa.binary())).to_pylist()
    ['00ff', None, '']
    """
    _, offsets_buffer, data_buffer = values.buffers()
    offsets = np.frombuffer(offsets_buffer, dtype=np.int32)[values.offset : values.offset + len(values) + 1]
    data = np.frombuffer(data_buffer, dtype=np.uint8) if data_buffer is not None else np.empty(0, np.uint8)
    digits = _HEX_DIGITS[data[offsets[0] : offsets[-1]]].reshape(-1)
    widened = (offsets - offsets[0]).astype(np.int64) * 2
    text = pa.LargeStringArray.from_buffers(len(values), pa.py_buffer(widened), pa.py_buffer(digits)).cast(pa.string())
    return pc.if_else(values.is_valid(), text, None)


def _float_text(values: pa.Array) -> pa.Array:
    text = values.cast(pa.string())
    if pc.all(pc.is_finite(values)).as_py() is not False:
        return text
    for spelling, replacement in _NOT_A_NUMBER.items():
        text = pc.if_else(pc.equal(text, spelling), replacement, text)
    return text


def _quoted(text: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', escaped(text), '"', "")


def escaped(text: pa.Array) -> pa.Array:
    text = pc.replace_substring(text, "\\", "\\\\")
    text = pc.replace_substring(text, '"', '\\"')
    if not pc.any(pc.match_substring_regex(text, r"[\x00-\x1f]")).as_py():
        return text
    for number in range(32):
        character = chr(number)
        text = pc.replace_substring(text, character, _SHORT_ESCAPES.get(character, f"\\u{number:04x}"))
    return text


def _array_text(values: pa.Array) -> pa.Array:
    joined = _joined(values, json_text(values.values))
    return pc.binary_join_element_wise("[", joined, "]", "")


def _map_text(values: pa.Array) -> pa.Array:
    keys = _valid_text(values.keys)
    if not pa.types.is_string(values.type.key_type) and not nested(values.type.key_type):
        keys = _quoted(plain_text(values.keys))
    elif nested(values.type.key_type):
        keys = _quoted(keys)
    joined = _joined(values, pc.binary_join_element_wise(keys, ":", json_text(values.items), ""))
    return pc.binary_join_element_wise("{", joined, "}", "")


def _joined(lists: pa.Array, elements: pa.Array) -> pa.Array:
    """The texts of each list's elements with commas between; null where the list is."""
    offsets = lists.offsets
    texts = pa.LargeListArray.from_arrays(offsets.cast(pa.int64()), elements)
    return pc.if_else(lists.is_valid(), pc.binary_join(texts, ","), None)


def _struct_text(values: pa.Array) -> pa.Array:
    pieces: list[pa.Array | str] = []
    for index, field in enumerate(values.type):
        name = escaped(pa.array([field.name]))[0].as_py()
        pieces += [("{" if index == 0 else ",") + f'"{name}":', json_text(values.field(index))]
    text = pc.binary_join_element_wise(*pieces, "}", "") if pieces else pa.array(["{}"] * len(values))
    return pc.if_else(values.is_valid(), text, None)
