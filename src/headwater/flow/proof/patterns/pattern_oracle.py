"""What a pattern finds in the rows of one key, by a plain search in Python: the reference of patterns (pure).

It follows the pattern itself, one way after the other in the order of the standard's preferment, and shares nothing
with the compiled search. Conditions that look back are evaluated by the kernels of all steps, one row at a time.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, NamedTuple

import pyarrow as pa

from headwater.flow.expressions.evaluation import evaluate_column
from headwater.flow.operators.patterns import language, machine, search
from headwater.flow.operators.patterns.navigation import Slot
from headwater.flow.operators.patterns.reference import OracleSetup

UNBOUNDED = 1 << 40


class Undecided(Exception):
    """A row is needed that is not known yet."""


class Failed(Exception):
    def __init__(self, outcome: int) -> None:
        self.outcome = outcome


@dataclass(frozen=True)
class Taken:
    """One row more than `before`."""

    before: "Taken | None"
    variable: str
    hidden: bool

    def listed(self) -> list["Taken"]:
        found, at = [self], self.before
        while at is not None:
            found.append(at)
            at = at.before
        return found[::-1]


class Match(NamedTuple):
    """The first row, the variables of all, the end of what it could see, the outcome (operators/patterns/search.py)."""

    first: int
    rows: list[Taken]
    limit: int
    outcome: int
    number: int


@dataclass
class Oracle:
    """The rows of a key in order, `times` among them, and how far the watermark has come."""

    setup: OracleSetup
    columns: Mapping[str, list[Any]]
    times: list[int]
    watermark_us: int
    _first: int = field(default=0, init=False)
    _limit: int = field(default=0, init=False)
    _ended: bool = field(default=False, init=False)

    def matches(self) -> tuple[list[Match], int]:
        """All that is decided, and where the search stands."""
        found: list[Match] = []
        at = number = 0
        while at < len(self.times):
            try:
                outcome, rows = self._attempt(at)
            except Undecided:
                break
            except Failed as failed:
                outcome, rows = failed.outcome, []
            following = at + 1
            if outcome == search.MATCHED:
                if rows:
                    following = self._skipped(at, rows)
                if following <= at:
                    outcome, rows = (search.NOT_THERE if following < at else search.ENDLESS), []
                    following = at + 1
                else:
                    number += 1
            if outcome != search.NO_MATCH:
                found.append(Match(at, rows, self._limit, outcome, number))
            at = following
        return found, at

    def _skipped(self, first: int, rows: list[Taken]) -> int:
        skip = self.setup.spec.skip
        if skip.kind == search.PAST_LAST:
            return first + len(rows)
        if skip.kind == search.TO_NEXT:
            return first + 1
        places = [place for place, one in enumerate(rows) if self._in(skip.bits, one)]
        if not places:
            return first - 1
        return first + (places[0] if skip.kind == search.TO_FIRST else places[-1])

    def _in(self, bits: int, one: Taken) -> bool:
        return bool((bits >> self.setup.spec.variables.index(one.variable)) & 1)

    # -- one attempt ---------------------------------------------------------------------------------------------------

    def _attempt(self, first: int) -> tuple[int, list[Taken]]:
        spec, times = self.setup.spec, self.times
        most, until = spec.rows_max or UNBOUNDED, None if spec.within_us is None else times[first] + spec.within_us
        reach = [
            row for row in range(first, len(times)) if row - first < most and (until is None or times[row] < until)
        ]
        self._first, self._limit = first, first + len(reach)
        self._ended = (
            self._limit < len(times) or len(reach) == most or (until is not None and until <= self.watermark_us)
        )  # fmt: skip
        ahead = max([slot.shift for _, slot in spec.slots] + [0])
        partial: Taken | None = None
        # Ways that are left, the preferred last: what is to be matched from here on, as a chain, and the rows so far.
        ways: list[tuple[Any, Taken | None, int]] = [((spec.pattern, None), None, 0)]
        looks_back = any(slot.kind != machine.ROW for one in self.setup.expressions.values() for _, slot in one[1])
        dead: set[Any] = set()
        tries = 0
        while ways:
            to_do, taken, depth = ways.pop()
            if to_do is None:
                if depth and first + depth - 1 + ahead >= self._limit and not self._ended:
                    raise Undecided
                return search.MATCHED, [] if taken is None else taken.listed()
            part, rest = to_do
            if isinstance(part, language.Variable):
                if not looks_back and (to_do, depth) in dead:
                    continue
                dead.add((to_do, depth))
                if not self._known(part.name, first + depth):
                    partial = partial or taken
                    continue
                tries += 1
                if tries > spec.tries_max:
                    raise Failed(search.TOO_MANY)
                more = Taken(taken, part.name, part.excluded)
                if self._holds(part.name, more, first + depth):
                    ways.append((rest, more, depth + 1))
            else:
                ways.extend(reversed([(one, taken, depth) for one in self._choices(part, rest, taken, depth)]))
        if spec.timeouts and partial is not None:
            return search.TIMED_OUT, partial.listed()
        return search.NO_MATCH, []

    def _known(self, variable: str, row: int) -> bool:
        """Whether a row can be one of a variable; Undecided if it cannot be known yet."""
        _, slots = self.setup.expressions.get(variable, (None, ()))
        ahead = max([slot.shift for _, slot in slots] + [0])
        if row + ahead >= self._limit and not self._ended:
            raise Undecided
        return row < self._limit

    def _choices(self, part: Any, rest: Any, taken: Taken | None, depth: int) -> Iterator[Any]:
        """What may be matched in place of a part, the preferred first."""
        match part:
            case language.Sequence(parts):
                for one in reversed(parts):
                    rest = (one, rest)
                yield rest
            case language.Alternation(parts):
                yield from ((one, rest) for one in parts)
            case language.Repeated():
                yield from self._repeated(part, rest, depth)
            case language.Begin():
                if depth == 0 and self._first == 0:
                    yield rest
            case language.Never(name):
                if not self._follows(name, taken, depth):
                    yield rest
            case ("moved", before):
                if depth > before:
                    yield rest

    def _repeated(self, part: language.Repeated, rest: Any, depth: int) -> Iterator[Any]:
        fewer = None if part.most is None else part.most - 1
        if part.least:
            yield part.part, (language.Repeated(part.part, part.least - 1, fewer, part.greedy), rest)
            return
        once = part.part, (("moved", depth), (language.Repeated(part.part, 0, fewer, part.greedy), rest))
        if part.most == 0:
            yield rest
        elif part.greedy:
            yield from (once, rest)
        else:
            yield from (rest, once)

    def _follows(self, variable: str, taken: Taken | None, depth: int) -> bool:
        """Whether a row of a variable comes before WITHIN is over."""
        for row in range(self._first + depth, self._limit):
            self._known(variable, row)
            if self._holds(variable, Taken(taken, variable, False), row):
                return True
        if not self._ended:
            raise Undecided
        return False

    # -- conditions and slots ------------------------------------------------------------------------------------------

    def _holds(self, variable: str, taken: Taken, row: int) -> bool:
        if variable in self.setup.flags:
            return bool(self.columns[self.setup.flags[variable]][row])
        if variable not in self.setup.expressions:
            return True
        expression, slots = self.setup.expressions[variable]
        rows = taken.listed()
        columns = {
            name: pa.array(
                [self.value(slot, self._first, rows, len(rows) - 1, row, self._limit)], self.setup.types[slot]
            )
            for name, slot in slots
        }
        found = evaluate_column(expression, columns, 1)
        if found.errors is not None and found.errors[0].is_valid:
            raise Failed(search.BY_ZERO if "zero" in found.errors[0].as_py() else search.TOO_LARGE)
        return bool(found.values[0].as_py())

    def value(self, slot: Slot, first: int, rows: Sequence[Taken], depth: int, row: int, limit: int) -> Any:
        """A slot when the row at `depth` is the last; `row` is that one, or what stands for it."""
        values = self.columns[self.setup.arguments[slot.argument]] if slot.argument in self.setup.arguments else []
        own = [place for place in range(depth + 1) if self._in(slot.bits, rows[place])]
        if slot.kind == machine.COUNT:
            return sum(not slot.argument or values[first + place] is not None for place in own)
        if slot.kind in (machine.LAST, machine.FIRST, machine.LABEL):
            from_first = slot.kind == machine.FIRST or (slot.argument == "first" and slot.kind == machine.LABEL)
            place = (own if from_first else own[::-1])[slot.offset : slot.offset + 1]
            if slot.kind == machine.LABEL:
                return rows[place[0]].variable if place else None
            return self._at(values, first + place[0] + slot.shift, first, limit) if place else None
        if slot.kind == machine.ROW:
            return self._at(values, row + slot.shift, first, limit)
        there = [values[first + place] for place in own if values[first + place] is not None]
        return AGGREGATES[slot.kind](there) if there else None

    def _at(self, values: list[Any], row: int, first: int, limit: int) -> Any:
        """A value of a row that can be seen."""
        within_us = self.setup.spec.within_us
        if not 0 <= row < limit or (within_us is not None and self.times[row] < self.times[first] - within_us):
            return None
        return values[row]


def _ordered(value: Any) -> tuple[bool, Any]:
    """NaN is greater than all numbers."""
    return (True, 0.0) if value != value else (False, value)


def _average(values: list[Any]) -> Any:
    if isinstance(values[0], Decimal):
        exponent = values[0].as_tuple().exponent
        assert isinstance(exponent, int)
        return (sum(values, Decimal(0)) / len(values)).quantize(Decimal(1).scaleb(exponent - 4), ROUND_HALF_UP)
    return sum(map(float, values)) / len(values)


AGGREGATES: dict[int, Callable[[list[Any]], Any]] = {
    machine.SUM: sum,
    machine.AVERAGE: _average,
    machine.LEAST: lambda values: min(values, key=_ordered),
    machine.GREATEST: lambda values: max(values, key=_ordered),
}


class Result(NamedTuple):
    """A row of the result: that of the input which it is, the first of its match (None: there is none), measures."""

    row: int
    first: int | None
    measures: tuple[Any, ...]
    timed_out: bool


def results_of(oracle: Oracle) -> list[Result]:
    """What is shown of the matches of a key; failures are not."""
    spec = oracle.setup.spec
    matches, passed = oracle.matches()
    found, covered = [], set[int]()
    for match in matches:
        if match.outcome == search.MATCHED:
            covered |= set(range(match.first, match.first + max(len(match.rows), 1)))
        found += [] if match.outcome >= search.BY_ZERO else list(_shown(oracle, match))
    if spec.unmatched:
        nothing = (None,) * len(spec.slots)
        found += [Result(row, None, nothing, False) for row in range(passed) if row not in covered]
    return found


def _shown(oracle: Oracle, match: Match) -> Iterator[Result]:
    spec, last = oracle.setup.spec, len(match.rows) - 1
    timed = match.outcome == search.TIMED_OUT
    if not spec.all_rows:
        yield Result(match.first + max(last, 0), match.first, _measures(oracle, match, last), timed)
    elif match.rows:
        for depth, one in enumerate(match.rows):
            if not one.hidden:
                yield Result(match.first + depth, match.first, _measures(oracle, match, depth), timed)
    elif spec.show_empty:
        yield Result(match.first, match.first, _measures(oracle, match, -1), timed)


def _measures(oracle: Oracle, match: Match, depth: int) -> tuple[Any, ...]:
    found: list[Any] = []
    for _, slot in oracle.setup.spec.slots:
        own = len(match.rows) - 1 if slot.final else depth
        if slot.kind == machine.NUMBER:
            found.append(match.number)
        elif own < 0:
            found.append(0 if slot.kind == machine.COUNT else None)
        else:
            found.append(oracle.value(slot, match.first, match.rows, own, match.first + own, match.limit))
    return tuple(found)
