"""What the proof of a pattern is given: the pattern, and what its conditions and slots are computed from."""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from headwater.flow.expressions.tree import Expression
from headwater.flow.operators.patterns.navigation import Slot
from headwater.flow.operators.patterns.spec import PatternSpec


@dataclass(frozen=True)
class OracleSetup:
    """A pattern, and what its conditions and slots are computed from: names of columns of booleans; expressions over
    slots; the column of a slot's argument, and the type of its value."""

    spec: PatternSpec
    flags: Mapping[str, str]
    expressions: Mapping[str, tuple[Expression, tuple[tuple[str, Slot], ...]]]
    arguments: Mapping[str, str]
    types: Mapping[Slot, pa.DataType]
