"""How far behind the job's watermark the rows of each step are, and so what watermark each operator has (pure).

Most steps give rows on as they come. Joins hold some back, so that they come when the watermark of what is given to the
join has long passed them. By W(b), the watermark of what comes to a join in batch b, rows leave it in that batch that
are not before

    pairs of an interval join     W(b) − high       one of the two is new, the left is up to `high` before the right
    the left, unmatched           W(b−1) − high     emitted in the first batch whose watermark is more than `high` later
    the right, unmatched          W(b−1) + low      the same from the other side
    as of a time                  W(b−1)            emitted in the first batch whose watermark is later
    waiting for a row             W(b−1) − wait     emitted without one in the first batch that is that much later
    matches of a pattern          W(b−1) − within   emitted in the first batch whose watermark decides them

and where a bound would lie ahead of W(b) it is W(b): nothing that is new is older. So the watermark of what leaves a
join is that of a batch or so before, less some time; after several joins both add up. Of several bounds the least
counts. All of them are found from the watermarks that the job has had in its last batches, which each batch leaves with
what it notes, so that a batch that runs again finds the same.
"""

from collections.abc import Iterable
from typing import NamedTuple

from headwater.flow.declare.topology.nodes import AsOfJoin, IntervalJoin, LatestJoin, Node, Recognized, walk
from headwater.flow.operators.joins.pairing import FULL, LEFT, RIGHT

Passed = tuple[int | None, ...]
"""The watermarks of a job: that of a batch, of the batch before, and so on. None, or too short: there was none."""


class Behind(NamedTuple):
    """Rows are not before what the watermark was so many batches ago, less a time."""

    batches: int
    held_us: int


Bounds = frozenset[Behind]
AT_ONCE: Bounds = frozenset({Behind(0, 0)})


def arriving(node: Node) -> Bounds:
    """Of the rows that are given to a step; of a source, of its own."""
    leaving: dict[Node, Bounds] = {}
    for one in walk(node):
        given = _least(behind for each in one.inputs if not each.keyed for behind in leaving[each])
        leaving[one] = _least(_after(behind, more) for behind in given for more in held_by(one))
    return given


def held_by(node: Node) -> Bounds:
    """What a step adds."""
    match node:
        case IntervalJoin(low_us=low_us, high_us=high_us, how=how):
            left_us, right_us = max(high_us, 0), max(-low_us, 0)
            alone = [Behind(1, left_us)] * (how in (LEFT, FULL)) + [Behind(1, right_us)] * (how in (RIGHT, FULL))
            return frozenset([Behind(0, left_us), *alone])
        case AsOfJoin():
            return frozenset({Behind(1, 0)})
        case Recognized(spec=spec):
            return frozenset({Behind(1, spec.within_us or 0)})
        case LatestJoin(wait_us=wait_us) if wait_us:
            return frozenset({Behind(1, wait_us)})
    return AT_ONCE


def reached_us(bounds: Bounds, passed: Passed) -> int | None:
    """The watermark that follows from those of the job; None as long as there is none."""
    found: list[int] = []
    for behind in bounds:
        job_us = passed[behind.batches] if behind.batches < len(passed) else None
        if job_us is None:
            return None
        found.append(job_us - behind.held_us)
    return min(found)


def recent(passed: Passed, batches: int) -> Passed:
    """The newest of them and so many before it.

    >>> recent((9, 7, 5), 1), recent((9,), 2)
    ((9, 7), (9, None, None))
    """
    return (*passed, *[None] * (batches + 1))[: batches + 1]


def held_us(node: Node) -> int:
    """The longest time by which rows that are given to a step have been held back."""
    return max(behind.held_us for behind in arriving(node))


def batches_behind(nodes: Iterable[Node]) -> int:
    """How many earlier watermarks must be known for the steps of some outputs."""
    steps = {step for node in nodes for step in walk(node)}
    return max((behind.batches for step in steps for behind in arriving(step)), default=0)


def _after(behind: Behind, more: Behind) -> Behind:
    return Behind(behind.batches + more.batches, behind.held_us + more.held_us)


def _least(bounds: Iterable[Behind]) -> Bounds:
    """Without those that another is never above: watermarks do not go back."""
    known = frozenset(bounds) or AT_ONCE
    return frozenset(one for one in known if not any(other != one and _never_above(other, one) for other in known))


def _never_above(one: Behind, other: Behind) -> bool:
    return one.batches >= other.batches and one.held_us >= other.held_us
