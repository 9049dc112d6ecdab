r"""Patterns of a JSON schema, matched in time that grows with the name and never beyond.

JSON Schema's patterns are those of JavaScript. They are matched by RE2, which follows all ways at once instead of one
after the other, so that no pattern takes for ever; where the two differ, a pattern is rewritten:

    \u00e4 \u{1f600} \cA     \x{e4} \x{1f600} \x{1}
    .                        all but \n \r U+2028 U+2029
    \s \S                    with the spaces of Unicode
    [^] []                   any character, none
    \d \w \b $               the same in both: ASCII, and the very end (not as Python has them)

What RE2 cannot do (look ahead or behind, refer back to a group, repeat more than a thousand times) has no answer here;
what only RE2 knows (\A \z \Q \C \pN (?i) [[:alpha:]]) means something else in JavaScript, and has none either.
"""

import re
from typing import Any, NamedTuple

import re2

PATTERN_CHARACTERS_MAX = 2_000
PROGRAM_BYTES_MAX = 1024**2
UNITS_A_STEP = 30
SEARCH_STEPS = 6
SEARCH_STEPS_MAX = 100_000
"""The longest name that is matched: no other thread runs meanwhile, since RE2 holds the interpreter lock."""
HEX = frozenset("0123456789abcdefABCDEF")
SPACES = r"\t\n\x{b}\f\r \x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}"
NOT_SPACES = (
    r"\x{0}-\x{8}\x{e}-\x{1f}!-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e}"
    r"\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{fefe}\x{ff00}-\x{10ffff}"
)
CATEGORY = re.compile(r"\{[LMNPSZC][a-z]?\}")
PLAIN_ESCAPES = frozenset("dDwWbBtnrf")
SYNTAX = frozenset("^$\\.*+?()[]{}|/-")


class Unsupported(Exception):
    """A pattern that cannot be matched here; the text says what of it."""


class Pattern(NamedTuple):
    compiled: Any
    """None: it cannot be matched."""
    why: str

    @property
    def size(self) -> int:
        """How many instructions it has become."""
        return 0 if self.compiled is None else int(self.compiled.programsize)

    def steps(self, name: str) -> int:
        """What it takes to match a name at most: every instruction for every character."""
        return SEARCH_STEPS + self.size * len(name) // UNITS_A_STEP

    def matches(self, name: str) -> bool:
        # RE2 reads UTF-8, which cannot hold half of a surrogate pair: it is matched as a question mark.
        text = name.encode("utf-8", "replace").decode()
        return self.compiled is not None and self.compiled.search(text) is not None


def compiled(pattern: str) -> Pattern:
    """
    >>> compiled("^a*a*a*b$").matches("a" * 100_000), compiled("^x-").matches("x-trace")
    (False, True)
    >>> compiled("^(?!x-)").why
    'it looks ahead or behind'
    """
    if len(pattern) > PATTERN_CHARACTERS_MAX:
        return Pattern(None, f"it has more than {PATTERN_CHARACTERS_MAX} characters")
    options = re2.Options()
    options.log_errors, options.max_mem = False, PROGRAM_BYTES_MAX
    try:
        return Pattern(re2.compile(as_re2(pattern), options), "")
    except Unsupported as error:
        return Pattern(None, str(error))
    except UnicodeEncodeError:
        return Pattern(None, "it has half of a surrogate pair")
    except re2.error as error:
        said = error.args[0] if error.args else ""
        return Pattern(None, said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said))


def as_re2(pattern: str) -> str:
    r"""
    >>> print(as_re2(r"^\u00e4.[^]$"))
    ^\x{e4}[^\n\r\x{2028}\x{2029}][\x{0}-\x{10ffff}]$
    """
    reading = _Reading(pattern)
    return "".join(reading.pieces())


class _Reading:
    def __init__(self, pattern: str) -> None:
        self._text, self._at = pattern, 0

    def pieces(self) -> "list[str]":
        found = []
        while self._at < len(self._text):
            sign = self._take()
            if sign == "\\":
                found.append(self._escape(in_class=False))
            elif sign == "[":
                found.append(self._class())
            elif sign == ".":
                found.append(r"[^\n\r\x{2028}\x{2029}]")
            elif sign == "(" and self._text.startswith("?", self._at):
                found.append(self._group())
            else:
                found.append(sign)
        return found

    def _take(self) -> str:
        self._at += 1
        return self._text[self._at - 1]

    def _group(self) -> str:
        rest = self._text[self._at : self._at + 3]
        if rest.startswith(("?=", "?!", "?<=", "?<!")):
            raise Unsupported("it looks ahead or behind")
        if rest.startswith("?:"):
            self._at += 2
            return "(?:"
        if rest.startswith("?<"):
            self._at = self._text.find(">", self._at) + 1 or len(self._text)
            return "("
        raise Unsupported("it has a group that JavaScript does not know")

    def _class(self) -> str:
        negated = self._text.startswith("^", self._at)
        self._at += negated
        if self._text.startswith("]", self._at):
            self._at += 1
            return r"[\x{0}-\x{10ffff}]" if negated else r"[^\x{0}-\x{10ffff}]"
        found = ["[^" if negated else "["]
        while self._at < len(self._text):
            sign = self._take()
            if sign == "]":
                return "".join([*found, "]"])
            if sign == "\\":
                found.append(self._escape(in_class=True))
            else:
                found.append(f"\\{sign}" if sign == "[" else sign)
        raise Unsupported("a [ is not closed")

    def _escape(self, *, in_class: bool) -> str:
        if self._at >= len(self._text):
            raise Unsupported("it ends in a backslash")
        sign = self._take()
        if sign == "b" and in_class:
            return r"\x{8}"
        if sign == "B" and in_class:
            raise Unsupported(r"\B stands in a class")
        if sign in PLAIN_ESCAPES or sign in SYNTAX:
            return f"\\{sign}"
        if sign == "s":
            return SPACES if in_class else f"[{SPACES}]"
        if sign == "S":
            return NOT_SPACES if in_class else f"[{NOT_SPACES}]"
        if sign in "pP" and (category := CATEGORY.match(self._text, self._at)):
            self._at = category.end()
            return f"\\{sign}{category[0]}"
        return self._character(sign)

    def _character(self, sign: str) -> str:
        if sign == "v":
            return r"\x{b}"
        if sign == "0" and not self._text[self._at : self._at + 1].isdigit():
            return r"\x{0}"
        if sign == "c" and self._text[self._at : self._at + 1].isalpha() and self._text[self._at].isascii():
            return f"\\x{{{ord(self._take().upper()) - 64:x}}}"
        if sign == "x":
            return f"\\x{{{self._hex(2):x}}}"
        if sign == "u":
            return f"\\x{{{self._unicode():x}}}"
        if sign.isdigit():
            raise Unsupported("it refers back to a group")
        if sign.isascii() and sign.isalpha():
            raise Unsupported(f"\\{sign} is not known")
        return f"\\x{{{ord(sign):x}}}"

    def _hex(self, digits: int) -> int:
        said = self._text[self._at : self._at + digits]
        if len(said) != digits or not HEX.issuperset(said):
            raise Unsupported("a \\x or \\u has no hexadecimal number")
        self._at += digits
        return int(said, 16)

    def _unicode(self) -> int:
        if self._text.startswith("{", self._at):
            end = self._text.find("}", self._at)
            said = self._text[self._at + 1 : end] if end > 0 else ""
            if not 1 <= len(said) <= 6 or not HEX.issuperset(said) or int(said, 16) > 0x10FFFF:
                raise Unsupported("a \\u{} has no hexadecimal number")
            self._at = end + 1
            return int(said, 16)
        first = self._hex(4)
        if 0xD800 <= first < 0xDC00 and self._text.startswith("\\u", self._at):
            self._at += 2
            second = self._hex(4)
            if 0xDC00 <= second < 0xE000:
                return 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00)
            raise Unsupported("it has half of a surrogate pair")
        if 0xD800 <= first < 0xE000:
            raise Unsupported("it has half of a surrogate pair")
        return first
