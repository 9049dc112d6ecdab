"""Rows that are set aside, and why. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headwater.log.record_columns import Int64Array


class Poison(NamedTuple):
    rows: Int64Array
    """Ascending."""
    reasons: Sequence[str]

    def joined(self, other: "Poison") -> "Poison":
        """Both; of a row that is in both the reason of the first.

        >>> Poison(np.array([1, 5]), ["a", "b"]).joined(Poison(np.array([3, 5]), ["c", "d"]))
        Poison(rows=array([1, 3, 5]), reasons=['a', 'c', 'b'])
        """
        if not len(other.rows):
            return self
        if not len(self.rows):
            return other
        rows, first = np.unique(np.concatenate([self.rows, other.rows]), return_index=True)
        reasons = [*self.reasons, *other.reasons]
        return Poison(rows, [reasons[place] for place in first.tolist()])

    def without(self, rows: Sequence[int]) -> "Poison":
        return self._having(~np.isin(self.rows, rows)) if rows else self

    def without_tombstones(self, values: pa.BinaryArray) -> "Poison":
        if not len(self.rows) or not values.null_count:
            return self
        return self._having(np.asarray(values.take(pa.array(self.rows)).is_valid()))

    def _having(self, kept: "np.ndarray[tuple[int], np.dtype[np.bool_]]") -> "Poison":
        return Poison(self.rows[kept], [reason for reason, keep in zip(self.reasons, kept, strict=True) if keep])


NO_POISON = Poison(np.empty(0, dtype=np.int64), [])
