"""Read the aggregates a user wrote, as Spark understood them: which function of which expression.

Spark analyses the query with the user's own columns or SQL text; what comes out are its expressions, resolved and
typed. Each aggregate's arguments become input columns `_in0`, `_in1`, ... that a batch is reduced over.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial, reduce
from operator import and_

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.aggregates import OwnAggregate
from headwater.flow.declare.topology import nodes
from headwater.flow.expressions.tree import Untranslatable
from headwater.flow.formats.schema import quoted
from headwater.flow.local.frames import local_frame
from headwater.flow.operators.aggregation.aggregates import Aggregate
from headwater.flow.operators.aggregation.kinds.registry import FUNCTIONS, KINDS, REPLACED
from headwater.flow.plan.explanations import explain
from headwater.flow.prepare.aggregate_inputs import Typed, in_form, types_of
from headwater.flow.prepare.analysed_aggregates import AnalysedAggregate, analysed_by_spark, analysed_locally
from headwater.flow.rows.arrow_types import arrow_type
from headwater.flow.rows.row_steps import column_of

TIME = "_event_time"


@dataclass(frozen=True)
class Aggregates:
    """What is kept for a key, and the frame that Spark reduces: the key, inputs, and the position where it matters."""

    specs: tuple[Aggregate, ...]
    inputs: DataFrame
    key: pa.Schema
    columns: Mapping[str, Column]
    """What aggregates are computed from: `_in0`, `_in1` and so on."""


def read_aggregates(node: nodes.Aggregate, frame: DataFrame, beside: tuple[str, ...] = ()) -> Aggregates:
    """InvalidDeclaration, with its place, if something cannot be kept from batch to batch.

    `beside` are columns that the caller needs as well.
    """
    reading = _Reading(node, frame)
    try:
        expressions = iter(_analysed(node, frame))
        own = iter(_own_columns(node, frame))
        for one in node.aggregates:
            if isinstance(one, OwnAggregate):
                reading.add_own(one, next(own))
            else:
                reading.add(next(expressions))
        specs = reading.specs()
    except (InvalidDeclaration, Untranslatable):
        raise
    except Exception as error:
        raise InvalidDeclaration(f"agg at {node.place}: {explain(error)}") from error
    key = pa.schema([pa.field(name, arrow_type(frame.schema[name].dataType)) for name in node.key])
    return Aggregates(specs, reading.inputs(specs, beside), key, reading.columns(specs))


def _analysed(node: nodes.Aggregate, frame: DataFrame) -> list[AnalysedAggregate]:
    """Those that Spark knows, as they are understood."""
    columns = [column_of(one) for one in node.aggregates if not isinstance(one, OwnAggregate)]
    if not columns:
        return []
    if (own := local_frame(frame)) is not None:
        return analysed_locally(columns, own)
    return analysed_by_spark(columns, node.key, frame)


def _own_columns(node: nodes.Aggregate, frame: DataFrame) -> list[list[Typed]]:
    """Of each of headwater's own aggregates, its columns."""
    columns = [[column_of(each) for each in one.columns] for one in node.aggregates if isinstance(one, OwnAggregate)]
    types = iter(types_of([column for one in columns for column in one], frame))
    return [[Typed(column, next(types)) for column in one] for one in columns]


class _Reading:
    def __init__(self, node: nodes.Aggregate, frame: DataFrame) -> None:
        self._node, self._frame = node, frame
        self._columns: dict[str, Column] = {}
        self._drafts: list[partial[Aggregate]] = []
        """All but the types: Spark is asked for all of them at once, because each question takes a while."""

    def add(self, one: AnalysedAggregate) -> None:
        if not one.function:
            raise self._refusal(
                f"`{one.name}` is not a single aggregate",
                "Keep its parts under names of their own, and combine them afterwards with .with_columns(...).",
            )
        said = one.function
        known = FUNCTIONS.get(said)
        kind = None if known is None else known.distinct if one.distinct else known.kind
        if kind is None:
            hint = f"There are: {', '.join(sorted(FUNCTIONS))}."
            raise self._refusal(
                f"{'distinct ' if one.distinct else ''}{said} cannot be kept from batch to batch",
                f"Use {REPLACED[said]}, which is kept in bounded memory." if said in REPLACED else hint,
            )
        self._drafts.append(self._draft(kind, one))

    def add_own(self, one: OwnAggregate, columns: list[Typed]) -> None:
        """Its columns are read as Spark reads any others; where it needs a form of them, that is made here."""
        rules = KINDS[one.kind]
        column, time = self._made(in_form(rules.form, columns)), TIME if rules.timed else None
        name = self._free(one.name or one.call)
        self._drafts.append(partial(Aggregate, one.kind, name, column=column, time=time, options=one.options))

    def specs(self) -> tuple[Aggregate, ...]:
        found = types_of(list(self._columns.values()), self._frame)
        types: dict[str | None, pa.DataType] = {TIME: pa.timestamp("us", "UTC")}
        types |= {name: arrow_type(kind) for name, kind in zip(self._columns, found, strict=True)}
        return tuple(
            draft(type=types.get(draft.keywords.get("column")), time_type=types.get(draft.keywords.get("time")))
            for draft in self._drafts
        )

    def _draft(self, kind: str, read: AnalysedAggregate) -> "partial[Aggregate]":
        arguments, said, name = list(read.arguments), read.function, read.name
        if read.condition is not None:
            arguments = [f.when(read.condition, one) for one in arguments]
        first = arguments[0]
        if said == "count_if":
            first = f.when(first, 1)
        elif kind in ("count", "count_distinct") and len(arguments) > 1:
            there = reduce(and_, (one.isNotNull() for one in arguments))
            first = f.when(there, f.struct(*arguments) if kind == "count_distinct" else f.lit(1))
        elif kind == "count" and read.of_literal and read.condition is None:
            return partial(Aggregate, "count", self._free(name))
        column = self._made(first)
        rules, ordered = KINDS[kind], FUNCTIONS[said].arguments == 2
        time = self._made(arguments[1]) if ordered else TIME
        return partial(
            Aggregate, kind, self._free(name), column=column, time=time if rules.timed else None,
            ignore_nulls=not ordered and read.ignores_nulls, other=self._made(arguments[1]) if rules.of_two else None,
        )  # fmt: skip

    def _free(self, name: str) -> str:
        if name.startswith("_"):
            raise self._refusal(f"column {name} begins with _, which is reserved", "Give it another name.")
        return name

    def _made(self, column: Column) -> str:
        """An input column of its own."""
        name = f"_in{len(self._columns)}"
        self._columns[name] = column
        return name

    def columns(self, specs: tuple[Aggregate, ...]) -> dict[str, Column]:
        columns = dict(self._columns)
        for spec in specs:
            if spec.column and spec.rules.normal_zeros and pa.types.is_floating(spec.input_type):
                columns[spec.column] += f.lit(0).cast("float")  # -0.0 is the same as 0.0
        return columns

    def inputs(self, specs: tuple[Aggregate, ...], beside: tuple[str, ...]) -> DataFrame:
        columns = self.columns(specs)
        position = []
        if any(spec.rules.timed for spec in specs):
            position = [
                f.col("_at.time").alias(TIME), f.col("_at.source").cast("string").alias("_topic"),
                f.col("_at.partition").alias("_partition"), f.col("_at.offset").alias("_offset"),
            ]  # fmt: skip
        kept = [f.col(quoted(name)) for name in (*self._node.key, *beside)]
        made = [column.alias(name) for name, column in columns.items()]
        return self._frame.select(*kept, *made, *position)

    def _refusal(self, message: str, hint: str) -> InvalidDeclaration:
        return InvalidDeclaration(f"agg at {self._node.place}: {message}", hint)
