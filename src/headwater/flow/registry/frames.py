"""Which values of a column cannot be decoded because of what stands before them."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from headwater.flow.formats.decoding import NULL_VALUE, shortened
from headwater.flow.registry.framing import HEAD_BYTES, Framed

Check = Callable[[int], str]
"""Why the schema with an id is of no use; "" if it is."""


def reasons_of_frames(values: pa.BinaryArray, framed: Framed, check: Check) -> dict[int, str]:
    """Row -> reason. Each id is checked once."""
    reasons: dict[int, str] = {}
    for row in np.flatnonzero(framed.ids < 0).tolist():
        value = values[row].as_py()
        if value is None:
            reasons[row] = NULL_VALUE
        else:
            found = f"it begins with {shortened(value[:HEAD_BYTES].hex(' '))}" if value else "it is empty"
            reasons[row] = f"there is no schema id before the value: {found}"
    for number in np.unique(framed.ids[framed.ids >= 0]).tolist():
        if why := check(number):
            reasons |= dict.fromkeys(np.flatnonzero(framed.ids == number).tolist(), why)
    return reasons
