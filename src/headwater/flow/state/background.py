"""Large merges beside the batches: one at a time, on a thread of the driver.

    merger = BackgroundMerger(store)
    handle = store.begin(b - 1, reserved=merger.reserved())
    ...
    manifest = store.commit(b, b - 1, runs, merged=merger.finished())
    merger.offer(manifest)
    store.clean(2, spare=merger.spared())

A merge that fails, or whose runs are gone when it is done, costs its work and nothing else.
"""

from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

from headwater.errors import HeadwaterError
from headwater.flow.state.manifest import Manifest, RunInfo
from headwater.flow.state.runs.merge_plan import MergePlan, plan_merge
from headwater.flow.state.shard import run_name
from headwater.flow.state.store import StateStore


class UnderWay(NamedTuple):
    plan: MergePlan
    name: str
    result: Future[RunInfo]


class BackgroundMerger:
    """Called by the one thread that commits."""

    def __init__(self, store: StateStore) -> None:
        self._store = store
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="headwater-state-merge")
        self._under_way: UnderWay | None = None
        self.failure: HeadwaterError | None = None

    def offer(self, manifest: Manifest) -> None:
        """Begin the most useful merge of a committed version, unless one is under way."""
        if self._under_way is None and (plans := plan_merge(manifest)):
            plan, name = plans[0], run_name(plans[0].shard)
            self._under_way = UnderWay(plan, name, self._thread.submit(self._store.merge, plan, name))

    def reserved(self) -> set[str]:
        """Runs that tasks must leave alone, or the merge under way would be in vain."""
        return {run.name for run in self._under_way.plan.runs} if self._under_way else set()

    def finished(self) -> list[RunInfo]:
        """What is ready to be adopted by the commit at hand; each merge is answered once."""
        if self._under_way is None or not self._under_way.result.done():
            return []
        done, self._under_way = self._under_way, None
        try:
            return [done.result.result()]
        except HeadwaterError as error:
            self.failure = error
            return []

    def spared(self) -> set[str]:
        """The run that cleaning must leave alone, from before its file is there until it is adopted."""
        return {self._under_way.name} if self._under_way else set()

    def close(self) -> None:
        """Wait for the merge under way, which is then left to be cleaned."""
        self._thread.shutdown(wait=True, cancel_futures=True)
