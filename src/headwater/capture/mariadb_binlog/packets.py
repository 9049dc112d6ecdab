"""Bytes of a connection into the packets of MariaDB's protocol. Pure.

A packet is three bytes of length, a number, and the content; one of 2^24 - 1 bytes is continued by the next.
"""

HEADER_BYTES = 4
LENGTH_MAX = 0xFFFFFF


class Packets:
    """Takes bytes as they come; gives whole packets, without their headers."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._begun: list[bytes] = []

    def feed(self, data: bytes) -> list[bytes]:
        """
        >>> packets = Packets()
        >>> packets.feed(bytes([2, 0, 0, 0, 65])), packets.feed(bytes([66, 1, 0, 0, 1, 67]))
        ([], [b'AB', b'C'])
        """
        buffer = self._buffer
        buffer += data
        found, at = list[bytes](), 0
        while len(buffer) - at >= HEADER_BYTES:
            length = int.from_bytes(buffer[at : at + 3], "little")
            end = at + HEADER_BYTES + length
            if end > len(buffer):
                break
            content = bytes(buffer[at + HEADER_BYTES : end])
            at = end
            if length == LENGTH_MAX:
                self._begun.append(content)
            elif self._begun:
                found.append(b"".join([*self._begun, content]))
                self._begun = []
            else:
                found.append(content)
        del buffer[:at]
        return found
