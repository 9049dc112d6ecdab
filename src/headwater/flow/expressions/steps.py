"""The row-wise steps between a source or operator and the next, evaluated on Arrow (pure).

    Filter    keeps rows whose condition is true, counts the others
    Project   other columns
    Explode   a row for each element of an array

`spark/steps.py` reads them from the plan that Spark's analyser made of the user's steps. A row for which an expression
fails leaves with its reason; it is not in the result.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.flow.expressions.evaluated import first_errors
from headwater.flow.expressions.evaluation import evaluate_column
from headwater.flow.expressions.tree import Expression
from headwater.flow.state.runs.equality import Mask, as_mask, list_lengths, valid

Columns = dict[str, pa.Array]


@dataclass(frozen=True)
class Filter:
    condition: Expression


@dataclass(frozen=True)
class Project:
    columns: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True)
class Explode:
    column: str
    into: str
    outer: bool
    position: str = ""
    """The column that says which element it is, from 0; empty if none is asked for."""


Step = Filter | Project | Explode


class Failed(NamedTuple):
    """Rows of the input for which an expression failed: where they stood in it, and why."""

    rows: pa.Array
    reasons: pa.Array


@dataclass
class Stepped:
    """What came out of some steps, and what left on the way."""

    columns: Columns
    rows: int
    filtered: int = 0
    expanded: int = 0
    failed: list[Failed] = field(default_factory=list)


@dataclass(frozen=True)
class Steps:
    """`inputs` and `outputs` say which internal column is which of the user's."""

    inputs: Mapping[str, str]
    """Internal name by the name of a column of the input."""
    steps: tuple[Step, ...]
    outputs: tuple[tuple[str, str], ...]
    """Name of a column of the result, and its internal name."""

    def apply(self, columns: Mapping[str, pa.Array], rows: int) -> Stepped:
        state = Stepped({self.inputs[name]: columns[name] for name in self.reads}, rows)
        origin: pa.Array | None = None
        for step, needed in zip(self.steps, self._needed, strict=True):
            origin = _applied(step, state, needed, origin)
        state.columns = {name: state.columns[own] for name, own in self.outputs}
        return state

    def reads_fields(self, names: Sequence[str]) -> bool:
        """Whether a step looks into structs that have just these fields."""
        return any(_looks_into(one, tuple(names)) for step in self.steps for one in _expressions(step))

    @property
    def _needed(self) -> list[frozenset[str]]:
        """For each step, the columns that are looked at after it."""
        wanted = frozenset(own for _, own in self.outputs)
        found = []
        for step in reversed(self.steps):
            found.append(wanted)
            wanted = _before(step, wanted)
        return found[::-1]

    @property
    def reads(self) -> frozenset[str]:
        """The columns of the input that matter."""
        wanted = frozenset(own for _, own in self.outputs)
        for step in reversed(self.steps):
            wanted = _before(step, wanted)
        return frozenset(name for name, own in self.inputs.items() if own in wanted)


def _expressions(step: Step) -> tuple[Expression, ...]:
    match step:
        case Filter(condition):
            return (condition,)
        case Project(columns):
            return tuple(one for _, one in columns)
    return ()


def _looks_into(expression: Expression, names: tuple[str, ...]) -> bool:
    inputs = expression.inputs
    if expression.kind == "field" and tuple(field.name for field in inputs[0].type) == names:
        return True
    return any(_looks_into(one, names) for one in inputs)


def _before(step: Step, wanted: frozenset[str]) -> frozenset[str]:
    match step:
        case Filter(condition):
            return wanted | condition.columns
        case Project(columns):
            return frozenset().union(*(one.columns for name, one in columns if name in wanted))
        case Explode(column, into, _, position):
            return (wanted - {into, position}) | {column}


def _applied(step: Step, state: Stepped, needed: frozenset[str], origin: pa.Array | None) -> pa.Array | None:
    """One step; answers which row of the input each row is from, None if each is its own."""
    match step:
        case Filter(condition):
            found = evaluate_column(condition, state.columns, state.rows)
            origin = _without_failed(state, found.errors, origin)
            if found.errors is not None:
                found = evaluate_column(condition, state.columns, state.rows)
            keep = as_mask(pc.fill_null(found.values, False))
            state.filtered += state.rows - int(keep.sum())
            return _kept(state, keep, needed, origin)
        case Project(columns):
            wanted = [(name, one) for name, one in columns if name in needed]
            made = [evaluate_column(one, state.columns, state.rows) for _, one in wanted]
            errors = first_errors([one.errors for one in made])
            state.columns = {name: one.values for (name, _), one in zip(wanted, made, strict=True)}
            return _without_failed(state, errors, origin)
        case Explode():
            return _exploded(step, state, needed, origin)


def _without_failed(state: Stepped, errors: pa.Array | None, origin: pa.Array | None) -> pa.Array | None:
    if errors is None:
        return origin
    failed = as_mask(pc.is_valid(errors))
    rows = pa.array(np.flatnonzero(failed)) if origin is None else origin.filter(pa.array(failed))
    state.failed.append(Failed(rows, errors.drop_null()))
    return _kept(state, ~failed, frozenset(state.columns), origin)


def _kept(state: Stepped, keep: Mask, needed: frozenset[str], origin: pa.Array | None) -> pa.Array | None:
    state.columns = {name: one for name, one in state.columns.items() if name in needed}
    if keep.all():
        return origin
    mask = pa.array(keep)
    state.columns = {name: one.filter(mask) for name, one in state.columns.items()}
    state.rows = int(keep.sum())
    return pa.array(np.flatnonzero(keep)) if origin is None else origin.filter(mask)


def _exploded(step: Explode, state: Stepped, needed: frozenset[str], origin: pa.Array | None) -> pa.Array:
    lists = state.columns[step.column]
    sizes = np.where(valid(lists), list_lengths(lists), 0)
    empty = sizes == 0
    copies = np.where(empty, 1, sizes) if step.outer else sizes
    state.filtered += 0 if step.outer else int(empty.sum())
    state.expanded += int(np.maximum(sizes - 1, 0).sum())
    rows = np.repeat(np.arange(state.rows), copies)
    starts = np.cumsum(copies) - copies
    within = np.arange(len(rows)) - np.repeat(starts, copies)
    begins = np.asarray(lists.offsets)[:-1]
    places = pa.array(begins[rows] + within, mask=empty[rows])
    taken = pa.array(rows)
    new = (step.into, step.position)
    made = {name: one.take(taken) for name, one in state.columns.items() if name in needed and name not in new}
    made[step.into] = lists.values.take(places)
    if step.position:
        made[step.position] = pa.array(within, pa.int32(), mask=empty[rows])
    state.columns, state.rows = made, len(rows)
    return taken if origin is None else origin.take(taken)
