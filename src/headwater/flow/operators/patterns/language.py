"""The pattern language of SQL:2016, read into a tree (pure).

    alternation  = sequence { "|" sequence }
    sequence     = { factor }                       nothing at all is the empty pattern
    factor       = primary [ quantifier [ "?" ] ]   the "?" makes it reluctant
    quantifier   = "*" | "+" | "?" | "{" n "}" | "{" n "," "}" | "{" n "," m "}" | "{" "," m "}"
    primary      = name | "(" alternation ")" | "{-" alternation "-}" | "^" | "$"
                 | "PERMUTE" "(" alternation { "," alternation } ")" | "!" name

`!C`, which the standard does not have, stands at the end: no row that meets C follows before WITHIN is over.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import permutations
from typing import NamedTuple

from headwater.errors import InvalidDeclaration

REPEATED_MAX = 10_000
"""As often as a quantifier may say at most."""
PERMUTED_MAX = 6
TOKEN = re.compile(r"\s*(?:(\{-|-\}|[*+?{}(),|^$!])|([A-Za-z_]\w*)|\"((?:[^\"]|\"\")+)\"|(\d+)|(\S))")


@dataclass(frozen=True)
class Variable:
    """One row that meets the condition of a variable. `excluded`: it is not shown."""

    name: str
    excluded: bool = False


@dataclass(frozen=True)
class Sequence:
    parts: "tuple[Pattern, ...]"


@dataclass(frozen=True)
class Alternation:
    """The first that leads to a match is preferred."""

    parts: "tuple[Pattern, ...]"


@dataclass(frozen=True)
class Repeated:
    """`most` is None where there is no bound."""

    part: "Pattern"
    least: int
    most: int | None
    greedy: bool = True


@dataclass(frozen=True)
class Begin:
    """`^`: before the first row of its key."""


@dataclass(frozen=True)
class Never:
    """No row that meets the variable's condition follows before WITHIN is over."""

    name: str


Pattern = Variable | Sequence | Alternation | Repeated | Begin | Never


def read_pattern(text: str) -> Pattern:
    """InvalidDeclaration, with the place in the text, if it is none.

    >>> read_pattern("a b+ | c{2,}?")
    Alternation(parts=(Sequence(parts=(Variable(name='a', excluded=False), Repeated(part=Variable(name='b', \
excluded=False), least=1, most=None, greedy=True))), Repeated(part=Variable(name='c', excluded=False), least=2, \
most=None, greedy=False)))
    """
    reader = _Reader(text)
    found = reader.alternation()
    if reader.token.text:
        raise reader.wrong("stands where nothing is expected")
    _check_never(found, text)
    return found


def variables_of(pattern: Pattern) -> list[str]:
    """Its variables, in the order in which they stand."""
    return list(dict.fromkeys(_names(pattern)))


def _names(pattern: Pattern) -> Iterator[str]:
    match pattern:
        case Variable(name) | Never(name):
            yield name
        case Sequence(parts) | Alternation(parts):
            for part in parts:
                yield from _names(part)
        case Repeated(part):
            yield from _names(part)


def has(pattern: Pattern, kind: type) -> bool:
    """Whether a part of it is of a kind."""
    if isinstance(pattern, kind) or (kind is Variable and isinstance(pattern, Variable)):
        return True
    parts = pattern.parts if isinstance(pattern, Sequence | Alternation) else ()
    return any(has(part, kind) for part in parts) or (isinstance(pattern, Repeated) and has(pattern.part, kind))


def excludes(pattern: Pattern) -> bool:
    """Whether some rows of a match are not shown."""
    match pattern:
        case Variable(_, excluded):
            return excluded
        case Sequence(parts) | Alternation(parts):
            return any(map(excludes, parts))
        case Repeated(part):
            return excludes(part)
    return False


def may_be_empty(pattern: Pattern) -> bool:
    match pattern:
        case Variable():
            return False
        case Sequence(parts):
            return all(map(may_be_empty, parts))
        case Alternation(parts):
            return any(map(may_be_empty, parts))
        case Repeated(part, least):
            return least == 0 or may_be_empty(part)
    return True


def _check_never(pattern: Pattern, text: str) -> None:
    """What must not follow is said once, at the end: there the rows that it is about are those after the match."""
    body = pattern.parts[:-1] if isinstance(pattern, Sequence) and isinstance(pattern.parts[-1], Never) else (pattern,)
    if any(has(part, Never) for part in body):
        raise InvalidDeclaration(
            f"pattern `{text}` has a ! that is not at its end", "Say what must not follow last: a b+ !c."
        )


class _Token(NamedTuple):
    text: str
    at: int
    is_name: bool = False
    is_number: bool = False


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(self._scanned())
        self._next = 0

    def _scanned(self) -> Iterator[_Token]:
        at = 0
        while found := TOKEN.match(self._text, at):
            sign, name, quoted, number, other = found.groups()
            begin = found.end() - len(found.group().lstrip())
            if other:
                raise self._error(f"{other} means nothing", begin)
            if sign:
                yield _Token(sign, begin)
            elif number:
                yield _Token(number, begin, is_number=True)
            else:
                yield _Token(name or quoted.replace('""', '"'), begin, is_name=True)
            at = found.end()
        yield _Token("", len(self._text))

    @property
    def token(self) -> _Token:
        return self._tokens[self._next]

    def _error(self, what: str, at: int) -> InvalidDeclaration:
        return InvalidDeclaration(f"pattern `{self._text}`, character {at + 1}: {what}", PATTERNS)

    def wrong(self, what: str) -> InvalidDeclaration:
        return self._error(f"{self.token.text or 'its end'} {what}", self.token.at)

    def _took(self, text: str) -> bool:
        if self.token.text != text or self.token.is_name:
            return False
        self._next += 1
        return True

    def _expect(self, text: str) -> None:
        if not self._took(text):
            raise self.wrong(f"stands where {text} is expected")

    def alternation(self) -> Pattern:
        parts = [self._sequence()]
        while self._took("|"):
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else Alternation(tuple(parts))

    def _sequence(self) -> Pattern:
        parts: list[Pattern] = []
        while self.token.is_name or self.token.text in ("(", "{-", "^", "$", "!"):
            parts.append(self._factor())
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _factor(self) -> Pattern:
        part = self._primary()
        bounds = self._bounds()
        if bounds is None:
            return part
        if isinstance(part, Never | Begin):
            raise self.wrong("follows a quantifier on what is no row")
        return Repeated(part, *bounds, greedy=not self._took("?"))

    def _bounds(self) -> tuple[int, int | None] | None:
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._took(sign):
                return bounds
        if not self._took("{"):
            return None
        least = self._number()
        if not self._took(","):
            self._expect("}")
            if least is None:
                raise self.wrong("follows {}, which says no number")
            return least, least
        most = self._number()
        self._expect("}")
        if least is None and most is None:
            raise self.wrong("follows {,}, which says no number")
        if most is not None and ((least or 0) > most or most == 0):
            raise self._error(f"{{{least or 0},{most}}} can never hold", self.token.at)
        return least or 0, most

    def _number(self) -> int | None:
        if not self.token.is_number:
            return None
        found = int(self.token.text)
        if found > REPEATED_MAX:
            raise self.wrong(f"is more than {REPEATED_MAX} times")
        self._next += 1
        return found

    def _primary(self) -> Pattern:
        token = self.token
        if self._took("("):
            part = self.alternation()
            self._expect(")")
            return part
        if self._took("{-"):
            part = self.alternation()
            self._expect("-}")
            return _excluded(part)
        if self._took("^"):
            return Begin()
        if self._took("$"):
            raise self._error("$ is the last row of a key, and a stream has none", token.at)
        if self._took("!"):
            if not self.token.is_name:
                raise self.wrong("stands where a variable is expected")
            self._next += 1
            return Never(self._tokens[self._next - 1].text)
        self._next += 1
        if token.text.upper() == "PERMUTE" and self._took("("):
            return self._permuted()
        return Variable(token.text)

    def _permuted(self) -> Pattern:
        parts = [self.alternation()]
        while self._took(","):
            parts.append(self.alternation())
        self._expect(")")
        if len(parts) > PERMUTED_MAX:
            raise self.wrong(f"ends a PERMUTE of more than {PERMUTED_MAX} parts")
        return Alternation(tuple(Sequence(one) for one in permutations(parts)))


PATTERNS = "Write for example a b+ c, (a | b){2,5}, a {- b* -} c, PERMUTE(a, b)."


def _excluded(pattern: Pattern) -> Pattern:
    match pattern:
        case Variable():
            return replace(pattern, excluded=True)
        case Sequence(parts):
            return Sequence(tuple(map(_excluded, parts)))
        case Alternation(parts):
            return Alternation(tuple(map(_excluded, parts)))
        case Repeated(part):
            return replace(pattern, part=_excluded(part))
    return pattern
