"""Statistics from the log to views, for keys and in windows of every kind, and their proof by a plain query."""

import math
import statistics
from collections.abc import Callable
from typing import Any

import pytest

import headwater as hw
from headwater.errors import FlowError
from headwater.flow.proof import verification as verifying
from headwater.flow.run.app_tester import AppTester
from tests.flow.job.windows_app import moment

Tester = Callable[[hw.App], AppTester]

SCHEMA = "sensor string, x double, y double, n int, good boolean, word string, at timestamp"
EXACT = (
    "count(*) as rows", "var_pop(x) as vp", "var_samp(x) as vs", "variance(n) as vn", "stddev_pop(x) as sp",
    "stddev(x) as ss", "skewness(x) as skew", "kurtosis(x) as kurt", "covar_pop(x, y) as cp", "covar_samp(x, y) as cs",
    "corr(x, y) as r", "regr_count(y, x) as rc", "regr_avgx(y, x) as rx", "regr_avgy(y, x) as ry",
    "regr_sxx(y, x) as sxx", "regr_syy(y, x) as syy", "regr_sxy(y, x) as sxy", "regr_slope(y, x) as slope",
    "regr_intercept(y, x) as intercept", "regr_r2(y, x) as r2", "count_if(good) as goods", "bool_and(good) as every",
    "some(good) as some", "bit_and(n) as ba", "bit_or(n) as bo", "bit_xor(n) as bx", "count(distinct word) as words",
    "count(distinct word, n) as both", "sum(distinct n) as sd", "avg(distinct n) as ad", "count(x, y) as pairs",
    "max(distinct n) as top", "stddev_pop(x) filter (where good) as kept", hw.collect("word", limit=2).alias("first"),
)  # fmt: skip
SOME = ("var_pop(x) as vp", "kurtosis(x) as kurt", "corr(x, y) as r", "count(distinct word) as words",
        "bit_xor(n) as bx", "bool_or(good) as some", hw.collect("word", limit=2).alias("first"))  # fmt: skip


def measured(sensor: str, place: int) -> dict[str, Any]:
    """Values that are null, equal, large, and small, at times that go back and forth."""
    return {
        "sensor": sensor, "x": None if place % 7 == 3 else math.sin(place) * 10 ** (place % 4) + 1e6 * (place % 2),
        "y": None if place % 5 == 4 else place * 0.25, "n": None if place % 6 == 5 else place % 9 - 2,
        "good": None if place % 4 == 3 else place % 3 > 0, "word": None if place % 8 == 7 else f"w{place % 5}",
        "at": moment(place * 3 - 5 * (place % 3)).isoformat(),
    }  # fmt: skip


def fed(plant: AppTester, batches: list[list[dict[str, Any]]]) -> None:
    for rows in batches:
        plant.feed("readings", rows)
        plant.run()


def lab(**tables: Any) -> hw.App:
    """A view for each: of keys, or of a window; and what is aggregated there."""
    app = hw.App("lab", shards=2)
    readings = app.stream("readings", SCHEMA, time="at", lateness="1 minute")
    for name, (window, aggregates) in tables.items():
        cut = readings if window is None else readings.window(window)
        table = cut.by("sensor").agg(*aggregates, name=f"{name}-kept")
        app.view(key=["sensor"] if window is None else ["sensor", "window"], name=name)(lambda table=table: table)
    return app


@pytest.mark.on_spark
@pytest.mark.timeout(400)
def test_every_statistic_is_that_of_a_plain_query_for_keys_and_in_windows(tester: Tester) -> None:
    plant = tester(lab(keyed=(None, EXACT), trips=(hw.session("8 seconds"), SOME)))
    rows = [measured("ab"[place % 2], place) for place in range(30)]
    fed(plant, [rows[:13], rows[13:]])
    for name in ("keyed", "trips"):
        assert plant.prove(name).shown == []
    kept = next(row for row in plant.rows("keyed") if row["sensor"] == "a")
    mine = [row["x"] for row in rows if row["sensor"] == "a" and row["x"] is not None]
    assert math.isclose(kept["ss"], statistics.stdev(mine), rel_tol=1e-12)
    assert kept["words"] == len({row["word"] for row in rows if row["sensor"] == "a" and row["word"]})
    assert kept["first"] == ["w2", "w0"]


SKETCHES = (
    hw.distinct("word").alias("words"), hw.distinct("x", lg_k=6).alias("xs"), hw.distinct("n", sketch=True).alias("ns"),
    hw.percentile("x", 0.9, k=20).alias("p90"), hw.percentile("n", [0.1, 0.5]).alias("low"),
    hw.percentile("y", sketch=True).alias("ys"), hw.top_k("word", 2).alias("top"), hw.top_k("x", 2, tracked=8),
    hw.top_k("n", 3, sketch=True).alias("often"), hw.bloom("word", 10, 0.1).alias("seen"),
    hw.count_min("n", 0.1, 0.9).alias("times"),
)  # fmt: skip


@pytest.mark.on_spark
@pytest.mark.timeout(400)
def test_sketches_are_what_a_plain_query_accepts_and_spark_reads_them(tester: Tester) -> None:
    plant = tester(lab(keyed=(None, SKETCHES), trips=(hw.session("8 seconds"), SKETCHES)))
    rows = [measured("ab"[place % 2], place) for place in range(200)]
    fed(plant, [rows[:13], rows[13:]])
    for name in ("keyed", "trips"):
        assert plant.prove(name).shown == []
    kept = next(row for row in plant.rows("keyed") if row["sensor"] == "a")
    mine = [row for row in rows if row["sensor"] == "a"]
    words = [row["word"] for row in mine if row["word"]]
    assert kept["words"] == len(set(words))
    assert kept["top"][0]["count"] == max(map(words.count, words))
    assert hw.sketches.bloom_contains(kept["seen"], ["w0", "w1", "w99"]) == [True, True, False]
    assert hw.sketches.count_min_estimate(kept["times"], [3])[0] >= [row["n"] for row in mine].count(3)
    stored = plant.session.createDataFrame([(kept["ns"],)], "s binary")
    assert stored.selectExpr("hll_sketch_estimate(s)").collect()[0][0] == len(
        {row["n"] for row in mine if row["n"] is not None}
    )


@pytest.mark.on_spark
@pytest.mark.timeout(400)
def test_a_wrong_sketch_is_found_out(tester: Tester, monkeypatch: pytest.MonkeyPatch) -> None:
    """The view is compared as if each column in turn were wrong: not just anything is accepted of it."""
    plant = tester(lab(keyed=(None, SKETCHES)))
    fed(plant, [[measured("a", place) for place in range(200)]])
    (row,) = plant.rows("keyed")
    wrong: dict[str, Any] = {
        "words": row["words"] + 1, "xs": row["xs"] + 1, "ns": None, "p90": row["p90"] * 2, "low": [row["low"][1]] * 2,
        "ys": None, "top": [{**one, "count": one["count"] - 1} for one in row["top"]],
        "top_k(x, 2, tracked=8)": [{"item": 0.5, "count": 99}],
        "often": None, "seen": b"", "times": b"",
    }  # fmt: skip
    compared = verifying._compared

    def planted(expected: Any, actual: Any, key: tuple[str, ...]) -> Any:
        (right,) = actual.collect()
        rows = [{**right.asDict(), name: value, "sensor": name} for name, value in wrong.items()]
        rows.append({**right.asDict(), "sensor": "right"})
        keys = plant.session.createDataFrame([(one["sensor"],) for one in rows], "sensor string")
        given = plant.session.createDataFrame(rows, actual.schema)
        return compared(expected.drop("sensor").crossJoin(keys), given, key)

    monkeypatch.setattr(verifying, "_compared", planted)
    assert plant.prove("keyed").different == len(wrong)


geometric = hw.aggregate(
    create=lambda: (0, 0.0),
    add=lambda kept, x, n: (kept.n + 1, kept.logs + math.log(x)) if x and x > 0 and n else kept,
    merge=lambda one, other: (one.n + other.n, one.logs + other.logs),
    finish=lambda kept: math.exp(kept.logs / kept.n) if kept.n else None,
    state="n bigint, logs double",
    returns="double",
)
forgetful = hw.aggregate(
    create=lambda: (0,),
    add=lambda kept, x: (kept.n + 1,),
    merge=lambda one, other: other,
    finish=lambda kept: kept.n,
    state="n bigint",
    returns="bigint",
)


@pytest.mark.timeout(400)
def test_an_aggregate_of_the_user_is_proved_and_a_merge_that_forgets_is_found_out(tester: Tester) -> None:
    right = (geometric("x", "n").alias("typical"), "count(*) as rows")
    wrong = (forgetful("x").alias("rows"),)
    plant = tester(lab(keyed=(None, right), hops=(hw.hopping("20 seconds", "5 seconds"), right), bad=(None, wrong)))
    rows = [measured("ab"[place % 2], place) for place in range(30)]
    fed(plant, [rows[:11], rows[11:]])
    assert plant.prove("keyed").shown == []
    assert plant.prove("hops").shown == []
    mine = [row["x"] for row in rows if row["sensor"] == "a" and row["n"] and row["x"] and row["x"] > 0]
    kept = next(row for row in plant.rows("keyed") if row["sensor"] == "a")
    assert math.isclose(kept["typical"], statistics.geometric_mean(mine), rel_tol=1e-9)
    assert plant.prove("bad").different == 2


def test_what_the_users_code_raises_is_one_sentence_with_its_line(tester: Tester) -> None:
    inverse = hw.aggregate(
        create=lambda: (0.0,), add=lambda kept, n: (kept.total + 1 / n,), merge=lambda one, other: one,
        finish=lambda kept: kept.total, state="total double", returns="double",
    )  # fmt: skip
    plant = tester(lab(keyed=(None, (inverse("n").alias("total"),))))
    plant.feed("readings", [measured("a", 2)])
    with pytest.raises(Exception, match=r"add of column total, .*test_statistics.py:\d+, failed: ZeroDivisionError"):
        plant.run()


@pytest.mark.on_spark
@pytest.mark.timeout(400)
def test_centres_learn_from_complete_windows_in_the_order_of_time_and_are_proved(tester: Tester) -> None:
    app = hw.App("lab", shards=2)
    readings = app.stream("readings", SCHEMA, time="at", lateness="20 seconds")
    minutes = readings.window(hw.tumbling("30 seconds"))
    apart, whole = minutes.by("sensor").kmeans(["x", "y"], 3, half_life="1 minute"), minutes.kmeans("y", 2)
    app.view(key=["sensor", "cluster"], name="apart")(lambda: apart)
    app.view(key="cluster", name="whole")(lambda: whole)
    app.topic("emitted")(lambda: whole)
    plant = tester(app)
    rows = [measured("ab"[place % 2], place) for place in range(80)]
    fed(plant, [rows[:25], rows[40:60], [measured("a", 0), *rows[25:40]], rows[60:]])
    assert plant.prove("apart").shown == []
    assert plant.prove("whole").shown == []
    assert plant.account("whole").late > 0, "what came too late was learned by no one"
    assert [(row["sensor"], row["cluster"]) for row in plant.rows("apart")] == [(s, c) for s in "ab" for c in range(3)]
    low, high = sorted(row["y"] for row in plant.rows("whole"))
    assert 0 <= low < high <= 20
    emitted = [value["op"] for value in plant.values("emitted") if value is not None]
    assert emitted.count("c") == 2
    assert emitted.count("u") >= 2


@pytest.mark.timeout(400)
def test_what_is_computed_from_an_estimate_is_not_taken_for_wrong(tester: Tester) -> None:
    app = hw.App("lab", shards=2)
    readings = app.stream("readings", SCHEMA, time="at")
    table = readings.by("sensor").agg(hw.percentile("x", 0.5).alias("p"), "count(*) as n", "var_pop(x) as v")
    app.view(key="sensor", name="renamed")(lambda: table.select("sensor", "p as middle", "sqrt(v) as s"))
    app.view(key="sensor", name="doubled")(lambda: table.with_columns(p="p * 2"))
    app.view(key="sensor", name="chosen")(lambda: table.where("p > 3").select("sensor", "n"))
    plant = tester(app)
    fed(plant, [[measured("a", place) for place in range(30)]])
    assert plant.prove("renamed").different == 0
    with pytest.raises(FlowError, match="view doubled cannot be proved: its column p is computed from a percentile"):
        plant.prove("doubled")
    with pytest.raises(FlowError, match="view chosen cannot be proved: which rows it has is computed"):
        plant.prove("chosen")
