"""Newest offset per key, in bounded memory. Compiled.

Keys are known by a 128-bit hash with a secret seed. Two keys that share one would lose a record: with a billion keys
the odds are about one in 10^21. An open-addressing table of 24 bytes a slot, at most three quarters full:

    hash high uint64 | hash low uint64 | newest offset int64 (-1: free)
"""

import secrets

import numpy as np
import numpy.typing as npt

from headwater.log.compiling import compiled
from headwater.log.record_columns import KEY, RecordColumns

SLOT_BYTES = 24
HashArray = npt.NDArray[np.uint64]


class KeyMap:
    def __init__(self, *, memory_bytes: int, keys_expected: int, keys_at_once: int) -> None:
        """Room for the keys expected, or as many as memory allows, but for one whole batch of keys at least."""
        most = 1 << max(4, (memory_bytes // SLOT_BYTES).bit_length() - 1)
        slots = max(min(most, _slots_for(keys_expected)), _slots_for(keys_at_once))
        self._hashes = np.zeros((slots, 2), dtype=np.uint64)
        self._offsets = np.full(slots, -1, dtype=np.int64)
        self._room = slots * 3 // 4
        self._seeds = np.array([secrets.randbits(63), secrets.randbits(63)], dtype=np.uint64)

    def note(self, columns: RecordColumns) -> bool:
        """Remember these records as the newest of their keys; False (and nothing remembered) if room may run out."""
        if len(columns.offsets) > self._room:
            return False
        lengths = columns.column(KEY + 1)
        self._room -= _put(self._hashes, self._offsets, self._hash(columns), lengths, columns.offsets)
        return True

    def newest(self, columns: RecordColumns) -> npt.NDArray[np.bool_]:
        """Per record: is there no newer one of its key? A record without a key is always the newest of its kind."""
        newest = np.empty(len(columns.offsets), dtype=np.bool_)
        lengths = columns.column(KEY + 1)
        _find(self._hashes, self._offsets, self._hash(columns), lengths, columns.offsets, newest)
        return newest

    def _hash(self, columns: RecordColumns) -> HashArray:
        hashes = np.empty((len(columns.spans), 2), dtype=np.uint64)
        _hash_keys(columns.body, columns.column(KEY), columns.column(KEY + 1), self._seeds, hashes)
        return hashes


def _slots_for(keys: int) -> int:
    return 1 << max(4, (keys * 4 // 3 + 1).bit_length())


@compiled
def _mixed(state):  # type: ignore[no-untyped-def]
    state ^= state >> np.uint64(33)
    state *= np.uint64(0xFF51AFD7ED558CCD)
    state ^= state >> np.uint64(33)
    state *= np.uint64(0xC4CEB9FE1A85EC53)
    return state ^ (state >> np.uint64(33))


@compiled
def _hash_keys(body, starts, lengths, seeds, hashes):  # type: ignore[no-untyped-def]
    for row in range(len(starts)):
        length = max(lengths[row], 0)
        for which in range(2):
            state = _mixed(seeds[which] ^ np.uint64(length))
            word = np.uint64(0)
            for index in range(length):
                word = (word << np.uint64(8)) | np.uint64(body[starts[row] + index])
                if index & 7 == 7:
                    state = _mixed(state ^ word) + np.uint64(0x9E3779B97F4A7C15)
                    word = np.uint64(0)
            hashes[row, which] = _mixed(state ^ word)


@compiled
def _slot(table, free, high, low):  # type: ignore[no-untyped-def]
    mask = len(free) - 1
    slot = np.int64(high & np.uint64(mask))
    while free[slot] >= 0 and not (table[slot, 0] == high and table[slot, 1] == low):
        slot = (slot + 1) & mask
    return slot


@compiled
def _put(table, newest, hashes, key_lengths, offsets):  # type: ignore[no-untyped-def]
    added = 0
    for row in range(len(offsets)):
        if key_lengths[row] < 0:
            continue
        slot = _slot(table, newest, hashes[row, 0], hashes[row, 1])
        if newest[slot] < 0:
            table[slot, 0] = hashes[row, 0]
            table[slot, 1] = hashes[row, 1]
            added += 1
        newest[slot] = max(newest[slot], offsets[row])
    return added


@compiled
def _find(table, newest, hashes, key_lengths, offsets, answer):  # type: ignore[no-untyped-def]
    for row in range(len(offsets)):
        slot = _slot(table, newest, hashes[row, 0], hashes[row, 1])
        answer[row] = key_lengths[row] < 0 or newest[slot] <= offsets[row]
