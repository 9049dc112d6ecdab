"""The options of text formats that say what a time means which does not say it itself."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from headwater.errors import InvalidFormat
from headwater.flow.formats.kernels.times import DIGITS_OF_UNIT, TimeReading, moments_of
from headwater.flow.formats.schema import nearest


def time_reading(format: str, options: Mapping[str, str]) -> TimeReading:
    """`timestamp`: the unit of numbers; `timezone`: where clocks show the times that have no offset."""
    unit, zone = options.get("timestamp"), options.get("timezone")
    if unit is not None and unit not in DIGITS_OF_UNIT:
        raise InvalidFormat(f'option timestamp of format {format} cannot be "{unit}"', nearest(unit, DIGITS_OF_UNIT))
    if zone is not None:
        try:
            moments_of(np.zeros(1, dtype=np.int64), zone)
        except pa.ArrowException:
            raise InvalidFormat(
                f'option timeZone of format {format} cannot be "{zone}"', "Name a zone such as Europe/Berlin or +02:00."
            ) from None
    return TimeReading(unit, zone)
