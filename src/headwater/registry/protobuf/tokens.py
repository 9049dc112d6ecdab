"""The text of a .proto file in pieces: words, numbers, texts and marks, without comments."""

import re
from typing import NamedTuple, NoReturn

from headwater.errors import InvalidSchemaText

PIECES = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)
    |(?P<word>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<number>(?:0[xX][0-9a-fA-F]+|[0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?)f?)
    |(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<mark>[{}\[\]()<>;:,.=/+-])""",
    re.VERBOSE | re.DOTALL,
)


class Token(NamedTuple):
    kind: str  # word, number, text, mark, end
    text: str
    line: int


def tokens_of(text: str) -> list[Token]:
    found: list[Token] = []
    position, line = 0, 1
    while position < len(text):
        piece = PIECES.match(text, position)
        if piece is None:
            raise InvalidSchemaText(
                f"the .proto text has {text[position]!r} in line {line}, which has no meaning there"
            )
        if piece.lastgroup != "space":
            found.append(Token(piece.lastgroup or "", piece.group(), line))
        line += piece.group().count("\n")
        position = piece.end()
    return [*found, Token("end", "the end", line)]


class Tokens:
    """The pieces one after the other; what is not as expected is refused with its line."""

    def __init__(self, text: str) -> None:
        self._tokens = tokens_of(text)
        self._next = 0

    @property
    def next(self) -> Token:
        return self._tokens[self._next]

    def take(self) -> Token:
        token = self._tokens[self._next]
        self._next = min(self._next + 1, len(self._tokens) - 1)
        return token

    def skip(self, text: str) -> bool:
        """Take the next piece if it is this mark or word."""
        if self.next.text == text and self.next.kind in ("mark", "word"):
            self._next += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.skip(text):
            self.refuse(f'"{text}"')

    def word(self, what: str = "a name") -> str:
        if self.next.kind != "word":
            self.refuse(what)
        return self.take().text

    def name(self) -> str:
        """Words with dots between them, and perhaps one before."""
        found = "." if self.skip(".") else ""
        found += self.word()
        while self.skip("."):
            found += f".{self.word()}"
        return found

    def text(self) -> str:
        """A text in quotes; several in a row are one."""
        line = self.next.line
        try:
            return self.content().decode()
        except UnicodeDecodeError:
            raise InvalidSchemaText(f"the .proto text has a text in line {line} that is not UTF-8") from None

    def content(self) -> bytes:
        """The same, where it may be bytes."""
        if self.next.kind != "text":
            self.refuse("a text in quotes")
        found = []
        while self.next.kind == "text":
            found.append(unquoted(self.take()))
        return b"".join(found)

    def integer(self) -> int:
        sign = -1 if self.skip("-") else 1
        token = self.next
        if token.kind != "number" or not re.fullmatch(r"0[xX][0-9a-fA-F]+|[0-9]+", token.text) or len(token.text) > 30:
            self.refuse("a whole number")
        digits = self.take().text
        octal = digits.startswith("0") and digits.isdecimal() and set(digits) <= set("01234567")
        return sign * (int(digits, 8) if octal else int(digits, 16 if digits[:2].lower() == "0x" else 10))

    def refuse(self, expected: str) -> NoReturn:
        found = "the end" if self.next.kind == "end" else f'"{self.next.text[:40]}"'
        raise InvalidSchemaText(f"the .proto text has {found} in line {self.next.line}, where {expected} was expected")


ESCAPE = re.compile(rb"\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|.)", re.DOTALL)
LETTERS = dict(zip(b"abfnrtv", b"\a\b\f\n\r\t\v", strict=True))


def unquoted(token: Token) -> bytes:
    """What a text in quotes says, with the escapes of C."""
    return ESCAPE.sub(_unescaped, token.text[1:-1].encode())


def _unescaped(found: re.Match[bytes]) -> bytes:
    said = found[1]
    if said[:1] == b"x" and len(said) > 1:
        return bytes([int(said[1:], 16)])
    if said[:1].isdigit():
        return bytes([int(said, 8) & 0xFF])
    return bytes([LETTERS.get(said[0], said[0])])
