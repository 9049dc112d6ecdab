"""Is it UTF-8? Compiled, as strict as Unicode's table of well-formed byte sequences."""

import numpy as np
import numpy.typing as npt

from headwater.flow.formats.kernels.cells import MISSING, VALID, WRONG, Cells
from headwater.flow.formats.kernels.compiling import compiled, inner
from headwater.flow.formats.kernels.memory import address_of, byte_at


def utf8_states(cells: Cells) -> npt.NDArray[np.uint8]:
    """Per cell: VALID, WRONG if its bytes are not UTF-8, ABSENT if it is missing."""
    states = np.zeros(len(cells.kinds), dtype=np.uint8)
    _check(*cells, states)
    return states


@inner
def after_letter(body, offset, end):  # type: ignore[no-untyped-def]
    """Place behind the letter of two to four bytes that begins here; -1 if it is not one."""
    first = byte_at(body, offset)
    low, high = 0x80, 0xBF
    if 0xC2 <= first <= 0xDF:
        length = 2
    elif 0xE0 <= first <= 0xEF:
        length = 3
        if first == 0xE0:
            low = 0xA0
        elif first == 0xED:
            high = 0x9F
    elif 0xF0 <= first <= 0xF4:
        length = 4
        if first == 0xF0:
            low = 0x90
        elif first == 0xF4:
            high = 0x8F
    else:
        return -1
    if offset + length > end or not low <= byte_at(body, offset + 1) <= high:
        return -1
    for further in range(offset + 2, offset + length):
        if not 0x80 <= byte_at(body, further) <= 0xBF:
            return -1
    return offset + length


@compiled
def _check(body, starts, ends, kinds, states):  # type: ignore[no-untyped-def]
    text = address_of(body)
    for row in range(len(starts)):
        if kinds[row] == MISSING:
            continue
        states[row] = VALID
        offset, end = np.int64(starts[row]), np.int64(ends[row])
        while offset < end:
            if byte_at(text, offset) < 0x80:
                offset += 1
                continue
            offset = after_letter(text, offset, end)
            if offset < 0:
                states[row] = WRONG
                break
