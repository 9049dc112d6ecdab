"""A table whose rows come, change and go, and the groups that a grouped table makes of them, batch by batch."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from headwater.flow.operators.aggregation.aggregates import Aggregate
from headwater.flow.operators.grouping.changed_rows import WEIGHT
from headwater.flow.operators.grouping.grouped import Grouped, GroupedStep, first_step, grouped_step
from headwater.flow.operators.keyed import ALL
from headwater.flow.state import EMPTY, HASH, StateStore
from headwater.flow.state.files import DiskFiles
from headwater.log.storage.simulated import SimulatedDisk

KEY = pa.schema([("group", pa.string())])
Rows = Mapping[int, Mapping[str, Any]]
"""By the table's key; each with `group` and what its aggregates are computed from."""


class GroupedTable:
    """`groups` is what a view of it has, which every change has to fit."""

    def __init__(self, specs: Sequence[Aggregate], key: pa.Schema = KEY) -> None:
        self.work = Grouped(key, tuple(specs))
        self.disk = SimulatedDisk()
        self.stores = self._opened()
        self.version = EMPTY
        self.groups: dict[Any, dict[str, Any]] = {}

    def _opened(self) -> dict[str, StateStore]:
        return {
            part: StateStore(DiskFiles(self.disk, part), schema, shards=1) for part, schema in self.work.parts.items()
        }

    def restart(self) -> None:
        self.stores = self._opened()

    def apply(self, before: Rows, after: Rows, *, times: int = 1) -> None:
        """A batch that makes of some rows others; a crash comes before it counts, each time but the last."""
        sides = [
            (row, weight)
            for id in {**before, **after}
            if before.get(id) != after.get(id)
            for row, weight in ((before.get(id), -1), (after.get(id), 1))
            if row is not None
        ]
        if not sides and len(self.work.key):
            return  # no task is run
        steps = [self._step(self._given(sides) if sides else None) for _ in range(times)]
        assert all(step.changes.equals(steps[0].changes) for step in steps), "a batch that comes again is the same"
        for name, store in self.stores.items():
            run = steps[-1].runs.get(name)
            store.commit(self.version + 1, self.version, [] if run is None else [run])
        self.version += 1
        self._show(steps[-1].changes)

    def _step(self, given: pa.RecordBatch | None) -> GroupedStep:
        states = {part: store.shard(store.begin(self.version), 0) for part, store in self.stores.items()}
        return first_step(self.work, states) if given is None else grouped_step(self.work, states, given)

    def _given(self, sides: Iterable[tuple[Mapping[str, Any], int]]) -> pa.RecordBatch:
        rows = [
            {**row, WEIGHT: weight, ALL: True, HASH: len(row["group"] or "") if len(self.work.key) else 0}
            for row, weight in sides
        ]
        return pa.RecordBatch.from_pylist(rows, self.work.given)

    def _show(self, changes: pa.RecordBatch) -> None:
        for change in changes.to_pylist():
            operation, before = change.pop("_op"), change.pop("_before")
            key = change.pop("group", None)
            assert repr(self.groups.pop(key, None)) == repr(before), change
            assert (operation == "c") == (before is None)
            if operation != "d":
                self.groups[key] = change
