"""The one thing a group reads of its members' metadata: which topics a consumer subscribes to.

Metadata of protocol type "consumer", as far as it is read, big-endian; what follows differs by version:

    0  int16   version
    2  int32   number of topics, each: int16 length, name
"""

import struct

_HEAD = struct.Struct(">hi")
_LENGTH = struct.Struct(">h")


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics named in a consumer's metadata; None if it cannot be read.

    >>> sorted(subscribed_topics(bytes.fromhex("0001 00000002 0001 61 0001 62")) or ())
    ['a', 'b']
    >>> subscribed_topics(b"something else")
    """
    try:
        version, count = _HEAD.unpack_from(metadata)
        # Every topic takes two bytes at least: a count beyond that is a lie, and need not be believed first.
        if version < 0 or not 0 <= count <= (len(metadata) - _HEAD.size) // _LENGTH.size:
            return None
        return frozenset(_read_topics(metadata, count))
    except (struct.error, UnicodeDecodeError):
        return None


def _read_topics(metadata: bytes, count: int) -> list[str]:
    topics = []
    position = _HEAD.size
    for _ in range(count):
        (length,) = _LENGTH.unpack_from(metadata, position)
        position += _LENGTH.size
        if not 0 <= length <= len(metadata) - position:
            raise struct.error("a topic's name is longer than what remains")
        topics.append(metadata[position : position + length].decode())
        position += length
    return topics
