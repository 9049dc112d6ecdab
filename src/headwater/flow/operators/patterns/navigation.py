"""What DEFINE and MEASURES say of the rows of a match: text to plain expressions with slots in them (pure).

    amount > 2 * avg(small.amount)      ─►   amount > 2 * slot_0,    slot_0: the average of amount of rows of small
    prev(amount, 2), last(a.at, 1)           the row two before this one; the last but one of a
    count(a.*), first(a.x), final sum(x)     aggregates; of rows so far, or with FINAL of the whole match

The text around slots is Spark's, and is not looked into: names that are not before a bracket and no words of SQL are
columns of the row at hand.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from headwater.errors import InvalidDeclaration
from headwater.flow.operators.patterns.machine import (
    AVERAGE,
    COUNT,
    FIRST,
    GREATEST,
    LABEL,
    LAST,
    LEAST,
    NUMBER,
    ROW,
    SUM,
)

SLOT = "slot_"
AGGREGATES = {"count": COUNT, "sum": SUM, "avg": AVERAGE, "mean": AVERAGE, "min": LEAST, "max": GREATEST}
NAVIGATION = {"first": FIRST, "last": LAST}
TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\")|(?P<quoted>`(?:[^`]|``)*`)"
    r"|(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\w*)|(?P<name>[A-Za-z_]\w*)|(?P<sign><=>|<>|<=|>=|!=|==|\|\||\S))",
    re.DOTALL,
)
WORDS = frozenset(
    [
        "and",
        "or",
        "not",
        "is",
        "null",
        "true",
        "false",
        "case",
        "when",
        "then",
        "else",
        "end",
        "in",
        "between",
        "like",
        "rlike",
        "as",
        "distinct",
        "div",
        "interval",
        "date",
        "timestamp",
        "second",
        "seconds",
        "minute",
        "minutes",
        "hour",
        "hours",
        "day",
        "days",
        "week",
        "weeks",
        "month",
        "months",
        "year",
        "years",
        "millisecond",
        "milliseconds",
        "microsecond",
        "microseconds",
        "int",
        "integer",
        "long",
        "bigint",
        "double",
        "float",
        "string",
        "boolean",
        "decimal",
        "short",
        "tinyint",
        "smallint",
        "escape",
        "from",
        "all",
        "any",
    ]
)


class Variables(NamedTuple):
    """Names of a pattern in small letters, and of each the numbers of its variables: of a subset several."""

    numbers: Mapping[str, tuple[int, ...]]

    def bits(self, name: str) -> int:
        return sum(1 << number for number in self.numbers[name])

    @property
    def all_bits(self) -> int:
        return sum({1 << number for several in self.numbers.values() for number in several})


@dataclass(frozen=True)
class Slot:
    """What is looked back at. `bits` are variables; `argument` is SQL over the columns of a row, empty of count(*)."""

    kind: int
    bits: int = 0
    argument: str = ""
    offset: int = 0
    shift: int = 0
    final: bool = False


@dataclass(frozen=True)
class Looking:
    """An expression: its parts are text and slots."""

    parts: tuple[str | Slot, ...]

    @property
    def slots(self) -> list[Slot]:
        return [one for one in self.parts if isinstance(one, Slot)]

    @property
    def of_one_row(self) -> bool:
        """Whether it looks at nothing but the row at hand."""
        return all(one.kind == ROW and not one.shift for one in self.slots)

    @property
    def row_text(self) -> str:
        """As an expression over the columns of the row at hand."""
        return "".join(one.argument if isinstance(one, Slot) else one for one in self.parts).strip()

    @property
    def only(self) -> Slot | None:
        """The slot that it is, if it is nothing else."""
        kept = [one for one in self.parts if isinstance(one, Slot) or one.strip()]
        return kept[0] if len(kept) == 1 and isinstance(kept[0], Slot) else None

    def text(self, names: Mapping[Slot, str]) -> str:
        return "".join(names[one] if isinstance(one, Slot) else one for one in self.parts).strip()


def read_condition(text: str, variable: str, variables: Variables) -> Looking:
    """What DEFINE says of a variable. InvalidDeclaration if it cannot be read."""
    reader = _Reader(text, variables, variable.lower())
    return Looking(tuple(reader.read(0, len(reader.tokens))))


def read_measure(text: str, variables: Variables) -> Looking:
    """What MEASURES says; a column alone is that of the last row."""
    reader = _Reader(text, variables, None)
    return Looking(tuple(reader.read(0, len(reader.tokens))))


class _Token(NamedTuple):
    kind: str
    text: str
    begin: int
    end: int

    @property
    def word(self) -> str:
        return self.text.lower() if self.kind == "name" else self.text


class _Reader:
    def __init__(self, text: str, variables: Variables, defined: str | None) -> None:
        self.text, self._variables, self._defined = text, variables, defined
        self.tokens = [
            _Token(
                found.lastgroup or "", found.group(found.lastgroup or 0), found.start(found.lastgroup or 0), found.end()
            )
            for found in TOKEN.finditer(text)
        ]

    def wrong(self, what: str) -> InvalidDeclaration:
        where = f"the condition of {self._defined}" if self._defined else "a measure"
        return InvalidDeclaration(
            f"{where} is `{self.text}`, and {what}", "Write for example amount > avg(small.amount), or last(b.at, 1)."
        )

    def _sign(self, at: int) -> str:
        return self.tokens[at].text if at < len(self.tokens) and self.tokens[at].kind == "sign" else ""

    def read(self, at: int, end: int) -> Iterator[str | Slot]:
        """Text and slots of some tokens, with the space between them."""
        position = self.tokens[at].begin if at < end else 0
        while at < end:
            found = self._slot(at, end)
            if found is None:
                at += 1
                continue
            slot, after = found
            yield self.text[position : self.tokens[at].begin]
            yield slot
            at = after
            position = self.tokens[at - 1].end
        if self.tokens and end:
            yield self.text[position : self.tokens[end - 1].end]

    def _slot(self, at: int, end: int) -> tuple[Slot, int] | None:
        token = self.tokens[at]
        if token.kind not in ("name", "quoted") or self._sign(at - 1) == ".":
            return None
        if self._sign(at + 1) == "(" and token.kind == "name":
            return self._called(at)
        if token.word in ("running", "final") and self._sign(at + 2) == "(":
            if token.word == "final" and self._defined is not None:
                raise self.wrong("FINAL is for measures: while rows are looked for there is no last one")
            found = self._called(at + 1)
            if found is None:
                raise self.wrong(f"{token.text} stands before what is no aggregate, FIRST or LAST")
            return replace(found[0], final=token.word == "final"), found[1]
        return self._column(at, end)

    def _column(self, at: int, end: int) -> tuple[Slot, int] | None:
        """A column, of this row or of the last row of a variable."""
        token = self.tokens[at]
        if token.kind == "name" and token.word in WORDS and self._sign(at + 1) != ".":
            return None
        if token.kind == "name" and at + 1 < end and self.tokens[at + 1].kind == "text":  # timestamp '…'
            return None
        after = at + 1
        while self._sign(after) == "." and after + 1 < end:
            after += 2
        variable, argument = self._argument(at, after)
        if self._is_current(variable):
            return Slot(ROW, argument=argument), after
        return Slot(LAST, self._bits(variable), argument), after

    def _is_current(self, variable: str | None) -> bool:
        """In a condition the row at hand is the last of its variable, and of all."""
        if self._defined is None:
            return False
        own = set(self._variables.numbers[self._defined])
        return variable is None or bool(own & set(self._variables.numbers[variable]))

    def _bits(self, variable: str | None) -> int:
        return self._variables.all_bits if variable is None else self._variables.bits(variable)

    def _argument(self, at: int, end: int) -> tuple[str | None, str]:
        """The variable that some text is of, and the text without it."""
        named: set[str | None] = set()
        pieces, position = [], self.tokens[at].begin if at < end else 0
        for place in range(at, end):
            token = self.tokens[place]
            if token.kind not in ("name", "quoted") or (place > at and self._sign(place - 1) == "."):
                continue
            if self._sign(place + 1) == "(" or (token.word in WORDS and self._sign(place + 1) != "."):
                if token.word in (*AGGREGATES, *NAVIGATION, "prev", "next", "classifier", "match_number"):
                    raise self.wrong(f"{token.text}(...) stands within another")
                continue
            if self._sign(place + 1) == "." and token.word in self._variables.numbers:
                named.add(token.word)
                pieces.append(self.text[position : token.begin])
                position = self.tokens[place + 2].begin if place + 2 < end else self.tokens[place + 1].end
            else:
                named.add(None)
        if at < end:
            pieces.append(self.text[position : self.tokens[end - 1].end])
        if len(named) > 1:
            raise self.wrong(f"`{self._said(at, end)}` is of rows of more than one variable")
        return next(iter(named), None), "".join(pieces)

    def _said(self, at: int, end: int) -> str:
        return self.text[self.tokens[at].begin : self.tokens[end - 1].end] if at < end else ""

    def _called(self, at: int) -> tuple[Slot, int] | None:
        name = self.tokens[at].word
        close = self._close(at + 1)
        parts = self._parts(at + 2, close)
        if name == "match_number":
            return Slot(NUMBER), close + 1
        if name == "classifier":
            return self._classifier(parts, LAST), close + 1
        if name in AGGREGATES:
            return self._aggregate(name, parts), close + 1
        if name in NAVIGATION:
            return self._navigated(name, parts), close + 1
        if name in ("prev", "next"):
            return self._beside(name, parts), close + 1
        return None

    def _close(self, at: int) -> int:
        depth = 0
        for place in range(at, len(self.tokens)):
            depth += {"(": 1, ")": -1}.get(self._sign(place), 0)
            if not depth:
                return place
        raise self.wrong("a bracket is not closed")

    def _parts(self, at: int, end: int) -> list[tuple[int, int]]:
        """What commas separate."""
        found, begin, depth = [], at, 0
        for place in range(at, end):
            depth += {"(": 1, ")": -1}.get(self._sign(place), 0)
            if self._sign(place) == "," and not depth:
                found.append((begin, place))
                begin = place + 1
        return [*found, (begin, end)] if end > at else []

    def _classifier(self, parts: Sequence[tuple[int, int]], kind: int) -> Slot:
        if self._defined is not None:
            raise self.wrong("CLASSIFIER() is for measures: a condition knows of which variable its row is to be")
        variable = self.tokens[parts[0][0]].word if parts else None
        if variable is not None and variable not in self._variables.numbers:
            raise self.wrong(f"{variable} is no variable of the pattern")
        return Slot(LABEL, self._bits(variable), "first" if kind == FIRST else "last")

    def _aggregate(self, name: str, parts: Sequence[tuple[int, int]]) -> Slot:
        if len(parts) != 1:
            raise self.wrong(f"{name}(...) has one argument")
        at, end = parts[0]
        if self.tokens[at].word == "distinct":
            raise self.wrong("aggregates over matches do not know DISTINCT")
        if name == "count" and self._sign(end - 1) == "*" and end - at in (1, 3):
            variable = self.tokens[at].word if end - at == 3 else None
            if variable is not None and variable not in self._variables.numbers:
                raise self.wrong(f"{variable} is no variable of the pattern")
            return Slot(COUNT, self._bits(variable))
        variable, argument = self._argument(at, end)
        return Slot(AGGREGATES[name], self._bits(variable), argument)

    def _navigated(self, name: str, parts: Sequence[tuple[int, int]]) -> Slot:
        if not 1 <= len(parts) <= 2:
            raise self.wrong(f"{name}(...) has a value and how many rows it goes back")
        offset = self._number(parts[1]) if len(parts) == 2 else 0
        at, end = parts[0]
        if self.tokens[at].word == "classifier":
            found = self._classifier(self._parts(at + 2, end - 1), NAVIGATION[name])
            return replace(found, offset=offset)
        variable, argument = self._argument(at, end)
        if name == "last" and not offset and self._is_current(variable):
            return Slot(ROW, argument=argument)
        return Slot(NAVIGATION[name], self._bits(variable), argument, offset)

    def _beside(self, name: str, parts: Sequence[tuple[int, int]]) -> Slot:
        """PREV and NEXT: rows of the key beside one of the match, whatever they are."""
        if not 1 <= len(parts) <= 2:
            raise self.wrong(f"{name}(...) has a value and a number of rows")
        count = self._number(parts[1]) if len(parts) == 2 else 1
        at, end = parts[0]
        if self.tokens[at].word in NAVIGATION and self._sign(at + 1) == "(" and self._close(at + 1) == end - 1:
            inner = self._navigated(self.tokens[at].word, self._parts(at + 2, end - 1))
        else:
            variable, argument = self._argument(at, end)
            current = self._is_current(variable)
            inner = Slot(ROW, argument=argument) if current else Slot(LAST, self._bits(variable), argument)
        if inner.kind == LABEL:
            raise self.wrong("rows beside the match have no CLASSIFIER()")
        return replace(inner, shift=count if name == "next" else -count)

    def _number(self, part: tuple[int, int]) -> int:
        said = self._said(*part)
        if not said.isdigit() or int(said) > 1_000:
            raise self.wrong(f"`{said}` stands where a number of rows from 0 to 1000 is expected")
        return int(said)
