"""Lists of numbers by number that grow: most of them in one piece, what came lately in another (pure).

Where a million lists are known and one is added to, only the small piece is made again.
"""

from typing import NamedTuple

import numpy as np

from headwater.flow.state.runs.equality import Integers

RECENT_MIN, RECENT_SHARE = 4096, 8


class Piece(NamedTuple):
    """The list of number n is values[begins[n]:begins[n + 1]]; numbers behind the last have none."""

    begins: Integers
    values: Integers


class Lists(NamedTuple):
    main: Piece
    recent: Piece


NO_PAIRS = np.empty((2, 0), np.int64)


def piece_of(pairs: Integers, numbers: int) -> Piece:
    """Of pairs of a number and a value.

    >>> begins, values = piece_of(np.array([[1, 0, 1], [7, 8, 9]]), 3)
    >>> begins.tolist(), values.tolist()
    ([0, 1, 3, 3], [8, 7, 9])
    """
    counts = np.bincount(pairs[0], minlength=numbers) if pairs.shape[1] else np.zeros(numbers, np.int64)
    order = np.argsort(pairs[0], kind="stable")
    return Piece(np.append(0, np.cumsum(counts)).astype(np.int64), pairs[1][order])


class GrowingLists:
    def __init__(self) -> None:
        self._main, self._recent, self._new = NO_PAIRS, NO_PAIRS, list[tuple[int, int]]()
        self._pieces = Lists(piece_of(NO_PAIRS, 0), piece_of(NO_PAIRS, 0))

    def add(self, number: int, value: int) -> None:
        self._new.append((number, value))

    def add_all(self, numbers: Integers, values: Integers) -> None:
        self._recent = np.hstack([self._recent, np.vstack([numbers, values]).astype(np.int64)])
        self._stale = True

    _stale = False

    def lists(self) -> Lists:
        """As arrays for compiled code."""
        if self._new:
            new = np.array(self._new, np.int64).reshape(-1, 2)
            self._new = []
            self.add_all(new[:, 0], new[:, 1])
        if self._stale:
            self._stale = False
            main, size = self._pieces.main, self._recent.shape[1]
            if size > max(RECENT_MIN, self._main.shape[1] // RECENT_SHARE):
                self._main, self._recent = np.hstack([self._main, self._recent]), NO_PAIRS
                main = _piece(self._main)
            self._pieces = Lists(main, _piece(self._recent))
        return self._pieces


def _piece(pairs: Integers) -> Piece:
    return piece_of(pairs, int(pairs[0].max()) + 1 if pairs.shape[1] else 0)
