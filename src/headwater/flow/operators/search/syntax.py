"""The language of stored queries (pure): Lucene's, as its standard parser reads it, with places beside.

query     = (disjunction)*                       side by side: each may hold, and one has to
disjunction = conjunction ("OR" conjunction)*    also ||
conjunction = modified ("AND" modified)*         also &&
modified  = ["+" | "-" | "!" | "NOT"] clause
clause    = [field ":"] (group | "quoted words"[~slop] | range | comparison | near | word) ["^" boost]
group     = "(" query ")" ["@" minimum]
range     = ("[" | "{") bound "TO" bound ("]" | "}")
comparison = (">" | ">=" | "<" | "<=") bound
near      = "near(" latitude "," longitude "," distance ")"      distance in m, km or mi
word      = letters["~" edits], with * and ? as wildcards; a backslash before a sign makes it a letter
"""

import re
from dataclasses import replace
from typing import NamedTuple

from headwater.flow.operators.search.tree import (
    MUST,
    MUST_NOT,
    SHOULD,
    Boosted,
    Clause,
    Everything,
    Fuzzy,
    Group,
    Leaf,
    Near,
    Query,
    QueryMistake,
    Quoted,
    Range,
    Wildcard,
    Word,
)

DEPTH_MAX = 32
CHARACTERS_MAX = 16_384
EDITS_MAX = 2
METRES = {"m": 1.0, "km": 1000.0, "mi": 1609.344}
NUMBER = r"[+-]?\d+(?:\.\d+)?"
TOKEN = re.compile(
    r"""\s*(?:
    (?P<quoted>"(?:[^"\\]|\\.)*")
    |(?P<sign>&&|\|\||[()\[\]{}+!^@:-]|[<>]=?)
    |(?P<fuzzy>~)
    |(?P<word>(?:[^\s"()\[\]{}+!^~@:<>\\&|-]|\\.|&(?!&)|\|(?!\|))(?:[^\s"()\[\]{}^~:\\]|\\.)*)
    )""",
    re.VERBOSE | re.DOTALL,
)
NEAR = re.compile(rf"\(\s*({NUMBER})\s*,\s*({NUMBER})\s*,\s*(\d+(?:\.\d+)?)\s*(m|km|mi)\s*\)")
BOUND = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[^\s\]\}"]+)')
BARE = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[^\s()"]+)')
AMOUNT = re.compile(r"\d+(?:\.\d+)?")
AND, OR, NOT = ("AND", "&&"), ("OR", "||"), ("NOT", "!")


def parsed(text: str, default: str = "OR") -> Query:
    """The tree of a query; QueryMistake says what is wrong with it, and where.

    >>> parsed("title:storm AND -warning")
    Group(clauses=(Clause(occurs='+', query=Word(field='title', text='storm')), Clause(occurs='-', query=Word(field=None, text='warning'))), minimum=0)
    """  # noqa: E501
    if len(text) > CHARACTERS_MAX:
        raise QueryMistake(f"it has {len(text):,} characters, and {CHARACTERS_MAX:,} are the most")
    reader = _Reader(text, MUST if default == "AND" else SHOULD)
    found = reader.query(0, None)
    if reader.peek():
        raise reader.mistake(f"there is a {reader.peek()} that nothing opened")
    return found


class _Token(NamedTuple):
    kind: str
    text: str
    begin: int
    end: int


END = _Token("end", "", 0, 0)


class _Reader:
    def __init__(self, text: str, default: str) -> None:
        self._text, self._default, self._at = text, default, 0
        self._next: _Token | None = None

    def mistake(self, said: str) -> QueryMistake:
        return QueryMistake(f"{said}, at character {self._at + 1}")

    def _token(self) -> _Token:
        if self._next is None:
            self._next = self._read()
        return self._next

    def _read(self) -> _Token:
        found = TOKEN.match(self._text, self._at)
        if found is None:
            rest = self._text[self._at :].strip()
            if not rest:
                return END
            what = "a quotation mark is not closed" if rest[0] == '"' else f"nothing can begin with {rest[0]}"
            raise self.mistake(what)
        kind = str(found.lastgroup)
        return _Token(kind, found.group(kind), found.start(kind), found.end(kind))

    def peek(self) -> str:
        return self._token().text

    def _take(self) -> _Token:
        token, self._next = self._token(), None
        self._at = token.end
        return token

    def _takes(self, *signs: str) -> bool:
        token = self._token()
        if token.kind not in ("quoted", "end") and token.text in signs:
            self._take()
            return True
        return False

    def _match(self, pattern: re.Pattern[str], wanted: str) -> re.Match[str]:
        """What stands at the place, read in another way."""
        self._next = None
        found = pattern.match(self._text, self._at)
        if found is None:
            raise self.mistake(f"{wanted} is missing")
        self._at = found.end()
        return found

    def query(self, depth: int, field: str | None) -> Query:
        if depth > DEPTH_MAX:
            raise self.mistake(f"it is nested more than {DEPTH_MAX} deep")
        clauses: list[Clause] = []
        while self.peek() not in ("", ")") or self._token().kind == "quoted":
            clauses.append(self._disjunction(depth, field))
        if not clauses:
            raise self.mistake("a clause is missing")
        return _grouped(clauses)

    def _disjunction(self, depth: int, field: str | None) -> Clause:
        parts = [self._conjunction(depth, field)]
        while self._takes(*OR):
            parts.append(self._conjunction(depth, field))
        if len(parts) == 1:
            one = parts[0]
            return replace(one, occurs=self._default) if one.occurs == SHOULD else one
        return Clause(self._default, Group(tuple(parts)))

    def _conjunction(self, depth: int, field: str | None) -> Clause:
        parts = [self._modified(depth, field)]
        while self._takes(*AND):
            parts.append(self._modified(depth, field))
        if len(parts) == 1:
            return parts[0]
        return Clause(SHOULD, Group(tuple(replace(one, occurs=one.occurs or MUST) for one in parts)))

    def _modified(self, depth: int, field: str | None) -> Clause:
        if self._takes("+"):
            return Clause(MUST, self._clause(depth, field))
        if self._takes("-", *NOT):
            return Clause(MUST_NOT, self._clause(depth, field))
        return Clause(SHOULD, self._clause(depth, field))

    def _clause(self, depth: int, field: str | None) -> Query:
        token = self._take()
        if token.kind == "word" and self.peek() == ":" and self._token().kind == "sign":
            self._take()
            field, token = (None if token.text == "*" else unescaped(token.text)), self._take()
            if token.text == "*" and field is None:
                return self._boosted(Everything(None))
        return self._boosted(self._unboosted(token, depth, field))

    def _unboosted(self, token: _Token, depth: int, field: str | None) -> Query:
        if token.kind == "quoted":
            return Quoted(field, unescaped(token.text[1:-1]), self._slop())
        if token.kind == "word":
            return self._word(token, field)
        if token.text == "(":
            return self._in_brackets(depth, field)
        if token.text in ("[", "{"):
            return self._range(token.text, field)
        if token.text in ("<", "<=", ">", ">="):
            bound = _bound(self._match(BARE, "a value").group(1))
            below, equal = token.text[0] == "<", token.text.endswith("=")
            return Range(field, *((None, bound, True, equal) if below else (bound, None, equal, True)))
        raise self.mistake(f"a clause is missing before {token.text}" if token.text else "a clause is missing")

    def _word(self, token: _Token, field: str | None) -> Query:
        if token.text == "near" and self.peek() == "(":
            found = self._match(NEAR, "near(latitude, longitude, distance such as 5 km)")
            latitude, longitude, distance = (float(one) for one in found.groups()[:3])
            return Near(field, latitude, longitude, distance * METRES[found.group(4)])
        if token.text in ("AND", "OR", "NOT"):
            raise self.mistake(f"a clause is missing before {token.text}")
        if self._takes("~"):
            edits = int(self._amount("a number of letters", EDITS_MAX)) if self._is_amount() else EDITS_MAX
            return Fuzzy(field, unescaped(token.text), edits)
        if re.search(r"(?<!\\)(?:\\\\)*[*?]", token.text):
            return Everything(None) if token.text == "*" and field is None else Wildcard(field, token.text)
        return Word(field, unescaped(token.text))

    def _in_brackets(self, depth: int, field: str | None) -> Query:
        found = self.query(depth + 1, field)
        if not self._takes(")"):
            raise self.mistake("a bracket is not closed")
        if not self._takes("@"):
            return found
        minimum = int(self._amount("a number of clauses", None))
        group = found if isinstance(found, Group) else Group((Clause(SHOULD, found),))
        if minimum > sum(one.occurs == SHOULD for one in group.clauses):
            raise self.mistake(f"{minimum} clauses are wanted of fewer")
        return replace(group, minimum=minimum)

    def _range(self, opened: str, field: str | None) -> Leaf:
        low = self._match(BOUND, "a bound").group(1)
        self._match(re.compile(r"\s+TO(?=\s)"), "TO between two bounds")
        high = self._match(BOUND, "a bound").group(1)
        closed = self._match(re.compile(r"\s*([\]}])"), "the end of a range, ] or }").group(1)
        first, last = (None if one == "*" else _bound(one) for one in (low, high))
        return Range(field, first, last, opened == "[", closed == "]")

    def _slop(self) -> int:
        return int(self._amount("a number of places", None)) if self._takes("~") else 0

    def _boosted(self, query: Query) -> Query:
        if not self._takes("^"):
            return query
        return Boosted(query, self._amount("a number", None))

    def _is_amount(self) -> bool:
        return AMOUNT.match(self._text, self._at) is not None

    def _amount(self, wanted: str, most: float | None) -> float:
        value = float(self._match(AMOUNT, wanted).group())
        if most is not None and value > most:
            raise self.mistake(f"{value:g} is more than {most:g}")
        return value


def _grouped(clauses: list[Clause]) -> Query:
    if len(clauses) == 1 and clauses[0].occurs != MUST_NOT:
        return clauses[0].query
    return Group(tuple(clauses))


def _bound(text: str) -> str:
    return unescaped(text[1:-1] if text.startswith('"') else text)


def unescaped(text: str) -> str:
    r"""
    >>> unescaped(r"a\+b\\")
    'a+b\\'
    """
    return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL) if "\\" in text else text
