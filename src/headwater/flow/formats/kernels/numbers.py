"""Cells to numbers: exact integers, exact decimals, correctly rounded floating point. Compiled.

Decimals follow Spark's from_json: digits beyond the scale are rounded half up, a number too large for the precision is
wrong, and a text that is a number ("12.50") counts as that number.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.flow.formats.kernels.cells import (
    ABSENT,
    INTEGER,
    NULL,
    NUMBER,
    PENDING,
    TEXT,
    VALID,
    WRONG,
    ByteArray,
    Cells,
    frozen,
    texts_of,
)
from headwater.flow.formats.kernels.compiling import compiled, inner
from headwater.flow.formats.kernels.memory import address_of, byte_at

Int64Array = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

NOT_A_NUMBER = {"NaN": np.nan, "Infinity": np.inf, "+Infinity": np.inf, "-Infinity": -np.inf}
NOT_A_NUMBER |= {"+INF": np.inf, "-INF": -np.inf}
"""Texts that Spark takes for a floating-point number."""

POWERS = frozen(np.array([10**power for power in range(19)], dtype=np.int64))
EXACT_POWERS = frozen(np.array([10.0**power for power in range(23)], dtype=np.float64))
EXPONENT_MAX = 100_000  # beyond it every number is too large, or nothing


def integers(cells: Cells, kind: pa.DataType) -> tuple[npt.NDArray[np.signedinteger], ByteArray]:
    """Values and states; a number with point or exponent is no integer, nor is one out of the type's range."""
    dtype = np.dtype(str(kind))  # Arrow and numpy call them alike
    values, states = np.empty(len(cells.kinds), dtype=np.int64), np.empty(len(cells.kinds), dtype=np.uint8)
    _integers(*cells, np.iinfo(dtype).min, np.iinfo(dtype).max, values, states)
    return values.astype(dtype, copy=False), states


def decimals(cells: Cells, precision: int, scale: int) -> tuple[npt.NDArray[np.uint64], ByteArray]:
    """Unscaled values of 128 bits (low word, high word), and states."""
    words, states = np.zeros((len(cells.kinds), 2), dtype=np.uint64), np.empty(len(cells.kinds), dtype=np.uint8)
    _decimals(*cells, precision, scale, limit_of(precision), words, states)
    return words, states


def limit_of(precision: int) -> tuple[np.uint64, np.uint64]:
    """The first number with too many digits, as two words, the lower one first."""
    high, low = divmod(10**precision, 1 << 64)
    return np.uint64(low), np.uint64(high)


def doubles(cells: Cells) -> tuple[FloatArray, ByteArray]:
    """What Python's float() makes of the text; NaN and Infinity as texts, as Spark reads them."""
    values, states = np.empty(len(cells.kinds), dtype=np.float64), np.empty(len(cells.kinds), dtype=np.uint8)
    if _doubles(*cells, values, states):
        _finish(cells, values, states, pa.float64())
    return values, states


def floats(cells: Cells) -> tuple[npt.NDArray[np.float32], ByteArray]:
    """Rounded once from the text: a double that lies halfway between two floats, or is tiny, is read again."""
    wide, states = doubles(cells)
    with np.errstate(over="ignore"):
        values = wide.astype(np.float32)
    halfway = (wide.view(np.int64) & 0x1FFF_FFFF) == 0x1000_0000
    tiny = (np.abs(wide) < np.finfo(np.float32).tiny) & (wide != 0)
    states[(states == VALID) & (cells.kinds != TEXT) & (halfway | tiny)] = PENDING
    if (states == PENDING).any():
        _finish(cells, values, states, pa.float32())
    return values, states


def _finish(cells: Cells, values: npt.NDArray[np.floating], states: ByteArray, kind: pa.DataType) -> None:
    """Convert what the short way could not: long numbers in bulk by Arrow, which rounds correctly, and words."""
    words = np.flatnonzero((states == PENDING) & (cells.kinds == TEXT))
    for row in words.tolist():
        number = NOT_A_NUMBER.get(cells.text(row))
        states[row] = WRONG if number is None else VALID
        values[row] = 0.0 if number is None else number
    rows = np.flatnonzero(states == PENDING)
    texts = texts_of(cells.having(rows)).array(pa.string())
    try:
        values[rows] = texts.cast(kind).to_numpy()
    except pa.ArrowInvalid:  # one of them is beyond the largest number
        with np.errstate(over="ignore"):
            values[rows] = np.array([float(text) for text in texts.to_pylist()]).astype(values.dtype)
    states[rows] = VALID


@compiled
def _integers(body, starts, ends, kinds, low, high, values, states):  # type: ignore[no-untyped-def]
    for row in range(len(starts)):
        values[row] = 0
        kind = kinds[row]
        if kind != INTEGER:
            states[row] = ABSENT if kind <= NULL else WRONG
            continue
        offset = np.int64(starts[row])
        negative = body[offset] == 45
        if negative or body[offset] == 43:
            offset += 1
        # Counted downwards, because the lowest number has no positive twin.
        number = np.int64(0)
        fits = True
        for digit_place in range(offset, ends[row]):
            digit = np.int64(body[digit_place]) - 48
            if number < -922337203685477580 or (number == -922337203685477580 and digit > 8):
                fits = False
                break
            number = number * 10 - digit
        if not negative:
            fits = fits and number != np.iinfo(np.int64).min
            number = -number
        if fits and low <= number <= high:
            values[row] = number
            states[row] = VALID
        else:
            states[row] = WRONG


@inner
def _exponent(body, offset, end):  # type: ignore[no-untyped-def]
    """Number behind an e; EXPONENT_MAX + 1 if there is none where one must be."""
    negative = offset < end and byte_at(body, offset) == 45
    if negative or (offset < end and byte_at(body, offset) == 43):
        offset += 1
    if offset >= end:
        return EXPONENT_MAX + 1
    number = np.int64(0)
    for digit_place in range(offset, end):
        digit = byte_at(body, digit_place) - 48
        if not 0 <= digit <= 9:
            return EXPONENT_MAX + 1
        number = number * 10 + digit
        if number > EXPONENT_MAX:
            number = np.int64(EXPONENT_MAX)
    return -number if negative else number


@inner
def _parts(body, offset, end):  # type: ignore[no-untyped-def]
    """First 18 digits of a number, as one; how many digits it has from the first that is not 0; how many behind the
    point; exponent; and the offset of the first digit that is not 0. Count -1: not a number."""
    mantissa = np.int64(0)
    count = 0
    fraction = 0
    exponent = 0
    any_digit = False
    point = False
    first = end
    while offset < end:
        byte = byte_at(body, offset)
        if 48 <= byte <= 57:
            any_digit = True
            if count > 0 or byte != 48:
                if count == 0:
                    first = offset
                if count < 18:
                    mantissa = mantissa * 10 + (byte - 48)
                count += 1
            if point:
                fraction += 1
        elif byte == 46 and not point:
            point = True
        elif (byte | 32) == 101 and any_digit:
            exponent = _exponent(body, offset + 1, end)
            break
        else:
            return mantissa, -1, fraction, exponent, first
        offset += 1
    if not any_digit or exponent > EXPONENT_MAX:
        count = -1
    return mantissa, count, fraction, exponent, first


@compiled
def _doubles(body, starts, ends, kinds, values, states):  # type: ignore[no-untyped-def]
    """Exact the short way: up to 15 digits times or through a power of ten that a double holds exactly. The number of
    cells that need the long way."""
    text = address_of(body)
    pending = 0
    for row in range(len(starts)):
        values[row] = 0.0
        kind = kinds[row]
        if kind != INTEGER and kind != NUMBER:
            states[row] = ABSENT if kind <= NULL else (PENDING if kind == TEXT else WRONG)
            pending += kind == TEXT
            continue
        offset = np.int64(starts[row])
        negative = body[offset] == 45
        if negative or body[offset] == 43:
            offset += 1
        mantissa, count, fraction, exponent, _ = _parts(text, offset, np.int64(ends[row]))
        power = exponent - fraction
        states[row] = VALID
        if count == 0:
            values[row] = -0.0 if negative else 0.0
        elif count <= 15 and -22 <= power <= 22:
            number = np.float64(mantissa)
            number = number * EXACT_POWERS[power] if power >= 0 else number / EXACT_POWERS[-power]
            values[row] = -number if negative else number
        else:
            states[row] = PENDING
            pending += 1
    return pending


@inner
def _times_ten(low, high, digit):  # type: ignore[no-untyped-def]
    """A number of 128 bits times ten and one more digit."""
    half = np.uint64(0xFFFFFFFF)
    bottom = (low & half) * np.uint64(10) + np.uint64(digit)
    top = (low >> np.uint64(32)) * np.uint64(10) + (bottom >> np.uint64(32))
    return (top << np.uint64(32)) | (bottom & half), high * np.uint64(10) + (top >> np.uint64(32))


@inner
def _long_decimal(body, offset, end, kept, limit_low, limit_high):  # type: ignore[no-untyped-def]
    """The first `kept` digits from this offset on (zeros beyond the last), rounded half up; whether they fit."""
    low, high = np.uint64(0), np.uint64(0)
    while kept > 0:
        digit = np.int64(0)
        if offset < end and (byte_at(body, offset) | 32) != 101:
            if byte_at(body, offset) == 46:
                offset += 1
                continue
            digit = byte_at(body, offset) - 48
            offset += 1
        low, high = _times_ten(low, high, digit)
        kept -= 1
    if kept == 0:
        if offset < end and byte_at(body, offset) == 46:
            offset += 1
        if offset < end and 53 <= byte_at(body, offset) <= 57:
            low += np.uint64(1)
            if low == np.uint64(0):
                high += np.uint64(1)
    fits = high < limit_high or (high == limit_high and low < limit_low)
    return low, high, fits


@inner
def decimal_words(body, offset, end, precision, scale, limit_low, limit_high):  # type: ignore[no-untyped-def]
    """Unscaled value of a decimal in two words; False if it is not a number or too large."""
    zero = np.uint64(0)
    negative = offset < end and byte_at(body, offset) == 45
    if negative or (offset < end and byte_at(body, offset) == 43):
        offset += 1
    mantissa, count, fraction, exponent, first = _parts(body, offset, end)
    if count <= 0:
        return zero, zero, count == 0
    shift = exponent - fraction + scale
    kept = count + shift
    if kept < 0:
        return zero, zero, True
    if kept > precision:
        return zero, zero, False
    if count <= 18 and shift >= 0 and kept <= 18:
        low, high = np.uint64(mantissa * POWERS[shift]), zero
        fits = True
    else:
        low, high, fits = _long_decimal(body, first, end, kept, limit_low, limit_high)
    if negative and fits:
        low, high = ~low + np.uint64(1), ~high
        if low == zero:
            high += np.uint64(1)
    return low, high, fits


@compiled
def _decimals(body, starts, ends, kinds, precision, scale, limit, words, states):  # type: ignore[no-untyped-def]
    text = address_of(body)
    limit_low, limit_high = limit
    for row in range(len(starts)):
        kind = kinds[row]
        if kind != INTEGER and kind != NUMBER and kind != TEXT:
            states[row] = ABSENT if kind <= NULL else WRONG
            continue
        low, high, fits = decimal_words(
            text, np.int64(starts[row]), np.int64(ends[row]), precision, scale, limit_low, limit_high
        )
        states[row] = VALID if fits else WRONG
        if fits:
            words[row, 0] = low
            words[row, 1] = high
