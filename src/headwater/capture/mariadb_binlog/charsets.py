"""Text of any character set of MariaDB as JSON. Pure.

What a set of one byte a character means the database itself is asked (database.py): 256 letters. Sets of several bytes
are Python's, which knows the same.
"""

import codecs
from binascii import b2a_base64
from collections.abc import Callable, Mapping
from typing import NamedTuple

from headwater.capture.postgresql.types import text
from headwater.errors import UndecodableChange

Convert = Callable[[bytes], bytes]

BINARY = "binary"
UTF8 = ("utf8", "utf8mb3", "utf8mb4", "ascii")
CODECS = {
    "ucs2": "utf-16-be", "utf16": "utf-16-be", "utf16le": "utf-16-le", "utf32": "utf-32-be", "big5": "big5hkscs",
    "gb2312": "gb18030", "gbk": "gb18030", "sjis": "cp932", "cp932": "cp932", "ujis": "euc_jp", "eucjpms": "euc_jp",
    "euckr": "euc_kr", "gb18030": "gb18030",
}  # fmt: skip


class Charsets(NamedTuple):
    """The server's collations, and the letters of its small character sets."""

    names: Mapping[int, str]
    """The character set of each collation."""

    letters: Mapping[str, str]
    """The 256 letters of each set of one byte a character."""

    def converter(self, collation: int) -> Convert:
        """Returns the function that makes JSON of text in a collation; of binary bytes, base64."""
        name = self.names.get(collation, "")
        if name == BINARY:
            return base64
        if name in UTF8:
            return text
        if name in self.letters:
            return _by_letters(self.letters[name])
        if name in CODECS:
            return _by_codec(CODECS[name])
        raise UndecodableChange(
            f"text in {name or f'collation {collation}'} cannot be read", "Convert the column to utf8mb4."
        )

    def decoded(self, data: bytes, collation: int) -> str:
        """Text of the log itself, such as a statement: as well as it can be read."""
        name = self.names.get(collation, "")
        if name in self.letters:
            return codecs.charmap_decode(data, "replace", self.letters[name])[0]
        return data.decode(CODECS.get(name, "utf-8"), "replace")


def base64(value: bytes) -> bytes:
    """
    >>> base64(bytes([0, 255]))
    b'"AP8="'
    """
    return b'"%b"' % b2a_base64(value, newline=False)


def _by_letters(letters: str) -> Convert:
    shared = letters[:128].encode() == bytes(range(128))  # swe7 has other letters there

    def convert(value: bytes) -> bytes:
        if shared and value.isascii():
            return text(value)
        return text(codecs.charmap_decode(value, "replace", letters)[0].encode())

    return convert


def _by_codec(codec: str) -> Convert:
    return lambda value: text(value.decode(codec, "replace").encode())
