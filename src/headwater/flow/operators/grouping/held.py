"""The contract of what is kept for an aggregate over a table: columns for each group, and parts of state beside them.

    columns   a row for each group, which says what the result is
    parts     the different values of each group, where one that goes may bring another one back

A batch brings rows that are no longer and rows that are. Whatever came and went, what is kept is what the rows that are
there give.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from headwater.errors import InvalidDeclaration
from headwater.flow.operators.aggregation.aggregates import Aggregate
from headwater.flow.operators.aggregation.kinds.kind import Columns, Partial, Tolerance
from headwater.flow.operators.grouping.changed_rows import ChangedRows
from headwater.flow.state.manifest import RunInfo, StateSchema
from headwater.flow.state.shard import ShardState

if TYPE_CHECKING:
    from pyspark.sql import Column

Parts = Mapping[str, ShardState]


@dataclass(frozen=True)
class Changed:
    """The columns of the groups after a batch, and the runs of its parts."""

    columns: Columns
    runs: Mapping[str, RunInfo | None] = field(default_factory=dict)


class Held(ABC):
    def refusal(self, spec: Aggregate) -> InvalidDeclaration | None:
        """Why an aggregate cannot be kept of rows that change and go; None if it can."""
        return None

    @abstractmethod
    def kept(self, spec: Aggregate) -> tuple[Partial, ...]:
        """The columns of a group. Null is what no rows have."""

    def parts(self, spec: Aggregate, key: pa.Schema) -> Mapping[str, StateSchema]:
        """What is kept beside them, by a name that no other part of the aggregate has."""
        return {}

    @abstractmethod
    def changed(self, spec: Aggregate, given: ChangedRows, old: Columns, parts: Parts) -> Changed:
        """What rows make of the groups that they are of; `old` are the columns of these groups."""

    def nothing(self, spec: Aggregate) -> Columns:
        """The columns of a group without rows, which only one without a key can be."""
        return [pa.nulls(1, part.type) for part in self.kept(spec)]

    def finish(self, spec: Aggregate, kept: Columns) -> pa.Array:
        """The results that such columns stand for."""
        return kept[0]

    def reference(self, spec: Aggregate) -> "Column":
        """The result as one query over all rows of a group."""
        return spec.rules.reference(spec)

    def tolerance(self, spec: Aggregate) -> Tolerance | None:
        return spec.rules.tolerance(spec)
