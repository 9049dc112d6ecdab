"""Every kind of aggregate in every kind of window: any batching, any straggler, any emission.

The value before a change is, to the last bit, the one after the change that precedes it: also where sums are of
floating-point numbers and sketches let values go.
"""

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.flow.operators.aggregation.aggregates import Aggregate
from headwater.flow.operators.aggregation.kinds.registry import KINDS
from headwater.flow.operators.windows.assignment import micros_of
from headwater.flow.operators.windows.kinds import registry
from headwater.flow.operators.windows.kinds.calendar import Calendar
from headwater.flow.operators.windows.kinds.count import Count
from headwater.flow.operators.windows.kinds.hopping import Hopping
from headwater.flow.operators.windows.kinds.kept import Kept
from headwater.flow.operators.windows.kinds.session import Session
from headwater.flow.operators.windows.kinds.sliding import Sliding
from headwater.flow.operators.windows.kinds.tumbling import Tumbling
from headwater.flow.operators.windows.window import Window
from tests.flow.operators import every_kind
from tests.flow.operators.every_kind import SPECS
from tests.flow.operators.windows import subjects
from tests.flow.operators.windows.subjects import Batch, Life, batches_strategy, emissions, life
from tests.flow.operators.windows.test_calendar import CHANGES, STEP_US

WINDOWS: list[Window] = [
    Tumbling(10, 3), Hopping(20, 5, 2), Session(6), Sliding(12, on_change=False), Sliding(12, on_change=True), Count(3),
    Calendar("day", "Europe/Berlin", 3 * STEP_US),
]  # fmt: skip
EMISSIONS: tuple[dict[str, Any], ...] = ({"emit": "updates"}, {"emit": "corrections", "horizon": 13, "early": True})


@pytest.fixture(autouse=True)
def every_aggregate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subjects, "partial", every_kind.made)
    monkeypatch.setattr(subjects, "results", every_kind.results)


def batches_of(random: Random) -> list[Batch]:
    """Many rows of few keys, in any order; the watermark moves on and leaves some behind."""
    return [
        Batch(
            [
                (random.randrange(2), random.choice([None, *range(-3, 10)]), 12 * number + random.randrange(-20, 30))
                for _ in range(10)
            ],
            advance,
            again=number == 2,
        )
        for number, advance in enumerate([0, 9, 25, 25, 9])
    ]


def lived(window: Window, batches: list[Batch], emission: dict[str, Any], specs: tuple[Aggregate, ...]) -> Life:
    """Windows by count wait for the watermark whatever is said; days are around one on which clocks are changed."""
    emission = {} if isinstance(window, Count) else dict(emission)
    if isinstance(window, Calendar):
        near = micros_of(CHANGES[0])
        batches = [
            Batch([(key, x, near + time * STEP_US) for key, x, time in one.rows], one.advance * STEP_US, one.again)
            for one in batches
        ]
        batches.insert(0, Batch([], near))
        emission = {name: value * STEP_US if name == "horizon" else value for name, value in emission.items()}
    subject = life(window, **emission, specs=specs)
    subject.live(batches)
    return subject


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_every_aggregate_is_what_a_query_over_all_rows_gives(window: Window) -> None:
    number = WINDOWS.index(window)
    assert lived(window, batches_of(Random(number)), EMISSIONS[number % 2], SPECS).late, "stragglers are among the rows"


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@settings(max_examples=6, deadline=None)
@given(
    batches=batches_strategy,
    emission=emissions,
    specs=st.lists(st.sampled_from(SPECS), min_size=1, max_size=5, unique=True),
)
def test_any_of_them_are_in_any_batches(
    window: Window, batches: list[Batch], emission: dict[str, Any], specs: list[Aggregate]
) -> None:
    lived(window, batches, emission, tuple(specs))


def test_no_kind_of_aggregate_and_no_kind_of_window_is_left_out() -> None:
    assert {each.kind for each in SPECS} == set(KINDS)
    # Keys that end have no emission to choose; job/test_any_aggregate.py tries every aggregate of them.
    assert {type(window) for window in WINDOWS} | {Kept} == set(registry.KINDS)
    assert {window.on_change for window in WINDOWS if isinstance(window, Sliding)} == {False, True}
