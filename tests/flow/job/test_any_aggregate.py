"""Every aggregate in every kind of window, from the log to a view: as plain Python finds it, and Spark in one batch.

One job has all windows of `window_matrix.py`, and each has all aggregates. Its rows are out of order, and some come too
late. `make torture` has it in more batches, one of which comes twice.
"""

import dataclasses
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

import headwater as hw
from headwater import _HOMES
from headwater.errors import InvalidDeclaration
from headwater.flow.commit.job_folder import JobFolder
from headwater.flow.declare.aggregates import OwnAggregate
from headwater.flow.declare.topology.graph import plan
from headwater.flow.operate.window_operator import WindowOperator
from headwater.flow.operators.aggregation.aggregates import Aggregate
from headwater.flow.operators.aggregation.kinds.registry import FUNCTIONS, KINDS
from headwater.flow.operators.windows.kinds import registry
from headwater.flow.operators.windows.kinds.calendar import UNITS, Calendar
from headwater.flow.operators.windows.kinds.count import Count
from headwater.flow.operators.windows.kinds.kept import Kept
from headwater.flow.plan.explanations import explain
from headwater.flow.plan.resolution import resolve
from headwater.flow.run.app_tester import AppTester
from headwater.testing import running_node
from tests.flow.job.steps import Step, run_steps
from tests.flow.job.window_matrix import (
    AGGREGATES,
    ALIASES,
    BEGIN,
    HOUR_US,
    KEPT,
    SCHEMA,
    SENSORS,
    WINDOWS,
    Kind,
    Reading,
    plant,
    same,
)
from tests.flow.operators.reference import Row
from tests.flow.operators.windows.oracle import windows_of
from tests.flow.spark_session import NOT_COMPILED

pytestmark = pytest.mark.timeout(400)

BEGIN_US = round(BEGIN.timestamp() * 1_000_000)
ROWS = 60
"""Of each partition, one every two hours."""
STEPS = (Step((30, 20), 1), Step((30, 40), 1))
MORE_STEPS = (Step((30, 20), 1), Step((14, 21), 2), Step((16, 19), 1), Step((0, 0), 1))
LONG = ("hopping", "sliding", "changing", "day")
"""Windows whose proofs take Spark longest; plain Python knows what is in them, too."""
STRAGGLERS = {35: 69, 44: 80, 52: 60}
"""So many hours behind the others."""


def readings_of(partition: int) -> list[Reading]:
    """Values that are null, equal, negative and large, at times that go back and forth."""
    found = []
    for offset in range(ROWS):
        place = 2 * offset + partition
        minutes = 120 * offset + place * 37 % 60 - 60 * (STRAGGLERS.get(offset) or (0, 4, 1, 0, 3)[place % 5])
        found.append(
            Reading(
                SENSORS[place * 7 // 3 % 2],
                None if place % 7 == 3 else math.sin(place) * 10 ** (place % 3) + place % 2 * 1000,
                None if place % 5 == 4 else place * 0.25 + 0.5,
                None if place % 6 == 5 else place % 9 - 2,
                None if place % 8 == 1 else Decimal(place * 37 % 1000) / 100,
                None if place % 4 == 3 else place % 3 > 0,
                None if place % 9 == 7 else f"w{place * 5 % 7}",
                BEGIN_US + minutes * HOUR_US // 60, partition, offset,
            )
        )  # fmt: skip
    return found


CONTENTS = [readings_of(partition) for partition in (0, 1)]


def text_of(row: Reading) -> str:
    said = {name: getattr(row, name) for name in Reading._fields if name not in ("time_us", "partition", "offset")}
    at = BEGIN + timedelta(microseconds=row.time_us - BEGIN_US)
    return json.dumps({**said, "d": None if row.d is None else str(row.d), "at": at.isoformat()})


@contextmanager
def without_compiling(spark: SparkSession) -> Iterator[None]:
    """Plans with so many aggregates are run a few times each: to compile them would take longer than all else."""
    before = {name: spark.conf.get(name) for name in NOT_COMPILED}
    for name, value in NOT_COMPILED.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, said in before.items():
            spark.conf.set(name, said or "")


@contextmanager
def run_through(spark: SparkSession, folder: Path, steps: Sequence[Step]) -> Iterator[AppTester]:
    with without_compiling(spark), running_node(folder) as node:
        tester = AppTester(plant(WINDOWS), node, spark)
        node.log.create_topic("readings", partitions=len(CONTENTS))
        for number, rows in enumerate(CONTENTS):
            tester.feed("readings", map(text_of, rows), partition=number, at=BEGIN.isoformat())
        run_steps(tester, steps, topic="readings")
        yield tester


@pytest.fixture(scope="module")
def ran(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppTester]:
    with run_through(spark, tmp_path_factory.mktemp("matrix"), STEPS) as tester:
        yield tester


def late_for(ran: AppTester, name: str) -> set[tuple[int, int]]:
    declared = [row for row in ran.values("plant.readings.late") if row["operator"] == name]
    return {(row["partition"], row["offset"]) for row in declared}


def expected_of(ran: AppTester, name: str) -> dict[tuple[Any, ...], tuple[list[Reading], bool]]:
    """By the key in the view: the rows of each window that is to be seen, and whether it is final."""
    kind, late = WINDOWS[name], late_for(ran, name)
    accepted = [row for rows in CONTENTS for row in rows if (row.partition, row.offset) not in late]
    accepted.sort(key=lambda row: row.place)
    record = JobFolder(ran.node.data / "flows" / "plant" / "readings").last_finished()
    assert record is not None
    plain = [Row(SENSORS.index(row.sensor), row, row.time_us, number) for number, row in enumerate(accepted)]
    declared = {}
    for place, inside in windows_of(kind.window, plain, record.watermark_us).items():
        final = record.watermark_us is not None and place.end <= record.watermark_us
        if final or not kind.waits:
            declared[SENSORS[place.key], *place.names] = [row.x for row in inside], final
    return declared


def key_of(kind: Kind, row: Mapping[str, Any]) -> tuple[Any, ...]:
    names = [row[name] for name in kind.window.key]
    if not isinstance(kind.window, Count):
        names = [(name - BEGIN) // timedelta(microseconds=1) + BEGIN_US for name in names]
    return row["sensor"], *names


@pytest.mark.slow
@pytest.mark.parametrize("name", WINDOWS)
def test_every_aggregate_is_what_plain_python_finds_in_the_rows_that_were_not_late(ran: AppTester, name: str) -> None:
    kind, expected = WINDOWS[name], expected_of(ran, name)
    found = {key_of(kind, row): row for row in ran.rows(name)}
    assert found.keys() == expected.keys()
    wrong = [
        (key, column, row[column], AGGREGATES[column].expected(expected[key][0]))
        for key, row in found.items()
        for column in kind.aggregates
        if not same(row[column], AGGREGATES[column].expected(expected[key][0]))
    ]
    assert wrong == []
    assert {key: row.get("final") for key, row in found.items()} == {
        key: final if "early" in kind.emission else None for key, (_, final) in expected.items()
    }


@pytest.mark.slow
def test_every_aggregate_of_keys_that_end_is_what_plain_python_finds_in_all_rows(ran: AppTester) -> None:
    late = late_for(ran, KEPT)
    accepted = [row for rows in CONTENTS for row in rows if (row.partition, row.offset) not in late]
    found = {row["sensor"]: row for row in ran.rows(KEPT)}
    assert found.keys() == set(SENSORS)
    for sensor, row in found.items():
        own = sorted((one for one in accepted if one.sensor == sensor), key=lambda one: one.place)
        wrong = {name: row[name] for name, one in AGGREGATES.items() if not same(row[name], one.expected(own))}
        assert wrong == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(one, marks=[pytest.mark.torture] * (one in LONG)) for one in WINDOWS])
def test_every_aggregate_is_what_spark_finds_in_one_batch(ran: AppTester, name: str) -> None:
    proof = ran.prove(name)
    assert proof.shown == []
    assert proof.rows > 1


@pytest.mark.slow
@pytest.mark.parametrize("name", WINDOWS)
def test_what_is_not_in_windows_is_late_and_nothing_is_in_neither(ran: AppTester, name: str) -> None:
    account, late = ran.account(name), late_for(ran, name)
    assert account.balanced
    assert (account.rows_in, account.rows_out, account.late) == (2 * ROWS, 2 * ROWS - len(late), len(late))
    assert bool(late) == (name not in ("week", "month", "quarter", "year")), "stragglers are among the rows"


@pytest.mark.torture
@pytest.mark.timeout(1800)
def test_in_other_batches_one_of_which_comes_twice_all_of_it_is_the_same(spark: SparkSession, tmp_path: Path) -> None:
    with run_through(spark, tmp_path, MORE_STEPS) as ran:
        for name in WINDOWS:
            test_every_aggregate_is_what_plain_python_finds_in_the_rows_that_were_not_late(ran, name)
            test_every_aggregate_is_what_spark_finds_in_one_batch(ran, name)
            test_what_is_not_in_windows_is_late_and_nothing_is_in_neither(ran, name)


# -- nothing is forgotten ----------------------------------------------------------------------------------------------


def specs_of(spark: SparkSession, *aggregates: Any) -> list[Aggregate]:
    """As they are kept in windows."""
    app = hw.App("named")
    table = app.stream("readings", SCHEMA, time="at").window(hw.tumbling("1 hour")).by("sensor").agg(*aggregates)
    app.view(key=["sensor", "window"], name="all")(lambda: table)
    (job,) = plan(app, explain)
    (operator,) = resolve(spark, job)["all"].operators.values()
    assert isinstance(operator, WindowOperator)
    return list(operator.work.specs)


def meaning(spec: Aggregate) -> tuple[Any, ...]:
    return spec.kind, spec.type, spec.time_type, spec.ignore_nulls, spec.options


def test_no_kind_of_aggregate_is_left_out(spark: SparkSession) -> None:
    specs = specs_of(spark, *(one.declared() for one in AGGREGATES.values()))
    assert {spec.kind for spec in specs} == set(KINDS)
    options: list[Any] = [spec.options for spec in specs if spec.options is not None]
    for kind in {type(one) for one in options}:
        for field in (field for field in dataclasses.fields(kind) if field.type in (bool, "bool")):
            tried = {getattr(one, field.name) for one in options if type(one) is kind}
            assert tried == {False, True}, f"{kind.__name__} is tried with {field.name} = {tried}"


def test_no_name_of_an_aggregate_is_left_out(spark: SparkSession) -> None:
    made = [one.declared() for one in AGGREGATES.values()]
    texts = [*(one for one in made if isinstance(one, str)), *ALIASES, "product(y)"]
    assert {re.split(r"\W", text)[0] for text in texts} == set(FUNCTIONS)
    own = {one.kind.removeprefix("exact_") for one in made if isinstance(one, OwnAggregate)}
    public = {name for name, home in _HOMES.items() if home == OwnAggregate.__module__}
    assert own == {"user" if name == "aggregate" else name for name in public}


def test_another_name_of_an_aggregate_means_the_same(spark: SparkSession) -> None:
    found = specs_of(spark, *(f"{text} as n{place}" for place, text in enumerate([*ALIASES, *ALIASES.values()])))
    names, meant = found[: len(ALIASES)], found[len(ALIASES) :]
    assert [meaning(one) for one in names] == [meaning(one) for one in meant]


def test_no_kind_of_window_is_left_out() -> None:
    whole = [kind.window for kind in WINDOWS.values() if kind.aggregates == tuple(AGGREGATES)]
    assert {type(window) for window in whole} | {Kept} == set(registry.KINDS)
    assert {kind.window.unit for kind in WINDOWS.values() if isinstance(kind.window, Calendar)} == set(UNITS)
    for kind in {*registry.KINDS} - {Kept}:
        own = [window for window in whole if isinstance(window, kind)]
        for field in dataclasses.fields(cast("Any", kind)):
            tried = {getattr(window, field.name) for window in own}
            assert field.type not in (bool, "bool") or tried == {False, True}, f"{kind.__name__} with {field.name}"
            assert field.name != "offset_us" or any(tried), f"{kind.__name__} with an offset"


# -- what is refused ---------------------------------------------------------------------------------------------------


def exploded(frame: Any) -> Any:
    return frame.selectExpr("sensor", "explode(array(x, y)) as x", "at", "_at")


@pytest.mark.parametrize("step", ["select", "apply"])
def test_rows_are_not_counted_behind_a_step_that_makes_several_of_one(spark: SparkSession, step: str) -> None:
    app = hw.App("counted")
    readings = app.stream("readings", SCHEMA, time="at")
    text = "select sensor, explode(array(x, y)) as x, at from readings"
    several: Any = app.sql(text) if step == "select" else readings.apply(exploded)
    table = several.window(hw.count_window(3)).by("sensor").agg("count(*) as n")
    app.view(key=["sensor", "window"], name="all")(lambda: table)
    (job,) = plan(app, explain)
    with pytest.raises(InvalidDeclaration, match=rf"counts rows after {step} at .*, which makes several of one"):
        resolve(spark, job)
