"""The short form of `make torture`, for jobs: each of the six moments, every kind of process."""

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from tests.crash.flow.dealing import Round, Strike, dealt
from tests.crash.flow.killing import ENDS, Killing
from tests.crash.flow.moments import POINTS

ROUNDS = (
    [Strike("offsets planned", 2)],
    [Strike("merging, worker"), Strike("all sinks written, node", 2)],
    [Strike("topic written", 2)],
    [Strike("state published", 2)],
    [Strike("first batch, jvm")],  # the one that comes again
    [Strike("state moved")],
)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_job_that_is_killed_again_and_again_writes_each_row_once(tmp_path: Path, postgres_url: str) -> None:
    outcome = Killing(tmp_path, seed=1, store=postgres_url).run(ROUNDS)
    assert outcome.anomalies == []
    assert outcome.missed == {}
    assert sorted(outcome.kills.elements()) == sorted(strike.name for strikes in ROUNDS for strike in strikes)


def test_the_short_form_kills_at_each_of_the_named_points_and_every_kind_of_process() -> None:
    points = [POINTS[strike.name] for strikes in ROUNDS for strike in strikes]
    assert {point.named for point in points} == {point.named for point in POINTS.values()}
    assert {point.victim for point in points} == set(ENDS)


def test_every_point_has_had_its_turn_before_one_comes_again() -> None:
    kills = Counter[str]()
    rounds = 0
    for strikes in dealt(Random(1), kills):
        kills.update(strike.name for strike in strikes)
        rounds += 1
        if len(kills) == len(POINTS):
            break
    assert set(kills.values()) == {1}
    assert rounds <= len(POINTS)


def test_a_point_that_was_missed_has_another_turn_at_its_first_moment() -> None:
    kills = Counter[str]()
    deals = dealt(Random(1), kills)
    missed = next(deals)
    rest = [strike for _ in range(len(POINTS)) for strike in _struck(next(deals), kills)]
    assert Strike(missed[0].name) in rest


def _struck(strikes: Round, kills: Counter[str]) -> Round:
    kills.update(strike.name for strike in strikes)
    return strikes
