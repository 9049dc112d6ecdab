"""Topics of which all is read before anything else: tables whose rows say themselves since when they hold. Pure.

Such a row may hold from any time, past or to come: the timestamp of its record says nothing about which events want it.
So it must be there before any event that is read is answered. Where not all fits into a batch these topics go first,
and where a batch ends in them is asked last: what was in the log before an event was is read no later than the event.

Topics that a capture writes lead together: a transaction may have rows in all of them.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from headwater.flow.source.batch_plan.admission import Estimate, Guess, Offsets, OffsetsAtTime, Plan, rows_between
from headwater.flow.source.batch_plan.commit_cuts import CommitHistory, plan_whole
from headwater.record import TopicPartition

Topics = frozenset[str]
Found = TypeVar("Found")


def plan_leading(
    leading: Topics, start: Offsets, ends: Offsets, limit: int | None, offsets_at_time: OffsetsAtTime,
    histories: Sequence[CommitHistory] = (), *, guess: Guess | Estimate | None = None,
) -> Plan:  # fmt: skip
    """As commit_cuts.plan_whole, with all that there is of some topics before the rest."""
    first = _leading_places(leading, ends, histories)
    own = [history for history in histories if history.places & first]
    others = [history for history in histories if history not in own]
    ahead, behind = ({place: end for place, end in ends.items() if (place in first) == led} for led in (True, False))
    all_ahead = plan_whole(start, ahead, None, offsets_at_time, own)
    unread = rows_between(start, all_ahead.ends)
    if limit is None or not unread or rows_between(start, ends) <= limit:
        return plan_whole(start, ends, limit, offsets_at_time, histories, guess=guess)
    if unread < limit:
        made = plan_whole(start, behind, limit - unread, offsets_at_time, others, guess=guess)
        return made._replace(ends={**made.ends, **all_ahead.ends}, held=made.held | all_ahead.held)
    some_ahead = plan_whole(start, ahead, limit, offsets_at_time, own)
    waiting = frozenset(place for place, end in behind.items() if end > start.get(place, 0))
    ends_now = {**some_ahead.ends, **{place: min(start.get(place, 0), end) for place, end in behind.items()}}
    return Plan(ends_now, None, some_ahead.probes, some_ahead.held | waiting)


def _leading_places(leading: Topics, ends: Offsets, histories: Sequence[CommitHistory]) -> frozenset[TopicPartition]:
    found = frozenset(place for place in ends if place.topic in leading)
    captured = (history.places for history in histories if history.places & found)
    return found.union(*captured) & ends.keys()


def ends_asked(
    leading: Topics,
    places: Iterable[TopicPartition],
    ask: Callable[[list[TopicPartition]], dict[TopicPartition, Found]],
) -> dict[TopicPartition, Found]:
    """Where partitions end: those of leading topics are asked after the others."""
    first: list[TopicPartition] = []
    last: list[TopicPartition] = []
    for place in places:
        (last if place.topic in leading else first).append(place)
    ends = ask(first) if first else {}
    return {**ends, **(ask(last) if last else {})}
