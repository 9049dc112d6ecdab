"""From a pattern's node and the frame of its input to its operator, and how rows are prepared for it.

Conditions that look at one row are columns, which the user's steps make with all others. Those that look back are
resolved as expressions over slots, and compiled.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.topology.nodes import Recognized, multiplies
from headwater.flow.expressions.spark.steps import steps_of
from headwater.flow.expressions.steps import Project
from headwater.flow.expressions.tree import COLUMN, Expression, Untranslatable
from headwater.flow.formats.schema import quoted
from headwater.flow.operate.patterns.pattern_operator import PatternOperator
from headwater.flow.operators.joins.events import Events
from headwater.flow.operators.patterns import machine
from headwater.flow.operators.patterns.conditions import Code, can_be_kept, is_real, write_code
from headwater.flow.operators.patterns.measures import Measure
from headwater.flow.operators.patterns.navigation import SLOT, Slot
from headwater.flow.operators.patterns.program import compiled
from headwater.flow.operators.patterns.recognition import SEEN, Bounds, Looking, Output, Recognition
from headwater.flow.operators.patterns.reference import OracleSetup
from headwater.flow.operators.patterns.search import Plan
from headwater.flow.operators.spark_hashes import can_hash
from headwater.flow.operators.windows.clock import WindowClock
from headwater.flow.plan.explanations import explain
from headwater.flow.prepare.join_sides import PrepareEvents
from headwater.flow.rows.arrow_types import arrow_type, spark_schema
from headwater.flow.rows.row_batch import AT, PATH
from headwater.flow.rows.row_steps import column_of, visible

ARGUMENT, FLAG = "_c", "_d"
SLOTS_OF_TIME = 8
"""So many slots of state a pattern's WITHIN has about."""
FOREVER_US = 1 << 61
COMPUTED = (machine.SUM, machine.AVERAGE, machine.LEAST, machine.GREATEST)


def recognised_rows(node: Recognized, frame: DataFrame, name: str) -> tuple[PatternOperator, DataFrame, PrepareEvents]:
    """InvalidDeclaration if the frame lacks what the pattern needs, or a condition cannot be computed."""
    if AT not in frame.columns:
        raise InvalidDeclaration(f"match at {node.place} comes after a step that drops when rows happened")
    _check_key(node, frame)
    try:
        reading = _Reading(node, frame)
        work = reading.recognition()
        chosen = frame.select(*reading.columns())
        reading.check_flags(chosen)
    except (InvalidDeclaration, Untranslatable):
        raise
    except Exception as error:
        raise InvalidDeclaration(f"match at {node.place}: {explain(error)}") from error
    key = node.key if node.keyed else ()
    operator = PatternOperator(name, work, WindowClock(None, None, node.spec.horizon_us), node.spec.meaning, key)
    return operator, chosen, pattern_preparation(node, operator)


def pattern_preparation(node: Recognized, operator: PatternOperator) -> PrepareEvents:
    """How rows are prepared in a batch, as far as the operator's clock has come."""
    return PrepareEvents(
        operator.work.events, operator.late_below_us, keeps_nulls=False, several=multiplies(node.input)
    )  # fmt: skip


def reference_setup(node: Recognized, frame: DataFrame) -> tuple[OracleSetup, list[Column], list[str], list[pa.Field]]:
    """What the proof of a pattern needs: the pattern, columns of the frame, those that are shown, and measures."""
    reading = _Reading(node, frame)
    measures = [pa.field(name, reading.slot_type(slot)) for name, slot in node.spec.slots]
    return reading.reference(), reading.plain_columns(), [*node.spec.by, *reading.rows], measures


def _check_key(node: Recognized, frame: DataFrame) -> None:
    for one in node.spec.by:
        if one not in frame.columns:
            raise InvalidDeclaration(f"match at {node.place} is by {one}, and there is no such column")
        if not can_hash(arrow_type(frame.schema[one].dataType)):
            raise InvalidDeclaration(f"match at {node.place} is by {one}, which has no hash", "Use other columns.")


class _Reading:
    """Slots get numbers in the order in which they are met; equal arguments are one column."""

    def __init__(self, node: Recognized, frame: DataFrame) -> None:
        self._at, self._spec, self._frame = node.place, node.spec, frame
        spec = node.spec

        self.rows = [one for one in visible(frame) if one not in spec.by] if spec.all_rows else []
        if taken := [name for name, _ in spec.slots if name.lower() in {one.lower() for one in self.rows}]:
            raise InvalidDeclaration(
                f"match at {node.place} has a measure {taken[0]}, which its rows have already", "Give it another name."
            )
        dynamic = [one for one in spec.conditions.values() if not one.of_one_row]
        self._condition_slots = list(dict.fromkeys(slot for one in dynamic for slot in one.slots))
        self._measure_slots = [slot for _, slot in spec.slots]
        wanted = [slot for slot in (*self._condition_slots, *self._measure_slots) if self._has_argument(slot)]
        self._arguments = list(dict.fromkeys(slot.argument for slot in wanted))
        texts = [column_of(one).alias(f"{ARGUMENT}{place}") for place, one in enumerate(self._arguments)]
        schema = frame.select(*texts).schema if texts else None
        self._types = [] if schema is None else [arrow_type(field.dataType) for field in schema]
        self._flags = [name for name, one in spec.conditions.items() if one.of_one_row]

    @staticmethod
    def _has_argument(slot: Slot) -> bool:
        return bool(slot.argument) and slot.kind != machine.LABEL

    def columns(self) -> list[Column]:
        hidden = [f.col(name) for name in (AT, PATH) if name in self._frame.columns]
        return [*self.plain_columns(), f.lit(0).cast("long").alias(SEEN), *hidden]

    def plain_columns(self) -> list[Column]:
        """The key, rows that are shown, arguments and conditions."""
        spec = self._spec
        own = [f.col(quoted(name)) for name in (*spec.by, *self.rows)]
        arguments = [self._argument(place) for place in range(len(self._arguments))]
        flags = [
            column_of(spec.conditions[name].row_text).alias(f"{FLAG}{place}")
            for place, name in enumerate(self._flags)
        ]  # fmt: skip
        return [*own, *arguments, *flags]

    def check_flags(self, frame: DataFrame) -> None:
        for place, name in enumerate(self._flags):
            kind = frame.schema[f"{FLAG}{place}"].dataType.simpleString()
            if kind != "boolean":
                raise InvalidDeclaration(
                    f"match at {self._at}: the condition of {name} is {kind}, and not true or false",
                    "Compare it with something.",
                )

    def _argument(self, place: int) -> Column:
        """Sums and averages are of longs, doubles and decimals."""
        column, kind = column_of(self._arguments[place]), self._kept_type(place)
        name = {pa.int64(): "long", pa.float64(): "double"}.get(kind) if kind != self._types[place] else None
        return (column.cast(name) if name else column).alias(f"{ARGUMENT}{place}")

    def _kept_type(self, place: int) -> pa.DataType:
        kind = self._types[place]
        return pa.float64() if pa.types.is_float32(kind) else kind

    def _place(self, slot: Slot) -> int:
        return self._arguments.index(slot.argument) if self._has_argument(slot) else -1

    def slot_type(self, slot: Slot) -> pa.DataType:
        if slot.kind in (machine.COUNT, machine.NUMBER):
            return pa.int64()
        if slot.kind == machine.LABEL:
            return pa.string()
        kind = self._kept_type(self._place(slot))
        if slot.kind in COMPUTED and not can_be_kept(kind):
            raise self._refused(slot.argument, f"is {kind}, of which there is no sum, least or greatest")
        if slot.kind == machine.SUM and not pa.types.is_decimal(kind):
            return self._number(slot, kind)
        if slot.kind == machine.SUM:
            return pa.decimal128(min(kind.precision + 10, 38), kind.scale)
        if slot.kind == machine.AVERAGE and pa.types.is_decimal(kind):
            return pa.decimal128(min(kind.precision + 4, 38), min(kind.scale + 4, 38))
        if slot.kind == machine.AVERAGE:
            self._number(slot, kind)
            return pa.float64()
        return kind

    def _number(self, slot: Slot, kind: pa.DataType) -> pa.DataType:
        if not (pa.types.is_integer(kind) or is_real(kind)):
            raise self._refused(slot.argument, f"is {kind}, and no number")
        return pa.float64() if is_real(kind) else pa.int64()

    def _refused(self, text: str, why: str) -> InvalidDeclaration:
        return InvalidDeclaration(f"match at {self._at}: `{text}` {why}", "Cast it, or leave it out.")

    def _slot_row(self, slot: Slot, columns: Sequence[str]) -> list[int]:
        place = self._place(slot)
        kind = self._kept_type(place) if place >= 0 else pa.int64()
        name, more = f"{ARGUMENT}{place}", slot.offset
        if slot.kind == machine.AVERAGE:
            more = 10**4 if pa.types.is_decimal(kind) else 0
        double = int(slot.argument == "first") if slot.kind == machine.LABEL else int(self._is_double(slot, kind))
        return [slot.kind, slot.bits, columns.index(name) if name in columns else -1, more, slot.shift, double]

    def _numbered(self, slots: Sequence[Slot]) -> tuple[str, ...]:
        """The columns that the machine has to have as numbers for some slots."""
        return tuple(dict.fromkeys(f"{ARGUMENT}{self._place(slot)}" for slot in slots if self._has_argument(slot)))

    def _is_double(self, slot: Slot, kind: pa.DataType) -> bool:
        return is_real(kind) or (slot.kind == machine.AVERAGE and not pa.types.is_decimal(kind))

    # -- conditions ----------------------------------------------------------------------------------------------------

    def recognition(self) -> Recognition:
        spec = self._spec
        arguments = [pa.field(f"{ARGUMENT}{place}", self._kept_type(place)) for place in range(len(self._arguments))]
        own = [pa.field(one, arrow_type(self._frame.schema[one].dataType)) for one in (*spec.by, *self.rows)]
        flags = [pa.field(f"{FLAG}{place}", pa.bool_()) for place in range(len(self._flags))]
        columns = pa.schema([*own, *arguments, *flags, pa.field(SEEN, pa.int64())])
        slot_us = FOREVER_US if spec.within_us is None else max((spec.within_us + spec.horizon_us) // SLOTS_OF_TIME, 1)
        program = compiled(spec.pattern, list(spec.variables))
        slots = [*self._condition_slots, *self._measure_slots]
        looks_back = any(slot.kind != machine.ROW for slot in self._condition_slots)
        plan = Plan(
            program.table, program.registers, not looks_back and not program.registers, spec.skip.kind,
            spec.skip.bits, max([slot.shift for slot in self._measure_slots] + [0]), spec.timeouts,
        )  # fmt: skip
        behind = -min([slot.shift for slot in slots] + [0])
        output = Output(
            tuple(self.rows), self._measures(), tuple(spec.variables), spec.all_rows, spec.show_empty, spec.unmatched,
            spec.timeouts,
        )  # fmt: skip
        bounds = Bounds(spec.within_us, spec.rows_max, spec.tries_max, behind)
        return Recognition(
            Events(columns, spec.by, slot_us), plan, self._conditions(), self._shown(), bounds, output,
            spec.numbers_matches,
        )  # fmt: skip

    def _conditions(self) -> Looking:
        code, kinds = Code(), []
        for variable in self._spec.variables:
            one = self._spec.conditions.get(variable)
            if one is None:
                kinds.append([machine.ALWAYS, 0, 0, 0])
            elif one.of_one_row:
                kinds.append([machine.COLUMN, self._flags.index(variable), 0, 0])
            else:
                ahead = max([slot.shift for slot in one.slots] + [0])
                kinds.append([machine.CODE, *self._written(code, variable), ahead])
        columns = self._numbered(self._condition_slots)
        flags = tuple(f"{FLAG}{place}" for place in range(len(self._flags)))
        return Looking(
            np.array(kinds, np.int64).reshape(-1, 4), np.array(code.rows, np.int64).reshape(-1, 2), tuple(code.numbers),
            tuple(code.texts), self._table(self._condition_slots, columns), columns, flags,
        )  # fmt: skip

    def _table(self, slots: Sequence[Slot], columns: Sequence[str]) -> machine.Whole:
        return np.array([self._slot_row(slot, columns) for slot in slots], np.int64).reshape(-1, 6)

    def _written(self, code: Code, variable: str) -> tuple[int, int]:
        looking = self._spec.conditions[variable]
        names = {slot: f"{SLOT}{place}" for place, slot in enumerate(self._condition_slots)}
        try:
            expression, internal = self._resolved(looking.text(names), variable)
            return write_code(code, expression, internal)
        except Untranslatable as error:
            raise InvalidDeclaration(
                f"match at {self._at}: the condition of {variable} looks back, and has {error}, which is not compiled",
                "Compute it of single rows, inside the brackets: last(upper(a.name)), or with_columns(...) before it.",
            ) from error

    def _resolved(self, text: str, variable: str) -> tuple[Expression, dict[str, int]]:
        """The condition as Spark's analyser has it, and the slots by what it calls them."""
        fields = [(f"{SLOT}{place}", self.slot_type(slot)) for place, slot in enumerate(self._condition_slots)]
        base = self._frame.sparkSession.createDataFrame([], spark_schema(pa.schema(fields)))
        steps = steps_of(base.select(column_of(text).alias("condition")), base)
        internal = {steps.inputs[name]: place for place, (name, _) in enumerate(fields)}
        ((_, result),) = steps.outputs
        expression = next(
            (one for step in steps.steps if isinstance(step, Project) for name, one in step.columns if name == result),
            Expression(COLUMN, pa.bool_(), options=(("name", result),)),
        )
        if not pa.types.is_boolean(expression.type):
            raise InvalidDeclaration(
                f"match at {self._at}: the condition of {variable} is {expression.type}", "Compare it."
            )
        return expression, internal

    def reference(self) -> OracleSetup:
        spec, expressions = self._spec, {}
        names = {slot: f"{SLOT}{place}" for place, slot in enumerate(self._condition_slots)}
        for variable in [one for one in spec.conditions if not spec.conditions[one].of_one_row]:
            expression, internal = self._resolved(spec.conditions[variable].text(names), variable)
            own = [(name, slot) for name, place in internal.items()
                   if (slot := self._condition_slots[place]) in spec.conditions[variable].slots]  # fmt: skip
            expressions[variable] = (expression, tuple(own))
        slots = [*self._condition_slots, *self._measure_slots]
        return OracleSetup(
            spec, {name: f"{FLAG}{place}" for place, name in enumerate(self._flags)}, expressions,
            {one: f"{ARGUMENT}{place}" for place, one in enumerate(self._arguments)},
            {slot: self.slot_type(slot) for slot in slots},
        )  # fmt: skip

    # -- measures ------------------------------------------------------------------------------------------------------

    def _measures(self) -> tuple[Measure, ...]:
        return tuple(
            Measure(name, slot.kind, self.slot_type(slot), f"{ARGUMENT}{self._place(slot)}",
                    slot.final or not self._spec.all_rows)
            for name, slot in self._spec.slots
        )  # fmt: skip

    def _shown(self) -> Looking:
        columns = self._numbered([one for one in self._measure_slots if one.kind in (*COMPUTED, machine.COUNT)])
        nothing = np.zeros((0, 4), np.int64), np.zeros((0, 2), np.int64)
        return Looking(*nothing, (), (), self._table(self._measure_slots, columns), columns)
