"""Random patterns over random rows, cut into random batches, some of them run again, some rows late."""

import random
from decimal import Decimal
from typing import Any

from headwater.errors import InvalidDeclaration
from tests.flow.operators.patterns.running import Row, RunningPattern, declared, row

CONDITIONS = [
    "kind = 'a'", "kind <> 'b'", "n > 4", "n % 2 = 0", "price < 5 or kind = 'c'", "n is null", "cost >= 2.5",
]  # fmt: skip
LOOKING = [
    "n > prev(n)", "price >= avg({v}.price)", "n < last({v}.n, 1)", "count({v}.*) < 3", "n <> first(n)",
    "sum({v}.n) < 20", "min({v}.price) < price", "next(n) > n", "kind = last({v}.kind)", "cost <= sum({v}.cost)",
    "n + 1 > coalesce(last({v}.n), 0) and kind <> 'd'", "prev(last({v}.n), 2) is null", "cost > avg({v}.cost) - 0.5",
    "case when n > 5 then max({v}.n) > n else kind = 'a' end", "first({v}.at) + interval 5 seconds > at",
    "not (n between min({v}.n) and max({v}.n))", "kind > first(kind) or price > 8", "count({v}.n) = 2",
    "price / 2 < avg({v}.n)", "last({v}.n) is not null and abs(n - last({v}.n)) <= 2",
]  # fmt: skip
MEASURES = [
    "count(*)", "count({v}.n)", "last({v}.n)", "first({v}.kind, 1)", "sum({v}.n)", "avg({v}.price)", "min(kind)",
    "max({v}.cost)", "sum(cost)", "avg({v}.cost)", "prev(first(n))", "next({v}.n)", "classifier()", "n",
    "first(classifier(), 1)", "final last({v}.n)", "final count(*)", "min({v}.price)", "last({v}.at)",
]  # fmt: skip
NAN = float("nan")
NUMBERED = ["match_number()"]


def a_pattern(chance: random.Random, depth: int = 0) -> str:
    """A text of the pattern language over a, b and c."""
    choice = chance.random()
    if depth > 2 or choice < 0.4:
        found = chance.choice("abc")
    elif choice < 0.75:
        found = " ".join(a_pattern(chance, depth + 1) for _ in range(chance.randint(2, 3)))
        found = f"({found})" if depth else found
    elif choice < 0.9:
        found = f"({' | '.join(a_pattern(chance, depth + 1) for _ in range(2))})"
    elif choice < 0.95:
        found = f"PERMUTE({', '.join(chance.sample('abc', 2))})"
    else:
        found = f"({a_pattern(chance, depth + 1)} |)"
    if chance.random() < 0.35:
        found += chance.choice(["*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{,2}?", "{2,}"])
        found = f"({found})" if depth else found
    return found


def words_of(chance: random.Random) -> dict[str, Any]:
    pattern = a_pattern(chance)
    words: dict[str, Any] = {"subset": {"s": ("a", "b")} if "a" in pattern and "b" in pattern else {}}
    used = [one for one in "abc" if one in pattern.replace("PERMUTE", "")]
    subset = ["s"] if words["subset"] else []
    names = [*used, *subset]
    define = {
        one: chance.choice(CONDITIONS if chance.random() < 0.6 else LOOKING).format(v=chance.choice(names))
        for one in used
        if chance.random() < 0.85
    }
    measures = chance.sample([*MEASURES, *(NUMBERED if chance.random() < 0.3 else [])], 4)
    words |= {
        "pattern": pattern, "define": define,
        "measures": {f"m{place}": one.format(v=chance.choice(names)) for place, one in enumerate(measures)},
        "skip": chance.choice(["past last row", "past last row", "to next row", *(f"to first {one}" for one in used),
                               *(f"to last {one}" for one in used)]),
        "rows": chance.choice(["one", "one", "all", "all omit empty", "all with unmatched"]),
        "tries": 2_000,
    }  # fmt: skip
    if chance.random() < 0.75:
        words["within"] = f"{chance.randint(2, 12)} us"
        words["timeouts"] = chance.random() < 0.3
        if chance.random() < 0.2 and "!" not in pattern:
            words["pattern"] = f"({pattern}) !{chance.choice(used)}"
        if chance.random() < 0.3:
            words["corrections"] = f"{chance.randint(3, 20)} us"
    if chance.random() < 0.3:
        words["max_rows"] = chance.randint(1, 5)
    if chance.random() < 0.1:
        words["pattern"] = f"^ {words['pattern']}" if "|" not in pattern else words["pattern"]
    return words


def allowed(words: dict[str, Any]) -> dict[str, Any]:
    """Without what cannot be said together."""
    for leaving in ({}, {"timeouts": False}, {"rows": "one", "timeouts": False}, {"rows": "one", "corrections": None}):
        try:
            declared(**words | leaving)
            return words | leaving
        except InvalidDeclaration as error:
            if "corrections=" not in str(error):
                raise
    return words | {"corrections": None}


def rows_of(chance: random.Random) -> list[Row]:
    """In the order in which they come: mostly by time, some of them later."""
    found, time = [], 0
    for offset in range(chance.randint(0, 28)):
        time += chance.choice([0, 1, 1, 1, 2, 5])
        found.append(row(
            time - chance.choice([0] * 5 + [1, 3, 8]), chance.choice("abcd"),
            chance.choice(["ann", "bob", "ann", None]), offset,
            n=chance.choice([None, *range(10)]), price=chance.choice([None, 0.5, 2.0, 7.25, 9.0, NAN]),
            cost=chance.choice([None, Decimal("0.10"), Decimal("2.50"), Decimal("7.33")]),
        ))  # fmt: skip
    return found


def run_case(seed: int) -> RunningPattern:
    """The pattern after all batches; `result` and `expected()` must be the same after each of them."""
    chance = random.Random(seed)
    words = allowed(words_of(chance))
    running = RunningPattern(declared(**words))
    rows = rows_of(chance)
    lateness, watermark, newest = chance.randint(0, 4), None, None
    while rows:
        count = chance.randint(0, 6)
        given, rows = rows[:count], rows[count:]
        running.batch(given, watermark, again=chance.choice([1, 1, 2]))
        compare(running, seed, words)
        newest = max([one["_at"]["time"] for one in given] + ([] if newest is None else [newest]), default=newest)
        if newest is not None:
            watermark = max(newest - lateness, newest - lateness if watermark is None else watermark)
    for later in (1, 5, 40):
        watermark = None if watermark is None else watermark + later
        running.batch([], watermark, again=chance.choice([1, 2]))
        compare(running, seed, words)
    return running


def compare(running: RunningPattern, seed: int, words: dict[str, Any]) -> None:
    result, expected = running.result, running.expected()
    assert _plain(result) == _plain(expected), f"seed {seed}: {words}"


def _plain(rows: dict[Any, Row]) -> dict[Any, Row]:
    """NaN is equal to itself, and sums of doubles are rounded."""

    def plain(value: Any) -> Any:
        if isinstance(value, float):
            return "NaN" if value != value else round(value, 9)
        return value

    return {key: {name: plain(value) for name, value in one.items()} for key, one in rows.items()}
