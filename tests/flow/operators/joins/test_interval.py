"""Events joined in any batches and any order are what a range join over all of them gives, at every watermark."""

from itertools import product
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.flow.operators.joins.events import Events
from headwater.flow.operators.joins.interval import IntervalJoin
from headwater.flow.operators.joins.pairing import HOWS, Condition, Pairing
from tests.flow.operators.joins.streams import LEFT, ON, RIGHT, Event, RunningJoin, incoming


def join_of(how: str, low: int, high: int, *, further: bool = False) -> IntervalJoin:
    pairing = Pairing(LEFT, RIGHT, ON, how, (Condition("price", "<=", "limit"),) if further else ())
    return IntervalJoin(Events(LEFT, ("user",), 7), Events(RIGHT, ("name",), 7), pairing, low, high)


def meets(join: IntervalJoin, one: Event, other: Event) -> bool:
    if one.user is None or one.user != other.user or not join.low_us <= other.time - one.time <= join.high_us:
        return False
    return not join.pairing.further or one.amount <= other.amount


def joined(join: IntervalJoin, events: list[Event], watermark: int | None) -> list[tuple[Any, ...]]:
    """Plain Python's idea of it: pairs, and who is known to stay alone."""
    lefts, rights = ([one for one in events if one.side == side] for side in (0, 1))
    pairs = [(one, other) for one, other in product(lefts, rights) if meets(join, one, other)]
    found: list[tuple[Any, ...]] = [(*one.row, other.offset, other.amount) for one, other in pairs]

    def over(one: Event, until: int) -> bool:
        return one.user is None or (watermark is not None and one.time + until < watermark)

    if join.pairing.keeps_left:
        alone = [one for one in lefts if over(one, join.high_us) and one not in [pair[0] for pair in pairs]]
        found += [(*one.row, None, None) for one in alone]
    if join.pairing.keeps_right:
        alone = [one for one in rights if over(one, -join.low_us) and one not in [pair[1] for pair in pairs]]
        found += [(None, one.user, None, one.offset, one.amount) for one in alone]
    return sorted(found, key=repr)


events = st.builds(
    # Times are emitted from the watermark: most are ahead of it, stragglers behind.
    Event,
    st.integers(0, 1),
    st.integers(-20, 20),
    st.sampled_from(["a", "a", "a", "b", "cc", None]),
    st.integers(0, 2),
)
batches = st.lists(
    st.tuples(st.lists(events, max_size=6), st.integers(0, 15), st.integers(1, 2)), min_size=2, max_size=7
)
spans = st.tuples(st.integers(-12, 12), st.integers(0, 30)).map(lambda both: (both[0], both[0] + both[1]))


@settings(max_examples=150)
@given(st.sampled_from(HOWS), spans, st.booleans(), st.sampled_from([0, 0, 25]), batches)
def test_at_every_watermark_the_result_is_that_of_a_range_join(
    how: str, span: tuple[int, int], further: bool, horizon: int, batches: list[tuple[list[Event], int, int]]
) -> None:
    join = join_of(how, *span, further=further)
    running, accepted, watermark, number = RunningJoin(join), list[Event](), None, 0
    for drawn, more, again in [*batches, ([], 200, 1)]:
        watermark = more if watermark is None else watermark + more
        numbered = [one._replace(offset=number + place, time=watermark + one.time) for place, one in enumerate(drawn)]
        timely = [one for one in numbered if one.time >= watermark - horizon]
        number += len(drawn)
        accepted += timely
        sides = [incoming(side, [one for one in timely if one.side == place])
                 for place, side in enumerate((join.left, join.right))]  # fmt: skip
        step = running.batch((sides[0], sides[1]), watermark, horizon=horizon, again=again)
        assert horizon or not step.before.num_rows, "without a horizon nothing is taken back"
        assert sorted(running.result, key=repr) == joined(join, accepted, watermark)
    assert [running.keys(part) for part in ("left", "right")] == [0, 0], "all is forgotten in the end"


def test_an_event_without_a_partner_is_told_once_when_its_time_is_over() -> None:
    running = RunningJoin(join_of("left", 0, 60))
    search = incoming(running.work.left, [Event(0, 100, "ann", 5)])
    running.batch((search, None), 90)
    running.batch((None, None), 160)
    assert running.result == []
    running.batch((None, None), 161)
    assert running.result == [(0, "ann", 5, None, None)]
    running.batch((None, None), 900)
    assert running.result == [(0, "ann", 5, None, None)]


def test_a_straggler_within_the_horizon_takes_back_that_an_event_was_alone() -> None:
    running = RunningJoin(join_of("left", 0, 60))
    running.batch((incoming(running.work.left, [Event(0, 100, "ann", 5)]), None), 90, horizon=100)
    running.batch((None, None), 200, horizon=100)
    assert running.result == [(0, "ann", 5, None, None)]
    running.batch((None, incoming(running.work.right, [Event(1, 130, "ann", 7, 3)])), 210, horizon=100)
    assert running.result == [(0, "ann", 5, 3, 7)]
