"""Bugs that random queries have to find, each planted while a block runs."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from headwater.flow.operators.changes import merge_changes
from headwater.flow.operators.grouping import grouped, valued
from headwater.flow.operators.grouping.changed_rows import WEIGHT, ChangedRows
from headwater.flow.operators.ranks import neighbours
from headwater.flow.operators.ranks.ordered import looked_at
from headwater.flow.operators.tables import beside, sets
from headwater.flow.sql import grouping, queries, subqueries
from headwater.flow.sql.combining import combined
from headwater.flow.sql.reading.grouping_sets import sets_of

Plant = Callable[[pytest.MonkeyPatch], None]


def lose_retractions(patch: pytest.MonkeyPatch) -> None:
    """What was in a group before a change stays in it."""
    of = ChangedRows.of.__func__  # type: ignore[attr-defined]

    def only_rows_that_are(cls: type[ChangedRows], given: pa.RecordBatch, key: pa.Schema) -> ChangedRows:
        made: ChangedRows = of(cls, given.filter(pc.greater(given.column(WEIGHT), 0)), key)
        return made

    patch.setattr(ChangedRows, "of", classmethod(only_rows_that_are))


def take_null_for_a_value(patch: pytest.MonkeyPatch) -> None:
    """NOT IN of Python lets rows through whatever nulls there are."""
    patch.setattr(beside, "_passing", lambda work, rows, single: np.ones(rows.num_rows, np.bool_))


def read_not_in_as_not_exists(patch: pytest.MonkeyPatch) -> None:
    """NOT IN of SQL forgets its nulls."""
    patch.setattr(subqueries, "_known_among", lambda rows, query, given, queries, node: rows)


def keep_extremes(patch: pytest.MonkeyPatch) -> None:
    """min and max are not computed again when the row that has them goes."""
    patch.setattr(valued, "_lost", lambda changed, extremes: np.zeros(len(extremes), np.bool_))


def keep_empty_groups(patch: pytest.MonkeyPatch) -> None:
    def kept(keys: Any, existed: Any, before: Any, exists: Any, after: Any) -> pa.RecordBatch:
        return merge_changes(keys, existed, before, np.ones_like(exists), after)

    patch.setattr(grouped, "merge_changes", kept)


def unite_without_copies(patch: pytest.MonkeyPatch) -> None:
    """UNION ALL has each row once."""

    def once(query: Any, *sides: Any, **more: Any) -> Any:
        made = query.copy()
        made.set("distinct", True)
        return combined(made, *sides, **more)

    patch.setattr(queries, "combined", once)


def forget_copies(patch: pytest.MonkeyPatch) -> None:
    """INTERSECT ALL and EXCEPT ALL look at whether a row is there, not how often."""
    times = sets.SetOperation.times

    def of_one(self: sets.SetOperation, left: Any, right: Any) -> Any:
        return times(replace(self, copy=""), left, right)

    patch.setattr(sets.SetOperation, "times", of_one)


def read_no_neighbours(patch: pytest.MonkeyPatch) -> None:
    """Rows beside one that comes or goes keep what they had."""

    def alone(work: Any, touched: Any, groups: Any, found: Any) -> Any:
        return looked_at(work, touched, groups, found._replace(places=found.places[:0], rows=found.rows.slice(0, 0)))

    patch.setattr(neighbours, "looked_at", alone)


def forget_a_set(patch: pytest.MonkeyPatch) -> None:
    """ROLLUP and its like have all sets but the last."""

    def fewer(*given: Any) -> Any:
        found = sets_of(*given)
        return found if found is None else found._replace(sets=found.sets[:-1])

    patch.setattr(grouping, "sets_of", fewer)


PLANTED: dict[str, Plant] = {
    "lost retraction": lose_retractions,
    "wrong null in NOT IN, Python": take_null_for_a_value,
    "wrong null in NOT IN, SQL": read_not_in_as_not_exists,
    "extreme not computed again": keep_extremes,
    "emptied group kept": keep_empty_groups,
    "union without multiplicity": unite_without_copies,
    "set operation without multiplicity": forget_copies,
    "neighbours not corrected": read_no_neighbours,
    "a set of groups forgotten": forget_a_set,
}
