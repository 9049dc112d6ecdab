"""What is resolved without Spark is what Spark's analyser makes of it, or it is declined."""

import random

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headwater.flow.expressions.resolution.analysis import Known, resolve_expression
from headwater.flow.expressions.resolution.sql_text import parsed
from headwater.flow.expressions.tree import Expression, Untranslatable
from headwater.flow.rows.arrow_types import arrow_schema
from tests.flow.expressions.test_against_spark import EXPRESSIONS, translated
from tests.flow.expressions.values import SCHEMA

SEEDS = range(12)
AT_ONCE = 25
RESOLVED_AT_LEAST = 0.45
"""Of all expressions that can be translated; the others are declined."""

LEAVES = {
    "number": [
        "t",
        "s",
        "i",
        "i2",
        "l",
        "l2",
        "f",
        "d",
        "d2",
        "m",
        "m2",
        "w",
        "small",
        "1",
        "7",
        "-3",
        "2.5",
        "0.05",
        "10.0",
        "null",
    ],
    "text": ["n", "n2", "digits", "'a'", "'abc'", "null"],
    "flag": ["b", "b2", "true", "null"],
    "time": ["at", "at2", "'2026-01-01'", "timestamp'2026-03-01 10:00:00'"],
    "day": ["day", "day2", "date'2026-01-01'", "'2025-12-31'"],
}
MADE = {
    "number": [
        "({number} + {number})", "({number} - {number})", "({number} * {number})", "({number} / {number})",
        "({number} % {number})", "pmod({number}, {number})", "({number} div {number})", "(-{number})",
        "abs({number})", "coalesce({number}, {number})", "greatest({number}, {number})", "least({number}, {number})",
        "case when {flag} then {number} else {number} end", "if({flag}, {number}, {number})", "length({text})",
        "year({day})", "hour({time})", "dayofweek({time})", "cast({number} as long)", "cast({number} as double)",
        "cast({number} as decimal(20, 4))", "cast({text} as int)", "cast({flag} as int)", "sqrt({number})",
        "floor({number})", "nullif({number}, {number})", "nvl({number}, {number})", "unix_millis({time})",
    ],
    "text": [
        "upper({text})", "lower({text})", "trim({text})", "concat({text}, {text})", "({text} || {text})",
        "substring({text}, 2, 3)", "coalesce({text}, {text})", "cast({number} as string)",
        "case when {flag} then {text} end", "cast({day} as string)",
    ],
    "flag": [
        "({number} = {number})", "({number} < {number})", "({number} >= {number})", "({number} <> {number})",
        "({number} <=> {number})", "({text} = {text})", "({text} < {text})", "({time} > {time})",
        "({day} <= {day})", "({day} = {time})", "({flag} and {flag})", "({flag} or {flag})", "(not {flag})",
        "({number} is null)", "({text} is not null)", "({number} in (1, 2, 3))", "({text} in ('a', 'b'))",
        "({number} between {number} and {number})", "({text} like 'a%')", "startswith({text}, 'a')", "isnan({number})",
        "({text} not like '%b')", "({text} not in ('x'))",
    ],
    "time": ["date_trunc('hour', {time})", "coalesce({time}, {time})", "cast({day} as timestamp)"],
    "day": ["cast({time} as date)", "greatest({day}, {day})", "coalesce({day}, {day})"],
}  # fmt: skip


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([], SCHEMA)


@pytest.fixture(scope="module")
def columns(frame: DataFrame) -> dict[str, Known]:
    return {field.name: Known(field.name, field.name, field.type) for field in arrow_schema(frame.schema)}


def resolved(text: str, columns: dict[str, Known]) -> Expression | None:
    try:
        return resolve_expression(parsed(text), columns)
    except Untranslatable:
        return None


def test_expressions_that_can_be_translated_are_resolved_as_spark_does_or_declined(
    frame: DataFrame, columns: dict[str, Known]
) -> None:
    found = {text: resolved(text, columns) for text in EXPRESSIONS}
    tried = {text: one for text, one in found.items() if one is not None}
    wrong = [text for text, one in tried.items() if not same(one, translated(frame, text))]
    assert wrong == []
    assert len(tried) / len(found) > RESOLVED_AT_LEAST


@pytest.mark.parametrize("seed", SEEDS)
def test_random_expressions_are_resolved_as_spark_does_or_declined(
    frame: DataFrame, columns: dict[str, Known], seed: int
) -> None:
    dice, tried = random.Random(seed), 0
    for _ in range(AT_ONCE):
        text = random_expression(dice, dice.choice(list(MADE)), depth=3)
        ours = resolved(text, columns)
        if ours is None:
            continue
        tried += 1
        try:
            theirs = translated(frame, text)
        except (Untranslatable, PySparkException) as error:
            raise AssertionError(f"{text} was resolved, and Spark says: {error}") from error
        assert same(ours, theirs), (text, described(ours), described(theirs))
    assert tried


def random_expression(dice: random.Random, kind: str, depth: int) -> str:
    if depth == 0 or dice.random() < 0.25:
        return dice.choice(LEAVES[kind])
    made = dice.choice(MADE[kind])
    while "{" in made:
        begin = made.index("{")
        end = made.index("}", begin)
        made = made[:begin] + random_expression(dice, made[begin + 1 : end], depth - 1) + made[end + 1 :]
    return made


def same(ours: Expression, theirs: Expression) -> bool:
    """But for casts that change nothing, which Spark puts in here and there."""
    ours, theirs = changing(ours), changing(theirs)
    if ours.kind != theirs.kind or not ours.type.equals(theirs.type) or len(ours.inputs) != len(theirs.inputs):
        return False
    if any(not equal_option(one, other) for one, other in zip(ours.options, theirs.options, strict=True)):
        return False
    return all(map(same, ours.inputs, theirs.inputs))


def changing(node: Expression) -> Expression:
    return changing(node.inputs[0]) if node.kind == "cast" and node.option("cast") == "same" else node


def equal_option(one: tuple[str, object], other: tuple[str, object]) -> bool:
    if isinstance(one[1], pa.Scalar | pa.Array):
        return one[0] == other[0] and one[1].equals(other[1])
    return one == other


def described(node: Expression) -> str:
    options = ", ".join(f"{name}={value}" for name, value in node.options)
    return f"{node.kind}:{node.type}[{options}]({', '.join(map(described, node.inputs))})"
