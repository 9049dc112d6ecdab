"""Typed expressions over slots, as code for the machine (pure).

The types and casts are Spark's: its analyser resolved the expression, as it does those of all steps. What numbers and
comparisons need is compiled; anything else is refused by name, and can mostly be said of a single row, inside the slot:
`last(upper(a.name))` instead of `upper(last(a.name))`.
"""

from dataclasses import dataclass, field

import pyarrow as pa

from headwater.flow.expressions.tree import COLUMN, LITERAL, Expression, Untranslatable
from headwater.flow.operators.patterns import machine
from headwater.flow.operators.patterns.machine import STACK

BITS = {pa.int8(): 7, pa.int16(): 15, pa.int32(): 31, pa.int64(): 63}
ORDERED = {"equal": "EQUAL", "less": "LESS", "less_equal": "LESS_EQUAL"}
TURNED = {"greater": "less", "greater_equal": "less_equal"}
CALCULATED = {"add": "ADD", "subtract": "SUBTRACT", "multiply": "MULTIPLY"}
SINGLE = {"negate": "NEGATE", "abs": "ABSOLUTE"}
EXACT_DIGITS = 18


def is_real(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind))


def can_be_kept(kind: pa.DataType) -> bool:
    """Whether the machine has values of a type."""
    return bool(
        kind in BITS or pa.types.is_floating(kind) or pa.types.is_boolean(kind) or pa.types.is_date32(kind)
        or pa.types.is_timestamp(kind) or pa.types.is_string(kind) or pa.types.is_decimal(kind)
    )  # fmt: skip


@dataclass
class Code:
    """Instructions with two columns, the doubles that they name, and texts that each batch gives a number."""

    rows: list[tuple[int, int]] = field(default_factory=list)
    numbers: list[float] = field(default_factory=list)
    texts: list[tuple[int, str]] = field(default_factory=list)

    def add(self, operation: int, operand: int = 0) -> None:
        self.rows.append((operation, operand))


def write_code(code: Code, expression: Expression, slots: dict[str, int]) -> tuple[int, int]:
    """Where the code of a condition begins and ends; `slots` are columns. Untranslatable if there is none for it."""
    begin = len(code.rows)
    _Compiler(code, slots).write(expression)
    if _depth(code.rows[begin:]) > STACK:
        raise Untranslatable("an expression that is nested so deeply")
    return begin, len(code.rows)


def _depth(rows: list[tuple[int, int]]) -> int:
    deepest = depth = 0
    pushing = (machine.PUSH, machine.WHOLE, machine.REAL, machine.NOTHING)
    single = (
        machine.NEGATE, machine.ABSOLUTE, machine.NEGATE_REAL, machine.ABSOLUTE_REAL, machine.RESCALE, machine.TO_REAL,
        machine.NOT, machine.IS_NULL, machine.IS_NOT_NULL, machine.FITS,
    )  # fmt: skip
    for operation, _ in rows:
        depth += 1 if operation in pushing else 0 if operation in single else -2 if operation == machine.CHOOSE else -1
        deepest = max(deepest, depth)
    return deepest


class _Compiler:
    def __init__(self, code: Code, slots: dict[str, int]) -> None:
        self._code, self._slots = code, slots

    def write(self, node: Expression) -> None:
        kind = node.kind
        if kind == COLUMN:
            self._code.add(machine.PUSH, self._slots[node.option("name")])
        elif kind == LITERAL:
            self._literal(node)
        elif kind == "cast":
            self._cast(node)
        elif kind in ORDERED or kind in TURNED:
            self._compared(node)
        elif kind == "equal_or_both_null":
            self._all(node.inputs)
            self._check(node.inputs[0].type)
            self._code.add(machine.SAME_REAL if is_real(node.inputs[0].type) else machine.SAME)
        elif kind.removesuffix("_decimal") in CALCULATED:
            self._calculated(node)
        elif kind in SINGLE:
            self._all(node.inputs)
            self._code.add(getattr(machine, SINGLE[kind] + ("_REAL" if is_real(node.type) else "")))
        elif kind == "divide":
            self._all(node.inputs)
            self._code.add(machine.DIVIDE_REAL)
        elif kind in ("and", "or"):
            self._all(node.inputs)
            self._code.add(machine.AND if kind == "and" else machine.OR)
        elif kind in ("not", "is_null", "is_not_null"):
            self._all(node.inputs)
            self._code.add({"not": machine.NOT, "is_null": machine.IS_NULL, "is_not_null": machine.IS_NOT_NULL}[kind])
        elif kind == "coalesce":
            self._coalesced(node)
        elif kind == "case":
            self._chosen(node.inputs, node.type)
        elif kind == "shift_time":
            self._all(node.inputs)
            self._code.add(machine.WHOLE, node.option("micros"))
            self._code.add(machine.ADD, 63)
        else:
            raise Untranslatable(node.text or kind)

    def _all(self, inputs: tuple[Expression, ...]) -> None:
        for one in inputs:
            self.write(one)

    def _check(self, kind: pa.DataType) -> None:
        if not can_be_kept(kind):
            raise Untranslatable(f"values of type {kind}")

    def _literal(self, node: Expression) -> None:
        value = node.option("value")
        if not value.is_valid:
            self._code.add(machine.NOTHING)
        elif is_real(node.type):
            self._code.numbers.append(float(value.as_py()))
            self._code.add(machine.REAL, len(self._code.numbers) - 1)
        elif pa.types.is_string(node.type):
            self._code.texts.append((len(self._code.rows), value.as_py()))
            self._code.add(machine.WHOLE)
        elif pa.types.is_decimal(node.type):
            digits = int(value.as_py().scaleb(node.type.scale))
            if abs(digits) >= 2**63:
                raise Untranslatable(f"the number {value.as_py()}")
            self._code.add(machine.WHOLE, digits)
        elif pa.types.is_boolean(node.type):
            self._code.add(machine.WHOLE, int(value.as_py()))
        else:
            self._check(node.type)
            self._code.add(
                machine.WHOLE, int(value.cast(pa.int32() if pa.types.is_date32(node.type) else pa.int64()).as_py())
            )

    def _cast(self, node: Expression) -> None:
        (given,) = node.inputs
        self.write(given)
        source, target = given.type, node.type
        if source.equals(target) or (is_real(source) and pa.types.is_float64(target)):
            return
        if source in BITS and target in BITS:
            if BITS[target] < BITS[source]:
                self._code.add(machine.FITS, BITS[target])
        elif source in BITS and pa.types.is_float64(target):
            self._code.add(machine.TO_REAL, 1)
        elif pa.types.is_decimal(source) and pa.types.is_float64(target) and source.precision <= EXACT_DIGITS:
            self._code.add(machine.TO_REAL, 10**source.scale)
        elif (source in BITS or pa.types.is_decimal(source)) and pa.types.is_decimal(target):
            more = target.scale - (source.scale if pa.types.is_decimal(source) else 0)
            if not 0 <= more <= EXACT_DIGITS:
                raise Untranslatable(node.text)
            if more:
                self._code.add(machine.RESCALE, 10**more)
        elif pa.types.is_null(source):
            return
        else:
            raise Untranslatable(node.text or f"a cast from {source} to {target}")

    def _compared(self, node: Expression) -> None:
        self._check(node.inputs[0].type)
        kind, inputs = node.kind, node.inputs
        if kind in TURNED:
            kind, inputs = TURNED[kind], inputs[::-1]
        self._all(inputs)
        self._code.add(getattr(machine, ORDERED[kind] + ("_REAL" if is_real(inputs[0].type) else "")))

    def _calculated(self, node: Expression) -> None:
        name = CALCULATED[node.kind.removesuffix("_decimal")]
        if not pa.types.is_decimal(node.type):
            self._all(node.inputs)
            if not (is_real(node.type) or node.type in BITS):
                raise Untranslatable(node.text)
            self._code.add(
                getattr(machine, f"{name}_REAL") if is_real(node.type) else getattr(machine, name),
                0 if is_real(node.type) else BITS[node.type],
            )
            return
        scales = [one.type.scale for one in node.inputs]
        if node.type.scale != (sum(scales) if name == "MULTIPLY" else max(scales)):
            raise Untranslatable(f"{node.text}, which is rounded")
        for one, scale in zip(node.inputs, scales, strict=True):
            self.write(one)
            if name != "MULTIPLY" and scale < node.type.scale:
                self._code.add(machine.RESCALE, 10 ** (node.type.scale - scale))
        self._code.add(getattr(machine, name), 63)

    def _coalesced(self, node: Expression) -> None:
        self.write(node.inputs[0])
        for one in node.inputs[1:]:
            self.write(one)
            self._code.add(machine.COALESCE)

    def _chosen(self, inputs: tuple[Expression, ...], kind: pa.DataType) -> None:
        self._check(kind)
        if not inputs:
            self._code.add(machine.NOTHING)
        elif len(inputs) == 1:
            self.write(inputs[0])
        else:
            self.write(inputs[0])
            self.write(inputs[1])
            self._chosen(inputs[2:], kind)
            self._code.add(machine.CHOOSE)
