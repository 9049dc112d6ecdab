"""Events meet the version that held when they happened, in whatever order and batches both come."""

from typing import Any, NamedTuple

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.flow.operators.joins.as_of import AsOfJoin, with_extra
from headwater.flow.operators.joins.events import Events
from headwater.flow.operators.joins.pairing import Pairing
from headwater.flow.operators.windows.clock import WindowClock
from headwater.flow.state import HASH
from tests.flow.operators.joins.streams import LEFT, ON, RIGHT, Event, RunningJoin, hash_of, incoming

KEPT = 40
NOTHING: set[tuple[int, int]] = set()


class Version(NamedTuple):
    """`limit` of a name from a time on; `seen` is from when on it counts."""

    time: int
    name: str
    limit: int
    gone: bool
    until: int | None
    offset: int = 0
    seen: int = -1000


def join_of(how: str, *, dated: bool = False) -> AsOfJoin:
    pairing = Pairing(LEFT, RIGHT, ON, how)
    return AsOfJoin(Events(LEFT, ("user",), 5), Events(with_extra(RIGHT), ("name",)), pairing, KEPT, dated)


def versions(join: AsOfJoin, given: list[Version]) -> pa.RecordBatch | None:
    rows = [
        {
            HASH: hash_of(one.name), "_time": one.time, "_source": 1, "_partition": 0, "_offset": one.offset,
            "_content": 0, "number": one.offset, "name": one.name, "limit": one.limit, "_gone": one.gone,
            "_until": one.until, "_seen": None,
        }
        for one in given
    ]  # fmt: skip
    return pa.RecordBatch.from_pylist(rows, join.versions.incoming) if rows else None


def joined(
    join: AsOfJoin, events: list[Event], known: list[Version], watermark: int, missed: set[tuple[int, int]] = NOTHING
) -> list[tuple[Any, ...]]:
    """`missed` are events and versions, by their offsets, that came after them and too late to correct them."""
    found: list[tuple[Any, ...]] = []
    for one in events:
        if one.time >= watermark and one.user is not None:
            continue
        fitting = [
            each for each in known
            if each.name == one.user and max(each.time, each.seen) <= one.time
            and (one.offset, each.offset) not in missed
        ]  # fmt: skip
        newest = max(fitting, key=lambda each: (each.time, each.offset), default=None)
        if newest is None or newest.gone or (newest.until is not None and one.time >= newest.until):
            found.append((*one.row, None, None))
        else:
            found.append((*one.row, newest.offset, newest.limit))
    return sorted(found, key=repr)


names = st.sampled_from(["a", "b", "cc"])
events = st.lists(st.builds(Event, st.just(0), st.integers(0, 90), names | st.none(), st.integers(0, 2)), max_size=5)
changed = st.lists(
    st.builds(Version, st.integers(0, 90), names, st.integers(0, 9), st.booleans(), st.none() | st.integers(0, 90)),
    max_size=4,
)
batches = st.lists(st.tuples(events, changed, st.integers(0, 25), st.integers(1, 2)), max_size=7)


@settings(max_examples=150)
@given(st.sampled_from(["inner", "left"]), st.sampled_from([0, 15]), batches)
def test_at_every_watermark_each_event_has_the_version_that_held(
    how: str, horizon: int, batches: list[tuple[list[Event], list[Version], int, int]]
) -> None:
    join = join_of("left" if horizon else how)
    running, accepted, known, watermark, number = RunningJoin(join), list[Event](), list[Version](), 0, 0
    for drawn, new, more, again in [*batches, ([], [], 200, 1)]:
        watermark += more
        fresh = [one._replace(offset=number + place) for place, one in enumerate(drawn)]
        fresh = [one for one in fresh if one.time >= watermark - KEPT]
        number += len(drawn)
        late = watermark - horizon
        coming = [one._replace(offset=number + place, seen=late if one.time < late else -1000)
                  for place, one in enumerate(new)]  # fmt: skip
        number += len(new)
        accepted, known = accepted + fresh, known + coming
        step = running.batch(
            (incoming(join.events, fresh), versions(join, coming)), watermark, horizon=horizon, again=again
        )
        assert horizon or not step.before.num_rows
        assert sorted(running.result + running.missing, key=repr) == joined(join, accepted, known, watermark)
    assert join.pairing.how == "inner" or not running.missing
    assert running.keys("left") == 0


@settings(max_examples=100)
@given(st.sampled_from(["inner", "left"]), st.sampled_from([0, 15]), batches)
def test_a_version_that_says_since_when_it_holds_counts_for_all_that_is_told_from_then_on(
    how: str, horizon: int, batches: list[tuple[list[Event], list[Version], int, int]]
) -> None:
    """When versions come has nothing to do with when they hold: what an event gets is what all that were there say."""
    join = join_of("left" if horizon else how, dated=True)
    running, accepted, known, watermark, number = RunningJoin(join), list[Event](), list[Version](), 0, 0
    missed: set[tuple[int, int]] = set()
    for drawn, new, more, again in [*batches, ([], [], 200, 1)]:
        before, watermark = watermark, watermark + more
        fresh = [one._replace(offset=number + place) for place, one in enumerate(drawn)]
        fresh = [one for one in fresh if one.time >= watermark - KEPT]
        number += len(drawn)
        coming = [one._replace(offset=number + place, seen=-1000) for place, one in enumerate(new)]
        number += len(new)
        emitted = [one for one in accepted if one.time < before - horizon]
        missed |= {(one.offset, each.offset) for one in emitted for each in coming}
        accepted, known = accepted + fresh, known + coming
        clock = WindowClock(running.watermark, watermark, horizon)
        running.batch((incoming(join.events, fresh), versions(join, coming)), watermark, horizon=horizon, again=again)
        assert sorted(running.result + running.missing, key=repr) == joined(join, accepted, known, watermark, missed)
        late = [each for each in coming if each.time < join.late_below_us(clock)]
        wrong = [each for each in coming if any(
            (one.offset, each.offset) in missed and one.user == each.name and one.time >= each.time for one in emitted
        )]  # fmt: skip
        assert set(wrong) <= set(late), "what changes an answer that was told is told to be late"
        assert all(each.time < before for each in late), "and nothing is that no event was emitted behind"
    assert running.keys("left") == 0


def test_what_no_event_can_ask_for_any_more_is_forgotten() -> None:
    join = join_of("left")
    running = RunningJoin(join)
    for time in range(0, 100, 10):
        running.batch((None, versions(join, [Version(time, "a", time, False, None, time)])), time)
    assert running.keys("versions") == 5, "the one that held at 90 − 40, and all since"
