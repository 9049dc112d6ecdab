"""XXH64, the hash of Spark's `xxhash64` and of DataSketches' Bloom filters, for single values."""

MASK = 2**64 - 1
P1, P2, P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
P4, P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def _turned(value: int, by: int) -> int:
    return (value << by | value >> 64 - by) & MASK


def _round(state: int, word: int) -> int:
    return _turned(state + word * P2 & MASK, 31) * P1 & MASK


def xxhash64(data: bytes, seed: int) -> int:
    """
    >>> hex(xxhash64(b"", 0)), hex(xxhash64(b"abc", 0))
    ('0xef46db3751d8e999', '0x44bc2cf5ad770999')
    """
    place, length = 0, len(data)
    if length >= 32:
        lanes = [seed + P1 + P2 & MASK, seed + P2 & MASK, seed & MASK, seed - P1 & MASK]
        while place <= length - 32:
            words = [int.from_bytes(data[place + 8 * lane : place + 8 * lane + 8], "little") for lane in range(4)]
            lanes = [_round(lane, word) for lane, word in zip(lanes, words, strict=True)]
            place += 32
        turned = (_turned(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True))
        state = sum(turned) & MASK
        for lane in lanes:
            state = (state ^ _round(0, lane)) * P1 + P4 & MASK
    else:
        state = seed + P5 & MASK
    return _finished(state + length & MASK, data[place:])


def _finished(state: int, rest: bytes) -> int:
    place = 0
    while place + 8 <= len(rest):
        state ^= _round(0, int.from_bytes(rest[place : place + 8], "little"))
        state = _turned(state, 27) * P1 + P4 & MASK
        place += 8
    if place + 4 <= len(rest):
        state ^= int.from_bytes(rest[place : place + 4], "little") * P1 & MASK
        state = _turned(state, 23) * P2 + P3 & MASK
        place += 4
    for byte in rest[place:]:
        state ^= byte * P5 & MASK
        state = _turned(state, 11) * P1 & MASK
    state = (state ^ state >> 33) * P2 & MASK
    state = (state ^ state >> 29) * P3 & MASK
    return state ^ state >> 32
