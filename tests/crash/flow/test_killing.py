"""The short form of `make torture`, for jobs: each of the six moments, every kind of process."""

from pathlib import Path
from random import Random

import pytest

from tests.crash.flow.killing import ENDS, Killing, Strike, random_rounds
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
    assert outcome.missed == 0
    assert len(outcome.kills) == sum(map(len, ROUNDS))


def test_the_short_form_kills_at_each_of_the_named_points_and_every_kind_of_process() -> None:
    points = [POINTS[strike.name] for strikes in ROUNDS for strike in strikes]
    assert {point.named for point in points} == {point.named for point in POINTS.values()}
    assert {point.victim for point in points} == set(ENDS)


def test_every_point_has_had_its_turn_before_one_comes_again() -> None:
    rounds = random_rounds(Random(1))
    assert {next(rounds)[0].name for _ in POINTS} == set(POINTS)
