"""A pattern as a table of instructions, which the search follows (pure).

TAKE v e     the next row is of variable v; e: it is not shown
SPLIT x y    go on at x, and if that leads nowhere at y: what the standard prefers comes first
JUMP x
BEGIN        nothing of the key is before this row
NEVER v      no row of variable v follows before WITHIN is over
MARK r       register r is how many rows the match has here
MOVED r      it has more than then: an iteration that takes no row is not made
MATCH
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headwater.errors import InvalidDeclaration
from headwater.flow.operators.patterns.language import (
    Alternation,
    Begin,
    Never,
    Pattern,
    Repeated,
    Sequence,
    Variable,
    may_be_empty,
)

TAKE, SPLIT, JUMP, BEGIN, NEVER, MARK, MOVED, MATCH = range(8)
INSTRUCTIONS_MAX = 20_000
REGISTERS_MAX = 16


@dataclass(frozen=True)
class Program:
    """Three columns: the instruction and its two operands."""

    table: npt.NDArray[np.int64]
    registers: int

    def listing(self) -> list[tuple[int, ...]]:
        return [tuple(map(int, row)) for row in self.table]


def compiled(pattern: Pattern, variables: list[str]) -> Program:
    """InvalidDeclaration if the pattern has too many parts. Variables are numbered as they stand in the list."""
    writer = _Writer({name: number for number, name in enumerate(variables)})
    writer.write(pattern)
    writer.add(MATCH)
    return Program(np.array(writer.rows, np.int64).reshape(-1, 3), writer.registers)


class _Writer:
    def __init__(self, numbers: dict[str, int]) -> None:
        self._numbers = numbers
        self.rows: list[list[int]] = []
        self.registers = 0

    def add(self, instruction: int, one: int = 0, other: int = 0) -> int:
        if len(self.rows) >= INSTRUCTIONS_MAX:
            raise InvalidDeclaration(
                "a pattern has so many repetitions that its table would be too large", "Take smaller numbers in {n,m}."
            )
        self.rows.append([instruction, one, other])
        return len(self.rows) - 1

    def write(self, pattern: Pattern) -> None:
        match pattern:
            case Variable(name, excluded):
                self.add(TAKE, self._numbers[name], int(excluded))
            case Sequence(parts):
                for part in parts:
                    self.write(part)
            case Alternation(parts):
                self._alternatives(parts)
            case Repeated():
                self._repeated(pattern)
            case Begin():
                self.add(BEGIN)
            case Never(name):
                self.add(NEVER, self._numbers[name])

    def _alternatives(self, parts: tuple[Pattern, ...]) -> None:
        ends = []
        for part in parts[:-1]:
            split = self.add(SPLIT)
            self.rows[split][1] = len(self.rows)
            self.write(part)
            ends.append(self.add(JUMP))
            self.rows[split][2] = len(self.rows)
        self.write(parts[-1])
        for end in ends:
            self.rows[end][1] = len(self.rows)

    def _repeated(self, pattern: Repeated) -> None:
        for _ in range(pattern.least):
            self.write(pattern.part)
        if pattern.most is None:
            split = self._split()
            self._iteration(pattern.part)
            self.add(JUMP, split)
            self._end(split, pattern.greedy)
            return
        splits = []
        for _ in range(pattern.most - pattern.least):
            splits.append(self._split())
            self._iteration(pattern.part)
        for split in splits:
            self._end(split, pattern.greedy)

    def _split(self) -> int:
        """An iteration begins, or none."""
        return self.add(SPLIT)

    def _end(self, split: int, greedy: bool) -> None:
        within, after = split + 1, len(self.rows)
        self.rows[split][1:] = [within, after] if greedy else [after, within]

    def _iteration(self, part: Pattern) -> None:
        if not may_be_empty(part):
            self.write(part)
            return
        if self.registers == REGISTERS_MAX:
            raise InvalidDeclaration(
                f"a pattern repeats more than {REGISTERS_MAX} parts that may be empty", "Repeat parts that take a row."
            )
        register = self.registers
        self.registers += 1
        self.add(MARK, register)
        self.write(part)
        self.add(MOVED, register)
