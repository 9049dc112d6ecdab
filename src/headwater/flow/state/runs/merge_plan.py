"""Which runs to merge, and when (pure).

Runs of a shard, from the oldest to the newest, are kept in a rough geometric order: whenever there are FANOUT of a size
side by side they become one. So there are never more than a few runs of each order of magnitude, which bounds what a
look-up costs, and each row is rewritten once per order of magnitude, which bounds what commits cost in the long run.

Small merges happen where a task writes anyway. Large ones would make a single batch slow, so that they are planned from
a committed version, carried out beside the batches, and adopted by a later commit.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from headwater.flow.state.manifest import Manifest, RunInfo, Slot, slots_of

FANOUT = 4
TASK_BYTES_MAX = 16 * 1024**2
RUNS_MAX = 24
SMALL_BYTES = 64 * 1024
"""Runs smaller than this count as of this size: opening and searching one costs the same."""


@dataclass(frozen=True)
class MergePlan:
    """Runs of one shard and slot that lie side by side, from the oldest to the newest."""

    shard: int
    runs: tuple[RunInfo, ...]
    reaches_oldest: bool

    @property
    def slot(self) -> Slot:
        return self.runs[0].slot


def absorbed(sizes: Sequence[int], incoming: int, *, limit: int = TASK_BYTES_MAX) -> int:
    """How many of the newest runs a write of `incoming` bytes takes in; `sizes` are from the oldest to the newest.

    >>> absorbed([900, 10, 10, 10], 10)
    3
    >>> absorbed([900, 10, 10], 10)
    0

    Where merging beside the batches does not keep up, the bound gives way: a slow batch is better than look-ups that
    become slower with each.
    """
    taken = _absorbed(sizes, incoming, limit)
    return taken if len(sizes) - taken < RUNS_MAX else _absorbed(sizes, incoming, incoming + sum(sizes))


def _absorbed(sizes: Sequence[int], incoming: int, limit: int) -> int:
    total, taken = incoming, 0
    while (more := _similar(sizes[: len(sizes) - taken], total)) >= FANOUT - 1:
        grown = total + sum(sizes[len(sizes) - taken - more : len(sizes) - taken])
        if grown > limit:
            break
        total, taken = grown, taken + more
    return taken


def weight(bytes_: int) -> int:
    return max(bytes_, SMALL_BYTES)


def _similar(sizes: Sequence[int], total: int) -> int:
    """How many runs, from the newest on, are not much larger than `total`."""
    count = 0
    for size in reversed(sizes):
        if size > 2 * total:
            break
        count += 1
        total = max(total, size)
    return count


def span_to_merge(sizes: Sequence[int]) -> tuple[int, int] | None:
    """The runs [first, end) that should become one, or None if all is in good order.

    >>> span_to_merge([1000, 100, 100, 100, 100])
    (1, 5)
    >>> span_to_merge([100, 40, 30, 20])    # half of the oldest run may be out of date
    (0, 4)
    """
    if len(sizes) < FANOUT:
        return None
    if 2 * sum(sizes[1:]) >= sizes[0]:
        return 0, len(sizes)
    for end in range(len(sizes), 0, -1):
        similar = _similar(sizes[: end - 1], sizes[end - 1]) + 1
        if similar >= FANOUT:
            return end - similar, end
    return (len(sizes) // 2, len(sizes)) if len(sizes) > RUNS_MAX else None


def plan_merge(manifest: Manifest, *, busy: Collection[str] = ()) -> list[MergePlan]:
    """Merges worth doing outside the batches, the one with the most runs first; none touches a busy run."""
    plans = []
    for number, shard in enumerate(manifest.shards):
        for slot in slots_of(shard.runs):
            plan = _plan_of(number, shard.of_slot(slot))
            if plan is not None and not any(run.name in busy for run in plan.runs):
                plans.append(plan)
    return sorted(plans, key=lambda plan: -len(plan.runs))


def _plan_of(shard: int, runs: tuple[RunInfo, ...]) -> MergePlan | None:
    span = span_to_merge([weight(run.bytes) for run in runs])
    return MergePlan(shard, runs[slice(*span)], span[0] == 0) if span else None
