"""Every aggregate that can be declared, and every kind of window; and what plain Python finds in the rows of one.

A pair of the two that nobody has tried would be believed without a reason. `test_any_aggregate.py` tries all of them,
and fails where there is an aggregate or a window that is not in these tables.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal
from functools import partial, reduce
from operator import and_, or_, xor
from typing import Any, NamedTuple

from datasketches import hll_sketch, kll_doubles_sketch
from pyspark.sql import functions as f

import headwater as hw
from headwater.flow.declare.aggregates import exact_percentile
from headwater.flow.operators.windows.window import Window
from tests.flow.operators import kinds_reference

SCHEMA = "sensor string, x double, y double, n int, d decimal(9,2), good boolean, word string, at timestamp"
BEGIN = datetime(2026, 3, 27, 22, tzinfo=UTC)
"""Two days before clocks are put forward in Europe, three before the end of a week, five before that of a quarter."""
HOUR_US = 3_600_000_000
SENSORS = ("a", "b")


class Reading(NamedTuple):
    sensor: str
    x: float | None
    y: float | None
    n: int | None
    d: Decimal | None
    good: bool | None
    word: str | None
    time_us: int
    partition: int
    offset: int

    @property
    def place(self) -> tuple[int, int, int]:
        return self.time_us, self.partition, self.offset


Rows = list[Reading]
"""In the order of their time and place."""


class Emitted(NamedTuple):
    """An aggregate as a user writes it, and what it is of some rows: a value, or a question that its value answers."""

    declared: Callable[[], Any]
    expected: Callable[[Rows], Any]


def some(rows: Rows, name: str) -> list[Any]:
    return [value for row in rows if (value := getattr(row, name)) is not None]


def over(name: str, function: Callable[[list[Any]], Any], nothing: Any = None) -> Callable[[Rows], Any]:
    """A function of all values that are not null; what it is of none."""
    return lambda rows: function(found) if (found := some(rows, name)) else nothing


def sql(text: str, expected: Callable[[Rows], Any]) -> Emitted:
    return Emitted(lambda: text, expected)


def statistic(kind: str) -> Emitted:
    """Of two columns the first is y where SQL names the dependent one first."""
    if kind.startswith("regr_"):
        return sql(f"{kind}(y, x)", lambda rows: kinds_reference.result(kind, [(row.y, row.x) for row in rows]))
    columns = "x, y" if kind.startswith(("covar_", "corr")) else "x"
    return sql(f"{kind}({columns})", lambda rows: kinds_reference.result(kind, [(row.x, row.y) for row in rows]))


def average(values: list[Decimal]) -> Decimal:
    return (sum(values, Decimal()) / len(values)).quantize(Decimal("0.000001"), ROUND_HALF_UP)


def extreme(rows: Rows, *, last: bool) -> str | None:
    """The word with the least n, or the greatest; of equal ones that which lies first in the log, or last."""
    found = sorted((row.n, row.partition, row.offset, row.word) for row in rows if row.n is not None)
    return found[-1 if last else 0][3] if found else None


def ranked(rank: float, values: list[float]) -> float:
    return sorted(values)[max(0, math.ceil(rank * len(values)) - 1)]


def between(rank: float, values: list[float]) -> float:
    """Spark's percentile: between the values next to a rank."""
    values, place = sorted(values), rank * (len(values) - 1)
    low, high = math.floor(place), math.ceil(place)
    return values[low] if low == high else (high - place) * values[low] + (place - low) * values[high]


def most_frequent(values: list[str]) -> list[dict[str, Any]]:
    counts = sorted((-count, word) for word, count in Counter(values).items())
    return [{"item": word, "count": -count} for count, word in counts[:2]]


typical = hw.aggregate(
    create=lambda: (0, 0.0),
    add=lambda kept, x, n: kept if x is None or n is None else (kept.rows + 1, kept.total + x * n),
    merge=lambda one, other: (one.rows + other.rows, one.total + other.total),
    finish=lambda kept: kept.total / kept.rows if kept.rows else None,
    state="rows bigint, total double",
    returns="double",
)


def weighed(rows: Rows) -> float | None:
    products = [row.x * row.n for row in rows if row.x is not None and row.n is not None]
    return math.fsum(products) / len(products) if products else None


# -- questions to sketches ---------------------------------------------------------------------------------------------


def estimates(words: list[str], sketch: bytes) -> bool:
    return bool(round(hll_sketch.deserialize(sketch).get_estimate()) == len(set(words)))


def holds(values: list[float], sketch: bytes) -> bool:
    found = kll_doubles_sketch.deserialize(sketch)
    return bool((found.n, found.get_min_value(), found.get_max_value()) == (len(values), min(values), max(values)))


def within(values: list[float], found: list[float]) -> bool:
    return len(found) == 2 and min(values) <= found[0] <= found[1] <= max(values)


def tells(words: list[str], found: dict[str, Any]) -> bool:
    return bool(found["sketch"]) and found["maxItemsTracked"] == 1000


def knows(words: list[str], sketch: bytes) -> bool:
    return hw.sketches.bloom_contains(sketch, sorted(set(words))) == [True] * len(set(words))


def counts(values: list[int], sketch: bytes) -> bool:
    counted = Counter(values)
    found = hw.sketches.count_min_estimate(sketch, list(counted))
    return all(estimate >= count for estimate, count in zip(found, counted.values(), strict=True))


def asked(question: Callable[[list[Any], Any], bool]) -> Callable[[list[Any]], Any]:
    return lambda values: partial(question, values)


# -- the tables --------------------------------------------------------------------------------------------------------

AGGREGATES: Mapping[str, Emitted] = {
    "rows": sql("count(*)", len),
    "xs": sql("count(x)", over("x", len, 0)),
    "both": sql("count(x, y)", lambda rows: sum(row.x is not None and row.y is not None for row in rows)),
    "goods": sql("count_if(good)", lambda rows: sum(row.good is True for row in rows)),
    "total": sql("sum(n)", over("n", sum)),
    "real": sql("sum(x)", over("x", math.fsum)),
    "exact": sql("sum(d)", over("d", sum)),
    "kept": sql("sum(n) filter (where good)", lambda rows: over("n", sum)([row for row in rows if row.good])),
    "mean": sql("avg(n)", over("n", lambda values: sum(values) / len(values))),
    "middling": sql("avg(x)", over("x", lambda values: math.fsum(values) / len(values))),
    "fair": sql("avg(d)", over("d", average)),
    "least": sql("min(x)", over("x", min)),
    "top": sql("max(word)", over("word", max)),
    "every": sql("bool_and(good)", over("good", all)),
    "any_good": sql("bool_or(good)", over("good", any)),
    "ands": sql("bit_and(n)", over("n", lambda values: reduce(and_, values))),
    "ors": sql("bit_or(n)", over("n", lambda values: reduce(or_, values))),
    "xors": sql("bit_xor(n)", over("n", lambda values: reduce(xor, values))),
    "product": Emitted(lambda: f.product("y"), over("y", math.prod)),
    "opening": sql("first(word)", lambda rows: rows[0].word if rows else None),
    "opened": sql("first(n, true)", over("n", lambda values: values[0])),
    "closing": sql("last(n)", lambda rows: rows[-1].n if rows else None),
    "lowest": sql("min_by(word, n)", partial(extreme, last=False)),
    "highest": sql("max_by(word, n)", partial(extreme, last=True)),
    "words": sql("collect_list(word)", over("word", list, [])),
    "vocabulary": sql("collect_set(word)", over("word", lambda values: sorted(set(values)), [])),
    "few": Emitted(lambda: hw.collect("word", limit=2), over("word", lambda values: values[:2], [])),
    "different": sql("count(distinct word)", over("word", lambda values: len(set(values)), 0)),
    "pairs": sql(
        "count(distinct word, n)",
        lambda rows: len({(row.word, row.n) for row in rows if row.word is not None and row.n is not None}),
    ),
    "once": sql("sum(distinct n)", over("n", lambda values: sum(set(values)))),
    "once_each": sql("avg(distinct n)", over("n", lambda values: sum(set(values)) / len(set(values)))),
    **{
        kind: statistic(kind)
        for kind in (
            "var_pop", "var_samp", "stddev_pop", "stddev_samp", "skewness", "kurtosis", "covar_pop", "covar_samp",
            "corr", "regr_count", "regr_avgx", "regr_avgy", "regr_sxx", "regr_syy", "regr_sxy", "regr_slope",
            "regr_intercept", "regr_r2",
        )
    },
    "about": Emitted(lambda: hw.distinct("word"), over("word", lambda values: len(set(values)), 0)),
    "about_kept": Emitted(lambda: hw.distinct("word", sketch=True), over("word", asked(estimates))),
    "median": Emitted(lambda: hw.percentile("x", 0.5), over("x", partial(ranked, 0.5))),
    "tails": Emitted(lambda: hw.percentile("x", [0.1, 0.9], k=8), over("x", asked(within))),
    "ranks": Emitted(lambda: hw.percentile("x", sketch=True), over("x", asked(holds))),
    "exact_median": Emitted(lambda: hw.percentile("y", 0.5, exact=True), over("y", partial(between, 0.5))),
    "exact_tails": Emitted(
        lambda: hw.percentile("y", [0.25, 1], exact=True),
        over("y", lambda values: [between(0.25, values), max(values)]),
    ),
    "exact_rank": Emitted(lambda: exact_percentile("x", (0.5,), discrete=True), over("x", partial(ranked, 0.5))),
    "often": Emitted(lambda: hw.top_k("word", 2), over("word", most_frequent, [])),
    "often_kept": Emitted(lambda: hw.top_k("word", 2, sketch=True), over("word", asked(tells))),
    "seen": Emitted(lambda: hw.bloom("word", 10, 0.1), over("word", asked(knows))),
    "times": Emitted(lambda: hw.count_min("n", 0.1, 0.9), over("n", asked(counts))),
    "typical": Emitted(lambda: typical("x", "n"), weighed),
}  # fmt: skip

ALIASES = {
    "variance(x)": "var_samp(x)", "std(x)": "stddev_samp(x)", "stddev(x)": "stddev_samp(x)",
    "every(good)": "bool_and(good)", "some(good)": "bool_or(good)", "any(good)": "bool_or(good)",
    "mean(x)": "avg(x)", "array_agg(word)": "collect_list(word)", "first_value(word)": "first(word)",
    "any_value(word)": "first(word)", "last_value(word)": "last(word)",
}  # fmt: skip
"""Other names of the same, which have to mean the same; then they need not be tried in windows."""


class Kind(NamedTuple):
    window: Window
    emission: Mapping[str, Any]
    aggregates: tuple[str, ...] = tuple(AGGREGATES)

    @property
    def waits(self) -> bool:
        """For the end of a window before it tells of it."""
        return bool(self.emission) and "early" not in self.emission


FINAL: dict[str, Any] = {"emit": "final"}
CORRECTED: dict[str, Any] = {"corrections": "10 hours"}
EARLY: dict[str, Any] = {**CORRECTED, "early": True}
SOME = ("rows", "real", "words", "often", "typical")
"""Parts of a calendar differ in where they begin and end, and what is kept of them is kept as that of days is."""

WINDOWS: Mapping[str, Kind] = {
    "tumbling": Kind(hw.tumbling("8 hours", offset="1 hour"), EARLY),
    "hopping": Kind(hw.hopping("12 hours", "4 hours", offset="30 minutes"), EARLY),
    "sliding": Kind(hw.sliding("9 hours"), {}),
    "changing": Kind(hw.sliding("9 hours", on_change=True), {}),
    "session": Kind(hw.session("2 hours"), {}),
    "day": Kind(hw.calendar("day", zone="Europe/Berlin", offset="90 minutes"), EARLY),
    "counted": Kind(hw.count_window(4), FINAL),
    "week": Kind(hw.calendar("week", zone="Europe/Berlin"), EARLY, SOME),
    "month": Kind(hw.calendar("month", zone="America/Havana"), {}, SOME),
    "quarter": Kind(hw.calendar("quarter", zone="Asia/Kolkata"), EARLY, SOME),
    "year": Kind(hw.calendar("year", zone="UTC"), {}, SOME),
}


KEPT = "kept"
"""A table whose keys end, which is a window too (kinds/kept.py): longer than there are rows, so that none has ended."""


def declared(name: str) -> Any:
    """An aggregate under its name in the table."""
    made = AGGREGATES[name].declared()
    return f"{made} as {name}" if isinstance(made, str) else made.alias(name)


def plant(names: Mapping[str, Kind]) -> hw.App:
    app = hw.App("plant", shards=2)
    readings = app.stream("readings", SCHEMA, time="at", lateness="5 hours", ahead=None)
    for name, kind in names.items():
        aggregates = [declared(one) for one in kind.aggregates]
        table = readings.window(kind.window).by("sensor").agg(*aggregates, **kind.emission, name=name)
        app.view(key=["sensor", "window"], name=name)(lambda table=table: table)
    kept = readings.by("sensor").agg(*map(declared, AGGREGATES), keep="1000 hours", name=KEPT)
    app.view(key="sensor", name=KEPT)(lambda: kept)
    return app


def same(found: Any, expected: Any) -> bool:
    """Numbers up to rounding; sketches, if they answer what they are asked."""
    if callable(expected):
        return found is not None and bool(expected(found))
    if isinstance(expected, float):
        return isinstance(found, float) and math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-9)
    return bool(found == expected)
